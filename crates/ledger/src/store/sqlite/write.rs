//! Writing the database: every transaction raises the number of commits and updates the sums of rows.

use super::{
    commits,
    sequence::{Known, Sequence},
    sums::{RowSums, Sums},
};
use rusqlite::{Connection, Transaction, TransactionBehavior, types::ValueRef};
use std::{ops::Deref, sync::Arc, time::Duration};

/// A connection that writes, only in transactions of [`WriteConnection::begin`].
pub(super) struct WriteConnection {
    connection: Connection,
    sums: Arc<RowSums>,
    /// `None` for a backup, whose commits are not counted.
    sequence: Option<Sequence>,
    /// How long a statement waits for another process's lock.
    patience: Duration,
}

impl WriteConnection {
    /// Wraps a connection to a database of the present format.
    pub(super) fn new(
        connection: Connection,
        sequence: Option<Sequence>,
        patience: Duration,
    ) -> rusqlite::Result<Self> {
        Ok(Self {
            sums: RowSums::watch(&connection)?,
            connection,
            sequence,
            patience,
        })
    }

    /// Begins a transaction that takes the write lock at once. A transaction that takes it later can
    /// fail half-way because of another process.
    pub(super) fn begin(&self) -> rusqlite::Result<WriteTransaction<'_>> {
        let inner = Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)?;
        self.sums.set(&Sums::default());
        Ok(WriteTransaction {
            changes: self.connection.total_changes(),
            inner,
            file: self,
        })
    }

    /// Runs `change` in a transaction.
    pub(super) fn change<T>(
        &self,
        change: impl FnOnce(&WriteTransaction<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        let transaction = self.begin()?;
        let result = change(&transaction)?;
        transaction.commit()?;
        Ok(result)
    }

    /// Syncs the file that has the number of the last commit.
    pub(super) fn sync_sequence(&self) {
        if let Some(sequence) = &self.sequence {
            sequence.sync();
        }
    }

    /// Moves the write-ahead log into the database and empties the log. Returns `false` if a reader of
    /// an older snapshot did not end within `patience`; then a part of the log stays.
    pub(super) fn checkpoint(&self, patience: Duration) -> rusqlite::Result<bool> {
        self.connection.busy_timeout(patience)?;
        let is_busy = self
            .connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0));
        self.connection.busy_timeout(self.patience)?;
        is_busy.map(|is_busy: bool| !is_busy)
    }

    /// Adds to the sums what they lacked in a snapshot, so that they cover all rows.
    pub(super) fn correct_sums(&self, difference: &Sums) -> rusqlite::Result<()> {
        self.change(|transaction| {
            let mut commits = commits::read(transaction)?;
            commits.sums = commits.sums.plus(difference);
            commits::write(transaction, &commits)
        })
    }

    /// Continues the count of commits from a known number, if the file holds fewer. The commit also
    /// writes the file beside the database, if that is missing or damaged.
    pub(super) fn go_on_from(&self, known: Known) -> rusqlite::Result<()> {
        let known = match known {
            Known::Commits(known) => known,
            Known::Nothing | Known::Damaged => 0,
        };
        self.change(|transaction| {
            let mut commits = commits::read(transaction)?;
            commits.number = commits.number.max(known);
            commits::write(transaction, &commits)
        })
    }
}

#[cfg(test)]
impl WriteConnection {
    pub(super) fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }
}

impl Deref for WriteConnection {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

/// A transaction. Rolled back if it is dropped.
pub(super) struct WriteTransaction<'a> {
    inner: Transaction<'a>,
    file: &'a WriteConnection,
    changes: u64,
}

impl WriteTransaction<'_> {
    /// Commits. A transaction without changes is not counted.
    pub(super) fn commit(self) -> rusqlite::Result<()> {
        let Self {
            inner,
            file,
            changes,
        } = self;
        if inner.total_changes() == changes {
            return inner.commit();
        }
        let mut commits = commits::read(&inner)?;
        commits.sums = commits.sums.plus(&file.sums.get());
        if file.sequence.is_some() {
            commits.number = commits.number.saturating_add(1);
        }
        commits::write(&inner, &commits)?;
        inner.commit()?;
        if let Some(sequence) = &file.sequence {
            sequence.note(commits.number);
        }
        Ok(())
    }

    /// Adds the record of a request to the sums. `values` are those of the columns after `number`.
    /// Rows of other tables add themselves by triggers.
    pub(super) fn entered_usage<'v>(&self, values: impl Iterator<Item = ValueRef<'v>>) {
        self.file.sums.add_usage(values);
    }

    /// The connection, for statements that both databases understand.
    pub(super) fn connection(&self) -> &Connection {
        &self.inner
    }

    pub(super) fn rollback(self) -> rusqlite::Result<()> {
        self.inner.rollback()
    }

    /// Runs `change` in a savepoint, and rolls back to it if `change` fails.
    pub(super) fn attempt<T>(
        &self,
        change: impl FnOnce() -> rusqlite::Result<T>,
    ) -> rusqlite::Result<rusqlite::Result<T>> {
        let before = self.file.sums.get();
        self.prepare_cached("SAVEPOINT attempt")?.execute([])?;
        let result = change();
        if result.is_err() {
            self.execute_batch("ROLLBACK TO attempt")?;
            self.file.sums.set(&before);
        }
        self.prepare_cached("RELEASE attempt")?.execute([])?;
        Ok(result)
    }
}

impl<'a> Deref for WriteTransaction<'a> {
    type Target = Transaction<'a>;

    fn deref(&self) -> &Transaction<'a> {
        &self.inner
    }
}

/// Changes rows in a counted commit, without a check of references.
#[cfg(test)]
pub(crate) fn edit(path: &std::path::Path, sql: &str) {
    let file = super::open::open_settling_writer(path).unwrap();
    file.change(|file| file.execute_batch(sql)).unwrap();
}
