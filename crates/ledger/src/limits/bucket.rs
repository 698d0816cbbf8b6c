//! One limit: the generic cell rate algorithm (GCRA) in one number.
//!
//! The state is the theoretical arrival time: the moment at which everything taken so
//! far will have flowed off. A limit of `n` a minute lets `n` be taken at once and then
//! flows back evenly. Counted in units of 1/n millisecond, so that one token is exactly
//! 60,000 units whatever the limit is, nothing is ever rounded, and `remaining` is exact.

use super::share::Part;
use std::{num::NonZeroU32, time::Duration};
use tollgate_types::Denied;

/// Milliseconds in the window of every limit.
pub(super) const WINDOW_MS: u64 = 60_000;
/// The most that is owed, in windows: one absurd count does not shut a key out for ever.
const MOST_WINDOWS: u64 = 10;

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

/// A limit of so many a minute.
#[derive(Debug)]
pub(super) struct Bucket {
    limit: NonZeroU32,
    /// The limit of which `limit` is a share: as much can be owed as of all of it.
    whole: NonZeroU32,
    /// In units of 1/limit millisecond since the limiter's beginning.
    arrival: u64,
    /// The units that were taken, or given back, and that neither the shared server nor the database has
    /// counted.
    uncounted: i64,
}

impl Bucket {
    pub(super) const fn new(limit: NonZeroU32) -> Self {
        Self {
            limit,
            whole: limit,
            arrival: 0,
            uncounted: 0,
        }
    }

    /// A bucket of which so many units are owed, all of them counted.
    pub(super) fn with_debt(limit: NonZeroU32, debt: u64, now_ms: u64) -> Self {
        let mut bucket = Self::new(limit);
        bucket.recount(debt, now_ms);
        bucket
    }

    /// How many can be taken at once.
    pub(super) fn limit(&self) -> u64 {
        u64::from(self.limit.get())
    }

    /// Sets the counted debt. Uncounted units are owed besides.
    pub(super) fn recount(&mut self, counted: u64, now_ms: u64) {
        self.forget_drained(now_ms);
        let debt = counted.saturating_add_signed(self.uncounted);
        self.owe(debt, now_ms);
    }

    /// Leaves a part of the debt that is counted, for a process with this part of the limit. Returns the whole
    /// of it.
    pub(super) fn divide(&mut self, part: Part, now_ms: u64) -> u64 {
        self.forget_drained(now_ms);
        let back = self.uncounted.saturating_neg();
        let counted = self.debt(now_ms).saturating_add_signed(back);
        self.recount(part.of(counted), now_ms);
        counted
    }

    /// The units that are owed and not counted, or negative, were given back. They count from now on.
    pub(super) fn uncounted(&mut self, now_ms: u64) -> i64 {
        self.forget_drained(now_ms);
        std::mem::take(&mut self.uncounted)
    }

    /// Uncounted units that have flowed off are no longer owed.
    fn forget_drained(&mut self, now_ms: u64) {
        let debt = i64::try_from(self.debt(now_ms)).unwrap_or(i64::MAX);
        self.uncounted = self.uncounted.min(debt);
    }

    fn owe(&mut self, debt: u64, now_ms: u64) {
        let debt = debt.min(self.most_debt());
        self.arrival = self.units(now_ms).saturating_add(debt);
    }

    /// Marks so many units more as uncounted; also of those that [`Self::uncounted`] has returned.
    pub(super) const fn mark_uncounted(&mut self, units: i64) {
        self.uncounted = self.uncounted.saturating_add(units);
    }

    /// How long until so many units have flowed off.
    pub(super) fn wait(limit: NonZeroU32, units: u64) -> Duration {
        Self::new(limit).duration(units)
    }

    /// Goes by another limit from now on, a share of `whole`. The debt stays, token for token, as
    /// far as anything can be owed.
    pub(super) fn resize(&mut self, limit: NonZeroU32, whole: NonZeroU32, now_ms: u64) {
        let debt = self.debt(now_ms);
        self.limit = limit;
        self.whole = whole;
        self.owe(debt, now_ms);
    }

    /// Takes `count`, or nothing.
    pub(super) fn take(&mut self, count: u64, now_ms: u64) -> Result<(), Denied> {
        if count > u64::from(self.limit.get()) {
            return Err(Denied::NeverFits);
        }
        let now = self.units(now_ms);
        let full = now.saturating_add(self.capacity());
        let next = self.arrival.max(now).saturating_add(cost(count));
        if next > full {
            let over = next.saturating_sub(full);
            return Err(Denied::Wait(self.duration(over)));
        }
        self.arrival = next;
        self.mark_uncounted(change(count));
        Ok(())
    }

    /// Takes `count` even if it does not fit, for a request that has used more than it took. Later
    /// requests wait until it has flowed off.
    pub(super) fn force(&mut self, count: u64, now_ms: u64) {
        let now = self.units(now_ms);
        let most = now.saturating_add(self.most_debt());
        let next = self.arrival.max(now).saturating_add(cost(count));
        self.arrival = next.min(most.max(self.arrival));
        self.mark_uncounted(change(count));
    }

    /// Gives `count` back. Tokens that have flowed off meanwhile are not given twice: a bucket is
    /// never fuller than full.
    pub(super) fn refund(&mut self, count: u64) {
        self.arrival = self.arrival.saturating_sub(cost(count));
        self.mark_uncounted(change(count).saturating_neg());
    }

