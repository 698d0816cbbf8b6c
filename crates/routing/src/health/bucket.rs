//! A limit per minute of a deployment or a credential: the generic cell rate algorithm (GCRA) in
//! one atomic.
//!
//! The state is the moment at which everything taken so far will have flowed off; the limit
//! is a parameter of every call, so that it can change while requests are under way.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Microseconds in the window of every limit.
const WINDOW: u64 = 60_000_000;

/// The largest debt: whatever one request used, others wait no longer than this.
const MOST_OWED: u64 = 10 * WINDOW;

/// How much of a limit was taken.
#[derive(Debug, Default)]
pub struct Bucket {
    /// In microseconds.
    flows_off: AtomicU64,
}

impl Bucket {
    /// How long to wait until `count` fits. `None` if it fits now. A count above the limit fits
    /// into an empty bucket.
    pub fn wait(&self, count: u64, limit: NonZeroU32, now_ms: u64) -> Option<Duration> {
        let now = now_ms.saturating_mul(1000);
        over(self.flows_off.load(Ordering::Relaxed), count, limit, now)
    }

    /// Takes `count`, or says how long to wait.
    pub fn take(&self, count: u64, limit: NonZeroU32, now_ms: u64) -> Result<(), Duration> {
        let now = now_ms.saturating_mul(1000);
        let taken = self
            .flows_off
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |state| {
                let is_room = over(state, count, limit, now).is_none();
                is_room.then(|| state.max(now).saturating_add(owed(count, limit)))
            });
        let wait = |state| over(state, count, limit, now).unwrap_or_default();
        taken.map(|_| ()).map_err(wait)
    }

    /// Corrects the taken count to the used one.
    pub fn correct(&self, taken: u64, used: u64, limit: NonZeroU32, now_ms: u64) {
        let now = now_ms.saturating_mul(1000);
        // Never refuses, so it never fails.
        let _ =
            self.flows_off
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |state| {
                    Some(match used.checked_sub(taken) {
                        Some(more) => {
                            let next = state.max(now).saturating_add(cost(more, limit));
                            next.min(now.saturating_add(MOST_OWED).max(state))
                        }
                        None => state
                            .saturating_sub(owed(taken, limit).saturating_sub(owed(used, limit))),
                    })
                });
    }
}

/// How long until `count` fits. `None` if it fits now.
fn over(state: u64, count: u64, limit: NonZeroU32, now: u64) -> Option<Duration> {
    let cost = cost(count, limit).min(WINDOW);
    let full = now.saturating_add(WINDOW);
    let next = state.max(now).saturating_add(cost);
    let over = next.saturating_sub(full);
    (over > 0).then(|| Duration::from_micros(over))
}

/// The amount that `count` takes of a bucket.
fn owed(count: u64, limit: NonZeroU32) -> u64 {
    cost(count, limit).min(MOST_OWED)
}

fn cost(count: u64, limit: NonZeroU32) -> u64 {
    let cost = u128::from(count) * u128::from(WINDOW) / u128::from(limit.get());
    u64::try_from(cost).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn limit(count: u32) -> NonZeroU32 {
        NonZeroU32::new(count).unwrap()
    }

    #[test]
    fn a_minute_holds_its_limit_and_no_more_and_flows_off_evenly() {
        let bucket = Bucket::default();
        let ten = limit(10);
        for _ in 0..10 {
            bucket.take(1, ten, 500).unwrap();
        }
        assert_eq!(bucket.take(1, ten, 500), Err(Duration::from_secs(6)));
        assert_eq!(bucket.wait(2, ten, 500), Some(Duration::from_secs(12)));
        bucket.take(1, ten, 6_500).unwrap();
        assert!(bucket.take(1, ten, 6_501).is_err());
    }

    #[test]
    fn nothing_is_owed_for_more_than_ten_minutes_and_all_of_it_can_be_given_back() {
        let (bucket, ten) = (Bucket::default(), limit(10));
        bucket.take(1_000_000, ten, 0).unwrap();
        assert_eq!(bucket.wait(10, ten, 0), Some(Duration::from_secs(600)));
        bucket.correct(1_000_000, 0, ten, 0);
        assert_eq!(bucket.wait(10, ten, 0), None);
    }

    #[test]
    fn a_request_above_the_limit_is_sent_alone() {
        let bucket = Bucket::default();
        bucket.take(25, limit(10), 0).unwrap();
        assert!(bucket.take(1, limit(10), 60_000).is_err());
        bucket.take(1, limit(10), 150_000).unwrap();
    }

    proptest! {
        #[test]
        fn a_correction_to_the_usage_equals_taking_the_usage(
            taken in 0_u64..100, used in 0_u64..100, most in 100_u32..1000,
        ) {
            let (corrected, plain) = (Bucket::default(), Bucket::default());
            let most = limit(most);
            corrected.take(taken, most, 60_000).unwrap();
            corrected.correct(taken, used, most, 60_000);
            plain.take(used, most, 60_000).unwrap();
            let [a, b] = [&corrected, &plain].map(|it| it.flows_off.load(Ordering::Relaxed));
            prop_assert!(a.abs_diff(b) <= 2, "{} and {}", a, b);
        }
    }
}
