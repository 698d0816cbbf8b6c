//! What is measured: one table of metrics with their units, comparison and bars.
//!
//! The bars are the project's own promises about the gateway; for other proxies they are
//! only a scale.

use serde::Serialize;

use crate::statistics::Estimate;

/// One figure that every contender gets in every round.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Metric {
    /// Key in the JSON report.
    pub(crate) id: &'static str,
    /// What it is, for people.
    pub(crate) title: &'static str,
    /// Unit of a sample.
    pub(crate) unit: &'static str,
    /// How two contenders are compared within a round.
    pub(crate) comparison: Comparison,
    /// What the gateway promises, as a comparison to bare Pingora.
    pub(crate) bar: Option<Bar>,
}

/// How a sample relates to the yardstick's of the same round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Comparison {
    /// Sample divided by yardstick.
    Ratio,
    /// Sample minus yardstick.
    Difference,
    /// For information.
    None,
}

/// The bound that a comparison has to keep.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Bar {
    /// More is better.
    AtLeast(f64),
    /// Less is better.
    AtMost(f64),
}

/// What the samples say about a bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verdict {
    /// The median keeps it.
    Met,
    /// The median does not, but the better end of the interval does.
    WithinInterval,
    /// Not even the better end of the interval keeps it.
    Missed,
}

impl Bar {
    /// Judges an interval.
    pub(crate) fn judge(self, estimate: &Estimate) -> Verdict {
        let (median_keeps, best_keeps) = match self {
            Self::AtLeast(bound) => (estimate.median >= bound, estimate.high >= bound),
            Self::AtMost(bound) => (estimate.median <= bound, estimate.low <= bound),
        };
        match (median_keeps, best_keeps) {
            (true, _) => Verdict::Met,
            (false, true) => Verdict::WithinInterval,
            (false, false) => Verdict::Missed,
        }
    }
}

const fn rate(id: &'static str, title: &'static str, bar: Option<Bar>) -> Metric {
    Metric {
        id,
        title,
        unit: "/CPU-s",
        comparison: Comparison::Ratio,
        bar,
    }
}

const fn plain(id: &'static str, title: &'static str, unit: &'static str) -> Metric {
    Metric {
        id,
        title,
        unit,
        comparison: Comparison::None,
        bar: None,
    }
}

const fn wall(id: &'static str, title: &'static str) -> Metric {
    Metric {
        id,
        title,
        unit: "/s",
        comparison: Comparison::Ratio,
        bar: None,
    }
}

const fn over(
    id: &'static str,
    title: &'static str,
    unit: &'static str,
    bar: Option<Bar>,
) -> Metric {
    Metric {
        id,
        title,
        unit,
        comparison: Comparison::Difference,
        bar,
    }
}

/// The figures of a load: work per CPU-second, with one of its own in the middle.
macro_rules! load {
    ($id:literal, $title:literal, $work:literal, $bar:expr, $more:expr) => {
        [
            rate(
                concat!($id, ".per_cpu_second"),
                concat!($title, ": ", $work, "s per CPU-second"),
                Some(Bar::AtLeast($bar)),
            ),
            plain(
                concat!($id, ".cpu_us"),
                concat!($title, ": CPU per ", $work),
                "µs",
            ),
            $more,
            plain(
                concat!($id, ".busy"),
                concat!($title, ": share of its core that the proxy used"),
                "%",
            ),
            plain(
                concat!($id, ".others"),
                concat!($title, ": share of that core that other load used"),
                "%",
            ),
        ]
    };
}

/// A load whose answers come in one piece.
macro_rules! requests {
    ($id:literal, $title:literal, $bar:expr) => {
        load!(
            $id,
            $title,
            "request",
            $bar,
            wall(
                concat!($id, ".per_second"),
                concat!($title, ": requests a second"),
            )
        )
    };
}

