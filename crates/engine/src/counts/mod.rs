//! Token counts for the gateway: the rules for a body ([`CatalogCounts`]), the thread that counts
//! it ([`Desk`]), and the cached counts of providers ([`CountCache`]).
//!
//! `tollgate_count` counts. Its rules are built in: no request changes how another one is counted.

mod cache;
mod desk;
mod of_catalog;

pub use cache::{CountCache, CountKey};
pub use desk::Desk;
pub use of_catalog::{CatalogCounts, How};
