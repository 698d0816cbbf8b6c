//! Who goes on where there is no memory left: of many large requests that come at once and leave no
//! room to one another all would be refused. One of them has the turn: it waits longer than the
//! others, and goes on with what they give back.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// The turn, of which there is one; given back when it is dropped.
struct Turn(());

impl Turn {
    /// Longer than anybody waits without it.
    const PATIENCE: Duration = Duration::from_secs(2);

    /// The turn, where nobody has it.
    fn take() -> Option<Self> {
        (!IS_TAKEN.swap(true, Ordering::Relaxed)).then_some(Self(()))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        IS_TAKEN.store(false, Ordering::Relaxed);
    }
}

/// Waits until there is room: for `patience`, and longer where nobody else has the turn. Tells
/// whether it came.
pub async fn wait(patience: Duration, mut is_there: impl FnMut() -> bool) -> bool {
    const LOOK: Duration = Duration::from_millis(10);
    let begun = Instant::now();
    let mut turn = None;
    while !is_there() {
        turn = turn.or_else(Turn::take);
        let patience = turn.as_ref().map_or(patience, |_| Turn::PATIENCE);
        if begun.elapsed() >= patience {
            return false;
        }
        tokio::time::sleep(LOOK).await;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test, for there is one turn in the whole program.
    #[tokio::test]
    async fn one_waits_longer_than_the_others_and_gives_the_turn_back() {
        let first = tokio::spawn(wait(Duration::ZERO, || false));
        tokio::task::yield_now().await;
        assert!(!wait(Duration::ZERO, || false).await, "somebody has it");
        assert!(wait(Duration::ZERO, || true).await, "there is room");
        assert!(!first.is_finished());
        first.abort();
        assert!(first.await.is_err());
        let mut looks = 0;
        let comes = || {
            looks += 1;
            looks == 5
        };
        assert!(wait(Duration::ZERO, comes).await, "it was given back");
    }
}
