//! The handle on the database: opening it, and administering the keys in it.
//!
//! What a database does stands in the trait [`Database`](database::Database); `sqlite` and `postgres`
//! implement it. Operations that need the same SQL in both stand in `statements`.
//! The request path sees the database through `directory`, `ledger`, `ownership` and `memory`.

#[cfg(test)]
pub(crate) mod conformance;
mod copy;
pub(crate) mod database;
mod error;
mod grants;
mod keys;
mod order;
mod postgres;
mod rows;
pub(crate) mod sqlite;
mod statements;
mod stored_values;
mod times;
mod verification;

pub use copy::Copied;
pub use error::StoreError;
pub(crate) use grants::NewGrants;
pub use grants::{GrantTerms, GrantView, KeyUse};
pub use keys::{CreatedKey, KeyFilter, KeySelector, PlanInUse, Revocation};
pub use order::OrderName;
pub use postgres::{Server, ServerSettings, ServerTls, migrate};
pub use sqlite::{Glance, check_pepper, glance, plans_beyond};
pub use verification::Verification;

use crate::{clock::Clock, key::KeyHasher};
use database::Database;
use postgres::Postgres;
use sqlite::{Loss, Sqlite};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// An open database, the pepper of its keys, and the clock.
///
/// Calls block on the disk: they are for a command line or an administration runtime, never for a
/// request thread. Several processes may have the same database open.
pub struct Store {
    database: Arc<dyn Database>,
    hasher: KeyHasher,
    clock: Clock,
}

impl Store {
    /// Opens the file, makes it if there is none (readable by its owner alone), and brings an older one
    /// up to date.
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

    /// Opens a database on a PostgreSQL server, whose tables [`migrate`] has made.
    ///
    /// # Errors
    /// The server cannot be reached or refuses this client, or the database has no tables of this
    /// version or was made under another pepper.
    pub fn open_on_server(
        settings: ServerSettings,
        hasher: KeyHasher,
        clock: Clock,
    ) -> Result<Self, StoreError> {
        let database = Postgres::open(settings, &hasher.fingerprint())?;
        Ok(Self::over(Arc::new(database), hasher, clock))
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
        Self::open_with(path.into(), hasher, clock, Loss::Accept)
    }

    fn open_with(
        path: PathBuf,
        hasher: KeyHasher,
        clock: Clock,
        loss: Loss,
    ) -> Result<Self, StoreError> {
        let database = Sqlite::open(path, &hasher.fingerprint(), loss)?;
        Ok(Self::over(Arc::new(database), hasher, clock))
    }

    /// Over a database that was opened under the pepper of `hasher`.
    pub(crate) fn over(database: Arc<dyn Database>, hasher: KeyHasher, clock: Clock) -> Self {
        Self {
            database,
            hasher,
            clock,
        }
    }

    /// Where the database is, or, if it is on a server, the settlement files of this machine.
    pub fn path(&self) -> &Path {
        self.database.path()
    }

    /// The clock that decides what has expired.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(crate) fn hasher(&self) -> &KeyHasher {
        &self.hasher
    }

    pub(crate) fn database(&self) -> &Arc<dyn Database> {
        &self.database
    }

    /// Checks the database and everything in it that must add up, in one snapshot. Takes as long as
    /// reading all of it; blocks no writer.
    ///
    /// # Errors
    /// The database cannot be read at all.
    pub fn verify(&self) -> Result<Verification, StoreError> {
        self.database.verify()
    }

    /// Writes a copy to `target`, which must not exist; when this returns, it is on the disk. One
    /// snapshot, which blocks no writer. Settlements of the last moments that are only in a settlement
    /// file are not in it.
    ///
    /// The copy has no lease: a process that opens it begins anew.
    ///
    /// # Errors
    /// `target` exists or cannot be written, or the database cannot be read. Nothing is left at
    /// `target` then.
    pub fn backup(&self, target: &Path) -> Result<(), StoreError> {
        self.database.backup(target)
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store")
            .field("path", &self.path())
            .finish_non_exhaustive()
    }
}
