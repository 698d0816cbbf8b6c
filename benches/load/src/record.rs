//! All samples of a run, and what went wrong in it.
//!
//! Samples are filed by metric, contender and round, so that a contender that missed a round
//! is compared in the rounds that it shares with the yardstick and in no others.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::failure::Result;
use crate::metric::{Comparison, Metric};
use crate::statistics::{Estimate, paired_differences, paired_ratios};
use crate::syscalls::SyscallCounts;

/// Samples by round; a round may be missing.
type Samples = BTreeMap<usize, f64>;

/// What a run has measured.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Record {
    samples: BTreeMap<String, BTreeMap<String, Samples>>,
    failures: Vec<FailedPart>,
    syscalls: BTreeMap<String, SyscallCounts>,
    #[serde(skip)]
    rounds: BTreeMap<String, usize>,
}

/// Something that could not be measured.
#[derive(Debug, Serialize)]
pub(crate) struct FailedPart {
    /// Whose figure is missing.
    pub(crate) contender: String,
    /// In which part of the run.
    pub(crate) part: String,
    /// Why, the first time.
    pub(crate) reason: String,
    /// How many times.
    pub(crate) times: usize,
}

impl Record {
    /// Begins the next round of a part: samples of its metrics are filed under it.
    pub(crate) fn begin_round(&mut self, part: &str) {
        *self.rounds.entry(part.to_owned()).or_default() += 1;
    }

    /// Files a sample under the current round of the metric's part.
    pub(crate) fn add(&mut self, metric: &str, contender: &str, sample: f64) {
        let part = metric.split('.').next().unwrap_or_default();
        let round = self.rounds.get(part).copied().unwrap_or_default();
        let contenders = self.samples.entry(metric.to_owned()).or_default();
        contenders
            .entry(contender.to_owned())
            .or_default()
            .insert(round, sample);
    }

    /// Files what strace counted.
    pub(crate) fn add_syscalls(&mut self, contender: &str, counts: SyscallCounts) {
        self.syscalls.insert(contender.to_owned(), counts);
    }

    /// Notes a failure of one part for one contender; success is no news.
    pub(crate) fn note_failure(&mut self, contender: &str, part: &str, outcome: Result<()>) {
        let Err(fault) = outcome else { return };
        eprintln!("! {contender}, {part}: {fault}");
        let same = |failed: &&mut FailedPart| failed.contender == contender && failed.part == part;
        match self.failures.iter_mut().find(same) {
            Some(failed) => failed.times += 1,
            None => self.failures.push(FailedPart {
                contender: contender.to_owned(),
                part: part.to_owned(),
                reason: fault.to_string(),
                times: 1,
            }),
        }
    }

    /// What could not be measured.
    pub(crate) fn failures(&self) -> &[FailedPart] {
        &self.failures
    }

    /// System calls per request, by contender.
    pub(crate) fn syscalls(&self) -> &BTreeMap<String, SyscallCounts> {
        &self.syscalls
    }

    /// The contender's own figure.
    pub(crate) fn estimate(&self, metric: &Metric, contender: &str) -> Option<Estimate> {
        let samples: Vec<f64> = self.of(metric, contender)?.values().copied().collect();
        Estimate::of(&samples)
    }

    /// The contender's figure in terms of the yardstick's, over the rounds that both ran.
    pub(crate) fn compared(
        &self,
        metric: &Metric,
        contender: &str,
        yardstick: &str,
    ) -> Option<Estimate> {
        let (own, other) = (self.of(metric, contender)?, self.of(metric, yardstick)?);
        let (own, other): (Vec<f64>, Vec<f64>) = own
            .iter()
            .filter_map(|(round, sample)| Some((*sample, *other.get(round)?)))
            .unzip();
        match metric.comparison {
            Comparison::Ratio => Estimate::of(&paired_ratios(&own, &other)),
            Comparison::Difference => Estimate::of(&paired_differences(&own, &other)),
            Comparison::None => None,
        }
    }

    fn of(&self, metric: &Metric, contender: &str) -> Option<&Samples> {
        self.samples.get(metric.id)?.get(contender)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Failure;
    use crate::metric::metrics;

    fn rate() -> &'static Metric {
        metrics()
            .find(|metric| metric.id == "1k.per_cpu_second")
            .unwrap()
    }

    #[test]
    fn a_missed_round_is_left_out_of_the_comparison() {
        let mut record = Record::default();
        for (round, bare) in [100.0, 200.0, 300.0].into_iter().enumerate() {
            record.begin_round("1k");
            record.add("1k.per_cpu_second", "bare", bare);
            if round != 1 {
                record.add("1k.per_cpu_second", "gate", bare / 2.0);
            }
        }
        let compared = record.compared(rate(), "gate", "bare").unwrap();
        assert_eq!(
            (compared.low, compared.median, compared.high),
            (0.5, 0.5, 0.5)
        );
        assert_eq!(record.estimate(rate(), "bare").unwrap().median, 200.0);
    }

    #[test]
    fn nothing_is_said_about_a_contender_without_samples() {
        let mut record = Record::default();
        record.add("1k.per_cpu_second", "bare", 1.0);
        assert_eq!(record.compared(rate(), "gate", "bare"), None);
        assert_eq!(record.estimate(rate(), "gate"), None);
    }

    #[test]
    fn a_failure_that_repeats_is_kept_once_and_success_not_at_all() {
        let mut record = Record::default();
        record.note_failure("gate", "1 KB", Ok(()));
        for reason in ["status 503", "status 502"] {
            record.note_failure("gate", "1 KB", Err(Failure::WrongAnswer(reason.to_owned())));
        }
        let failed = &record.failures()[0];
        assert_eq!((record.failures().len(), failed.times), (1, 2));
        assert!(failed.reason.contains("status 503"), "{}", failed.reason);
    }
}
