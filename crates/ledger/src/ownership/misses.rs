//! Unknown ids, for clients that repeat a request.
//!
//! They are cached for one second, because another process may commit the id. An id that this process
//! stores is removed at once.

use crate::bounded_cache::{BoundedCache, bounded_cache};
use std::time::{Duration, Instant};

/// How long an unknown id is cached.
pub(super) const TTL: Duration = Duration::from_secs(1);
/// How many are remembered; of more, the least used are looked up again.
const MOST: usize = 4096;

pub(super) struct Misses(BoundedCache<Box<str>, Instant>);

impl Default for Misses {
    fn default() -> Self {
        Self(bounded_cache(MOST, 64))
    }
}

impl Misses {
    pub(super) fn note(&self, id: &str) {
        self.0.insert(id.into(), Instant::now());
    }

    pub(super) fn forget(&self, id: &str) {
        self.0.remove(id);
    }

    /// Whether the id was not found within the last second.
    pub(super) fn has(&self, id: &str) -> bool {
        let since = self.0.get(id);
        since.is_some_and(|since| since.elapsed() < TTL)
    }
}
