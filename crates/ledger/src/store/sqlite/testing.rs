//! What tests of other modules do to the file behind the back of the ledger.

use super::open::open_writer;
pub(crate) use super::process::SqliteProcess;
pub(crate) use super::write::edit;
use crate::clock::Timestamp;
pub(crate) use rusqlite::types::FromSql as Value;
use rusqlite::{
    Connection, StatementStatus,
    trace::{TraceEvent, TraceEventCodes},
};
use std::{cell::RefCell, collections::BTreeMap, path::Path, time::Duration};

thread_local! {
    /// The most steps of the virtual machine that a prepared form of each statement has taken on this thread.
    static STEPS: RefCell<BTreeMap<String, i32>> = const { RefCell::new(BTreeMap::new()) };
}

/// Counts the steps of a connection's statements.
pub(super) fn count_steps(connection: &mut Connection) -> rusqlite::Result<()> {
    let note = |event: TraceEvent<'_>| {
        if let TraceEvent::Profile(statement, _) = event {
            let steps = statement.get_status(StatementStatus::VmStep);
            // A thread that ends may close its connections last.
            let _ = STEPS.try_with(|all| {
                let sql = statement.sql().into_owned();
                let most = steps.max(all.borrow().get(&sql).copied().unwrap_or(0));
                all.borrow_mut().insert(sql, most);
            });
        }
    };
    connection.trace_v2(TraceEventCodes::SQLITE_TRACE_PROFILE, Some(note))
}

/// The steps since the last call.
pub(super) fn take_steps() -> BTreeMap<String, i32> {
    STEPS.take()
}

/// The one value that a query gives.
pub(crate) fn value<T: Value>(path: &Path, sql: &str) -> T {
    let file = Connection::open(path).unwrap();
    file.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// The first column of the rows that a query gives.
pub(crate) fn values<T: Value>(path: &Path, sql: &str) -> Result<Vec<T>, String> {
    let read = || -> rusqlite::Result<Vec<T>> {
        let file = Connection::open(path)?;
        let mut query = file.prepare(sql)?;
        let rows = query.query_map([], |row| row.get(0))?;
        rows.collect()
    };
    read().map_err(|fault| fault.to_string())
}

/// Executes statements without the sums of rows, as another program does.
pub(crate) fn execute(path: &Path, sql: &str) {
    Connection::open(path).unwrap().execute_batch(sql).unwrap();
}

/// A connection of another program.
pub(crate) struct Other(Connection);

impl Other {
    /// Takes the write lock.
    pub(crate) fn lock(path: &Path) -> Self {
        Self::begin(path, "BEGIN IMMEDIATE")
    }

    /// Reads, and keeps its snapshot.
    pub(crate) fn read(path: &Path) -> Self {
        Self::begin(path, "BEGIN; SELECT count(*) FROM usage")
    }

    fn begin(path: &Path, sql: &str) -> Self {
        let file = Connection::open(path).unwrap();
        file.execute_batch(sql).unwrap();
        Self(file)
    }

    /// Ends the transaction.
    pub(crate) fn end(self) {
        self.0.execute_batch("ROLLBACK").unwrap();
    }
}

/// Moves the write-ahead log into the file.
pub(crate) fn checkpoint(path: &Path) {
    let file = open_writer(path).unwrap();
    assert!(file.checkpoint(Duration::from_secs(20)).unwrap());
}

/// A process whose commits need not survive the machine.
pub(crate) fn process(path: &Path, now: Timestamp) -> SqliteProcess {
    let process = SqliteProcess::begin(path, "a-test", now).unwrap();
    process
        .file
        .pragma_update(None, "synchronous", "off")
        .unwrap();
    process
}

/// Calls `waits` when a statement of the process waits for the lock of another program.
pub(crate) fn when_it_waits(process: &mut SqliteProcess, waits: fn(i32) -> bool) {
    let file = process.file.connection();
    file.busy_handler(Some(waits)).unwrap();
}
