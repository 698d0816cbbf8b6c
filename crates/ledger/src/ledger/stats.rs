//! The counts of the ledger, for metrics.

use crate::{balance::Holdings, store::database::Quarantined};
use parking_lot::Mutex;
use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};
use tollgate_types::PerUnit;

/// The number of classes of commit times: one for each bound, and one beyond them.
const CLASSES: usize = LedgerStats::COMMIT_BOUNDS.len() + 1;

/// A snapshot for metrics. Counters begin at zero with the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LedgerStats {
    /// 1 if this process is fenced, else 0.
    pub fenced: u64,
    /// Accounts in memory.
    pub accounts: u64,
    /// Tokens that those accounts can spend.
    pub free_tokens: u64,
    /// Tokens that requests reserve of those accounts.
    pub reserved_tokens: u64,
    /// Money that those accounts can spend, in nano-units.
    pub free_money: u64,
    /// Money that requests reserve of those accounts, in nano-units.
    pub reserved_money: u64,
    /// Requests reserved, or settled and not yet entered.
    pub open_requests: u64,
    /// Reservations made.
    pub reservations: u64,
    /// Requests that waited until tokens that were free in the database were leased.
    pub lease_waits: u64,
    /// Requests refused because too many were open.
    pub shed: u64,
    /// Settlements made.
    pub settlements: u64,
    /// Settlements by an estimate.
    pub estimated: u64,
    /// Settlements whose report was reduced or replaced.
    pub clamped: u64,
    /// Settlements of processes that had lost their leases, entered by this one.
    pub late_settlements: u64,
    /// Other processes that this one has recovered: they had crashed, or seemed to have.
    pub recovered_processes: u64,
    /// Tokens charged and paid.
    pub charged_tokens: u64,
    /// Tokens that no grant covered.
    pub overdraft_tokens: u64,
    /// Money charged and paid, in nano-units.
    pub charged_money: u64,
    /// Money that no grant covered, in nano-units.
    pub overdraft_money: u64,
    /// Settlements that could not be written ahead.
    pub failed_writes: u64,
    /// Failed syncs of settlements to the disk, which were tried again.
    pub failed_syncs: u64,
    /// Slots without a whole record in quarantine. This and the next two counts are those of all
    /// processes, until an operator deletes the rows; together they count at most a thousand.
    pub quarantined_torn: u64,
    /// Records in quarantine that this program cannot read.
    pub quarantined_unreadable: u64,
    /// Records in quarantine that the database has refused.
    pub quarantined_refused: u64,
    /// Commits to the database.
    pub commits: u64,
    /// Commits that failed and were tried again.
    pub failed_commits: u64,
    /// Commits by duration: the number up to each bound in [`LedgerStats::COMMIT_BOUNDS`] and above the
    /// previous one; last, the number above all.
    pub commit_classes: [u64; CLASSES],
    /// Time spent in commits, in microseconds.
    pub commit_micros: u64,
    /// The longest commit, in microseconds.
    pub longest_commit_micros: u64,
}

impl LedgerStats {
    /// The bounds of the classes of commit times, in microseconds.
    pub const COMMIT_BOUNDS: [u64; 13] = [
        250, 500, 1000, 2500, 5000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
        5_000_000,
    ];
}

#[derive(Default)]
pub(super) struct Stats {
    pub(super) reservations: AtomicU64,
    pub(super) lease_waits: AtomicU64,
    pub(super) shed: AtomicU64,
    pub(super) settlements: AtomicU64,
    /// Settlements that the writer has committed, and whose slots it has freed.
    entered: AtomicU64,
    pub(super) estimated: AtomicU64,
    pub(super) clamped: AtomicU64,
    late_settlements: AtomicU64,
    recovered_processes: AtomicU64,
    charged_tokens: AtomicU64,
    overdraft_tokens: AtomicU64,
    charged_money: AtomicU64,
    overdraft_money: AtomicU64,
    pub(super) failed_writes: AtomicU64,
    pub(super) failed_commits: AtomicU64,
    quarantined: Mutex<Quarantined>,
    commit_classes: [AtomicU64; CLASSES],
    commit_micros: AtomicU64,
    longest_commit_micros: AtomicU64,
}

