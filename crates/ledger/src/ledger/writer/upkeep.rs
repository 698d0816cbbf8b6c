//! What the writer does between commits, by the clock.

use super::Writer;
use crate::{
    clock::Timestamp,
    ledger::{books, purge, quarantine::Quarantined, recovery},
    store::data_version,
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Rounds of upkeep come every so many ticks: crashed processes, idle accounts, old records.
const TICKS_PER_ROUND: u32 = 5;
/// Settlement files that no process's row names are looked for once a minute, in a round; in tests
/// once a round.
const TICKS_PER_SWEEP: u32 = if cfg!(test) { 1 } else { 60 } * TICKS_PER_ROUND;
/// The write-ahead log is moved into the file once a minute, in a round, so that a damaged log costs
/// little.
const TICKS_PER_CHECKPOINT: u32 = 60 * TICKS_PER_ROUND;
/// How long a checkpoint waits for readers.
const CHECKPOINT_PATIENCE: Duration = Duration::from_millis(50);

/// What the writer has seen of the file.
#[derive(Default)]
pub(in super::super) struct Seen {
    version: Option<i64>,
    pub(super) change: i64,
    ticks: u32,
    /// The next tick looks at the file even if no other process has changed it: a lease request
    /// that got nothing, a load that failed, a lease of a crashed process that is free now.
    pub(super) look_again: bool,
    /// When a fault was last logged.
    pub(super) fault_logged_at: Option<Instant>,
}

impl Writer {
    pub(super) fn tick(&mut self) -> rusqlite::Result<()> {
        self.seen.ticks = self.seen.ticks.wrapping_add(1);
        let version = data_version(&self.file)?;
        if self.seen.version != Some(version) || self.seen.look_again {
            // After a fault the version is unknown, so that the next tick tries again.
            self.seen.version = None;
            self.seen.look_again = false;
            self.look_at_others()?;
            self.seen.version = Some(version);
        }
        if self.seen.ticks.is_multiple_of(TICKS_PER_ROUND) {
            self.round()?;
        }
        self.give_back()
    }

    fn round(&mut self) -> rusqlite::Result<()> {
        self.shared.journal.tidy();
        // A process that has nothing to enter would not notice it otherwise.
        if books::is_fenced(&self.file, self.process)? {
            self.shared.fence();
        }
        let now = self.shared.clock.now();
        let idle = self.shared.idle_after();
        self.returns
            .extend(self.shared.accounts.evict_idle(idle, now));
        let shared = Arc::clone(&self.shared);
        let recovered = recovery::bury_dead_peers(&self.file, &shared.folder, self.process, now)?;
        self.seen.look_again |= recovered > 0;
        self.withdraw_lease_requests()?;
        let quarantined = Quarantined::count(&self.file)?;
        self.shared.stats.saw_quarantined(quarantined);
        self.purge(now)?;
        self.file.sync_sequence();
        if self.seen.ticks.is_multiple_of(TICKS_PER_CHECKPOINT) {
            // What a reader keeps in the log now is moved by the next checkpoint.
            self.file.checkpoint(CHECKPOINT_PATIENCE)?;
        }
        if self.seen.ticks.is_multiple_of(TICKS_PER_SWEEP) {
            let (file, process) = (&self.file, self.process);
            recovery::sweep(file, &shared.folder, &shared.prefix, process, now)?;
        }
        Ok(())
    }

    fn purge(&mut self, now: Timestamp) -> rusqlite::Result<()> {
        let settings = &self.shared.settings;
        if let Some(age) = settings.keep_history {
            purge::usage(&self.file, now, age)?;
        }
        let before = now.minus(settings.keep_owned);
        purge::owned(&self.file, before, settings.most_owned)
    }
}
