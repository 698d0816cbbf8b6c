//! How many look-ups a key has at once, so that one key leaves room for the others.

use crate::directory::Unavailable;
use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tollgate_types::KeyId;

/// A quarter of all.
const AT_ONCE: usize = super::LOOKUPS_AT_ONCE / 4;

/// Of the keys that look something up or wait for it: as many as requests do, each for no
/// longer than a look-up may take.
#[derive(Clone, Default)]
pub(super) struct Turns(Arc<Mutex<HashMap<KeyId, Arc<Semaphore>>>>);

/// A key's turn.
pub(super) struct Turn {
    permit: Option<OwnedSemaphorePermit>,
    _place: Place,
}

/// A request of a key that waits for its turn or has it.
struct Place {
    turns: Turns,
    key: KeyId,
    semaphore: Arc<Semaphore>,
}

impl Turns {
    /// Waits until the key has fewer look-ups under way than it may.
    ///
    /// # Errors
    /// Never in fact: nobody closes the semaphore.
    pub(super) async fn take(&self, key: &KeyId) -> Result<Turn, Unavailable> {
        let place = self.place(key);
        let permit = Arc::clone(&place.semaphore).acquire_owned().await;
        Ok(Turn {
            permit: Some(permit.map_err(|_| Unavailable::Closed)?),
            _place: place,
        })
    }

    fn place(&self, key: &KeyId) -> Place {
        let mut keys = self.0.lock();
        let semaphore = keys
            .entry(key.clone())
            .or_insert_with(|| Arc::new(Semaphore::new(AT_ONCE)));
        Place {
            turns: self.clone(),
            key: key.clone(),
            semaphore: Arc::clone(semaphore),
        }
    }

    #[cfg(test)]
    pub(super) fn keys(&self) -> usize {
        self.0.lock().len()
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // Before the place: it holds the semaphore, too.
        self.permit = None;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        /// The map's own and this one.
        const LAST: usize = 2;
        let mut keys = self.turns.0.lock();
        if Arc::strong_count(&self.semaphore) <= LAST {
            keys.remove(&self.key);
        }
    }
}
