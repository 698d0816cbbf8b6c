//! What the ledger counts of itself, for metrics.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// A snapshot for metrics. Counters begin at zero with the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LedgerStats {
    /// Accounts in memory.
    pub accounts: u64,
    /// Requests reserved, or settled and not yet entered.
    pub open_requests: u64,
    /// Reservations made.
    pub reservations: u64,
    /// Requests turned away because too many were open.
    pub shed: u64,
    /// Settlements made.
    pub settlements: u64,
    /// Settlements by an estimate.
    pub estimated: u64,
    /// Settlements whose report was cut down or replaced.
    pub clamped: u64,
    /// Tokens charged and paid.
    pub charged_tokens: u64,
    /// Tokens that nothing was left for.
    pub overdraft_tokens: u64,
    /// Settlements that could not be written ahead.
    pub failed_writes: u64,
    /// Commits to the database.
    pub commits: u64,
    /// Commits that failed and were tried again.
    pub failed_commits: u64,
    /// Time spent in commits, in microseconds.
    pub commit_micros: u64,
    /// The longest commit, in microseconds.
    pub longest_commit_micros: u64,
}

#[derive(Default)]
pub(super) struct Stats {
    pub(super) reservations: AtomicU64,
    pub(super) shed: AtomicU64,
    pub(super) settlements: AtomicU64,
    pub(super) estimated: AtomicU64,
    pub(super) clamped: AtomicU64,
    pub(super) charged_tokens: AtomicU64,
    pub(super) overdraft_tokens: AtomicU64,
    pub(super) failed_writes: AtomicU64,
    pub(super) failed_commits: AtomicU64,
    commits: AtomicU64,
    commit_micros: AtomicU64,
    longest_commit_micros: AtomicU64,
}

impl Stats {
    pub(super) fn committed(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.commit_micros.fetch_add(micros, Ordering::Relaxed);
        self.longest_commit_micros
            .fetch_max(micros, Ordering::Relaxed);
    }

    pub(super) fn snapshot(&self, accounts: usize, open_requests: usize) -> LedgerStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        LedgerStats {
            accounts: count(accounts),
            open_requests: count(open_requests),
            reservations: read(&self.reservations),
            shed: read(&self.shed),
            settlements: read(&self.settlements),
            estimated: read(&self.estimated),
            clamped: read(&self.clamped),
            charged_tokens: read(&self.charged_tokens),
            overdraft_tokens: read(&self.overdraft_tokens),
            failed_writes: read(&self.failed_writes),
            commits: read(&self.commits),
            failed_commits: read(&self.failed_commits),
            commit_micros: read(&self.commit_micros),
            longest_commit_micros: read(&self.longest_commit_micros),
        }
    }
}