/// A load of event streams.
macro_rules! streams {
    ($id:literal, $title:literal) => {
        load!(
            $id,
            $title,
            "chunk",
            0.95,
            plain(
                concat!($id, ".joined"),
                concat!($title, ": chunks that arrive joined into one"),
                "×",
            )
        )
    };
}

/// The figures of one request at a time.
macro_rules! latency {
    ($id:literal, $title:literal) => {
        [
            over(
                concat!($id, ".added_p50"),
                concat!($title, ": median latency over direct"),
                "µs",
                Some(Bar::AtMost(40.0)),
            ),
            over(
                concat!($id, ".added_p99"),
                concat!($title, ": 99th percentile over direct"),
                "µs",
                None,
            ),
            plain(
                concat!($id, ".p50"),
                concat!($title, ": median latency"),
                "µs",
            ),
        ]
    };
}

const LOADS: [[Metric; 5]; 9] = [
    requests!("1k", "1 KB", 0.85),
    requests!("100k-request", "100 KB request", 0.75),
    requests!("100k-answer", "100 KB answer", 0.75),
    requests!("1k-to-messages", "1 KB, translated to messages", 0.65),
    requests!(
        "100k-to-messages",
        "100 KB request, translated to messages",
        0.5
    ),
    requests!("1k-to-responses", "1 KB, translated to responses", 0.65),
    requests!(
        "100k-to-responses",
        "100 KB request, translated to responses",
        0.5
    ),
    requests!("1k-to-gemini", "1 KB, translated to Gemini", 0.65),
    requests!(
        "100k-to-gemini",
        "100 KB request, translated to Gemini",
        0.5
    ),
];

/// Every metric, in the order of the report. The part of an id before the point is the
/// workload's.
pub(crate) fn metrics() -> impl Iterator<Item = &'static Metric> {
    let rates = LOADS.iter().chain(&STREAMS).flatten();
    rates.chain(LATENCIES.iter().flatten()).chain(&STARTS)
}

const STREAMS: [[Metric; 5]; 2] = [
    streams!("streams", "64 streams, an event every 5 ms"),
    streams!("500-streams", "500 streams, an event every 10 ms"),
];

const LATENCIES: [[Metric; 3]; 2] = [
    latency!("latency", "concurrency 1"),
    latency!("latency-100k", "concurrency 1, 100 KB request"),
];

const STARTS: [Metric; 4] = [
    over(
        "start.idle",
        "memory when idle",
        "MiB",
        Some(Bar::AtMost(12.0)),
    ),
    over("start.per_stream", "memory per open stream", "KiB", None),
    over(
        "start.per_stream_later",
        "memory per open stream, the third time as many are open",
        "KiB",
        None,
    ),
    over(
        "start.first_answer",
        "start to first answered request",
        "ms",
        None,
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(low: f64, median: f64, high: f64) -> Estimate {
        Estimate { median, low, high }
    }

    #[test]
    fn a_floor_is_judged_by_median_and_upper_end() {
        let bar = Bar::AtLeast(0.85);
        assert_eq!(bar.judge(&estimate(0.80, 0.86, 0.9)), Verdict::Met);
        assert_eq!(
            bar.judge(&estimate(0.80, 0.84, 0.9)),
            Verdict::WithinInterval
        );
        assert_eq!(bar.judge(&estimate(0.70, 0.75, 0.8)), Verdict::Missed);
    }

    #[test]
    fn a_ceiling_is_judged_by_median_and_lower_end() {
        let bar = Bar::AtMost(40.0);
        assert_eq!(bar.judge(&estimate(20.0, 30.0, 90.0)), Verdict::Met);
        assert_eq!(
            bar.judge(&estimate(35.0, 45.0, 90.0)),
            Verdict::WithinInterval
        );
        assert_eq!(bar.judge(&estimate(50.0, 60.0, 90.0)), Verdict::Missed);
    }

    #[test]
    fn metric_ids_are_unique() {
        let mut ids: Vec<_> = metrics().map(|metric| metric.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), metrics().count());
    }
}
