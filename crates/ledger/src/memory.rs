//! The answers that the gateway has translated and remembers: the answer and what it answered, for the
//! key that asked, within limits of bytes and time.
//!
//! An answer is in memory at once and in the database after its next commit. A thread of its own writes it:
//! settlements never wait for it, and a lost answer is no lost money. Reads go to the database on a
//! thread that may wait; a request never does. What a remembered answer means is decided elsewhere.

use crate::{
    clock::{Clock, Timestamp},
    directory::{Unavailable, spawn},
    lookups::{Lookups, TIMEOUT},
    store::{
        Store, StoreError,
        database::{AnswerChange, Database},
    },
};
use bytes::Bytes;
use parking_lot::{Condvar, Mutex, RwLock};
use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::sync::oneshot;
use tollgate_types::{KeyId, RequestId, leaves_room};

/// An answer and what it answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remembered {
    /// The request that was answered.
    pub id: RequestId,
    /// The key that asked.
    pub key: KeyId,
    /// The request whose answer this one goes on from.
    pub previous: Option<RequestId>,
    /// The `input` of the request, as JSON.
    pub input: Bytes,
    /// The `response` object, as JSON.
    pub response: Bytes,
}

impl Remembered {
    /// Its size towards the limits, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        /// The row and its entries in the indexes.
        const ROW: usize = 256;
        let contents = self.input.len().saturating_add(self.response.len());
        u64::try_from(contents.saturating_add(ROW)).unwrap_or(u64::MAX)
    }
}

/// The limits of what is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimits {
    /// Bytes for each key; of more, the key's oldest answers are forgotten.
    pub bytes_per_key: u64,
    /// Bytes of all keys; of more, the oldest answers of all are forgotten.
    pub bytes: u64,
    /// The age at which an answer is forgotten.
    pub time: Duration,
}

/// Counts of answers since the process began, and of what there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// Answers that were written down.
    pub remembered: u64,
    /// Answers that could not be written: too many waited, or the database failed.
    pub lost: u64,
    /// Bytes in the database.
    pub bytes: u64,
}

/// Most bytes that wait to be written, of which those of one key leave as much free; further answers
/// are lost.
const MOST_WAITING: u64 = 64 << 20;
/// Most bytes that one transaction writes or overwrites, so that no settlement waits long for the
/// database.
const MOST_AT_ONCE: u64 = 1 << 20;
/// How often old answers are deleted.
const ROUND: Duration = Duration::from_secs(60);
/// How often a failed transaction is tried, and after which pause.
const TRIES: u32 = 5;
const RETRY_AFTER: Duration = Duration::from_millis(200);

/// Stores answers and finds them again. The last handle writes the waiting answers in the
/// background; [`Memory::close`] waits for it.
pub struct Memory(Arc<Inner>);

struct Inner {
    database: Arc<dyn Database>,
    clock: Clock,
    /// `None`: nothing is remembered, and what there is is forgotten.
    limits: RwLock<Option<MemoryLimits>>,
    queue: Mutex<Queue>,
    /// Something is in the queue, or the writer has ended.
    changed: Condvar,
    lookups: Lookups,
    remembered: AtomicU64,
    lost: AtomicU64,
    bytes: AtomicU64,
}

#[derive(Default)]
struct Queue {
    changes: VecDeque<Change>,
    /// Answers that are not in the database yet.
    uncommitted: HashMap<RequestId, Arc<Remembered>>,
    /// Bytes of these, and of each key's among them.
    bytes: u64,
    of_keys: HashMap<KeyId, u64>,
    /// Old answers are to be forgotten now.
    is_round_due: bool,
    is_closed: bool,
    has_ended: bool,
}

impl Queue {
    /// An answer waits no more: it is in the database, or lost.
    fn is_written(&mut self, answer: &Remembered) {
        self.uncommitted.remove(&answer.id);
        let bytes = answer.bytes();
        self.bytes = self.bytes.saturating_sub(bytes);
        if let Entry::Occupied(mut own) = self.of_keys.entry(answer.key.clone()) {
            let left = own.get().saturating_sub(bytes);
            match left {
                0 => drop(own.remove()),
                _ => *own.get_mut() = left,
            }
        }
    }
}

/// A change to write.
enum Change {
    Remember(Arc<Remembered>),
    Forget {
        key: KeyId,
        id: RequestId,
        done: oneshot::Sender<bool>,
    },
}

impl Memory {
    /// Opens the memory in the database of `store`, with these limits. `None` stores nothing and
    /// deletes the stored answers.
    ///
    /// # Errors
    /// The database cannot be opened, or no thread can be started.
    pub fn open(store: &Store, limits: Option<MemoryLimits>) -> Result<Self, StoreError> {
        let database = Arc::clone(store.database());
        // No change: it opens the database for writing, and counts.
        let counted = database.change_answers(&[], limits, 0, store.clock().now())?;
        let inner = Arc::new(Inner {
            database,
            clock: store.clock().clone(),
            limits: RwLock::new(limits),
            queue: Mutex::default(),
            changed: Condvar::new(),
            lookups: Lookups::default(),
            remembered: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            bytes: AtomicU64::new(counted.bytes),
        });
        let writer = Arc::clone(&inner);
        spawn("memory-writer", store.path(), move || writer.run())?;
        Ok(Self(inner))
    }

