//! Counts of tokens, as the gateway uses them: by which rules a body is counted
//! ([`CatalogCounts`]), on which thread ([`Desk`]), and which counts of providers are kept
//! ([`CountCache`]).
//!
//! How a body is counted is the count crate's. The rules are built in: no request changes how
//! another one is counted.

mod cache;
mod desk;
mod of_catalog;

pub use cache::{CountCache, CountKey};
pub use desk::Desk;
pub use of_catalog::{CatalogCounts, How};
