//! Notices keys that other programs, or other parts of this one, have changed in the database.

use super::{Shared, flight::spawn};
use crate::store::{StoreError, database::Subscription};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    time::Duration,
};

/// How often it is looked for changes while the database announces them.
const ANNOUNCED: Duration = Duration::from_millis(500);
/// The shortest time between two looks.
const LEAST_PAUSE: Duration = Duration::from_millis(10);

/// Ends its thread when dropped.
pub(super) struct Watcher {
    /// Has a sender as well, and goes first.
    _subscription: Option<Subscription>,
    _stop: SyncSender<()>,
}

impl Watcher {
    pub(super) fn start(shared: &Arc<Shared>) -> Result<Self, StoreError> {
        let mut watch = Watch {
            shared: Arc::clone(shared),
            seen: None,
            is_announced: Arc::default(),
        };
        watch.look()?;
        let (stop, woken) = sync_channel(1);
        let wake = stop.clone();
        let subscription = shared.database.subscribe(Box::new(move || {
            // If it is full, the watcher is about to look.
            let _ = wake.try_send(());
        }))?;
        if let Some(subscription) = &subscription {
            watch.is_announced = Arc::clone(subscription.is_live());
        }
        spawn("key-watcher", shared.database.path(), move || {
            watch.run(&woken);
        })?;
        Ok(Self {
            _subscription: subscription,
            _stop: stop,
        })
    }
}

struct Watch {
    shared: Arc<Shared>,
    /// The change up to which the cache is current.
    seen: Option<i64>,
    /// The database announces changes.
    is_announced: Arc<AtomicBool>,
}

impl Watch {
    fn run(mut self, woken: &Receiver<()>) {
        let alone = self.shared.settings.poll_every;
        loop {
            let pause = match self.is_announced.load(Ordering::Acquire) {
                true => alone.max(ANNOUNCED),
                false => alone,
            };
            if woken.recv_timeout(pause) == Err(RecvTimeoutError::Disconnected) {
                return;
            }
            let fault = self.look().err().map(|fault| fault.to_string());
            self.report(fault);
            std::thread::park_timeout(LEAST_PAUSE.min(alone));
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
