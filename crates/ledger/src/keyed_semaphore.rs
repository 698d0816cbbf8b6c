//! A semaphore for each key, and a queue that no key can fill alone.
//!
//! A key is an API key, or a client's address. At most `at_once` callers of a key hold a permit; its
//! others wait, first in, first out. All keys together have `most` callers, and a key may add one
//! only while its callers are no more than would be left free ([`leaves_room`]).

use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tollgate_types::{KeyId, leaves_room};

/// The semaphore. Cheap to clone. Idle keys take no memory.
#[derive(Clone)]
pub struct KeyedSemaphore {
    at_once: usize,
    most: usize,
    keys: Arc<Mutex<Keys>>,
}

#[derive(Default)]
struct Keys {
    semaphores: HashMap<KeyId, KeyPermits>,
    callers: usize,
}

/// The permits of one key.
struct KeyPermits {
    semaphore: Arc<Semaphore>,
    callers: usize,
}

/// A permit of a key, returned when it is dropped.
pub struct KeyedPermit {
    permit: Option<OwnedSemaphorePermit>,
    _caller: Caller,
}

/// The key has as many callers as it may, or all keys together have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many wait already")]
pub struct TooManyCallers;

/// One caller of a key, waiting or with a permit.
struct Caller {
    of: KeyedSemaphore,
    key: KeyId,
}

impl KeyedSemaphore {
    /// A semaphore with `at_once` permits for each key, for at most `most` callers of all keys.
    pub fn new(at_once: usize, most: usize) -> Self {
        Self {
            at_once,
            most,
            keys: Arc::default(),
        }
    }

    /// Waits for a permit of `key`.
    ///
    /// # Errors
    /// Too many callers wait or have permits already; this one has not waited.
    pub async fn acquire(&self, key: &KeyId) -> Result<KeyedPermit, TooManyCallers> {
        let (caller, semaphore) = self.enter(key)?;
        let permit = semaphore.acquire_owned().await;
        Ok(KeyedPermit {
            // It is never closed.
            permit: Some(permit.map_err(|_| TooManyCallers)?),
            _caller: caller,
        })
    }

    fn enter(&self, key: &KeyId) -> Result<(Caller, Arc<Semaphore>), TooManyCallers> {
        let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let mut keys = self.keys.lock();
        let callers = keys.callers.saturating_add(1);
        let own = keys.semaphores.get(key).map_or(0, |it| it.callers);
        if callers > self.most || !leaves_room(number(own), number(self.most), number(callers)) {
            return Err(TooManyCallers);
        }
        keys.callers = callers;
        let of_key = keys
            .semaphores
            .entry(key.clone())
            .or_insert_with(|| KeyPermits {
                semaphore: Arc::new(Semaphore::new(self.at_once)),
                callers: 0,
            });
        of_key.callers = own.saturating_add(1);
        let caller = Caller {
            of: self.clone(),
            key: key.clone(),
        };
        Ok((caller, Arc::clone(&of_key.semaphore)))
    }

    #[cfg(test)]
    pub(crate) fn keys(&self) -> usize {
        self.keys.lock().semaphores.len()
    }
}

impl Drop for KeyedPermit {
    fn drop(&mut self) {
        // Before the caller: the key may be forgotten with its last one.
        self.permit = None;
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        let mut keys = self.of.keys.lock();
        keys.callers = keys.callers.saturating_sub(1);
        if let Some(of_key) = keys.semaphores.get_mut(&self.key) {
            of_key.callers = of_key.callers.saturating_sub(1);
            if of_key.callers == 0 {
                keys.semaphores.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn key(name: &str) -> KeyId {
        KeyId::new(name)
    }

    #[tokio::test]
    async fn a_key_waits_for_its_own_permits_alone() {
        let semaphore = KeyedSemaphore::new(1, 100);
        let held = semaphore.acquire(&key("a")).await.unwrap();
        let waits = tokio::spawn({
            let semaphore = semaphore.clone();
            async move { semaphore.acquire(&key("a")).await.map(drop) }
        });
        tokio::task::yield_now().await;
        assert!(!waits.is_finished());
        let other = key("b");
        let other = tokio::time::timeout(Duration::from_secs(5), semaphore.acquire(&other)).await;
        assert!(other.unwrap().is_ok());
        drop(held);
        assert_eq!(waits.await.unwrap(), Ok(()));
        assert_eq!(semaphore.keys(), 0);
    }

    #[tokio::test]
    async fn a_key_has_as_many_callers_as_it_leaves_to_others() {
        let semaphore = KeyedSemaphore::new(100, 8);
        let mut held = Vec::new();
        // Half of all, half of the rest, and so on.
        for (name, most) in [("a", 4), ("b", 2), ("c", 1), ("d", 1)] {
            for _ in 0..most {
                held.push(semaphore.acquire(&key(name)).await.unwrap());
            }
            let more = semaphore.acquire(&key(name)).await;
            assert_eq!(more.map(drop), Err(TooManyCallers), "{name}");
        }
        let full = semaphore.acquire(&key("e")).await;
        assert_eq!(full.map(drop), Err(TooManyCallers));
        held.clear();
        assert_eq!(semaphore.keys(), 0);
        assert!(semaphore.acquire(&key("e")).await.is_ok());
    }

    #[tokio::test]
    async fn a_caller_that_waits_no_more_leaves_nothing_behind() {
        let semaphore = KeyedSemaphore::new(1, 100);
        let held = semaphore.acquire(&key("a")).await.unwrap();
        let wait = Duration::from_millis(1);
        let waited = tokio::time::timeout(wait, semaphore.acquire(&key("a"))).await;
        assert!(waited.is_err());
        drop(held);
        assert_eq!(semaphore.keys(), 0);
    }
}
