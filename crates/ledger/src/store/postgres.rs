//! The database as a PostgreSQL database (15 or newer), which the gateways of several machines share.
//!
//! The client is the blocking one of the crate `postgres`: every caller of the trait is a thread that
//! may wait, and drives its connection itself, without another thread in between. A process has a
//! connection of its own, and so have its renewals, the readers of changes, the leases of limits and the thread
//! that drops old weeks; everything else shares a small, bounded set.

mod answers;
mod changes;
mod connection;
mod copy;
mod error;
mod history;
mod leases;
mod limits;
mod listener;
mod plans;
mod process;
mod purge;
mod report;
mod schema;
mod server;
mod settle;
mod statements;
mod stored;
mod verify;

use super::{
    GrantView, KeyUse, NewGrants, OrderName, PlanInUse, StoreError, Verification,
    copy::{Contents, Rows, Sink, Source},
    database::{
        AnswerChange, AnswersChanged, Database, GrantsAdded, KeyChange, KeyChanges, KeyLookup,
        KeyQuery, Outcome, Process, Wake,
    },
    statements::{grants, keys, memory, usage},
    stored_values::{amount, storable, storable_time},
};
use crate::{
    clock::Timestamp,
    history::{Direction, Found, HistoryQuery, UsageSummary},
    key::KeyHash,
    limits::{LimitClaim, LimitLease},
    memory::{MemoryLimits, Remembered},
    ownership::{Stored, Unpaid},
    record::KeyRecord,
    report::{ReportQuery, ReportRow, RequestRecord},
};
use bytes::Bytes;
use connection::{Connection, Pool, Session};
use listener::Listener;
use parking_lot::Mutex;
use process::PostgresProcess;
pub use server::{Server, ServerTls};
use std::{
    borrow::Cow,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tollgate_types::{KeyId, RequestId};

/// How a database on a PostgreSQL server is used.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// The database.
    pub server: Arc<Server>,
    /// The path beside which the settlement files of this machine lie; their names begin with its name.
    pub local: PathBuf,
    /// Most connections besides the one of a process that spends, those for changes and the one for limits.
    pub connections: usize,
    /// How long a process that cannot reach the database keeps its leases; it stops admitting requests
    /// before.
    pub lease_term: Duration,
}

/// The database, under one pepper.
pub(crate) struct Postgres {
    settings: ServerSettings,
    pool: Pool,
    /// For the changes of keys: a revocation does not wait for reports.
    watching: Mutex<Connection>,
    /// For shares of limits.
    leasing: Mutex<Connection>,
    listener: Listener,
}

impl Postgres {
    /// Connects, and checks version and pepper. Makes no table.
    pub(crate) fn open(settings: ServerSettings, pepper: &KeyHash) -> Result<Self, StoreError> {
        let server = Arc::clone(&settings.server);
        let database = Self {
            pool: Pool::new(Arc::clone(&server), settings.connections.max(1)),
            watching: Mutex::new(Connection::new(Arc::clone(&server))),
            leasing: Mutex::new(Connection::new(Arc::clone(&server))),
            listener: Listener::new(Arc::clone(&server)),
            settings,
        };
        database.pool.with(|connection| {
            schema::check(connection, server.place())?;
            schema::check_permissions(connection, &server)?;
            schema::bind_pepper(connection, pepper)
        })?;
        Ok(database)
    }

    fn change<T>(
        &self,
        change: impl FnMut(&mut Session) -> Result<T, postgres::Error>,
    ) -> Result<T, StoreError> {
        self.pool.with(|connection| connection.change(change))
    }

    /// Runs statements that see one snapshot.
    fn read<T>(
        &self,
        read: impl FnMut(&mut Session) -> Result<T, postgres::Error>,
    ) -> Result<T, StoreError> {
        self.pool.with(|connection| connection.read(read))
    }

    /// Runs one statement that changes nothing.
    fn ask<T>(
        &self,
        ask: impl FnMut(&mut Session) -> Result<T, postgres::Error>,
    ) -> Result<T, StoreError> {
        self.pool.with(|connection| connection.run(ask))
    }

    /// The same for a client's request.
    fn ask_for_request<T>(
        &self,
        ask: impl FnMut(&mut Session) -> Result<T, postgres::Error>,
    ) -> Result<T, StoreError> {
        self.pool.for_request(|connection| connection.run(ask))
    }
}

impl Database for Postgres {
    fn path(&self) -> &Path {
        &self.settings.local
    }

    fn lease_term(&self) -> Option<Duration> {
        Some(self.settings.lease_term)
    }

    fn add_key(
        &self,
        key: &KeyRecord,
        hash: &KeyHash,
        grants: Option<&NewGrants<'_>>,
        order: Option<&OrderName>,
    ) -> Result<Outcome, StoreError> {
        self.change(|session| keys::add(session, key, hash, grants, order))
    }

    fn keys(&self, query: &KeyQuery<'_>) -> Result<Vec<KeyRecord>, StoreError> {
        self.ask(|session| keys::find(session, query))?
    }

    fn change_key(
        &self,
        key: &KeyId,
        change: &KeyChange<'_>,
        now: Timestamp,
    ) -> Result<Outcome, StoreError> {
        self.change(|session| keys::change(session, key, change, now))
    }

