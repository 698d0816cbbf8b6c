//! Loading keys: off the request's thread, once per key however many callers wait,
//! with a bound on everything that can pile up.

use super::{Cached, Loaded, Shared, Unavailable};
use crate::{key::KeyHash, store::StoreError};
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    io,
    sync::{
        Arc,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
};
use tokio::sync::oneshot;

/// A caller's end of a load.
pub(super) type Waiting = oneshot::Receiver<Loaded>;

/// How often a load starts over because the file changed while it ran.
const ATTEMPTS: usize = 3;

/// The loads under way and the threads that run them.
pub(super) struct Flights {
    board: Arc<Mutex<Board>>,
    jobs: SyncSender<KeyHash>,
    waiting_callers: usize,
}

/// The callers of each load.
#[derive(Default)]
struct Board {
    loads: HashMap<KeyHash, Vec<oneshot::Sender<Loaded>>, foldhash::fast::RandomState>,
    callers: usize,
}

impl Flights {
    /// Starts the threads. They end when this value is dropped.
    pub(super) fn start(shared: &Arc<Shared>) -> Result<Self, StoreError> {
        let (jobs, queue) = sync_channel(shared.settings.loads_at_once.max(1));
        let queue = Arc::new(Mutex::new(queue));
        let board = Arc::default();
        for _ in 0..shared.settings.loaders.max(1) {
            let loader = Loader {
                shared: Arc::clone(shared),
                board: Arc::clone(&board),
            };
            let queue = Arc::clone(&queue);
            let path = shared.database.path();
            spawn("key-loader", path, move || loader.run(&queue))?;
        }
        Ok(Self {
            board,
            jobs,
            waiting_callers: shared.settings.waiting_callers,
        })
    }

    /// Waits for the load of `hash` that is under way, or starts one.
    pub(super) fn join(&self, hash: KeyHash) -> Result<Waiting, Unavailable> {
        let (sender, receiver) = oneshot::channel();
        let mut board = self.board.lock();
        if board.callers >= self.waiting_callers {
            return Err(Unavailable::Overloaded);
        }
        if !board.loads.contains_key(&hash) {
            // The queue is as long as loads are allowed at once; it never blocks.
            self.jobs
                .try_send(hash)
                .map_err(|_| Unavailable::Overloaded)?;
        }
        board.loads.entry(hash).or_default().push(sender);
        board.callers = board.callers.saturating_add(1);
        Ok(receiver)
    }
}

struct Loader {
    shared: Arc<Shared>,
    board: Arc<Mutex<Board>>,
}

impl Loader {
    fn run(&self, queue: &Mutex<Receiver<KeyHash>>) {
        // The lock is held while waiting: another loader waits for the lock instead.
        let next = || queue.lock().recv();
        while let Ok(hash) = next() {
            let loaded = self.load(&hash);
            if let Err(fault) = &loaded {
                log::warn!("key look-up failed: {fault}");
            }
            self.answer(&hash, &loaded);
        }
    }

    fn answer(&self, hash: &KeyHash, loaded: &Loaded) {
        let callers = {
            let mut board = self.board.lock();
            let callers = board.loads.remove(hash).unwrap_or_default();
            board.callers = board.callers.saturating_sub(callers.len());
            callers
        };
        for caller in callers {
            // A caller that has left is no fault.
            let _ = caller.send(loaded.clone());
        }
    }

    fn load(&self, hash: &KeyHash) -> Loaded {
        let mut latest = Err(Unavailable::Overloaded);
        for _ in 0..ATTEMPTS {
            let (seq, cached) = self
                .read(hash)
                .map_err(|fault| Unavailable::Store(fault.to_string().into()))?;
            let current = self.shared.cache.remember(*hash, seq, &cached);
            latest = Ok(cached);
            if current {
                break;
            }
        }
        // If other keys change all the time nothing can be remembered; the last read is younger than the
        // request, which suffices.
        latest
    }

    fn read(&self, hash: &KeyHash) -> Result<(i64, Cached), StoreError> {
        let found = self.shared.database.look_up_key(hash)?;
        let cached = match found.record {
            Some(mut record) => {
                Arc::make_mut(&mut record.identity).shares = self.shared.cache.shares(hash);
                Cached::Known(Arc::new(record))
            }
            None => Cached::Unknown,
        };
        Ok((found.change, cached))
    }
}

/// Starts a named thread.
pub(crate) fn spawn(
    name: &str,
    path: &std::path::Path,
    run: impl FnOnce() + Send + 'static,
) -> Result<(), StoreError> {
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(run)
        .map(|_| ())
        .map_err(|fault: io::Error| StoreError::CannotOpen {
            path: path.to_owned(),
            cause: fault.to_string(),
        })
}
