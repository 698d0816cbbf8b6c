//! The retry budget: how many attempts beyond the first all requests may have together, so that retries do
//! not double the load of a provider in trouble.
//!
//! Requests and retries of the last ten seconds are counted by the second, without a lock.

use once_cell::sync::Lazy;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;
use tollgate_config::RetryBudgetSettings;

/// The length of the window in seconds; each has its own counts.
const SECONDS: usize = 10;
const WINDOW: u64 = SECONDS as u64;

/// One budget for charged requests and one for free ones, so that free requests can neither use up nor add
/// to the retries of charged ones.
#[derive(Default)]
pub struct RetryBudgets {
    models: RetryBudget,
    unbilled: RetryBudget,
}

impl RetryBudgets {
    /// The budget of a request.
    pub const fn of(&self, is_unbilled: bool) -> &RetryBudget {
        match is_unbilled {
            true => &self.unbilled,
            false => &self.models,
        }
    }
}

/// Counts of the last seconds.
#[derive(Default)]
pub struct RetryBudget {
    /// The counts of each second, in a ring.
    seconds: [Second; SECONDS],
}

#[derive(Default)]
struct Second {
    requests: Counter,
    retries: Counter,
}

/// A count, with its second in the upper half: both change in one step, so that no count is lost when a
/// second begins.
#[derive(Default)]
struct Counter(AtomicU64);

impl Counter {
    const COUNT: u64 = u32::MAX as u64;

    fn add(&self, now: u64) {
        // Never refuses, so it never fails.
        let _ = self.0.fetch_update(Relaxed, Relaxed, |counted| {
            Some(match counted >> 32 < now {
                true => now << 32 | 1,
                // A full counter stays full.
                false if counted & Self::COUNT == Self::COUNT => counted,
                false => counted.saturating_add(1),
            })
        });
    }

    /// The count, if its second is within the window, else 0.
    fn recent(&self, now: u64) -> u64 {
        let counted = self.0.load(Relaxed);
        match now.saturating_sub(counted >> 32) < WINDOW {
            true => counted & Self::COUNT,
            false => 0,
        }
    }
}

impl RetryBudget {
    /// A request is sent for the first time.
    pub fn note_request(&self) {
        self.note_request_at(now());
    }

    /// Takes one more attempt; `false` if none is left.
    pub fn take(&self, allowed: &RetryBudgetSettings) -> bool {
        self.take_at(now(), allowed)
    }

    fn note_request_at(&self, now: u64) {
        if let Some(second) = self.second(now) {
            second.requests.add(now);
        }
    }

    fn take_at(&self, now: u64, allowed: &RetryBudgetSettings) -> bool {
        let (mut requests, mut retries) = (0_u64, 0_u64);
        for second in &self.seconds {
            requests = requests.saturating_add(second.requests.recent(now));
            retries = retries.saturating_add(second.retries.recent(now));
        }
        let share = requests.saturating_mul(allowed.percent.into()) / 100;
        let most = u64::from(allowed.per_second)
            .saturating_mul(WINDOW)
            .saturating_add(share);
        if retries >= most {
            return false;
        }
        if let Some(second) = self.second(now) {
            second.retries.add(now);
        }
        true
    }

    fn second(&self, now: u64) -> Option<&Second> {
        self.seconds.get(usize::try_from(now % WINDOW).ok()?)
    }
}

/// Seconds since the process began, plus [`WINDOW`], so that the window never includes the initial zeros.
fn now() -> u64 {
    static START: Lazy<Instant> = Lazy::new(Instant::now);
    START.elapsed().as_secs().saturating_add(WINDOW)
}

#[cfg(test)]
mod tests;
