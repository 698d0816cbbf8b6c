//! How a request finds its key: in memory, or by a look-up that never runs on the request's own thread.
//!
//! A look-up on a request thread is a checksum, one keyed hash and one read of a sharded cache. It
//! allocates nothing and never waits. Threads of their own load a key that is not in memory (`flight`),
//! once for all callers. A key that changes in the database is forgotten within a fraction of a second
//! (`watcher`).
//!
//! If the database cannot be read, keys in memory go on working, and all others are "unavailable",
//! never "invalid". [`KeyDirectory::health`] reports it.

mod cache;
mod flight;
mod watcher;

use crate::{
    clock::{Clock, Timestamp},
    key::{self, KeyHash, KeyHasher},
    record::{KeyRecord, KeyState},
    store::{Store, StoreError, database::Database},
};
use cache::{Cached, KeyCache};
use flight::Flights;
pub(crate) use flight::spawn;
use parking_lot::Mutex;
use std::{future::Future, sync::Arc, time::Duration};
use tollgate_types::KeyId;
pub use tollgate_types::Unavailable;
use watcher::Watcher;

/// How much a directory keeps in memory and how long it waits.
#[derive(Clone, Debug)]
pub struct DirectorySettings {
    /// Most keys held in memory, about 500 bytes each.
    pub known_keys: usize,
    /// Most unknown keys remembered as unknown, about 60 bytes each. They have a cache
    /// of their own, so that guessing never pushes a real key out.
    pub unknown_keys: usize,
    /// Most distinct keys being loaded at once; more are answered "unavailable".
    pub loads_at_once: usize,
    /// Most callers waiting for loads at once; more are answered "unavailable".
    pub waiting_callers: usize,
    /// Longest wait for a load.
    pub load_timeout: Duration,
    /// How often the database is asked whether a key changed. Half a second or less
    /// keeps the promise that a revocation holds within a second.
    pub poll_every: Duration,
    /// Threads that load keys.
    pub loaders: usize,
}

impl Default for DirectorySettings {
    fn default() -> Self {
        Self {
            known_keys: 100_000,
            unknown_keys: 100_000,
            loads_at_once: 1024,
            waiting_callers: 16 * 1024,
            load_timeout: Duration::from_secs(2),
            poll_every: Duration::from_millis(200),
            loaders: 2,
        }
    }
}

/// The result of a look-up.
#[derive(Debug)]
pub enum Lookup {
    /// The key is active.
    Known(Arc<KeyRecord>),
    /// The key is refused.
    Refused(Refusal),
    /// The key is not in memory: wait.
    Miss(PendingLookup),
}

/// Why a key is refused. Callers all get the same answer; this is for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It has not the form of a key, or a wrong checksum.
    Malformed,
    /// No key has this text.
    Unknown,
    /// It was revoked.
    Revoked(KeyId),
    /// Its time is over.
    Expired(KeyId),
}

impl Refusal {
    /// The reason as a label for metrics and logs.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Unknown => "unknown",
            Self::Revoked(_) => "revoked",
            Self::Expired(_) => "expired",
        }
    }
}

/// Why a key that was not in memory did not become known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LookupFailure {
    /// The key is refused: 401.
    #[error("key refused: {}", .0.as_str())]
    Refused(Refusal),
    /// Nothing is known about the key: 503, never 401.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

/// The health of a directory, for operators.
#[derive(Clone, Debug)]
pub struct DirectoryHealth {
    /// When the database was last asked successfully whether a key changed.
    pub seen_at: Timestamp,
    /// The last fault since then.
    pub fault: Option<Arc<str>>,
}

/// The keys of one database, as a running gateway sees them. Cheap to clone; the threads end with the
/// last clone.
#[derive(Clone)]
pub struct KeyDirectory(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    flights: Flights,
    /// Ends its thread when dropped.
    _watcher: Watcher,
}

/// The state that request threads, loaders and the watcher share.
struct Shared {
    database: Arc<dyn Database>,
    hasher: KeyHasher,
    clock: Clock,
    settings: DirectorySettings,
    cache: KeyCache,
    health: Mutex<DirectoryHealth>,
}

