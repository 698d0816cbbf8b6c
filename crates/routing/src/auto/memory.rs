//! Which model has answered which conversation: what lets one stay with its model.
//!
//! Bounded in number and time, in this process alone: what is forgotten is chosen anew,
//! which costs a provider's cache and nothing else.

use quick_cache::sync::Cache;
use std::{
    hash::{BuildHasher, Hash, RandomState},
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

/// Conversations that are remembered; of more, the least used are forgotten.
const MOST: usize = 65_536;

/// The conversations of a process, over all configurations.
#[derive(Debug, Default)]
pub struct Conversations {
    /// Made when the first is remembered: most gateways never have one.
    known: OnceLock<Cache<u64, Known>>,
    /// Keyed at random: nobody can make two conversations one.
    hasher: RandomState,
}

#[derive(Clone, Debug)]
struct Known {
    model: Arc<str>,
    at: Instant,
}

impl Conversations {
    /// What a conversation is called here that `of` tells from all others.
    pub fn name(&self, of: impl Hash) -> u64 {
        self.hasher.hash_one(of)
    }

    /// The model that has answered a conversation, unless that is longer ago than `ttl`.
    pub fn recall(&self, conversation: u64, now: Instant, ttl: Duration) -> Option<Arc<str>> {
        let known = self.known.get()?.get(&conversation)?;
        let is_fresh = now.saturating_duration_since(known.at) <= ttl;
        is_fresh.then_some(known.model)
    }

    /// A conversation is answered by a model.
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
