//! Writing the file: every transaction raises the number of commits and changes the sums of rows.

use super::{
    commits,
    sequence::{Known, Sequence},
    sums::{RowSums, Sums},
};
use rusqlite::{Connection, Transaction, TransactionBehavior, types::ValueRef};
use std::{ops::Deref, sync::Arc, time::Duration};

/// A connection that writes, in transactions of [`WriteConnection::begin`] alone.
pub(crate) struct WriteConnection {
    connection: Connection,
    sums: Arc<RowSums>,
    /// `None` for a copy, in which commits are not counted.
    sequence: Option<Sequence>,
    /// How long a statement waits for another process's lock.
    patience: Duration,
}

impl WriteConnection {
    /// Writes over a connection that has the tables of the present format.
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

    /// Begins a transaction that has the write lock from the start, so that it never fails
    /// half-way on the lock of another process.
    pub(crate) fn begin(&self) -> rusqlite::Result<WriteTransaction<'_>> {
        let inner = Transaction::new_unchecked(&self.connection, TransactionBehavior::Immediate)?;
        self.sums.set(&Sums::default());
        Ok(WriteTransaction {
            changes: self.connection.total_changes(),
            inner,
            file: self,
        })
    }

    /// Runs `change` in a transaction.
    pub(crate) fn change<T>(
        &self,
        change: impl FnOnce(&WriteTransaction<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        let transaction = self.begin()?;
        let result = change(&transaction)?;
        transaction.commit()?;
        Ok(result)
    }

    /// Brings the number of the last commit to the disk.
    pub(crate) fn sync_sequence(&self) {
        if let Some(sequence) = &self.sequence {
            sequence.sync();
        }
    }

    /// Moves the write-ahead log into the file and empties the log. `false`: a reader of another
    /// moment kept that from being done within `patience`; what could be moved was.
    pub(crate) fn checkpoint(&self, patience: Duration) -> rusqlite::Result<bool> {
        self.connection.busy_timeout(patience)?;
        let is_busy = self
            .connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0));
        self.connection.busy_timeout(self.patience)?;
        is_busy.map(|is_busy: bool| !is_busy)
    }

    /// Takes the rows as they are for what was committed: `difference` is what the sums were short
    /// of in some moment, when the file was `unsealed` by this mark. Does nothing if another process
    /// has sealed it since.
    pub(super) fn seal(&self, difference: &Sums, unsealed: u64) -> rusqlite::Result<()> {
        self.change(|transaction| {
            let mut commits = commits::expect(transaction)?;
            if commits.unsealed != unsealed {
                return Ok(());
            }
            commits.sums = commits.sums.plus(difference);
            commits.unsealed = 0;
            commits::write(transaction, &commits)
        })
    }

    /// Counts commits on from a number, where the file holds fewer.
    pub(super) fn go_on_from(&self, known: Known) -> rusqlite::Result<()> {
        let Known::Commits(known) = known else {
            return Ok(());
        };
        self.change(|transaction| {
            let mut commits = commits::expect(transaction)?;
            commits.number = commits.number.max(known);
            commits::write(transaction, &commits)
        })
    }
}

#[cfg(test)]
impl WriteConnection {
    pub(crate) fn connection(&mut self) -> &mut Connection {
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
pub(crate) struct WriteTransaction<'a> {
    inner: Transaction<'a>,
    file: &'a WriteConnection,
    changes: u64,
}

impl WriteTransaction<'_> {
    /// Commits. A transaction that has changed nothing is no commit.
    pub(crate) fn commit(self) -> rusqlite::Result<()> {
        let Self {
            inner,
            file,
            changes,
        } = self;
        if inner.total_changes() == changes {
            return inner.commit();
        }
        let mut commits = commits::expect(&inner)?;
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

    /// Says that a record of a request was entered, with these values of the columns after
    /// `number`. Rows of other tables need no word.
    pub(crate) fn entered_usage<'v>(&self, values: impl Iterator<Item = ValueRef<'v>>) {
        self.file.sums.add_usage(values);
    }

    pub(crate) fn rollback(self) -> rusqlite::Result<()> {
        self.inner.rollback()
    }

    /// Runs `change` in a savepoint, and rolls back to it where that fails.
    pub(crate) fn attempt<T>(
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

/// Changes rows as a commit does, whatever refers to them.
#[cfg(test)]
pub(crate) fn edit(path: &std::path::Path, sql: &str) {
    let file = super::open_settling_writer(path).unwrap();
    file.change(|file| file.execute_batch(sql)).unwrap();
}
