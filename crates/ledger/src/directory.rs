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
pub(crate) use flight::spawn;
use flight::{Flights, Waiting};
use parking_lot::Mutex;
use std::{sync::Arc, time::Duration};
pub use tollgate_types::Unavailable;
use tollgate_types::{KeyId, MaybeReady};
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

/// Why a key is refused. Callers all get the same answer; this is for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It has not the form of a key, or a wrong checksum.
    Malformed,
    /// No key has this text.
    Unknown,
    /// It was revoked.
    Revoked(KeyId),
    /// It has expired.
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

/// Why a look-up finds no active key.
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

    /// Looks up a credential as the client sent it: in memory, or by a future that must be awaited on a tokio
    /// runtime. The load of a key begins only then, and takes at most [`DirectorySettings::load_timeout`]. If its
    /// caller has left, it goes on for the next one.
    pub fn lookup(&self, credential: &str) -> MaybeReady<Result<Arc<KeyRecord>, LookupFailure>> {
        if key::check(credential).is_err() {
            return MaybeReady::ready(Err(LookupFailure::Refused(Refusal::Malformed)));
        }
        let shared = &self.0.shared;
        let hash = shared.hasher.hash_text(credential);
        match shared.cache.get(&hash) {
            Some(cached) => MaybeReady::ready(shared.judge(cached)),
            None => MaybeReady::pending(load(Arc::clone(&self.0), hash)),
        }
    }

    /// The health of the directory.
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
    fn judge(&self, cached: Cached) -> Result<Arc<KeyRecord>, LookupFailure> {
        let refusal = match cached {
            Cached::Unknown => Refusal::Unknown,
            Cached::Known(record) => match record.state(self.clock.now()) {
                KeyState::Active => return Ok(record),
                KeyState::Revoked => Refusal::Revoked(record.id().clone()),
                KeyState::Expired => Refusal::Expired(record.id().clone()),
            },
        };
        Err(LookupFailure::Refused(refusal))
    }

    /// Waits for a load, for `load_timeout` at most.
    async fn wait_for(&self, load: Waiting) -> Loaded {
        tokio::time::timeout(self.settings.load_timeout, load)
            .await
            .map_err(|_| Unavailable::TimedOut)?
            .unwrap_or(Err(Unavailable::Closed))
    }
}

/// Loads a key from the store.
async fn load(directory: Arc<Inner>, hash: KeyHash) -> Result<Arc<KeyRecord>, LookupFailure> {
    let shared = Arc::clone(&directory.shared);
    // It may have come into memory since the look-up.
    let cached = match shared.cache.get(&hash) {
        Some(cached) => cached,
        None => {
            let load = directory.flights.join(hash)?;
            // The directory must be able to close while callers wait.
            drop(directory);
            shared.wait_for(load).await?
        }
    };
    shared.judge(cached)
}

/// The cached result of a load.
type Loaded = Result<Cached, Unavailable>;

#[cfg(test)]
mod tests;