    /// Changes how much is remembered; `None`: nothing, and what there is is forgotten.
    pub fn set_limits(&self, limits: Option<MemoryLimits>) {
        *self.0.limits.write() = limits;
        self.0.queue.lock().is_round_due = true;
        self.0.changed.notify_all();
    }

    /// Remembers an answer. Waits for nothing.
    pub fn remember(&self, answer: Remembered) {
        let bytes = answer.bytes();
        let Some(limits) = *self.0.limits.read() else {
            return;
        };
        let answer = Arc::new(answer);
        let mut queue = self.0.queue.lock();
        let waiting = queue.bytes.saturating_add(bytes);
        let own = queue.of_keys.get(&answer.key).copied().unwrap_or_default();
        let has_room = leaves_room(own.saturating_add(bytes), MOST_WAITING, waiting);
        let is_too_much = !has_room || bytes > limits.bytes_per_key.min(limits.bytes);
        if is_too_much || queue.is_closed {
            drop(queue);
            log::warn!("an answer of {bytes} bytes is not remembered: {waiting} would wait");
            self.0.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        queue.bytes = waiting;
        queue
            .of_keys
            .insert(answer.key.clone(), own.saturating_add(bytes));
        queue.uncommitted.insert(answer.id, Arc::clone(&answer));
        queue.changes.push_back(Change::Remember(answer));
        drop(queue);
        self.0.changed.notify_all();
    }

    /// Forgets the answer to a request of this key. Whether there was one. Must be awaited on a tokio
    /// runtime.
    ///
    /// # Errors
    /// The database cannot be written, or not in time.
    pub async fn forget(&self, key: &KeyId, id: RequestId) -> Result<bool, Unavailable> {
        let (done, answer) = oneshot::channel();
        {
            let mut queue = self.0.queue.lock();
            if queue.is_closed {
                return Err(Unavailable::Closed);
            }
            let key = key.clone();
            queue.changes.push_back(Change::Forget { key, id, done });
        }
        self.0.changed.notify_all();
        let answer = tokio::time::timeout(TIMEOUT, answer).await;
        let answer = answer.map_err(|_| Unavailable::TimedOut)?;
        // The writer drops the sender if the file has failed.
        answer.map_err(|_| Unavailable::Store("the answer could not be forgotten".into()))
    }

    /// Looks up answers of a key, on a thread that may wait. Must be awaited on a tokio runtime.
    ///
    /// # Errors
    /// Too many look-ups are under way, or it takes too long.
    pub async fn look_up<T: Send + 'static>(
        &self,
        key: &KeyId,
        look: impl FnOnce(&Lookup<'_>) -> T + Send + 'static,
    ) -> Result<T, Unavailable> {
        let (inner, asking) = (Arc::clone(&self.0), key.clone());
        let look = move || look(&inner.lookup(&asking));
        self.0.lookups.run(key, look).await
    }

    /// Counts of answers.
    pub fn stats(&self) -> MemoryStats {
        MemoryStats {
            remembered: self.0.remembered.load(Ordering::Relaxed),
            lost: self.0.lost.load(Ordering::Relaxed),
            bytes: self.0.bytes.load(Ordering::Relaxed),
        }
    }

    /// Writes down what waits and remembers nothing more. Blocks, no longer than `patience`; whether
    /// everything was written.
    pub fn close(&self, patience: Duration) -> bool {
        let mut queue = self.0.queue.lock();
        queue.is_closed = true;
        self.0.changed.notify_all();
        let ended = |queue: &mut Queue| !queue.has_ended;
        !self
            .0
            .changed
            .wait_while_for(&mut queue, ended, patience)
            .timed_out()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.0.queue.lock().is_closed = true;
        self.0.changed.notify_all();
    }
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Memory").field(&self.0.path()).finish()
    }
}

/// Finds the answers of one key.
pub struct Lookup<'a> {
    inner: &'a Inner,
    key: &'a KeyId,
    /// Answers from before this time are forgotten; `None`: all are.
    since: Option<Timestamp>,
}

impl Lookup<'_> {
    /// The response that answered a request.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn response(&self, id: RequestId) -> Result<Option<Bytes>, StoreError> {
        match self.uncommitted(id) {
            Some(answer) => Ok(answer.map(|it| it.response.clone())),
            None => match self.since {
                Some(since) => self.inner.database.response(self.key, id, since),
                None => Ok(None),
            },
        }
    }

    /// The same, with what it answered.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn answer(&self, id: RequestId) -> Result<Option<Remembered>, StoreError> {
        match self.uncommitted(id) {
            Some(answer) => Ok(answer.map(|it| Remembered::clone(&it))),
            None => match self.since {
                Some(since) => self.inner.database.answer(self.key, id, since),
                None => Ok(None),
            },
        }
    }

    /// An answer that is not in the database yet. `Some(None)` if it belongs to another key.
    fn uncommitted(&self, id: RequestId) -> Option<Option<Arc<Remembered>>> {
        let answer = self.inner.queue.lock().uncommitted.get(&id).cloned()?;
        Some((answer.key == *self.key).then_some(answer))
    }
}

