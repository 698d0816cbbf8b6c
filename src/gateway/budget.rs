//! How many attempts beyond the first all requests may have together, so that a provider in
//! trouble is not asked twice as often for it.
//!
//! Requests and retries of the last ten seconds are counted by the second. What a count
//! misses at the turn of a second, when several threads turn it, is a request or two: that is
//! the price of having no lock.

use crate::snapshot::Failover;
use once_cell::sync::Lazy;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// Seconds that are looked back on, each with counts of its own.
const SECONDS: usize = 10;
const WINDOW: u64 = SECONDS as u64;

/// Counts of the last seconds.
#[derive(Default)]
pub struct RetryBudget {
    /// By the second, in turn.
    seconds: [Second; SECONDS],
}

#[derive(Default)]
struct Second {
    /// The second that is counted here.
    number: AtomicU64,
    requests: AtomicU64,
    retries: AtomicU64,
}

impl RetryBudget {
    /// A request is sent for the first time.
    pub fn note_request(&self) {
        self.note_request_at(now());
    }

    /// Takes one more attempt; `false` when there is none left.
    pub fn take(&self, allowed: &Failover) -> bool {
        self.take_at(now(), allowed)
    }

    fn note_request_at(&self, now: u64) {
        if let Some(second) = self.second(now) {
            second.requests.fetch_add(1, Relaxed);
        }
    }

    fn take_at(&self, now: u64, allowed: &Failover) -> bool {
        let (mut requests, mut retries) = (0_u64, 0_u64);
        for second in &self.seconds {
            if now.saturating_sub(second.number.load(Relaxed)) < WINDOW {
                requests = requests.saturating_add(second.requests.load(Relaxed));
                retries = retries.saturating_add(second.retries.load(Relaxed));
            }
        }
        let share = requests.saturating_mul(allowed.percent) / 100;
        let most = allowed
            .per_second
            .saturating_mul(WINDOW)
            .saturating_add(share);
        if retries >= most {
            return false;
        }
        if let Some(second) = self.second(now) {
            second.retries.fetch_add(1, Relaxed);
        }
        true
    }

    /// The counts of this second, from zero where it has just begun.
    fn second(&self, now: u64) -> Option<&Second> {
        let second = self.seconds.get(usize::try_from(now % WINDOW).ok()?)?;
        let counted = second.number.load(Relaxed);
        let turns = counted != now
            && second
                .number
                .compare_exchange(counted, now, Relaxed, Relaxed)
                .is_ok();
        if turns {
            second.requests.store(0, Relaxed);
            second.retries.store(0, Relaxed);
        }
        Some(second)
    }
}

/// Seconds of this process, from [`WINDOW`] on, so that no second that was never counted is
/// within the window.
fn now() -> u64 {
    static START: Lazy<Instant> = Lazy::new(Instant::now);
    START.elapsed().as_secs().saturating_add(WINDOW)
}

#[cfg(test)]
mod tests;
