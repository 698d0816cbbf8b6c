//! The time to first token of a deployment: a moving average that rises at once and falls slowly (peak EWMA, as
//! in Finagle's balancer).

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The average: in the high 32 bits microseconds (at most 71 minutes), in the low 32 bits the time
/// of the last change in milliseconds. The time wraps after 49 days; an average that is older than
/// half of that starts again.
#[derive(Debug, Default)]
pub struct PeakEwma(AtomicU64);

impl PeakEwma {
    /// The time after which a measurement counts 37 %. Long enough to bridge the pauses between
    /// requests to a model, short enough to notice within a minute that a provider has recovered.
    const DECAY_MS: f64 = 30_000.0;

    /// Takes a measurement. A larger one counts in full, a smaller one by its weight.
    pub fn observe(&self, took: Duration, now: u64) {
        let took = u32::try_from(took.as_micros()).unwrap_or(u32::MAX).max(1);
        // Never refuses, so it never fails.
        let _ = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |state| {
                let (average, at) = unpack(state);
                let next = match average {
                    0 => took,
                    average if took >= average => took,
                    average => {
                        let kept = kept(at, now);
                        let mixed =
                            f64::from(average).mul_add(kept, f64::from(took) * (1.0 - kept));
                        micros(mixed)
                    }
                };
                Some(pack(next.max(1), now))
            });
    }

    /// The current average, reduced by the time since the last measurement. `None` before the first
    /// measurement.
    pub fn get(&self, now: u64) -> Option<Duration> {
        let (average, at) = unpack(self.0.load(Ordering::Relaxed));
        let faded = micros(f64::from(average) * kept(at, now));
        (average != 0).then(|| Duration::from_micros(u64::from(faded.max(1))))
    }
}

/// The share that a measurement of `at` still has.
fn kept(at: u32, now: u64) -> f64 {
    let age = low(now).wrapping_sub(at);
    // More than half of the range: another thread has read the clock a little later.
    let age = if age > u32::MAX / 2 { 0 } else { age };
    (-f64::from(age) / PeakEwma::DECAY_MS).exp()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "between 0 and the larger of two numbers of 32 bits"
)]
const fn micros(value: f64) -> u32 {
    value as u32
}

#[expect(clippy::cast_possible_truncation, reason = "it is to wrap around")]
const fn low(value: u64) -> u32 {
    value as u32
}

const fn pack(average: u32, now: u64) -> u64 {
    ((average as u64) << 32) | low(now) as u64
}

const fn unpack(state: u64) -> (u32, u32) {
    (low(state >> 32), low(state))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_slow_answer_counts_at_once_and_is_forgotten_slowly() {
        let average = PeakEwma::default();
        assert_eq!(average.get(5), None);
        average.observe(SECOND, 1_000);
        average.observe(SECOND * 9, 2_000);
        assert_eq!(average.get(2_000), Some(SECOND * 9));
        average.observe(SECOND, 3_000);
        let mixed = average.get(3_000).unwrap();
        assert!(mixed > SECOND * 8 && mixed < SECOND * 9, "{mixed:?}");
        for step in 4..304 {
            average.observe(SECOND, step * 1_000);
        }
        let settled = average.get(304_000).unwrap();
        assert!(settled < SECOND + SECOND / 50, "{settled:?}");
    }

    #[test]
    fn an_old_measurement_fades_and_the_deployment_is_tried_again() {
        let average = PeakEwma::default();
        average.observe(SECOND * 60, 1_000);
        let faded = average.get(301_000).unwrap();
        assert!(faded < Duration::from_millis(5), "{faded:?}");
    }

    #[test]
    fn a_reading_of_the_clock_that_is_a_little_older_has_no_age() {
        let average = PeakEwma::default();
        average.observe(SECOND, 1001);
        assert_eq!(average.get(1000), Some(SECOND));
    }

    #[test]
    fn the_clock_may_wrap_around_in_its_32_bits() {
        let average = PeakEwma::default();
        let before = u64::from(u32::MAX) - 500;
        average.observe(SECOND, before);
        let read = average.get(before + 1_000).unwrap();
        assert!(read > SECOND * 9 / 10 && read <= SECOND, "{read:?}");
    }
}
