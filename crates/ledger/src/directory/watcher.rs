//! Seeing what others change in the file.
//!
//! `PRAGMA data_version` moves whenever another connection commits; asking costs a
//! look at shared memory, no disk. Only when it has moved, the table of changes is
//! read from where the last reading ended.

use super::{Shared, flight::spawn};
use crate::{
    key::KeyHash,
    store::{StoreError, data_version, open_reader},
};
use rusqlite::Connection;
use std::sync::{
    Arc,
    mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
};

/// Ends its thread when dropped.
pub(super) struct Watcher {
    _stop: SyncSender<()>,
}

impl Watcher {
    pub(super) fn start(shared: &Arc<Shared>) -> Result<Self, StoreError> {
        let connection = open_reader(&shared.path)?;
        let mut watch = Watch {
            shared: Arc::clone(shared),
            connection,
            version: None,
            seq: None,
        };
        watch
            .look()
            .map_err(|fault| StoreError::from_sqlite(&fault, &shared.path))?;
        let (stop, stopped) = sync_channel(0);
        spawn("key-watcher", &shared.path, move || watch.run(&stopped))?;
        Ok(Self { _stop: stop })
    }
}

struct Watch {
    shared: Arc<Shared>,
    connection: Connection,
    /// The data version at the last look.
    version: Option<i64>,
    /// The change sequence up to which the cache is current.
    seq: Option<i64>,
}

impl Watch {
    fn run(mut self, stopped: &Receiver<()>) {
        let pause = self.shared.settings.poll_every;
        while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
            let fault = self.look().err().map(|fault| fault.to_string());
            self.report(fault);
        }
    }

    fn report(&self, fault: Option<String>) {
        let mut health = self.shared.health.lock();
        match (&fault, &health.fault) {
            (Some(fault), None) => {
                log::error!("cannot see changes of keys, revocations among them: {fault}");
            }
            (None, Some(_)) => log::info!("changes of keys are seen again"),
            _ => {}
        }
        if fault.is_none() {
            health.seen_at = self.shared.clock.now();
        }
        health.fault = fault.map(Into::into);
    }

    fn look(&mut self) -> rusqlite::Result<()> {
        let version = data_version(&self.connection)?;
        if self.version == Some(version) {
            return Ok(());
        }
        self.catch_up()?;
        // Last: a look that failed on the way is repeated.
        self.version = Some(version);
        Ok(())
    }

    fn catch_up(&mut self) -> rusqlite::Result<()> {
        let known = self.seq.unwrap_or(-1);
        let (oldest, newest, hashes) = read_changes(&mut self.connection, known)?;
        // Rows that were pruned before they were seen, or a file put in place of this
        // one: nothing in memory can be trusted.
        let missed = oldest > known.saturating_add(1) || newest < known;
        match hashes {
            Some(hashes) if !missed => self.shared.cache.forget(newest, &hashes),
            _ => self.shared.cache.forget_all(newest),
        }
        self.seq = Some(newest);
        Ok(())
    }
}

/// The oldest and newest change in one snapshot, and the hashes changed after `known`
/// (`None`: one of them cannot be read).
fn read_changes(
    connection: &mut Connection,
    known: i64,
) -> rusqlite::Result<(i64, i64, Option<Vec<KeyHash>>)> {
    let snapshot = connection.transaction()?;
    let (oldest, newest) = snapshot.query_row(
        "SELECT coalesce(min(seq), 0), coalesce(max(seq), 0) FROM changes",
        [],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )?;
    let hashes = snapshot
        .prepare_cached("SELECT hash FROM changes WHERE seq > ?1")?
        .query_map([known], |row| {
            row.get::<_, Vec<u8>>(0)
                .map(|hash| KeyHash::from_slice(&hash))
        })?
        .collect::<rusqlite::Result<Option<Vec<KeyHash>>>>()?;
    Ok((oldest, newest, hashes))
}
