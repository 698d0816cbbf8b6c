//! Medians, percentiles and intervals: what a column of samples says, and how sure it is.
//!
//! Decides nothing about what is measured. Everything here is pure and repeatable: the
//! bootstrap draws from a fixed seed, so the same samples always print the same interval.

use serde::Serialize;

/// How many resamples the bootstrap draws; 2,000 settle the second digit of an interval.
const RESAMPLES: usize = 2_000;

/// A median and the interval in which it lies with 95% confidence.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Estimate {
    /// The middle sample.
    pub(crate) median: f64,
    /// Lower end of the interval.
    pub(crate) low: f64,
    /// Upper end of the interval.
    pub(crate) high: f64,
}

impl Estimate {
    /// The median of `samples` with a percentile-bootstrap interval; `None` without samples
    /// or when one of them is not finite.
    pub(crate) fn of(samples: &[f64]) -> Option<Self> {
        if samples.iter().any(|sample| !sample.is_finite()) {
            return None;
        }
        let median = median(samples)?;
        let mut medians = resampled_medians(samples)?;
        medians.sort_by(f64::total_cmp);
        Some(Self {
            median,
            low: percentile_of_sorted(&medians, 2.5)?,
            high: percentile_of_sorted(&medians, 97.5)?,
        })
    }
}

/// The middle sample, or the mean of the two in the middle.
pub(crate) fn median(samples: &[f64]) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    percentile_of_sorted(&sorted, 50.0)
}

/// The value below which `percent` (0 to 100) of the ascending `sorted` samples lie,
/// interpolated between neighbours.
pub(crate) fn percentile_of_sorted(sorted: &[f64], percent: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let position = (percent / 100.0).clamp(0.0, 1.0) * last as f64;
    let below = position.floor();
    #[expect(clippy::cast_possible_truncation, reason = "0 ≤ below ≤ last")]
    let index = below as usize;
    let (low, high) = (*sorted.get(index)?, *sorted.get((index + 1).min(last))?);
    Some(low + (high - low) * (position - below))
}

/// Ratio of each sample to its partner of the same round. Rounds are paired because the
/// machine drifts: both sides of a pair saw the same neighbours.
pub(crate) fn paired_ratios(samples: &[f64], partners: &[f64]) -> Vec<f64> {
    samples
        .iter()
        .zip(partners)
        .map(|(sample, partner)| sample / partner)
        .collect()
}

/// Difference of each sample to its partner of the same round.
pub(crate) fn paired_differences(samples: &[f64], partners: &[f64]) -> Vec<f64> {
    samples
        .iter()
        .zip(partners)
        .map(|(sample, partner)| sample - partner)
        .collect()
}

fn resampled_medians(samples: &[f64]) -> Option<Vec<f64>> {
    let mut random = SplitMix64(0x746f_6c6c_6761_7465);
    let mut drawn = Vec::with_capacity(samples.len());
    (0..RESAMPLES)
        .map(|_| {
            drawn.clear();
            for _ in samples {
                drawn.push(*samples.get(random.below(samples.len()))?);
            }
            median(&drawn)
        })
        .collect()
}

/// Steele, Lea and Flood's generator: enough randomness to resample a few dozen numbers.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "the remainder is below a usize"
    )]
    fn below(&mut self, bound: usize) -> usize {
        (self.next() % (bound as u64).max(1)) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_does_not_depend_on_order() {
        assert_eq!(median(&[9.0, 1.0, 5.0]), Some(5.0));
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn percentiles_interpolate_and_stay_inside_the_samples() {
        let sorted = [10.0, 20.0, 30.0, 40.0, 50.0];
        assert_eq!(percentile_of_sorted(&sorted, 0.0), Some(10.0));
        assert_eq!(percentile_of_sorted(&sorted, 25.0), Some(20.0));
        assert_eq!(percentile_of_sorted(&sorted, 90.0), Some(46.0));
        assert_eq!(percentile_of_sorted(&sorted, 100.0), Some(50.0));
        assert_eq!(percentile_of_sorted(&sorted, 250.0), Some(50.0));
    }

    #[test]
    fn the_interval_holds_the_median_and_repeats() {
        let samples: Vec<f64> = (0..12)
            .map(|round| 0.9 + 0.01 * f64::from(round % 5))
            .collect();
        let estimate = Estimate::of(&samples).unwrap();
        assert!(estimate.low <= estimate.median && estimate.median <= estimate.high);
        assert!(estimate.low >= 0.9 && estimate.high <= 0.94, "{estimate:?}");
        assert_eq!(Estimate::of(&samples), Some(estimate));
    }

    #[test]
    fn one_outlier_does_not_move_the_interval() {
        let mut samples = vec![1.0; 11];
        samples.push(50.0);
        let estimate = Estimate::of(&samples).unwrap();
        assert_eq!(
            (estimate.low, estimate.median, estimate.high),
            (1.0, 1.0, 1.0)
        );
    }

    #[test]
    fn a_wider_spread_gives_a_wider_interval() {
        let narrow = Estimate::of(&[0.99, 1.0, 1.01, 1.0, 0.99, 1.01]).unwrap();
        let wide = Estimate::of(&[0.5, 1.0, 1.5, 1.0, 0.6, 1.4]).unwrap();
        assert!(wide.high - wide.low > narrow.high - narrow.low);
    }

    #[test]
    fn nothing_is_said_about_no_samples_or_a_division_by_zero() {
        assert_eq!(Estimate::of(&[]), None);
        assert_eq!(Estimate::of(&paired_ratios(&[1.0, 2.0], &[1.0, 0.0])), None);
    }

    #[test]
    fn pairs_are_compared_within_their_round() {
        assert_eq!(paired_ratios(&[10.0, 30.0], &[20.0, 60.0]), [0.5, 0.5]);
        assert_eq!(paired_differences(&[10.0, 30.0], &[7.0, 20.0]), [3.0, 10.0]);
    }
}