impl KeyDirectory {
    /// Starts the threads of a directory over the database of `store`.
    ///
    /// # Errors
    /// The database cannot be read, or a thread cannot be started.
    pub fn open(store: &Store, settings: DirectorySettings) -> Result<Self, StoreError> {
        let clock = store.clock().clone();
        let shared = Arc::new(Shared {
            database: Arc::clone(store.database()),
            hasher: store.hasher().clone(),
            cache: KeyCache::new(settings.known_keys, settings.unknown_keys),
            health: Mutex::new(DirectoryHealth {
                seen_at: clock.now(),
                fault: None,
            }),
            clock,
            settings,
        });
        // The watcher first: it fixes the point from which changes are seen, so that
        // nothing loaded later can be older.
        let watcher = Watcher::start(&shared)?;
        let flights = Flights::start(&shared)?;
        Ok(Self(Arc::new(Inner {
            shared,
            flights,
            _watcher: watcher,
        })))
    }

    /// Looks up a credential as the client sent it.
    pub fn lookup(&self, credential: &str) -> Lookup {
        if key::check(credential).is_err() {
            return Lookup::Refused(Refusal::Malformed);
        }
        let shared = &self.0.shared;
        let hash = shared.hasher.hash_text(credential);
        match shared.cache.get(&hash) {
            Some(cached) => match shared.judge(cached) {
                Ok(record) => Lookup::Known(record),
                Err(refusal) => Lookup::Refused(refusal),
            },
            None => Lookup::Miss(PendingLookup {
                hash,
                directory: Arc::clone(&self.0),
            }),
        }
    }

    /// How the directory is.
    pub fn health(&self) -> DirectoryHealth {
        self.0.shared.health.lock().clone()
    }
}

impl std::fmt::Debug for KeyDirectory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyDirectory")
            .field("path", &self.0.shared.database.path())
            .finish_non_exhaustive()
    }
}

impl Shared {
    fn judge(&self, cached: Cached) -> Result<Arc<KeyRecord>, Refusal> {
        let Cached::Known(record) = cached else {
            return Err(Refusal::Unknown);
        };
        match record.state(self.clock.now()) {
            KeyState::Active => Ok(record),
            KeyState::Revoked => Err(Refusal::Revoked(record.id().clone())),
            KeyState::Expired => Err(Refusal::Expired(record.id().clone())),
        }
    }
}

/// A look-up in the store, which begins when the caller waits for it.
#[must_use = "a look-up begins when it is awaited"]
pub struct PendingLookup {
    hash: KeyHash,
    directory: Arc<Inner>,
}

impl PendingLookup {
    /// Waits for the store, at most [`DirectorySettings::load_timeout`]. Must run on a
    /// tokio runtime. Dropping what it gives costs nothing; the load goes on for the next caller.
    ///
    /// # Errors
    /// The key is refused, or nothing could be learned about it.
    pub fn wait(
        self,
    ) -> impl Future<Output = Result<Arc<KeyRecord>, LookupFailure>> + Send + 'static {
        let shared = &self.directory.shared;
        // It may have come into memory since the look-up.
        let answer = match shared.cache.get(&self.hash) {
            Some(cached) => Answer::Known(cached),
            None => Answer::Coming(self.directory.flights.join(self.hash)),
        };
        // Not the directory itself, which must be able to close while callers wait.
        heed(answer, Arc::clone(shared))
    }
}

/// Where the answer to a look-up comes from.
enum Answer {
    /// From memory.
    Known(Cached),
    /// From the store.
    Coming(Result<flight::Waiting, Unavailable>),
}

/// Waits for the answer of memory or of the store.
async fn heed(answer: Answer, shared: Arc<Shared>) -> Result<Arc<KeyRecord>, LookupFailure> {
    let cached = match answer {
        Answer::Known(cached) => cached,
        Answer::Coming(answer) => tokio::time::timeout(shared.settings.load_timeout, answer?)
            .await
            .map_err(|_| Unavailable::TimedOut)?
            .unwrap_or(Err(Unavailable::Closed))?,
    };
    shared.judge(cached).map_err(LookupFailure::Refused)
}

impl std::fmt::Debug for PendingLookup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PendingLookup")
    }
}

/// The cached result of a load.
type Loaded = Result<Cached, Unavailable>;

#[cfg(test)]
mod tests;
