//! Who waits for what other processes give of a key: each is counted for as long as it waits and
//! no longer. How long that is, is the caller's to bound.

use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc};
use tokio::sync::watch;
use tollgate_types::KeyId;

/// Those who wait, by the keys that they wait for. Cheap to clone.
#[derive(Clone)]
pub(super) struct Gains {
    waiting: Arc<Mutex<Waiting>>,
    most: usize,
}

#[derive(Default)]
struct Waiting {
    /// What is dropped here wakes all who listen to it.
    calls: HashMap<KeyId, watch::Sender<()>>,
    /// How many wait, for all keys together.
    count: usize,
}

impl Gains {
    /// `most` may wait at once, for all keys together.
    pub(super) fn new(most: usize) -> Self {
        Self {
            waiting: Arc::default(),
            most,
        }
    }

    /// Enters one among those who wait for `id`; `None` where too many wait already.
    pub(super) fn enter(&self, id: &KeyId) -> Option<Gain> {
        let mut waiting = self.waiting.lock();
        if waiting.count >= self.most {
            return None;
        }
        waiting.count = waiting.count.saturating_add(1);
        let call = waiting.calls.entry(id.clone());
        let call = call.or_insert_with(|| watch::channel(()).0);
        Some(Gain {
            listener: Some(call.subscribe()),
            gains: self.clone(),
            id: id.clone(),
        })
    }

    /// Whoever waits for `id` looks again.
    pub(super) fn came(&self, id: &KeyId) {
        let call = self.waiting.lock().calls.remove(id);
        drop(call);
    }
}

/// One who waits; taken off the list when dropped, whatever came of it.
pub(super) struct Gain {
    listener: Option<watch::Receiver<()>>,
    gains: Gains,
    id: KeyId,
}

impl Gain {
    /// Waits until something came, or nothing is to come.
    pub(super) async fn wait(mut self) {
        if let Some(listener) = &mut self.listener {
            // Nothing is ever sent: it ends when the other end is dropped.
            let _ = listener.changed().await;
        }
    }
}

impl Drop for Gain {
    fn drop(&mut self) {
        self.listener = None;
        let mut waiting = self.gains.waiting.lock();
        waiting.count = waiting.count.saturating_sub(1);
        let call = waiting.calls.get(&self.id);
        // Others may wait for the same key, since then or still.
        if call.is_some_and(|call| call.receiver_count() == 0) {
            waiting.calls.remove(&self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn sizes(gains: &Gains) -> (usize, usize) {
        let waiting = gains.waiting.lock();
        (waiting.calls.len(), waiting.count)
    }

    #[test]
    fn who_goes_makes_room_and_leaves_nothing_behind() {
        let gains = Gains::new(2);
        let (a, b) = (KeyId::new("a"), KeyId::new("b"));
        for _ in 0..10 {
            let first = gains.enter(&a).unwrap();
            let second = gains.enter(&a).unwrap();
            assert!(gains.enter(&a).is_none() && gains.enter(&b).is_none());
            drop(first);
            assert_eq!(sizes(&gains), (1, 1));
            let other = gains.enter(&b).unwrap();
            assert_eq!(sizes(&gains), (2, 2));
            drop((second, other));
            assert_eq!(sizes(&gains), (0, 0));
        }
    }

    #[tokio::test]
    async fn what_comes_ends_the_waiting_for_it_alone() {
        let gains = Gains::new(4);
        let (a, b) = (KeyId::new("a"), KeyId::new("b"));
        let (first, second) = (gains.enter(&a).unwrap(), gains.enter(&a).unwrap());
        let other = gains.enter(&b).unwrap();
        gains.came(&a);
        // Who comes now waits for what is next, whatever becomes of those before.
        let later = gains.enter(&a).unwrap();
        let both = async { tokio::join!(first.wait(), second.wait()) };
        let ended = tokio::time::timeout(Duration::from_secs(20), both).await;
        assert!(ended.is_ok());
        assert_eq!(sizes(&gains), (2, 2));
        for gain in [later, other] {
            let ended = tokio::time::timeout(Duration::from_millis(20), gain.wait()).await;
            assert!(ended.is_err());
        }
        assert_eq!(sizes(&gains), (0, 0));
    }
}