impl Inner {
    fn lookup<'a>(&'a self, key: &'a KeyId) -> Lookup<'a> {
        let limits = *self.limits.read();
        Lookup {
            inner: self,
            key,
            since: limits.map(|limits| self.clock.now().minus(limits.time)),
        }
    }

    fn path(&self) -> &Path {
        self.database.path()
    }

    /// The thread that writes.
    fn run(&self) {
        let mut next_round = Instant::now();
        loop {
            let (mut changes, is_round_due, is_closed) = self.wait(next_round);
            let is_last = is_closed && changes.is_empty();
            while !changes.is_empty() {
                changes = self.write(changes);
            }
            if is_round_due || Instant::now() >= next_round {
                self.forget_old();
                next_round = Instant::now().checked_add(ROUND).unwrap_or(next_round);
            }
            if is_last {
                break;
            }
        }
        // `close` returns after this.
        self.queue.lock().has_ended = true;
        self.changed.notify_all();
    }

    /// Waits until then for changes, and takes as many new answers as go in one transaction.
    fn wait(&self, until: Instant) -> (VecDeque<Change>, bool, bool) {
        let mut queue = self.queue.lock();
        let waits =
            |queue: &mut Queue| queue.changes.is_empty() && !queue.is_closed && !queue.is_round_due;
        self.changed.wait_while_until(&mut queue, waits, until);
        let (mut taken, mut bytes) = (VecDeque::new(), 0_u64);
        while bytes < MOST_AT_ONCE
            && let Some(change) = queue.changes.pop_front()
        {
            bytes = bytes.saturating_add(change.bytes());
            taken.push_back(change);
        }
        let is_round_due = std::mem::take(&mut queue.is_round_due);
        (taken, is_round_due, queue.is_closed)
    }

    /// Writes changes, as many as go in one transaction. Returns the others.
    fn write(&self, mut changes: VecDeque<Change>) -> VecDeque<Change> {
        let given: Vec<AnswerChange<'_>> = changes.iter().map(Change::given).collect();
        let written = self.try_often("answers cannot be remembered", || {
            let limits = *self.limits.read();
            let now = self.clock.now();
            self.database
                .change_answers(&given, limits, MOST_AT_ONCE, now)
        });
        let Some(written) = written else {
            // The callers that wait for one to be forgotten notice that its sender is dropped.
            let mut queue = self.queue.lock();
            changes.drain(..).for_each(|change| {
                if let Change::Remember(answer) = change {
                    queue.is_written(&answer);
                    self.lost.fetch_add(1, Ordering::Relaxed);
                }
            });
            return changes;
        };
        self.bytes.store(written.bytes, Ordering::Relaxed);
        let mut queue = self.queue.lock();
        let rest = changes.split_off(written.done.len().min(changes.len()));
        for (change, is_done) in changes.into_iter().zip(written.done) {
            match change {
                Change::Remember(answer) => {
                    queue.is_written(&answer);
                    self.remembered.fetch_add(1, Ordering::Relaxed);
                }
                Change::Forget { done: report, .. } => {
                    // The caller may have disconnected.
                    let _ = report.send(is_done);
                }
            }
        }
        rest
    }

    fn forget_old(&self) {
        let limits = *self.limits.read();
        let (age, most) = limits.map_or((Duration::ZERO, 0), |it| (it.time, it.bytes));
        let now = self.clock.now();
        let left = self.try_often("old answers cannot be forgotten", || {
            self.database.expire_answers(now, age, most)
        });
        if let Some(bytes) = left {
            self.bytes.store(bytes, Ordering::Relaxed);
        }
    }

    /// Tries a few times. `None`: it failed each time.
    fn try_often<T>(
        &self,
        what: &str,
        mut run: impl FnMut() -> Result<T, StoreError>,
    ) -> Option<T> {
        for attempt in 1..=TRIES {
            match run() {
                Ok(done) => return Some(done),
                Err(fault) if attempt == TRIES => log::error!("{what}: {fault}"),
                Err(_) => std::thread::park_timeout(RETRY_AFTER),
            }
        }
        None
    }
}

impl Change {
    /// Bytes that it is known to write. What forgetting an answer overwrites only the database knows:
    /// it ends the transaction when that is enough.
    fn bytes(&self) -> u64 {
        match self {
            Self::Remember(answer) => answer.bytes(),
            Self::Forget { .. } => 0,
        }
    }

    fn given(&self) -> AnswerChange<'_> {
        match self {
            Self::Remember(answer) => AnswerChange::Remember(answer),
            Self::Forget { key, id, .. } => AnswerChange::Forget(key, *id),
        }
    }
}

#[cfg(test)]
mod tests;