impl Stats {
    /// Counts settlements that the writer has committed, after it has freed their slots.
    pub(super) fn add_entered(&self, settlements: usize) {
        let settlements = u64::try_from(settlements).unwrap_or(u64::MAX);
        self.entered.fetch_add(settlements, Ordering::Release);
    }

    /// Whether no settlement waits for a commit.
    pub(super) fn have_all_been_entered(&self) -> bool {
        let entered = self.entered.load(Ordering::Acquire);
        self.settlements.load(Ordering::Relaxed) <= entered
    }

    /// Notes the records in quarantine.
    pub(super) fn saw_quarantined(&self, seen: Quarantined) {
        *self.quarantined.lock() = seen;
    }

    /// Counts what grants have paid of a charge.
    pub(super) fn add_paid(&self, paid: &PerUnit<u64>) {
        self.charged_tokens
            .fetch_add(paid.tokens, Ordering::Relaxed);
        self.charged_money.fetch_add(paid.money, Ordering::Relaxed);
    }

    /// Counts what no grant has paid of a charge.
    pub(super) fn add_overdraft(&self, overdraft: &PerUnit<u64>) {
        self.overdraft_tokens
            .fetch_add(overdraft.tokens, Ordering::Relaxed);
        self.overdraft_money
            .fetch_add(overdraft.money, Ordering::Relaxed);
    }

    /// Counts processes that this one has recovered.
    pub(super) fn add_recovered(&self, processes: usize) {
        let processes = u64::try_from(processes).unwrap_or(u64::MAX);
        self.recovered_processes
            .fetch_add(processes, Ordering::Relaxed);
    }

    /// Counts settlements of a process that has lost its leases.
    pub(super) fn add_late(&self, settlements: usize) {
        let settlements = u64::try_from(settlements).unwrap_or(u64::MAX);
        self.late_settlements
            .fetch_add(settlements, Ordering::Relaxed);
    }

    pub(super) fn committed(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let class = LedgerStats::COMMIT_BOUNDS.partition_point(|bound| *bound < micros);
        if let Some(class) = self.commit_classes.get(class) {
            class.fetch_add(1, Ordering::Relaxed);
        }
        self.commit_micros.fetch_add(micros, Ordering::Relaxed);
        self.longest_commit_micros
            .fetch_max(micros, Ordering::Relaxed);
    }

    pub(super) fn snapshot(
        &self,
        accounts: usize,
        holdings: PerUnit<Holdings>,
        open_requests: usize,
    ) -> LedgerStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let commit_classes = self.commit_classes.each_ref().map(read);
        let quarantined = *self.quarantined.lock();
        LedgerStats {
            fenced: 0,
            accounts: count(accounts),
            free_tokens: holdings.tokens.free,
            reserved_tokens: holdings.tokens.reserved,
            free_money: holdings.money.free,
            reserved_money: holdings.money.reserved,
            open_requests: count(open_requests),
            reservations: read(&self.reservations),
            lease_waits: read(&self.lease_waits),
            shed: read(&self.shed),
            settlements: read(&self.settlements),
            estimated: read(&self.estimated),
            clamped: read(&self.clamped),
            late_settlements: read(&self.late_settlements),
            recovered_processes: read(&self.recovered_processes),
            charged_tokens: read(&self.charged_tokens),
            overdraft_tokens: read(&self.overdraft_tokens),
            charged_money: read(&self.charged_money),
            overdraft_money: read(&self.overdraft_money),
            failed_writes: read(&self.failed_writes),
            failed_syncs: 0,
            quarantined_torn: quarantined.torn,
            quarantined_unreadable: quarantined.unreadable,
            quarantined_refused: quarantined.refused,
            commits: commit_classes.iter().sum(),
            commit_classes,
            failed_commits: read(&self.failed_commits),
            commit_micros: read(&self.commit_micros),
            longest_commit_micros: read(&self.longest_commit_micros),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_counted_in_the_class_of_its_time() {
        let stats = Stats::default();
        for micros in [1, 250, 251, 9_999_999] {
            stats.committed(Duration::from_micros(micros));
        }
        let seen = stats.snapshot(0, PerUnit::default(), 0);
        assert_eq!(seen.commits, 4);
        assert_eq!(seen.commit_classes[..2], [2, 1]);
        assert_eq!(seen.commit_classes[CLASSES - 1], 1);
        assert_eq!(seen.longest_commit_micros, 9_999_999);
    }
}
