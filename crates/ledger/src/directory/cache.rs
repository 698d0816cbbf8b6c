//! The cache of a directory, and its protection against stale records.
//!
//! Two caches, sharded, bounded, with an eviction that one pass over many keys does
//! not upset: keys that exist, and hashes that no key has. A read takes
//! one shard's read lock and clones an `Arc`; both are one atomic operation, and the
//! second is there under any scheme that hands records out.
//!
//! The race that matters: a load reads the old row, the key is revoked, the watcher
//! forgets the key (nothing is there yet), the load remembers the old row. Against it
//! every load carries the change sequence of the snapshot that it read, the watcher
//! publishes the sequence that it has reached *before* it forgets. The load looks at
//! that sequence *after* it has remembered: if it is newer than the snapshot, the load forgets what it
//! remembered.
//!
//! The resources that a key's requests hold ([`KeyShares`]) are kept when its record is forgotten: a key
//! that changes while it has requests in flight keeps its counts.

use crate::{
    bounded_cache::{BoundedCache, bounded_cache},
    key::KeyHash,
    record::KeyRecord,
};
use std::{
    convert::Infallible,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};
use tollgate_types::KeyShares;

/// The cached fact about a hash.
#[derive(Clone, Debug)]
pub(super) enum Cached {
    /// A key, whatever its state.
    Known(Arc<KeyRecord>),
    /// No key has this hash.
    Unknown,
}

pub(super) struct KeyCache {
    known: BoundedCache<KeyHash, Arc<KeyRecord>>,
    unknown: BoundedCache<KeyHash, ()>,
    /// The resources that the requests of each key hold, independent of its record.
    shares: BoundedCache<KeyHash, KeyShares>,
    /// The change sequence up to which everything stale has been forgotten, or is
    /// about to be.
    reached: AtomicI64,
}

impl KeyCache {
    pub(super) fn new(known: usize, unknown: usize) -> Self {
        const AT_START: usize = 1024;
        Self {
            known: bounded_cache(known, AT_START),
            unknown: bounded_cache(unknown, AT_START),
            shares: bounded_cache(known, AT_START),
            reached: AtomicI64::new(0),
        }
    }

    pub(super) fn get(&self, hash: &KeyHash) -> Option<Cached> {
        if let Some(record) = self.known.get(hash) {
            return Some(Cached::Known(record));
        }
        self.unknown.get(hash).map(|()| Cached::Unknown)
    }

    /// The resources that the requests of a key hold; all records of the key share them.
    pub(super) fn shares(&self, hash: &KeyHash) -> KeyShares {
        let none = || Ok::<_, Infallible>(KeyShares::default());
        let Ok(shares) = self.shares.get_or_insert_with(hash, none);
        shares
    }

    /// Remembers what a snapshot at change sequence `seq` said. `false`: something has
    /// changed since, nothing was kept, and the answer may be out of date.
    pub(super) fn remember(&self, hash: KeyHash, seq: i64, cached: &Cached) -> bool {
        match cached {
            Cached::Known(record) => self.known.insert(hash, Arc::clone(record)),
            Cached::Unknown => self.unknown.insert(hash, ()),
        }
        let current = self.reached.load(Ordering::SeqCst) <= seq;
        if !current {
            self.forget_one(&hash);
        }
        current
    }

    /// Forgets keys that changed, up to change sequence `seq`.
    pub(super) fn forget(&self, seq: i64, hashes: &[KeyHash]) {
        self.reached.store(seq, Ordering::SeqCst);
        for hash in hashes {
            self.forget_one(hash);
        }
    }

    /// Forgets everything.
    pub(super) fn forget_all(&self, seq: i64) {
        self.reached.store(seq, Ordering::SeqCst);
        self.known.clear();
        self.unknown.clear();
    }

    fn forget_one(&self, hash: &KeyHash) {
        self.known.remove(hash);
        self.unknown.remove(hash);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> (usize, usize) {
        (self.known.len(), self.unknown.len())
    }
}
