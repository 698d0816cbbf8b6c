//! Where bodies are counted: short ones at once, all others on threads of their own, in a
//! bounded number, so that no text stalls who else is served.

use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tollgate_count::{Count, Rules, Vocabulary, count};
use tollgate_types::Format;

/// Bytes of a body that is counted on the thread that serves its request: 0.2 ms at the worst
/// rate that any text is counted at.
const SHORT_BODY: usize = 2 * 1024;
/// Bodies that wait to be counted; of more, the length stands for the count.
const MOST_WAITING: usize = 256;
/// How long a body waits for its turn.
const PATIENCE: Duration = Duration::from_secs(2);

/// The desk.
pub struct Desk {
    /// One count for each core.
    at_once: Arc<Semaphore>,
    waiting: AtomicUsize,
}

impl Default for Desk {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            at_once: Arc::new(Semaphore::new(cores)),
            waiting: AtomicUsize::new(0),
        }
    }
}

impl Desk {
    /// Counts a short body here and now, where its vocabulary is unpacked.
    pub fn at_once(&self, format: Format, body: &[u8], rules: &Rules) -> Option<Count> {
        let is_short = body.len() <= SHORT_BODY && rules.vocabulary.is_loaded();
        is_short.then(|| count(format, body, rules))
    }

    /// Counts a body on another thread; `None` where too many wait already.
    pub async fn count(&self, format: Format, body: Bytes, rules: Rules) -> Option<Count> {
        let _waiting = Waiting::among(&self.waiting)?;
        let turn = Arc::clone(&self.at_once).acquire_owned();
        let permit = tokio::time::timeout(PATIENCE, turn).await.ok()?.ok()?;
        work(permit, format, body, rules).await.ok()
    }

    /// Unpacks a vocabulary on another thread.
    pub fn load(vocabulary: Vocabulary) {
        let named = std::thread::Builder::new().name("vocabulary".to_owned());
        if let Err(fault) = named.spawn(move || vocabulary.load()) {
            log::error!("a vocabulary is unpacked at its first use: {fault}");
        }
    }
}

fn work(
    permit: OwnedSemaphorePermit,
    format: Format,
    body: Bytes,
    rules: Rules,
) -> tokio::task::JoinHandle<Count> {
    tokio::task::spawn_blocking(move || {
        // Who does not wait any more still has the thread busy.
        let _permit = permit;
        count(format, &body, &rules)
    })
}

/// One of those who wait, until it is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn among(waiting: &'a AtomicUsize) -> Option<Self> {
        let one = Self(waiting);
        (waiting.fetch_add(1, Ordering::Relaxed) < MOST_WAITING).then_some(one)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
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
    async fn whoever_comes_when_too_many_wait_is_turned_away() {
        let desk = Desk::default();
        let rules = Tokenizer::Openai.rules();
        let taken: Vec<_> = (0..MOST_WAITING)
            .map(|_| Waiting::among(&desk.waiting))
            .collect();
        assert!(taken.iter().all(Option::is_some));
        assert_eq!(desk.count(Format::Chat, body("hello"), rules).await, None);
        drop(taken);
        let counted = desk.count(Format::Chat, body("hello"), rules).await;
        assert_eq!(counted.map(|it| it.tokens), Some(8));
        assert_eq!(desk.waiting.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn only_a_short_body_is_counted_where_it_came() {
        let desk = Desk::default();
        let rules = Tokenizer::Openai.rules();
        rules.vocabulary.load();
        let short = desk.at_once(Format::Chat, &body("hello"), &rules);
        assert_eq!(short.map(|it| it.tokens), Some(8));
        let long = body(&"a".repeat(SHORT_BODY));
        assert_eq!(desk.at_once(Format::Chat, &long, &rules), None);
    }
}
