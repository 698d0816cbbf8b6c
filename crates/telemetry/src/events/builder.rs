//! Makes metrics and registers them on one page.

use super::{ROUTE, SECONDS};
use prometheus::core::Collector;
use prometheus::{
    CounterVec, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, Opts, Registry,
};

/// Makes metrics of one registry.
#[derive(Default)]
pub(super) struct Builder(pub(super) Registry);

#[expect(
    clippy::expect_used,
    reason = "names and labels are fixed: a wrong one fails the first test that runs"
)]
impl Builder {
    pub(super) fn register(&self, collector: impl Collector + 'static) {
        let collector = Box::new(collector);
        self.0.register(collector).expect("registered once");
    }

    pub(super) fn kept<C: Collector + Clone + 'static>(&self, metric: prometheus::Result<C>) -> C {
        let metric = metric.expect("valid metric");
        self.register(metric.clone());
        metric
    }

    pub(super) fn gauge(&self, name: &str, help: &str) -> IntGauge {
        self.kept(IntGauge::new(name, help))
    }

    pub(super) fn counter(&self, name: &str, help: &str) -> IntCounter {
        self.kept(IntCounter::new(name, help))
    }

    pub(super) fn counters(&self, name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
        self.kept(IntCounterVec::new(Opts::new(name, help), labels))
    }

    /// Counters by one label, with all its values from the start.
    pub(super) fn counters_of(
        &self,
        name: &str,
        help: &str,
        label: &str,
        values: impl IntoIterator<Item = &'static str>,
    ) -> IntCounterVec {
        let counters = self.counters(name, help, &[label]);
        for value in values {
            counters.with_label_values(&[value]);
        }
        counters
    }

    /// Amounts by route.
    pub(super) fn amounts(&self, name: &str, help: &str) -> CounterVec {
        self.kept(CounterVec::new(Opts::new(name, help), ROUTE))
    }

    /// Durations by route.
    pub(super) fn histograms(&self, name: &str, help: &str) -> HistogramVec {
        let opts = HistogramOpts::new(name, help).buckets(SECONDS.to_vec());
        self.kept(HistogramVec::new(opts, ROUTE))
    }
}
