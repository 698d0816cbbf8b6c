//! Who goes on where there is no memory left: of many large requests that come at once and leave no
//! room to one another all would be refused. One of them has the turn: it waits longer than the
//! others, and goes on with what they give back.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// That of keys with priority, and that of the others.
static ARE_TAKEN: [AtomicBool; 2] = [const { AtomicBool::new(false) }; 2];

/// The turn, of which there is one for each kind of keys; given back when it is dropped.
struct Turn(&'static AtomicBool);

impl Turn {
    /// Longer than anybody waits without it.
    const PATIENCE: Duration = Duration::from_secs(2);

    /// The turn, where nobody has it.
    fn take(has_priority: bool) -> Option<Self> {
        let [theirs, others] = &ARE_TAKEN;
        let turn = if has_priority { theirs } else { others };
        (!turn.swap(true, Ordering::Relaxed)).then_some(Self(turn))
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// Waits until there is room: for `patience`, and longer where nobody else has the turn. Tells
/// whether it came. Keys with priority have a turn of their own, so that no other key has them
/// refused.
pub async fn wait(
    has_priority: bool,
    patience: Duration,
    mut is_there: impl FnMut() -> bool,
) -> bool {
    const LOOK: Duration = Duration::from_millis(10);
    let begun = Instant::now();
    let mut turn = None;
    while !is_there() {
        turn = turn.or_else(|| Turn::take(has_priority));
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

    /// One test, for the turns are the whole program's.
    #[tokio::test]
    async fn one_waits_longer_than_the_others_and_gives_the_turn_back() {
        let none = Duration::ZERO;
        let first = tokio::spawn(wait(false, none, || false));
        tokio::task::yield_now().await;
        assert!(!wait(false, none, || false).await, "somebody has it");
        assert!(wait(false, none, || true).await, "there is room");
        assert!(wait(true, none, soon()).await, "it is another turn");
        assert!(!first.is_finished());
        first.abort();
        assert!(first.await.is_err());
        assert!(wait(false, none, soon()).await, "it was given back");
    }

    /// Room that comes after some looks.
    fn soon() -> impl FnMut() -> bool {
        let mut looks = 0;
        move || {
            looks += 1;
            looks == 5
        }
    }
}
