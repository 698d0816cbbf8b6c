//! One limit: the generic cell rate algorithm (GCRA) in one atomic.
//!
//! The state is the theoretical arrival time: the moment at which everything taken so
//! far will have flowed off. A limit of `n` a minute lets `n` be taken at once and then
//! flows back evenly. Counted in units of 1/n millisecond, so that one token is exactly
//! 60,000 units, nothing is ever rounded, and `remaining` is exact.

use std::{
    num::NonZeroU32,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// Milliseconds in the window of every limit.
const WINDOW_MS: u64 = 60_000;

/// How full a bucket is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// The limit: how many in a minute.
    pub limit: u64,
    /// How many could be taken now.
    pub remaining: u64,
    /// How long until the limit is whole again.
    pub reset_after: Duration,
}

/// Why nothing was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// It will fit after this wait, if nobody else comes.
    Wait(Duration),
    /// It is more than the limit itself: it never fits.
    NeverFits,
}

/// A limit of so many a minute.
#[derive(Debug)]
pub(super) struct Bucket {
    limit: NonZeroU32,
    /// In units of 1/limit millisecond since the limiter's beginning.
    arrival: AtomicU64,
}

impl Bucket {
    pub(super) fn new(limit: NonZeroU32) -> Self {
        Self {
            limit,
            arrival: AtomicU64::new(0),
        }
    }

    /// A bucket of another limit, as full in proportion as this one.
    pub(super) fn resized(&self, limit: NonZeroU32, now_ms: u64) -> Self {
        let debt = u128::from(self.debt(now_ms)).saturating_mul(u128::from(limit.get()));
        let debt = debt.div_ceil(u128::from(self.limit.get()));
        let debt = u64::try_from(debt).unwrap_or(u64::MAX);
        let resized = Self::new(limit);
        let arrival = resized.units(now_ms).saturating_add(debt);
        resized.arrival.store(arrival, Ordering::Relaxed);
        resized
    }

    /// Takes `count`, or nothing.
    pub(super) fn take(&self, count: u64, now_ms: u64) -> Result<(), Denied> {
        if count > u64::from(self.limit.get()) {
            return Err(Denied::NeverFits);
        }
        let now = self.units(now_ms);
        let full = now.saturating_add(self.capacity());
        let cost = cost(count);
        let taken = self
            .arrival
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |arrival| {
                let next = arrival.max(now).saturating_add(cost);
                (next <= full).then_some(next)
            });
        taken.map(|_| ()).map_err(|arrival| {
            let over = arrival.max(now).saturating_add(cost).saturating_sub(full);
            Denied::Wait(self.duration(over))
        })
    }

    /// Takes `count` even where it does not fit: for what turned out to be more than was
    /// taken before. Later takers wait until it has flowed off. A debt is never more than
    /// ten windows, so that one absurd count does not shut a key out for ever.
    pub(super) fn force(&self, count: u64, now_ms: u64) {
        const MOST_WINDOWS: u64 = 10;
        let now = self.units(now_ms);
        let most = now.saturating_add(self.capacity().saturating_mul(MOST_WINDOWS));
        self.update(|arrival| {
            let next = arrival.max(now).saturating_add(cost(count));
            next.min(most.max(arrival))
        });
    }

    /// Gives `count` back. What has flowed off meanwhile is not given twice: a bucket is
    /// never fuller than full.
    pub(super) fn refund(&self, count: u64) {
        self.update(|arrival| arrival.saturating_sub(cost(count)));
    }

    pub(super) fn level(&self, now_ms: u64) -> Level {
        let debt = self.debt(now_ms);
        Level {
            limit: u64::from(self.limit.get()),
            remaining: self.capacity().saturating_sub(debt) / WINDOW_MS,
            reset_after: self.duration(debt),
        }
    }

    fn update(&self, next: impl Fn(u64) -> u64) {
        // Never refuses, so it never fails.
        let _ = self
            .arrival
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |arrival| {
                Some(next(arrival))
            });
    }

    fn debt(&self, now_ms: u64) -> u64 {
        let arrival = self.arrival.load(Ordering::Relaxed);
        arrival.saturating_sub(self.units(now_ms))
    }

    /// The units that a whole bucket holds: a window's worth.
    fn capacity(&self) -> u64 {
        self.units(WINDOW_MS)
    }

    fn units(&self, ms: u64) -> u64 {
        ms.saturating_mul(u64::from(self.limit.get()))
    }

    /// Whole milliseconds, rounded up: who waits as long as he was told gets through.
    fn duration(&self, units: u64) -> Duration {
        Duration::from_millis(units.div_ceil(u64::from(self.limit.get())))
    }
}

