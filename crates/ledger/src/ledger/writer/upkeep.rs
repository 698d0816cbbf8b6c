//! The periodic work of the writer between commits.

use super::Writer;
use crate::{
    clock::Timestamp,
    ledger::{self, recovery, renewal::Begun},
    store::{
        StoreError,
        database::{CheckIn, LeaseMode, Look, Retention},
    },
};
use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

/// How often the process checks in and does upkeep: crashed processes, idle accounts, old records.
const UPKEEP_EVERY: Duration = Duration::from_secs(1);
/// Settlement files that no process's row names are looked for once a minute; in tests with each upkeep.
const UPKEEPS_PER_SWEEP: u32 = if cfg!(test) { 1 } else { 60 };

/// The state of the database that the writer has seen.
pub(in super::super) struct Seen {
    pub(super) change: i64,
    checked_in_at: Instant,
    upkeeps: u32,
    /// The next tick looks at the database even if no other process has changed it: a lease request
    /// that got nothing, a load that failed, a lease of a crashed process that is free now.
    pub(super) look_again: bool,
    /// When a fault was last logged.
    pub(super) fault_logged_at: Option<Instant>,
}

impl Seen {
    /// The state for a process that has just checked in.
    pub(in super::super) fn new() -> Self {
        Self {
            change: 0,
            checked_in_at: Instant::now(),
            upkeeps: 0,
            look_again: false,
            fault_logged_at: None,
        }
    }
}

impl Writer {
    pub(super) fn tick(&mut self) -> Result<(), StoreError> {
        // First, because the rest can wait for locks of other transactions.
        let checked = self.check_in_if_due()?;
        let look = match std::mem::take(&mut self.seen.look_again) {
            true => Look::Always,
            false => Look::IfChanged,
        };
        // Lease requests are repeated only by the clock.
        let read = self.read_changes(look, LeaseMode::Need);
        let kept_up = checked.map_or(Ok(()), |checked| self.upkeep(&checked));
        read.and(kept_up)?;
        self.give_back()
    }

    /// Reads the changes that the database has announced.
    pub(super) fn look(&mut self) {
        let looked = self.read_changes(Look::IfChanged, LeaseMode::Take);
        if let Err(fault) = looked.and_then(|()| self.give_back()) {
            self.log_fault("changes in the ledger cannot be read", &fault);
        }
    }

    /// Reads the changes of other processes, now or at the next tick.
    fn read_changes(&mut self, look: Look, asking: LeaseMode) -> Result<(), StoreError> {
        let read = self.apply_external_changes(look, asking);
        self.seen.look_again |= read.is_err();
        read
    }

    /// Renews this process once a second, and notices if another process has fenced it.
    pub(super) fn check_in_if_due(&mut self) -> Result<Option<CheckIn>, StoreError> {
        if self.seen.checked_in_at.elapsed() < UPKEEP_EVERY {
            return Ok(None);
        }
        self.seen.checked_in_at = Instant::now();
        let begun = Begun::now();
        let checked = self.process.check_in();
        let checked = checked.inspect_err(|fault| self.shared.stall(&fault.to_string()))?;
        match checked.is_fenced {
            true => self.shared.fence_by_another(),
            false => self.shared.renewals.done(begun),
        }
        self.shared.stats.saw_quarantined(checked.quarantined);
        let nodes = ledger::running_processes(self.shared.term, &checked.peers);
        self.shared.nodes.store(nodes, Ordering::Relaxed);
        Ok(Some(checked))
    }

    fn upkeep(&mut self, checked: &CheckIn) -> Result<(), StoreError> {
        self.seen.upkeeps = self.seen.upkeeps.wrapping_add(1);
        self.shared.journal.tidy();
        let now = self.shared.clock.now();
        let idle = self.shared.idle_after();
        let accounts = &self.shared.accounts;
        self.returns.extend(accounts.evict_idle(idle, now));
        self.returns.extend(accounts.give_up_excess(now));
        let shared = Arc::clone(&self.shared);
        let process = &mut *self.process;
        let (term, peers) = (shared.term, &checked.peers);
        let recovered = recovery::recover_crashed(process, term, peers, &shared.folder, now)?;
        self.seen.look_again |= recovered > 0;
        shared.stats.add_recovered(recovered);
        self.withdraw_lease_requests()?;
        self.maintain(now)?;
        if self.seen.upkeeps.is_multiple_of(UPKEEPS_PER_SWEEP) {
            let late = recovery::sweep(&mut *self.process, &shared.folder, &shared.prefix, now)?;
            shared.stats.add_late(late);
        }
        Ok(())
    }

    fn maintain(&mut self, now: Timestamp) -> Result<(), StoreError> {
        let settings = &self.shared.settings;
        let retention = Retention {
            history: settings.keep_history,
            stored: settings.owners_kept(),
            most_stored: settings.most_owned,
        };
        self.process.maintain(&retention, now).map(|_| ())
    }
}
