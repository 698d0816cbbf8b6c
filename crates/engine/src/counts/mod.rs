//! Token counts for the gateway: the rules for a body ([`CatalogCounts`]), the thread that counts
//! it ([`CountingPool`]), and the cached counts of providers ([`CountCache`]).
//!
//! `tollgate_count` counts. Its rules are built in: no request changes how another one is counted.

mod cache;
mod of_catalog;
mod pool;

pub use cache::{CountCache, CountKey};
pub use of_catalog::{CatalogCounts, How};
pub use pool::CountingPool;
