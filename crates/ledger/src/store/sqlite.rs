//! The database as one SQLite file in WAL mode, so that the command line writes while a gateway
//! reads.
//!
//! Writes are `synchronous = FULL`: in WAL mode `NORMAL` may lose the last commits when the power
//! fails, and a revocation that comes back is a security hole. No request waits for these commits.
//! Remembered answers alone are written without, over a connection of their own.

mod answers;
mod backup;
mod changes;
mod commits;
mod copy;
mod error;
mod glance;
mod history;
mod leases;
mod open;
mod plans;
mod process;
mod purge;
mod quarantine;
mod records;
mod recover;
mod report;
mod schema;
mod sequence;
mod settle;
mod statements;
mod stored;
mod sums;
mod times;
mod verify;
mod write;

#[cfg(test)]
pub(crate) mod testing;

pub use glance::{Glance, glance};
pub(crate) use open::Loss;
pub use plans::plans_beyond;
pub use schema::check_pepper;

use super::{
    GrantView, KeyUse, NewGrants, OrderName, PlanInUse, StoreError, Verification,
    copy::{Contents, Rows, Sink, Source},
    database::{
        AnswerChange, AnswersChanged, Database, GrantsAdded, KeyChange, KeyChanges, KeyLookup,
        KeyQuery, Outcome, Process,
    },
    statements::{grants, keys, memory, usage},
    stored_values::{amount, storable, storable_time},
};
use crate::{
    clock::Timestamp,
    history::{Direction, Found, HistoryQuery, UsageSummary},
    key::KeyHash,
    memory::{MemoryLimits, Remembered},
    ownership::{Stored, Unpaid},
    record::KeyRecord,
    report::{ReportQuery, ReportRow, RequestRecord},
};
use bytes::Bytes;
use error::Described;
use open::{open_despite, open_memory_writer, open_reader};
use parking_lot::Mutex;
use process::SqliteProcess;
use rusqlite::Connection;
use std::{
    path::{Path, PathBuf},
    time::Duration,
};
use tollgate_types::{KeyId, RequestId};
use write::WriteConnection;

/// Connections for reading that are kept open.
const KEPT_READERS: usize = 8;

/// The open file.
pub(crate) struct Sqlite {
    path: PathBuf,
    writer: Mutex<WriteConnection>,
    /// Opened by the first write of an answer.
    answers: Mutex<Option<Connection>>,
    readers: Mutex<Vec<Connection>>,
}

impl Sqlite {
    /// Opens the file, makes it if there is none, and brings an older one up to date. If the loss is
    /// accepted, what is in the file counts from here on.
    ///
    /// # Errors
    /// The file is not a ledger, damaged, locked, read-only, made by a newer program or under another
    /// pepper, lacks commits, or its folder does not exist.
    pub(crate) fn open(path: PathBuf, pepper: &KeyHash, loss: Loss) -> Result<Self, StoreError> {
        let writer = open_despite(&path, loss)?;
        schema::bind_pepper(&writer, pepper).described(&path)??;
        // By whatever names processes know one file, they must find each other's settlement files
        // beside it. A path that cannot be resolved was opened by this name all the same.
        let path = std::fs::canonicalize(&path).unwrap_or(path);
        let database = Self {
            path,
            writer: Mutex::new(writer),
            answers: Mutex::new(None),
            readers: Mutex::default(),
        };
        if loss == Loss::Accept {
            database.accept_rows()?;
        }
        Ok(database)
    }

    /// Reads over a connection of its own, which is kept for the next reader.
    fn read<T>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let kept = self.readers.lock().pop();
        let file = match kept {
            Some(file) => file,
            None => open_reader(&self.path)?,
        };
        let result = read(&file).described(&self.path)?;
        let mut readers = self.readers.lock();
        if readers.len() < KEPT_READERS {
            readers.push(file);
        }
        Ok(result)
    }

    /// Runs `change` in one transaction that takes the write lock from the start, so that it never
    /// fails half-way on the lock of another process.
    fn write<T>(
        &self,
        change: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let writer = self.writer.lock();
        let changed = writer.change(|transaction| change(transaction));
        // The client gets its answer after this commit: a loss of it must be noticed.
        writer.sync_sequence();
        changed.described(&self.path)
    }

    fn write_answers<T>(
        &self,
        write: impl FnOnce(&mut Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let mut kept = self.answers.lock();
        let file = match kept.take() {
            Some(file) => file,
            None => open_memory_writer(&self.path)?,
        };
        write(kept.insert(file)).described(&self.path)
    }
}

impl Database for Sqlite {
    fn path(&self) -> &Path {
        &self.path
    }

    fn add_key(
        &self,
        key: &KeyRecord,
        hash: &KeyHash,
        grants: Option<&NewGrants<'_>>,
        order: Option<&OrderName>,
    ) -> Result<Outcome, StoreError> {
        self.write(|mut file| keys::add(&mut file, key, hash, grants, order))
    }