    fn add_grants(
        &self,
        key: &KeyId,
        grants: &NewGrants<'_>,
        now: Timestamp,
    ) -> Result<GrantsAdded, StoreError> {
        self.change(|session| grants::add(session, key, grants, now))
    }

    fn grants(&self, key: &KeyId) -> Result<Vec<GrantView>, StoreError> {
        self.ask(|session| grants::of_key(session, key))
    }

    fn plans_beyond(
        &self,
        known: &[&str],
        most: u32,
        now: Timestamp,
    ) -> Result<Vec<PlanInUse>, StoreError> {
        self.ask(|session| plans::select(session, known, most, now))
    }

    fn most_used(&self, now: Timestamp, limit: u32) -> Result<Vec<KeyUse>, StoreError> {
        self.ask(|session| grants::most_used(session, now, limit))
    }

    fn look_up_key(&self, hash: &KeyHash) -> Result<KeyLookup, StoreError> {
        self.ask_for_request(|session| keys::look_up(session, hash))?
    }

    fn changes_since(&self, seen: Option<i64>) -> Result<KeyChanges, StoreError> {
        let mut connection = self.watching.lock();
        connection.read(|session| changes::since(session, seen))
    }

    fn wake_on_changes(&self, wake: &Wake) -> Result<(), StoreError> {
        self.listener.add(wake)
    }

    fn begin_process(&self, journal: &str, now: Timestamp) -> Result<Box<dyn Process>, StoreError> {
        let process =
            PostgresProcess::begin(self.pool.separate(), journal, self.settings.lease_term, now)?;
        Ok(Box::new(process))
    }

    fn history(
        &self,
        key: &KeyId,
        query: &HistoryQuery,
        direction: Direction,
        limit: usize,
    ) -> Result<Found, StoreError> {
        self.read(|session| history::find(session, key, query, direction, limit))
    }

    fn summary(&self, key: &KeyId, now: Timestamp) -> Result<UsageSummary, StoreError> {
        self.read(|session| usage::summary(session, key, now))
    }

    fn report(
        &self,
        query: &ReportQuery,
        each: &mut dyn FnMut(ReportRow) -> bool,
    ) -> Result<(), StoreError> {
        self.read(|session| report::report(session, query, each))
    }

    fn request(&self, id: &RequestId) -> Result<Option<RequestRecord>, StoreError> {
        self.ask_for_request(|session| usage::request(session, id, settle::earliest(id)))
    }

    fn stored(&self, ids: &[&str]) -> Result<Vec<Stored>, StoreError> {
        self.ask_for_request(|session| stored::find(session, ids))
    }

    fn shown_by(&self, response: &str) -> Result<Vec<Unpaid>, StoreError> {
        self.ask_for_request(|session| stored::shown_by(session, response))
    }

    fn answer(
        &self,
        key: &KeyId,
        id: RequestId,
        since: Timestamp,
    ) -> Result<Option<Remembered>, StoreError> {
        self.ask_for_request(|session| memory::answer(session, key, id, since))
    }

    fn response(
        &self,
        key: &KeyId,
        id: RequestId,
        since: Timestamp,
    ) -> Result<Option<Bytes>, StoreError> {
        self.ask_for_request(|session| memory::response(session, key, id, since))
    }

    fn change_answers(
        &self,
        changes: &[AnswerChange<'_>],
        limits: Option<MemoryLimits>,
        most: u64,
        now: Timestamp,
    ) -> Result<AnswersChanged, StoreError> {
        self.change(|session| answers::change(session, changes, limits, most, now))
    }

    fn expire_answers(
        &self,
        now: Timestamp,
        age: Duration,
        most_bytes: u64,
    ) -> Result<u64, StoreError> {
        self.pool
            .with(|connection| answers::expire(connection, now, age, most_bytes))
    }

    fn lease_limits(
        &self,
        node: &str,
        expected: u32,
        claims: &[LimitClaim],
    ) -> Result<Vec<LimitLease>, StoreError> {
        let report = limits::Report::of(claims).map_err(|fault| StoreError::Other {
            path: self.settings.server.place().to_owned(),
            cause: format!("the claims of limits cannot be encoded: {fault}"),
        })?;
        let mut connection = self.leasing.lock();
        connection.run(|session| limits::lease(session, node, expected, &report))
    }

    fn verify(&self) -> Result<Verification, StoreError> {
        self.read(verify::verify)
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

    fn backup(&self, _: &Path) -> Result<(), StoreError> {
        Err(StoreError::Other {
            path: self.settings.server.place().to_owned(),
            cause: "a PostgreSQL database is copied by pg_dump".to_owned(),
        })
    }
}

/// Makes the tables of an empty database, or brings those of an older program up to date. Returns how
/// many steps were missing.
///
/// # Errors
/// The database cannot be reached or changed, or is that of a newer program.
pub fn migrate(server: &Arc<Server>) -> Result<usize, StoreError> {
    let mut connection = Connection::new(Arc::clone(server));
    schema::migrate(&mut connection, server.place())
}

fn milliseconds(span: Duration) -> i64 {
    storable(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
}

/// Text without the one character that PostgreSQL has none for.
fn plain(text: &str) -> Cow<'_, str> {
    if text.contains('\0') {
        text.replace('\0', "\u{FFFD}").into()
    } else {
        text.into()
    }
}

#[cfg(test)]
mod tests;
