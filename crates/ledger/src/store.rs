//! The file that remembers: opening it, and administering the keys in it.
//!
//! One SQLite file in WAL mode, so that the command line writes while a gateway
//! reads. Writes are `synchronous = FULL`: in WAL mode `NORMAL` may lose the last
//! commits when the power fails, and a revocation that comes back is a security
//! hole. No request ever waits for one of these commits.
//!
//! What the request path sees of it is in `directory`; the schema and its
//! versions are in `schema`.

mod backup;
mod commits;
mod error;
mod extensions;
mod grants;
mod keys;
mod once;
mod open;
mod plans;
mod schema;
mod sequence;
mod sums;
mod verify;
mod write;

pub use error::StoreError;
pub(crate) use error::{storable_time, stored_time};
pub use grants::{GrantTerms, GrantView};
pub use keys::{CreatedKey, KeyFilter, KeySelector, Revocation};
pub(crate) use keys::{lookup_sql, read_key};
pub use once::OrderName;
pub(crate) use open::{
    create_file, data_version, open_memory_writer, open_reader, open_settling_writer,
};
pub use plans::{PlanInUse, plans_beyond};
pub use schema::check_pepper;
pub use verify::Verification;
pub(crate) use write::{WriteConnection, WriteTransaction};
#[cfg(test)]
pub(crate) use {open::open_writer, write::edit};

use crate::{clock::Clock, key::KeyHasher};
use error::Described;
use open::{Loss, open_despite};
use parking_lot::Mutex;
use rusqlite::{Connection, Transaction};
use std::path::{Path, PathBuf};

/// An open ledger file, for administration.
///
/// Calls block on the disk: for a command line or an administration runtime, never
/// for a request thread. Several processes may have the same file open.
pub struct Store {
    path: PathBuf,
    hasher: KeyHasher,
    clock: Clock,
    connection: Mutex<WriteConnection>,
}

impl Store {
    /// Opens the file, makes it where there is none (readable by its owner alone),
    /// and brings an older one up to date.
    ///
    /// # Errors
    /// The file is not a ledger, damaged, locked, read-only, made by a newer program
    /// or under another pepper, lacks commits, or its folder does not exist.
    pub fn open(
        path: impl Into<PathBuf>,
        hasher: KeyHasher,
        clock: Clock,
    ) -> Result<Self, StoreError> {
        Self::open_with(path.into(), hasher, clock, Loss::Refuse)
    }

    /// Opens a file that [`Store::open`] refuses because it lacks commits, or of which
    /// [`Store::verify`] says that its rows are not those that were committed. From here on what
    /// is in it counts.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn accept_loss(
        path: impl Into<PathBuf>,
        hasher: KeyHasher,
        clock: Clock,
    ) -> Result<Self, StoreError> {
        let store = Self::open_with(path.into(), hasher, clock, Loss::Accept)?;
        store.accept_rows()?;
        Ok(store)
    }

    fn open_with(
        path: PathBuf,
        hasher: KeyHasher,
        clock: Clock,
        loss: Loss,
    ) -> Result<Self, StoreError> {
        let connection = open_despite(&path, loss)?;
        schema::bind_pepper(&connection, &hasher.fingerprint()).described(&path)??;
        // By whatever names processes know one file, they must find each other's settlement files
        // beside it. One that cannot be resolved was opened by this name all the same.
        let path = std::fs::canonicalize(&path).unwrap_or(path);
        Ok(Self {
            path,
            hasher,
            clock,
            connection: Mutex::new(connection),
        })
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The clock that decides what has expired.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(crate) fn hasher(&self) -> &KeyHasher {
        &self.hasher
    }

    fn read<T>(
        &self,
        query: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        query(&self.connection.lock()).described(&self.path)
    }

    /// Runs `change` in one transaction that holds the write lock from the start, so
    /// that it never fails half-way on somebody else's lock.
    fn write<T>(
        &self,
        change: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let connection = self.connection.lock();
        let changed = connection.change(|transaction| change(transaction));
        // The client gets its answer after this commit: a loss of it must be noticed.
        connection.sync_sequence();
        changed.described(&self.path)
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
