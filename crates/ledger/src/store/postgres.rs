//! The database as a PostgreSQL database (15 or newer), which several nodes share.
//!
//! The client is the blocking one of the crate `postgres`: every caller of the trait is a thread that
//! may wait. A process has a connection of its own; everything else shares a small, bounded set.

mod answers;
mod changes;
mod connection;
mod error;
mod grants;
mod history;
mod keys;
mod leases;
mod process;
mod quarantine;
mod schema;
mod settle;
mod stored;
mod verify;

use super::{
    GrantView, NewGrant, OrderName, StoreError, Verification,
    database::{
        AnswerChange, AnswersChanged, Database, GrantAdded, KeyChange, KeyChanges, KeyLookup,
        KeyQuery, Outcome, Process,
    },
};
use crate::{
    clock::Timestamp,
    history::{Direction, Found, HistoryQuery, UsageSummary},
    key::KeyHash,
    memory::{MemoryLimits, Remembered},
    ownership::{PaymentRecord, Shown, Stored},
    record::KeyRecord,
};
use ::postgres::{Config, Row, Transaction};
use bytes::Bytes;
use connection::Pool;
use process::PostgresProcess;
use std::path::{Path, PathBuf};
use tollgate_types::{KeyId, RequestId};

/// The database, under one pepper.
pub(crate) struct Postgres {
    /// The path beside which settlement files lie.
    path: PathBuf,
    pool: Pool,
}

impl Postgres {
    /// Connects, makes the tables in an empty database, and checks version and pepper.
    pub(crate) fn open(
        path: PathBuf,
        config: Config,
        pepper: &KeyHash,
    ) -> Result<Self, StoreError> {
        let database = Self {
            pool: Pool::new(config),
            path,
        };
        database
            .pool
            .with(|connection| schema::open(connection, pepper))?;
        Ok(database)
    }

    /// Runs a transaction.
    fn change<T>(
        &self,
        change: impl FnMut(&mut Transaction<'_>) -> Result<T, ::postgres::Error>,
    ) -> Result<T, StoreError> {
        self.pool.with(|connection| connection.change(change))
    }
}

impl Database for Postgres {
    fn path(&self) -> &Path {
        &self.path
    }

    fn add_key(
        &self,
        key: &KeyRecord,
        hash: &KeyHash,
        grant: Option<&NewGrant<'_>>,
        order: Option<&OrderName>,
    ) -> Result<Outcome, StoreError> {
        self.change(|transaction| keys::add(transaction, key, hash, grant, order))
    }

    fn keys(&self, query: &KeyQuery<'_>) -> Result<Vec<KeyRecord>, StoreError> {
        self.pool
            .with(|it| it.run(|client| keys::find(client, query)))?
    }

    fn change_key(
        &self,
        key: &KeyId,
        change: &KeyChange<'_>,
        now: Timestamp,
    ) -> Result<Outcome, StoreError> {
        self.change(|transaction| keys::change(transaction, key, change, now))
    }

    fn add_grant(
        &self,
        key: &KeyId,
        grant: &NewGrant<'_>,
        now: Timestamp,
    ) -> Result<GrantAdded, StoreError> {
        self.change(|transaction| grants::add(transaction, key, grant, now))
    }

    fn grants(&self, key: &KeyId) -> Result<Vec<GrantView>, StoreError> {
        self.change(|file| grants::of_key(file, key))
    }

    fn unleased(&self, key: &KeyId, now: Timestamp) -> Result<u64, StoreError> {
        self.change(|file| grants::unleased(file, key, now))
    }

    fn look_up_key(&self, hash: &KeyHash) -> Result<KeyLookup, StoreError> {
        self.pool
            .with(|it| it.run(|client| keys::look_up(client, hash)))?
    }

    fn changes_since(&self, seen: Option<i64>) -> Result<KeyChanges, StoreError> {
        self.change(|file| changes::since(file, seen))
    }

    fn begin_process(&self, journal: &str, now: Timestamp) -> Result<Box<dyn Process>, StoreError> {
        let process = PostgresProcess::begin(self.pool.separate(), journal, now)?;
        Ok(Box::new(process))
    }

    fn history(
        &self,
        key: &KeyId,
        query: &HistoryQuery,
        direction: Direction,
        limit: usize,
    ) -> Result<Found, StoreError> {
        self.change(|file| history::find(file, key, query, direction, limit))
    }

    fn summary(&self, key: &KeyId, now: Timestamp) -> Result<UsageSummary, StoreError> {
        self.change(|file| history::summary(file, key, now))
    }

    fn stored(&self, ids: &[&str]) -> Result<Vec<Stored>, StoreError> {
        self.change(|file| stored::find(file, ids))
    }

    fn payment(
        &self,
        response: &str,
        request: &RequestId,
        second: &RequestId,
    ) -> Result<PaymentRecord, StoreError> {
        self.change(|file| stored::payment(file, response, request, second))
    }

    fn shown_by(&self, response: &str) -> Result<Vec<Shown>, StoreError> {
        self.change(|file| stored::shown_by(file, response))
    }

    fn answer(
        &self,
        key: &KeyId,
        id: RequestId,
        since: Timestamp,
    ) -> Result<Option<Remembered>, StoreError> {
        self.change(|file| answers::answer(file, key, id, since))
    }

    fn response(
        &self,
        key: &KeyId,
        id: RequestId,
        since: Timestamp,
    ) -> Result<Option<Bytes>, StoreError> {
        self.change(|file| answers::response(file, key, id, since))
    }

    fn change_answers(
        &self,
        changes: &[AnswerChange<'_>],
        limits: Option<MemoryLimits>,
        most: u64,
        now: Timestamp,
    ) -> Result<AnswersChanged, StoreError> {
        self.change(|file| answers::change(file, changes, limits, most, now))
    }

    fn expire_answers(&self, before: Timestamp, most_bytes: u64) -> Result<u64, StoreError> {
        self.change(|file| answers::expire(file, before, most_bytes))
    }

    fn verify(&self) -> Result<Verification, StoreError> {
        self.change(verify::verify)
    }

    fn backup(&self, target: &Path) -> Result<(), StoreError> {
        let _ = target;
        Err(StoreError::Other {
            path: self.path.clone(),
            cause: "the ledger is in PostgreSQL: back it up with pg_dump".to_owned(),
        })
    }
}

/// Reads a stored time; `None` if it is before 1970.
fn stored_time(ms: i64) -> Option<Timestamp> {
    u64::try_from(ms).ok().map(Timestamp::from_unix_ms)
}

/// A time as it is stored; [`Timestamp::MAX`] is far below the limit.
fn storable_time(time: Timestamp) -> i64 {
    i64::try_from(time.unix_ms()).unwrap_or(i64::MAX)
}

/// An amount as it is stored. PostgreSQL's integers are signed; four quadrillion is more than any request
/// is charged, and sums of it stay far from the end.
fn storable(value: u64) -> i64 {
    const MOST: u64 = 1 << 52;
    i64::try_from(value.min(MOST)).unwrap_or(i64::MAX)
}

/// Reads a stored amount; one below zero cannot be, and counts as nothing.
fn amount(stored: i64) -> u64 {
    u64::try_from(stored).unwrap_or(0)
}

/// Reads an amount of a row.
fn unsigned(row: &Row, column: usize) -> Result<u64, postgres::Error> {
    row.try_get(column).map(amount)
}

#[cfg(test)]
mod tests;
