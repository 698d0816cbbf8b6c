//! How much of something each key has at once, so that one leaves room for the others.

use std::sync::atomic::{AtomicU32, Ordering};
use tollgate_routing::plan::hash_of;

/// Counts by key, in 256 places: keys that share a place by chance share what one may have.
pub struct Shares([AtomicU32; 256]);

/// Counts as one of its key for as long as it lives.
pub struct Share(&'static AtomicU32);

impl Shares {
    /// Nobody has any.
    pub const fn new() -> Self {
        Self([const { AtomicU32::new(0) }; 256])
    }

    /// One more of a key; tells how many it has with it.
    pub fn take(&'static self, key: &str) -> (Share, u64) {
        let [place, ..] = hash_of(&[key.as_bytes()]).to_le_bytes();
        let [first, ..] = &self.0;
        // There is one for every byte.
        let count = self.0.get(usize::from(place)).unwrap_or(first);
        let before = count.fetch_add(1, Ordering::Relaxed);
        (Share(count), u64::from(before).saturating_add(1))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_what_it_took_and_has_not_given_back() {
        static SHARES: Shares = Shares::new();
        let (one, count) = SHARES.take("a");
        assert_eq!(count, 1);
        let (_two, count) = SHARES.take("a");
        assert_eq!(count, 2);
        drop(one);
        assert_eq!(SHARES.take("a").1, 2);
        assert_eq!(SHARES.take("b").1, 1);
    }
}
