//! Notices keys that other programs, or other parts of this one, have changed in the database.

use super::{Shared, flight::spawn};
use crate::store::{StoreError, database::Wake};
use std::sync::{
    Arc,
    mpsc::{Receiver, RecvTimeoutError, sync_channel},
};

/// Ends its thread when dropped.
pub(super) struct Watcher {
    _wake: Wake,
}

impl Watcher {
    pub(super) fn start(shared: &Arc<Shared>) -> Result<Self, StoreError> {
        let mut watch = Watch {
            shared: Arc::clone(shared),
            seen: None,
        };
        watch.look()?;
        let (sender, woken) = sync_channel(1);
        let wake: Wake = Arc::new(move || {
            // If it is full, the thread is about to look.
            let _ = sender.try_send(());
        });
        shared.database.wake_on_changes(&wake)?;
        spawn("key-watcher", shared.database.path(), move || {
            watch.run(&woken);
        })?;
        Ok(Self { _wake: wake })
    }
}

struct Watch {
    shared: Arc<Shared>,
    /// The change up to which the cache is current.
    seen: Option<i64>,
}

impl Watch {
    fn run(mut self, woken: &Receiver<()>) {
        let pause = self.shared.settings.poll_every;
        while woken.recv_timeout(pause) != Err(RecvTimeoutError::Disconnected) {
            let fault = self.look().err().map(|fault| fault.to_string());
            self.report(fault);
        }
    }

    fn report(&self, fault: Option<String>) {
        let mut health = self.shared.health.lock();
        match (&fault, &health.fault) {
            (Some(fault), None) => {
                log::error!("cannot see changes of keys, revocations among them: {fault}");
            }
            (None, Some(_)) => log::info!("changes of keys are seen again"),
            _ => {}
        }
        if fault.is_none() {
            health.seen_at = self.shared.clock.now();
        }
        health.fault = fault.map(Into::into);
    }

    fn look(&mut self) -> Result<(), StoreError> {
        let changes = self.shared.database.changes_since(self.seen)?;
        if self.seen == Some(changes.newest) && changes.hashes.is_some() {
            return Ok(());
        }
        let cache = &self.shared.cache;
        match changes.hashes {
            Some(hashes) if self.seen.is_some() => cache.forget(changes.newest, &hashes),
            _ => cache.forget_all(changes.newest),
        }
        self.seen = Some(changes.newest);
        Ok(())
    }
}
