//! Recent counts of providers, for equal requests of the same API key: agents repeat theirs.
//! Entries are found by hashes under random seeds; the cache holds the provider's short answer and
//! never a request.

use bytes::Bytes;
use foldhash::quality::RandomState;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use std::hash::BuildHasher;
use std::time::{Duration, Instant};

/// A request and its provider, as 128 bits: enough to rule out a collision by chance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CountKey([u64; 2]);

/// The largest size of the cache in bytes, and the size of an entry besides its answer.
const MOST_BYTES: u64 = 4 << 20;
const PER_ENTRY: u64 = 128;
/// Entries that are expected.
const USUAL_ENTRIES: usize = 1024;
/// The longest answer that is kept.
const LONGEST: usize = 1024;

#[derive(Clone)]
struct Entry {
    answer: Bytes,
    at: Instant,
}

#[derive(Clone)]
struct ByBytes;

impl Weighter<CountKey, Entry> for ByBytes {
    fn weight(&self, _: &CountKey, entry: &Entry) -> u64 {
        PER_ENTRY.saturating_add(entry.answer.len() as u64)
    }
}

/// The cache.
pub struct CountCache {
    entries: Cache<CountKey, Entry, ByBytes>,
    seeds: [RandomState; 2],
}

impl Default for CountCache {
    fn default() -> Self {
        Self {
            entries: Cache::with_weighter(USUAL_ENTRIES, MOST_BYTES, ByBytes),
            seeds: [RandomState::default(), RandomState::default()],
        }
    }
}

impl CountCache {
    /// The key of a question: all parts of it, each separated from the next.
    pub fn key(&self, parts: &[&[u8]]) -> CountKey {
        let [one, other] = &self.seeds;
        CountKey([one.hash_one(parts), other.hash_one(parts)])
    }

    /// The answer that was given within the last `ttl`.
    pub fn get(&self, key: &CountKey, ttl: Duration) -> Option<Bytes> {
        let entry = self.entries.get(key)?;
        if entry.at.elapsed() >= ttl {
            self.entries.remove(key);
            return None;
        }
        Some(entry.answer)
    }

    /// Keeps an answer.
    pub fn put(&self, key: CountKey, answer: &Bytes) {
        if answer.len() <= LONGEST {
            // A copy: the answer's bytes are part of a larger buffer.
            let answer = Bytes::copy_from_slice(answer);
            let at = Instant::now();
            self.entries.insert(key, Entry { answer, at });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(600);

    fn key(cache: &CountCache, parts: &[&str]) -> CountKey {
        let parts: Vec<&[u8]> = parts.iter().map(|part| part.as_bytes()).collect();
        cache.key(&parts)
    }

    #[test]
    fn an_equal_question_has_the_same_answer_for_a_while() {
        let cache = CountCache::default();
        let asked = key(&cache, &["model", "body"]);
        let answer = Bytes::from_static(br#"{"input_tokens":7}"#);
        assert_eq!(cache.get(&asked, LONG), None);
        cache.put(asked, &answer);
        assert_eq!(cache.get(&asked, LONG), Some(answer));
        assert_eq!(cache.get(&asked, Duration::ZERO), None, "its time is over");
        assert_eq!(cache.get(&asked, LONG), None, "and it is gone");
    }

    #[test]
    fn questions_are_distinguished_part_by_part() {
        let cache = CountCache::default();
        let asked = [
            key(&cache, &["ab", "c"]),
            key(&cache, &["a", "bc"]),
            key(&cache, &["abc"]),
            key(&cache, &["abc", ""]),
            key(&CountCache::default(), &["abc"]),
        ];
        for (place, one) in asked.iter().enumerate() {
            assert!(!asked[..place].contains(one), "{place}");
        }
    }

    #[test]
    fn the_cache_is_bounded_in_bytes() {
        let cache = CountCache::default();
        cache.put(
            key(&cache, &["long"]),
            &Bytes::from(vec![b' '; LONGEST + 1]),
        );
        assert_eq!(cache.entries.len(), 0);
        for place in 0..20_000 {
            let name = place.to_string();
            cache.put(key(&cache, &[&name]), &Bytes::from(vec![b' '; LONGEST]));
        }
        assert!(cache.entries.weight() <= MOST_BYTES);
        assert!(cache.entries.len() <= 4 * 1024);
    }
}
