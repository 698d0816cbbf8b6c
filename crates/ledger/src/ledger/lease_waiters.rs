//! Requests that wait until other processes give back leased tokens of a key. Each is counted while it waits;
//! the caller limits the time.

use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc};
use tokio::sync::watch;
use tollgate_types::KeyId;

/// The waiters, by key. Cheap to clone.
#[derive(Clone)]
pub(super) struct LeaseWaiters {
    waiting: Arc<Mutex<Waiting>>,
    most: usize,
}

#[derive(Default)]
struct Waiting {
    /// Dropping a sender wakes its waiters.
    calls: HashMap<KeyId, watch::Sender<()>>,
    /// The number of waiters of all keys.
    count: usize,
}

impl LeaseWaiters {
    /// At most `most` requests wait at once, of all keys together.
    pub(super) fn new(most: usize) -> Self {
        Self {
            waiting: Arc::default(),
            most,
        }
    }

    /// Adds a waiter for `id`; `None` if too many wait already.
    pub(super) fn enter(&self, id: &KeyId) -> Option<LeaseWaiter> {
        let mut waiting = self.waiting.lock();
        if waiting.count >= self.most {
            return None;
        }
        waiting.count = waiting.count.saturating_add(1);
        let call = waiting.calls.entry(id.clone());
        let call = call.or_insert_with(|| watch::channel(()).0);
        Some(LeaseWaiter {
            listener: Some(call.subscribe()),
            waiters: self.clone(),
            id: id.clone(),
        })
    }

    /// Wakes the waiters of `id`.
    pub(super) fn wake(&self, id: &KeyId) {
        let call = self.waiting.lock().calls.remove(id);
        drop(call);
    }
}

/// A waiter; it leaves the list when it is dropped.
pub(super) struct LeaseWaiter {
    listener: Option<watch::Receiver<()>>,
    waiters: LeaseWaiters,
    id: KeyId,
}

impl LeaseWaiter {
    /// Waits until tokens have arrived, or none will.
    pub(super) async fn wait(mut self) {
        if let Some(listener) = &mut self.listener {
            // Nothing is ever sent: the wait ends when the sender is dropped.
            let _ = listener.changed().await;
        }
    }
}

impl Drop for LeaseWaiter {
    fn drop(&mut self) {
        self.listener = None;
        let mut waiting = self.waiters.waiting.lock();
        waiting.count = waiting.count.saturating_sub(1);
        let call = waiting.calls.get(&self.id);
        // Other waiters can wait for the same key.
        if call.is_some_and(|call| call.receiver_count() == 0) {
            waiting.calls.remove(&self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn sizes(waiters: &LeaseWaiters) -> (usize, usize) {
        let waiting = waiters.waiting.lock();
        (waiting.calls.len(), waiting.count)
    }

    #[test]
    fn a_waiter_that_leaves_makes_room_and_leaves_nothing_behind() {
        let waiters = LeaseWaiters::new(2);
        let (a, b) = (KeyId::new("a"), KeyId::new("b"));
        for _ in 0..10 {
            let first = waiters.enter(&a).unwrap();
            let second = waiters.enter(&a).unwrap();
            assert!(waiters.enter(&a).is_none() && waiters.enter(&b).is_none());
            drop(first);
            assert_eq!(sizes(&waiters), (1, 1));
            let other = waiters.enter(&b).unwrap();
            assert_eq!(sizes(&waiters), (2, 2));
            drop((second, other));
            assert_eq!(sizes(&waiters), (0, 0));
        }
    }

    #[tokio::test]
    async fn tokens_of_a_key_wake_its_waiters_alone() {
        let waiters = LeaseWaiters::new(4);
        let (a, b) = (KeyId::new("a"), KeyId::new("b"));
        let (first, second) = (waiters.enter(&a).unwrap(), waiters.enter(&a).unwrap());
        let other = waiters.enter(&b).unwrap();
        waiters.wake(&a);
        // A later waiter waits for the next tokens.
        let later = waiters.enter(&a).unwrap();
        let both = async { tokio::join!(first.wait(), second.wait()) };
        let ended = tokio::time::timeout(Duration::from_secs(20), both).await;
        assert!(ended.is_ok());
        assert_eq!(sizes(&waiters), (2, 2));
        for waiter in [later, other] {
            let ended = tokio::time::timeout(Duration::from_millis(20), waiter.wait()).await;
            assert!(ended.is_err());
        }
        assert_eq!(sizes(&waiters), (0, 0));
    }
}
