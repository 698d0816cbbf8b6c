//! Caches with a bound, in memory.

use quick_cache::{UnitWeighter, sync::Cache};
use std::hash::Hash;

/// Values by keys, of which the least used are dropped.
pub(crate) type BoundedCache<K, V> = Cache<K, V, UnitWeighter, foldhash::fast::RandomState>;

/// An empty cache of at most `most` entries, and of one at least. It has room for `at_start` and grows with use: an
/// idle gateway does not pay for a hundred thousand keys.
pub(crate) fn bounded_cache<K: Eq + Hash, V: Clone>(
    most: usize,
    at_start: usize,
) -> BoundedCache<K, V> {
    let most = most.max(1);
    Cache::with(
        most.min(at_start),
        u64::try_from(most).unwrap_or(u64::MAX),
        UnitWeighter,
        foldhash::fast::RandomState::default(),
        Default::default(),
    )
}