    fn keys(&self, query: &KeyQuery<'_>) -> Result<Vec<KeyRecord>, StoreError> {
        self.read(|mut file| keys::find(&mut file, query))?
    }

    fn change_key(
        &self,
        key: &KeyId,
        change: &KeyChange<'_>,
        now: Timestamp,
    ) -> Result<Outcome, StoreError> {
        self.write(|mut file| keys::change(&mut file, key, change, now))
    }

    fn add_grants(
        &self,
        key: &KeyId,
        grants: &NewGrants<'_>,
        now: Timestamp,
    ) -> Result<GrantsAdded, StoreError> {
        self.write(|mut file| grants::add(&mut file, key, grants, now))
    }

    fn grants(&self, key: &KeyId) -> Result<Vec<GrantView>, StoreError> {
        self.read(|mut file| grants::of_key(&mut file, key))
    }

    fn plans_beyond(
        &self,
        known: &[&str],
        most: u32,
        now: Timestamp,
    ) -> Result<Vec<PlanInUse>, StoreError> {
        self.read(|file| plans::select(file, known, most, now))
    }

    fn most_used(&self, now: Timestamp, limit: u32) -> Result<Vec<KeyUse>, StoreError> {
        self.read(|mut file| grants::most_used(&mut file, now, limit))
    }

    fn look_up_key(&self, hash: &KeyHash) -> Result<KeyLookup, StoreError> {
        self.read(|mut file| keys::look_up(&mut file, hash))?
    }

    fn changes_since(&self, seen: Option<i64>) -> Result<KeyChanges, StoreError> {
        self.read(|file| changes::since(file, seen))
    }

    fn begin_process(&self, journal: &str, now: Timestamp) -> Result<Box<dyn Process>, StoreError> {
        let process = SqliteProcess::begin(&self.path, journal, now)?;
        Ok(Box::new(process))
    }

    fn history(
        &self,
        key: &KeyId,
        query: &HistoryQuery,
        direction: Direction,
        limit: usize,
    ) -> Result<Found, StoreError> {
        self.read(|file| history::find(file, key, query, direction, limit, &history::EFFORT))
    }

    fn summary(&self, key: &KeyId, now: Timestamp) -> Result<UsageSummary, StoreError> {
        self.read(|mut file| usage::summary(&mut file, key, now))
    }

    fn report(
        &self,
        query: &ReportQuery,
        each: &mut dyn FnMut(ReportRow) -> bool,
    ) -> Result<(), StoreError> {
        self.read(|file| report::report(file, query, each))
    }

    fn request(&self, id: &RequestId) -> Result<Option<RequestRecord>, StoreError> {
        self.read(|mut file| usage::request(&mut file, id, i64::MIN))
    }

    fn stored(&self, ids: &[&str]) -> Result<Vec<Stored>, StoreError> {
        self.read(|file| stored::find(file, ids))
    }

    fn shown_by(&self, response: &str) -> Result<Vec<Unpaid>, StoreError> {
        self.read(|file| stored::shown_by(file, response))
    }

    fn answer(
        &self,
        key: &KeyId,
        id: RequestId,
        since: Timestamp,
    ) -> Result<Option<Remembered>, StoreError> {
        self.read(|mut file| memory::answer(&mut file, key, id, since))
    }

    fn response(
        &self,
        key: &KeyId,
        id: RequestId,
        since: Timestamp,
    ) -> Result<Option<Bytes>, StoreError> {
        self.read(|mut file| memory::response(&mut file, key, id, since))
    }

    fn change_answers(
        &self,
        changes: &[AnswerChange<'_>],
        limits: Option<MemoryLimits>,
        most: u64,
        now: Timestamp,
    ) -> Result<AnswersChanged, StoreError> {
        self.write_answers(|file| answers::change(file, changes, limits, most, now))
    }

    fn expire_answers(
        &self,
        now: Timestamp,
        age: Duration,
        most_bytes: u64,
    ) -> Result<u64, StoreError> {
        self.write_answers(|file| answers::expire(file, now.minus(age), most_bytes))
    }

    fn verify(&self) -> Result<Verification, StoreError> {
        self.verify_file()
    }

    fn contents(&self) -> Result<Contents, StoreError> {
        self.copied_contents()
    }

    fn read_out(&self, rows: Rows, sink: &mut Sink<'_>) -> Result<(), StoreError> {
        self.read_rows(rows, sink)
    }

    fn fill(&self, source: &mut Source<'_>, first: Option<i64>) -> Result<(), StoreError> {
        self.fill_with(source, first)
    }

    fn backup(&self, target: &Path) -> Result<(), StoreError> {
        self.copy_file(target)
    }
}

#[cfg(test)]
mod tests;
