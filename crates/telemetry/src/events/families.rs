//! Families of metrics whose values stand elsewhere and are read when the page is.

use prometheus::proto::{
    Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType,
};

/// Names and values of labels.
pub type Labels<'a> = &'a [(&'a str, &'a str)];

/// A family of gauges.
pub fn gauges<'a>(
    name: &str,
    help: &str,
    samples: impl IntoIterator<Item = (Labels<'a>, f64)>,
) -> MetricFamily {
    let set = |metric: &mut Metric, value| {
        let mut gauge = Gauge::default();
        gauge.set_value(value);
        metric.set_gauge(gauge);
    };
    family(name, help, MetricType::GAUGE, metrics(samples, set))
}

/// A family of counters.
pub fn counters<'a>(
    name: &str,
    help: &str,
    samples: impl IntoIterator<Item = (Labels<'a>, f64)>,
) -> MetricFamily {
    let set = |metric: &mut Metric, value| {
        let mut counter = Counter::default();
        counter.set_value(value);
        metric.set_counter(counter);
    };
    family(name, help, MetricType::COUNTER, metrics(samples, set))
}

fn metrics<'a>(
    samples: impl IntoIterator<Item = (Labels<'a>, f64)>,
    set: impl Fn(&mut Metric, f64),
) -> Vec<Metric> {
    let metric = |(labels, value)| {
        let mut metric = with_labels(labels);
        set(&mut metric, value);
        metric
    };
    samples.into_iter().map(metric).collect()
}

/// A histogram: upper bounds with the number of values up to each that are above the one before, the
/// number of all values, and their sum.
pub fn histogram(
    name: &str,
    help: &str,
    classes: impl IntoIterator<Item = (f64, u64)>,
    count: u64,
    sum: f64,
) -> MetricFamily {
    let mut below = 0_u64;
    let bucket = |(bound, count)| {
        below = below.saturating_add(count);
        let mut bucket = Bucket::default();
        bucket.set_upper_bound(bound);
        bucket.set_cumulative_count(below);
        bucket
    };
    let mut histogram = Histogram::default();
    histogram.set_bucket(classes.into_iter().map(bucket).collect());
    histogram.set_sample_count(count);
    histogram.set_sample_sum(sum);
    let mut metric = Metric::default();
    metric.set_histogram(histogram);
    family(name, help, MetricType::HISTOGRAM, vec![metric])
}

fn family(name: &str, help: &str, kind: MetricType, metrics: Vec<Metric>) -> MetricFamily {
    let mut family = MetricFamily::default();
    family.set_name(name.to_owned());
    family.set_help(help.to_owned());
    family.set_field_type(kind);
    family.set_metric(metrics);
    family
}

fn with_labels(labels: Labels<'_>) -> Metric {
    let pair = |(name, value): &(&str, &str)| {
        let mut pair = LabelPair::default();
        pair.set_name((*name).to_owned());
        pair.set_value((*value).to_owned());
        pair
    };
    Metric::from_label(labels.iter().map(pair).collect())
}