fn cost(count: u64) -> u64 {
    count.saturating_mul(WINDOW_MS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bucket(limit: u32) -> Bucket {
        Bucket::new(NonZeroU32::new(limit).unwrap())
    }

    #[test]
    fn a_whole_minutes_worth_may_come_at_once_and_then_it_flows_back_evenly() {
        let bucket = bucket(3);
        for left in [2, 1, 0] {
            bucket.take(1, 1000).unwrap();
            assert_eq!(bucket.level(1000).remaining, left);
        }
        let wait = Duration::from_secs(20);
        assert_eq!(bucket.take(1, 1000), Err(Denied::Wait(wait)));
        assert_eq!(
            bucket.take(1, 20_999),
            Err(Denied::Wait(Duration::from_millis(1)))
        );
        assert_eq!(bucket.take(1, 21_000), Ok(()));
        assert_eq!(bucket.level(21_000).reset_after, Duration::from_secs(60));
    }

    #[test]
    fn a_limit_that_does_not_divide_the_minute_loses_nothing() {
        let bucket = bucket(7);
        for _ in 0..7 {
            bucket.take(1, 0).unwrap();
        }
        let mut admitted = 0;
        for ms in 0..=600_000 {
            admitted += usize::from(bucket.take(1, ms).is_ok());
        }
        assert_eq!(admitted, 70);
    }

    #[test]
    fn what_is_given_back_can_be_taken_again_and_no_more() {
        let bucket = bucket(10);
        bucket.take(10, 0).unwrap();
        bucket.refund(4);
        assert_eq!(bucket.level(0).remaining, 4);
        bucket.refund(1000);
        assert_eq!(bucket.level(0).remaining, 10);
        assert_eq!(bucket.level(60_000).remaining, 10);
    }

    #[test]
    fn what_is_more_than_the_limit_never_fits() {
        assert_eq!(bucket(10).take(11, 0), Err(Denied::NeverFits));
    }

    #[test]
    fn a_debt_is_paid_off_before_anything_is_taken_and_it_is_bounded() {
        let bucket = bucket(60);
        bucket.force(90, 0);
        assert_eq!(bucket.level(0).remaining, 0);
        assert_eq!(
            bucket.take(1, 0),
            Err(Denied::Wait(Duration::from_secs(31)))
        );
        bucket.force(u64::MAX, 0);
        assert_eq!(bucket.level(0).reset_after, Duration::from_secs(600));
    }

    #[test]
    fn a_new_limit_keeps_the_share_that_was_used() {
        let used = bucket(100);
        used.take(50, 0).unwrap();
        let resized = used.resized(NonZeroU32::new(10).unwrap(), 0);
        assert_eq!(resized.level(0).remaining, 5);
    }

    proptest! {
        /// Against a bucket of real numbers that is refilled before each step.
        #[test]
        fn never_more_than_the_limit_and_what_flows_back_is_admitted(
            limit in 1..5000_u32,
            steps in proptest::collection::vec((0..5000_u64, 0..2000_u64), 1..100),
        ) {
            let bucket = bucket(limit);
            let (mut now, mut left) = (0, u128::from(limit) * 60_000);
            for (wait, count) in steps {
                now += wait;
                left = (left + u128::from(wait * u64::from(limit))).min(u128::from(limit) * 60_000);
                prop_assert_eq!(u128::from(bucket.level(now).remaining), left / 60_000);
                let fits = u128::from(count) * 60_000 <= left;
                prop_assert_eq!(bucket.take(count, now).is_ok(), fits);
                if fits {
                    left -= u128::from(count) * 60_000;
                }
            }
        }

        #[test]
        fn nothing_overflows(limit in 1..=u32::MAX, count: u64, now: u64) {
            let bucket = bucket(limit);
            let _ = bucket.take(count, now);
            bucket.force(count, now);
            let _ = bucket.level(now);
            bucket.refund(count);
            let _ = bucket.resized(NonZeroU32::MIN, now);
        }
    }
}
