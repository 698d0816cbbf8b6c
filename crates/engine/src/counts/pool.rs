//! Counts bodies: short ones on the calling thread, others on a bounded number of blocking threads,
//! so that no body delays other requests. One key gets at most half of the threads.

use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tollgate_count::{Count, Rules, Vocabulary, count};
use tollgate_ledger::KeyedSemaphore;
use tollgate_types::{Format, KeyId};

/// Bytes of a body that is counted on the thread that serves its request: 0.2 ms at the worst
/// rate that any text is counted at.
const SHORT_BODY: usize = 2 * 1024;
/// The most bodies that are counted or wait. Beyond that, the length is the estimate.
const MOST_WAITING: usize = 256;
/// How long a body waits for its turn.
const PATIENCE: Duration = Duration::from_secs(2);

/// Counts the tokens of bodies.
pub struct CountingPool {
    /// One count for each core.
    permits: Arc<Semaphore>,
    /// At most half of them for one key; its other bodies wait.
    of_keys: KeyedSemaphore,
}

impl Default for CountingPool {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            permits: Arc::new(Semaphore::new(cores)),
            of_keys: KeyedSemaphore::new(cores.div_euclid(2).max(1), MOST_WAITING),
        }
    }
}

impl CountingPool {
    /// Counts a short body on this thread, if its vocabulary is loaded.
    pub fn count_now(&self, format: Format, body: &[u8], rules: &Rules) -> Option<Count> {
        let is_short = body.len() <= SHORT_BODY && rules.vocabulary.is_loaded();
        is_short.then(|| count(format, body, rules))
    }

    /// Counts a body of a key on another thread. `None` if too many bodies wait, or this one waits
    /// too long.
    pub async fn count(
        &self,
        key: &KeyId,
        format: Format,
        body: Bytes,
        rules: Rules,
    ) -> Option<Count> {
        let permits = async {
            let of_key = self.of_keys.acquire(key).await.ok()?;
            let permit = Arc::clone(&self.permits).acquire_owned().await.ok()?;
            Some((of_key, permit))
        };
        let permits = tokio::time::timeout(PATIENCE, permits).await.ok()??;
        let count = move || {
            let _permits = permits;
            count(format, &body, &rules)
        };
        spawn_blocking(count).await.ok()
    }

    /// Unpacks a vocabulary on another thread.
    pub fn load(vocabulary: Vocabulary) {
        let named = std::thread::Builder::new().name("vocabulary".to_owned());
        if let Err(fault) = named.spawn(move || vocabulary.load()) {
            log::error!("a vocabulary is unpacked at its first use: {fault}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_count::{Family as _, Tokenizer};

    fn body(text: &str) -> Bytes {
        Bytes::from(format!(
            r#"{{"messages":[{{"role":"user","content":"{text}"}}]}}"#
        ))
    }

    #[tokio::test]
    async fn a_key_whose_bodies_fill_the_queue_is_turned_away_and_another_is_counted() {
        let pool = CountingPool::default();
        let rules = Tokenizer::Openai.rules();
        let (greedy, other) = (KeyId::new("greedy"), KeyId::new("other"));
        let count = |key| pool.count(key, Format::Chat, body("hello"), rules);
        let mut held = Vec::new();
        let mut waiting = Vec::new();
        for _ in 0..MOST_WAITING / 2 {
            let mut one = Box::pin(pool.of_keys.acquire(&greedy));
            match futures::poll!(&mut one) {
                std::task::Poll::Ready(permit) => held.push(permit.unwrap()),
                std::task::Poll::Pending => waiting.push(one),
            }
        }
        assert_eq!(count(&greedy).await, None);
        assert_eq!(count(&other).await.map(|it| it.tokens), Some(8));
        drop((held, waiting));
        assert_eq!(count(&greedy).await.map(|it| it.tokens), Some(8));
    }

    #[test]
    fn only_a_short_body_is_counted_where_it_came() {
        let pool = CountingPool::default();
        let rules = Tokenizer::Openai.rules();
        rules.vocabulary.load();
        let short = pool.count_now(Format::Chat, &body("hello"), &rules);
        assert_eq!(short.map(|it| it.tokens), Some(8));
        let long = body(&"a".repeat(SHORT_BODY));
        assert_eq!(pool.count_now(Format::Chat, &long, &rules), None);
    }
}
