//! Which model has answered which conversation, so that a conversation stays with its model.
//!
//! Bounded in number and time, and kept by this process alone. If a conversation is forgotten, its
//! model is chosen anew, which may lose a provider's prompt cache.

use quick_cache::sync::Cache;
use std::{
    hash::{BuildHasher, Hash, RandomState},
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

/// Conversations that are remembered; beyond that, the least used are forgotten.
const MOST: usize = 65_536;

/// The conversations of a process, over all configurations.
#[derive(Debug, Default)]
pub struct Conversations {
    /// Allocated with the first conversation, because most gateways never have one.
    known: OnceLock<Cache<u64, Known>>,
    /// Keyed at random, so that a client cannot make two conversations collide.
    hasher: RandomState,
}

#[derive(Clone, Debug)]
struct Known {
    model: Arc<str>,
    at: Instant,
}

impl Conversations {
    /// The identity of the conversation that `of` distinguishes from all others.
    pub fn identify(&self, of: impl Hash) -> u64 {
        self.hasher.hash_one(of)
    }

    /// Returns the model that has answered a conversation, unless that is longer ago than `ttl`.
    pub fn recall(&self, conversation: u64, now: Instant, ttl: Duration) -> Option<Arc<str>> {
        let known = self.known.get()?.get(&conversation)?;
        let is_fresh = now.saturating_duration_since(known.at) <= ttl;
        is_fresh.then_some(known.model)
    }

    /// Notes that a model answers a conversation.
    pub fn remember(&self, conversation: u64, model: &Arc<str>, now: Instant) {
        let known = self.known.get_or_init(|| Cache::new(MOST));
        let model = Arc::clone(model);
        known.insert(conversation, Known { model, at: now });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_is_known_for_a_time_and_the_number_of_them_is_bounded() {
        let (memory, now) = (Conversations::default(), Instant::now());
        let ttl = Duration::from_secs(60);
        assert_eq!(memory.recall(1, now, ttl), None);
        memory.remember(1, &"m".into(), now);
        assert_eq!(memory.recall(1, now + ttl, ttl).as_deref(), Some("m"));
        let late = now + ttl + Duration::from_millis(1);
        assert_eq!(memory.recall(1, late, ttl), None);
        let model = Arc::from("m");
        for conversation in 0..200_000 {
            memory.remember(conversation, &model, now);
        }
        let known = memory.known.get().unwrap().len();
        assert!(known <= MOST, "{known}");
    }
}