    pub(super) fn level(&self, now_ms: u64) -> Level {
        let debt = self.debt(now_ms);
        Level {
            limit: u64::from(self.limit.get()),
            remaining: self.capacity().saturating_sub(debt) / WINDOW_MS,
            reset_after: self.duration(debt),
        }
    }

    fn debt(&self, now_ms: u64) -> u64 {
        self.arrival.saturating_sub(self.units(now_ms))
    }

    /// The units that a whole bucket holds: a window's worth.
    fn capacity(&self) -> u64 {
        self.units(WINDOW_MS)
    }

    fn most_debt(&self) -> u64 {
        cost(u64::from(self.whole.get())).saturating_mul(MOST_WINDOWS)
    }

    fn units(&self, ms: u64) -> u64 {
        ms.saturating_mul(u64::from(self.limit.get()))
    }

    /// Whole milliseconds, rounded up: a client that waits so long gets through.
    fn duration(&self, units: u64) -> Duration {
        Duration::from_millis(units.div_ceil(u64::from(self.limit.get())))
    }
}

/// The units of so many.
pub(super) const fn cost(count: u64) -> u64 {
    count.saturating_mul(WINDOW_MS)
}

/// The same, as a difference.
pub(super) fn change(count: u64) -> i64 {
    i64::try_from(cost(count)).unwrap_or(i64::MAX)
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
        let mut bucket = bucket(3);
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
        let mut bucket = bucket(7);
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
    fn returned_tokens_can_be_taken_again_and_no_more() {
        let mut bucket = bucket(10);
        bucket.take(10, 0).unwrap();
        bucket.refund(4);
        assert_eq!(bucket.level(0).remaining, 4);
        bucket.refund(1000);
        assert_eq!(bucket.level(0).remaining, 10);
        assert_eq!(bucket.level(60_000).remaining, 10);
    }

    #[test]
    fn a_request_above_the_limit_never_fits() {
        let mut bucket = bucket(10);
        assert_eq!(bucket.take(11, 0), Err(Denied::NeverFits));
    }

    #[test]
    fn a_debt_is_paid_off_before_anything_is_taken_and_it_is_bounded() {
        let mut bucket = bucket(60);
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
    fn another_limit_keeps_what_was_taken_token_for_token() {
        let mut used = bucket(10);
        used.take(10, 0).unwrap();
        used.resize(limit(20), limit(20), 0);
        assert_eq!(used.level(0).remaining, 10);
        assert_eq!(used.level(3_000).remaining, 11);
        used.resize(limit(10), limit(10), 3_000);
        assert_eq!(used.level(3_000).remaining, 1);
    }

    #[test]
    fn another_limit_keeps_what_is_owed_and_bounds_it() {
        let mut owing = bucket(10);
        owing.force(30, 0);
        owing.resize(limit(60), limit(60), 0);
        assert_eq!(owing.level(0).remaining, 30);
        owing.resize(limit(1), limit(1), 0);
        assert_eq!(owing.level(0).reset_after, Duration::from_secs(600));
    }

    #[test]
    fn without_the_server_only_its_part_is_divided_and_the_rest_is_uncounted() {
        let mut share = Bucket::with_debt(limit(60), cost(40), 0);
        assert_eq!(share.uncounted(0), 0);
        share.force(6, 0);
        assert_eq!(share.divide(Part::one_of(limit(2)), 0), cost(40));
        share.resize(limit(30), limit(60), 0);
        assert_eq!(share.level(0).remaining, 4);
        share.take(4, 0).unwrap();
        assert_eq!(share.uncounted(0), change(10));
        assert_eq!(share.uncounted(0), 0);
        share.mark_uncounted(change(10));
        assert_eq!(share.uncounted(0), change(10));
        share.refund(3);
        assert_eq!(share.uncounted(0), -change(3));
        // What has flowed off is not owed any more.
        share.force(30, 0);
        assert_eq!(share.uncounted(57_000), change(57) / 2);
        assert_eq!(share.uncounted(600_000), 0);
    }

    #[test]
    fn what_has_flowed_off_is_not_divided() {
        let mut alone = bucket(60);
        for now_ms in (0..600_000).step_by(1000) {
            alone.take(1, now_ms).unwrap();
        }
        assert_eq!(alone.divide(Part::one_of(limit(2)), 600_000), 0);
        assert_eq!(alone.level(600_000).remaining, 60);
    }

    /// A share of a tenth owes as much as the whole.
    #[test]
    fn a_share_owes_more_than_its_windows() {
        let mut share = bucket(10);
        share.resize(limit(1), limit(10), 0);
        share.force(60, 0);
        assert_eq!(share.uncounted(0), change(60));
    }

    fn limit(limit: u32) -> NonZeroU32 {
        NonZeroU32::new(limit).unwrap()
    }

    proptest! {
        /// Against a bucket of real numbers that is refilled before each step.
        #[test]
        fn never_more_than_the_limit_and_what_flows_back_is_admitted(
            limit in 1..5000_u32,
            steps in proptest::collection::vec((0..5000_u64, 0..2000_u64), 1..100),
        ) {
            let mut bucket = bucket(limit);
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
            let mut bucket = bucket(limit);
            let _ = bucket.take(count, now);
            bucket.force(count, now);
            let _ = bucket.level(now);
            bucket.refund(count);
            bucket.resize(NonZeroU32::MIN, NonZeroU32::MAX, now);
            let _ = bucket.level(now);
        }
    }
}
