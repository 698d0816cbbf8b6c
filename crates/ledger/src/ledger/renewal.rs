//! How long this process can rely on its leases. A database that several machines share gives them to others
//! if the process is not renewed within its term.

use super::Shared;
use crate::{
    directory::spawn,
    store::{StoreError, database::Renewal},
};
use rustix::time::{ClockId, clock_gettime};
use std::{
    path::Path,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

/// How often a thread looks whether the writer has renewed the process.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// After this time the thread renews it: commits take long.
const LATE_MS: u64 = 2_000;
/// After this time without a renewal of its own the writer counts as stuck, and other processes may take over.
const STUCK_MS: u64 = 120_000;

/// The renewals of a process.
pub(super) struct Renewals {
    /// For how many milliseconds after a renewal the process admits requests: half of the term, so that it
    /// has stopped before others may take its leases. `None`: for ever.
    patience_ms: Option<u64>,
    /// When the last successful renewal began.
    last_ms: AtomicU64,
    /// The same of those by the writer.
    of_writer_ms: AtomicU64,
}

/// When a renewal began.
#[derive(Clone, Copy)]
pub(super) struct Begun(u64);

impl Begun {
    pub(super) fn now() -> Self {
        Self(now_ms())
    }
}

impl Renewals {
    pub(super) fn new(term: Option<Duration>, begun: Begun) -> Self {
        let half = |term: Duration| u64::try_from(term.as_millis() / 2).unwrap_or(u64::MAX);
        Self {
            patience_ms: term.map(half),
            last_ms: AtomicU64::new(begun.0),
            of_writer_ms: AtomicU64::new(begun.0),
        }
    }

    /// The writer has renewed the process, at `begun` or later.
    pub(super) fn done(&self, begun: Begun) {
        self.of_writer_ms.fetch_max(begun.0, Ordering::AcqRel);
        self.done_for_writer(begun);
    }

    /// The thread has renewed it.
    fn done_for_writer(&self, begun: Begun) {
        self.last_ms.fetch_max(begun.0, Ordering::AcqRel);
    }

    /// Whether the leases end without renewals, as on a server.
    pub(super) const fn are_bounded(&self) -> bool {
        self.patience_ms.is_some()
    }

    /// Whether the process must not admit requests.
    pub(super) fn are_overdue(&self) -> bool {
        self.patience_ms
            .is_some_and(|patience| self.age_ms() >= patience)
    }

    /// Whether the writer takes long to renew it, but is not stuck.
    fn are_late(&self) -> bool {
        let is_late = |patience: u64| self.age_ms() >= LATE_MS.min(patience / 2);
        let of_writer = self.of_writer_ms.load(Ordering::Acquire);
        let is_stuck = now_ms().saturating_sub(of_writer) >= STUCK_MS;
        self.patience_ms.is_some_and(is_late) && !is_stuck
    }

    fn age_ms(&self) -> u64 {
        now_ms().saturating_sub(self.last_ms.load(Ordering::Acquire))
    }
}

/// Starts the thread that renews the process while the writer waits for the database.
pub(super) fn start(shared: &Arc<Shared>, renew: Renewal, place: &Path) -> Result<(), StoreError> {
    let shared = Arc::downgrade(shared);
    spawn("ledger-renewals", place, move || run(&shared, renew))
}

fn run(shared: &Weak<Shared>, mut renew: Renewal) {
    loop {
        thread::park_timeout(LOOK_EVERY);
        match living(shared) {
            None => return,
            Some(shared) if !shared.renewals.are_late() => continue,
            Some(_) => {}
        }
        let begun = Begun::now();
        // The writer notices and reports faults, and that the process has ended.
        match renew() {
            Ok(true) => {}
            Ok(false) => return,
            Err(_) => continue,
        }
        if let Some(shared) = living(shared) {
            shared.renewals.done_for_writer(begun);
        }
    }
}

fn living(shared: &Weak<Shared>) -> Option<Arc<Shared>> {
    let shared = shared.upgrade()?;
    (!shared.abandoned.load(Ordering::Acquire)).then_some(shared)
}

/// Milliseconds of a clock that cannot be set and that goes on while the machine is suspended.
fn now_ms() -> u64 {
    let now = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    let millis = u64::try_from(now.tv_nsec / 1_000_000).unwrap_or(0);
    seconds.saturating_mul(1000).saturating_add(millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_renewed_for_a_slow_writer_but_not_for_one_that_is_stuck() {
        let term = Some(Duration::from_secs(30));
        let renewed = |ago| Renewals::new(term, Begun(now_ms().saturating_sub(ago)));
        assert!(!renewed(0).are_late());
        assert!(renewed(LATE_MS).are_late());
        let slow = renewed(LATE_MS);
        slow.done_for_writer(Begun::now());
        assert!(!slow.are_late() && !slow.are_overdue());
        assert!(!renewed(STUCK_MS).are_late());
        assert!(renewed(STUCK_MS).are_overdue());
    }
}
