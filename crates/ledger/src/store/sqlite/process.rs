//! A process that spends, over a connection of its own.

use super::{
    changes,
    error::Described,
    leases,
    open::{data_version, open_settling_writer},
    purge, quarantine, recover, settle, storable_time, stored,
    write::WriteConnection,
};
use crate::{
    clock::Timestamp,
    store::{
        StoreError,
        database::{
            Batch, CheckIn, Committed, Leftover, Look, News, Peer, Process, ProcessNumber,
            Recovered, Retention,
        },
    },
};
use rusqlite::{Connection, Transaction, params};
use std::{
    collections::HashSet,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use tollgate_types::KeyId;

/// How often the write-ahead log is moved into the file, so that a damaged log costs little.
const CHECKPOINT_EVERY: Duration = Duration::from_secs(60);
/// How long a checkpoint waits for readers.
const CHECKPOINT_PATIENCE: Duration = Duration::from_millis(50);
/// How long the checkpoint at the end of the process waits for readers.
const LAST_CHECKPOINT_PATIENCE: Duration = Duration::from_secs(1);

/// A process, entered in the file.
pub(crate) struct SqliteProcess {
    pub(super) file: WriteConnection,
    path: PathBuf,
    number: ProcessNumber,
    /// The version of the file at the last look.
    version: Option<i64>,
    checkpointed_at: Instant,
}

impl SqliteProcess {
    pub(super) fn begin(path: &Path, journal: &str, now: Timestamp) -> Result<Self, StoreError> {
        let file = open_settling_writer(path)?;
        let begun = file.change(|file| {
            file.execute(
                "INSERT INTO processes (settlements, started_at) VALUES (?1, ?2)",
                params![journal, storable_time(now)],
            )?;
            Ok(ProcessNumber(file.last_insert_rowid()))
        });
        Ok(Self {
            number: begun.described(path)?,
            file,
            path: path.to_owned(),
            version: None,
            checkpointed_at: Instant::now(),
        })
    }

    fn try_news(&mut self, seen: i64, look: Look) -> rusqlite::Result<Option<News>> {
        let version = data_version(&self.file)?;
        if self.version == Some(version) && look == Look::IfChanged {
            return Ok(None);
        }
        let snapshot = self.file.unchecked_transaction()?;
        let (newest, changed) = changes::keys_since(&snapshot, seen)?;
        let news = News {
            newest,
            changed,
            requested: leases::requested_by_others(&snapshot, self.number)?,
        };
        drop(snapshot);
        self.version = Some(version);
        Ok(Some(news))
    }

    fn try_commit(&self, batch: &Batch<'_>) -> rusqlite::Result<Committed> {
        let transaction = settle::enter_all(&self.file, self.number, batch)?;
        let is_fenced = is_ended(&transaction, self.number)?;
        // First: what memory has given up is still leased to this process in the file.
        leases::give_back(&transaction, self.number, batch.returned)?;
        let now = (batch.now)();
        for thing in batch.stored {
            stored::insert(&transaction, thing, now)?;
        }
        let mut shares = Vec::new();
        // No process would give back what a fenced process leases.
        for lease in batch.leases.iter().filter(|_| !is_fenced) {
            let share = leases::lease(&transaction, self.number, lease, now)?;
            shares.push((lease.key.clone(), share));
        }
        transaction.commit()?;
        Ok(Committed {
            shares,
            is_fenced,
            ..Committed::default()
        })
    }

    fn try_keep_lease_requests(&self, keys: &HashSet<KeyId>) -> rusqlite::Result<()> {
        let others = leases::requests_beyond(&self.file, self.number, keys)?;
        if others.is_empty() {
            return Ok(());
        }
        self.file
            .change(|file| leases::withdraw_all(file, self.number, &others))
    }

    fn try_check_in(&self) -> rusqlite::Result<CheckIn> {
        let snapshot = self.file.unchecked_transaction()?;
        Ok(CheckIn {
            is_fenced: is_ended(&snapshot, self.number)?,
            peers: peers(&snapshot, self.number)?,
            quarantined: quarantine::count(&snapshot)?,
        })
    }

    fn try_maintain(&mut self, retention: &Retention, now: Timestamp) -> rusqlite::Result<usize> {
        let records = match retention.history {
            Some(age) => purge::usage(&self.file, now, age)?,
            None => 0,
        };
        let before = now.minus(retention.stored);
        purge::owned(&self.file, before, retention.most_stored)?;
        self.file.sync_sequence();
        if self.checkpointed_at.elapsed() >= CHECKPOINT_EVERY {
            self.checkpointed_at = Instant::now();
            // What a reader keeps in the log now is moved by the next checkpoint.
            self.file.checkpoint(CHECKPOINT_PATIENCE)?;
        }
        Ok(records)
    }

    /// Moves everything into the database itself, so that it is complete without its log.
    fn checkpoint_at_end(&self) {
        self.file.sync_sequence();
        match self.file.checkpoint(LAST_CHECKPOINT_PATIENCE) {
            Ok(true) => {}
            Ok(false) => log::warn!(
                "another process reads the ledger: the newest commits stay in its write-ahead log"
            ),
            Err(fault) => log::warn!("the ledger's write-ahead log stays as it is: {fault}"),
        }
    }
}

impl Process for SqliteProcess {
    fn news(&mut self, seen: i64, look: Look) -> Result<Option<News>, StoreError> {
        self.try_news(seen, look).described(&self.path)
    }

    fn commit(&mut self, batch: &Batch<'_>) -> Result<Committed, StoreError> {
        self.try_commit(batch).described(&self.path)
    }

    fn keep_lease_requests(&mut self, keys: &HashSet<KeyId>) -> Result<(), StoreError> {
        self.try_keep_lease_requests(keys).described(&self.path)
    }

    fn check_in(&mut self) -> Result<CheckIn, StoreError> {
        self.try_check_in().described(&self.path)
    }

    fn recover(
        &mut self,
        process: Option<ProcessNumber>,
        leftover: Option<&Leftover<'_>>,
        now: Timestamp,
    ) -> Result<Recovered, StoreError> {
        let nothing = Leftover::default();
        let leftover = leftover.unwrap_or(&nothing);
        recover::recover(&self.file, process, leftover, now).described(&self.path)
    }

    fn maintain(&mut self, retention: &Retention, now: Timestamp) -> Result<usize, StoreError> {
        self.try_maintain(retention, now).described(&self.path)
    }

    fn end(&mut self, now: Timestamp) -> Result<(), StoreError> {
        let ended = self.file.change(|file| end(file, self.number, now));
        ended.described(&self.path)?;
        self.checkpoint_at_end();
        Ok(())
    }
}

/// Gives everything back that a process leases, and ends it.
pub(super) fn end(
    file: &Connection,
    process: ProcessNumber,
    now: Timestamp,
) -> rusqlite::Result<()> {
    file.execute("DELETE FROM leases WHERE process = ?1", [process.0])?;
    file.execute("DELETE FROM lease_requests WHERE process = ?1", [process.0])?;
    file.execute(
        "UPDATE processes SET ended_at = ?2 WHERE number = ?1 AND ended_at IS NULL",
        params![process.0, storable_time(now)],
    )?;
    Ok(())
}

/// Whether a process has ended, or another has ended it.
fn is_ended(file: &Connection, process: ProcessNumber) -> rusqlite::Result<bool> {
    file.prepare_cached("SELECT 1 FROM processes WHERE number = ?1 AND ended_at IS NULL")?
        .exists([process.0])
        .map(|is_living| !is_living)
}

/// The other processes that have not ended.
fn peers(snapshot: &Transaction<'_>, process: ProcessNumber) -> rusqlite::Result<Vec<Peer>> {
    snapshot
        .prepare_cached(
            "SELECT number, settlements FROM processes WHERE ended_at IS NULL AND number <> ?1",
        )?
        .query_map([process.0], |row| {
            Ok(Peer {
                number: ProcessNumber(row.get(0)?),
                journal: row.get(1)?,
                is_silent: true,
            })
        })?
        .collect()
}
