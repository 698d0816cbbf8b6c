//! Exemplars: for each bucket of a histogram, the last request in it that has an exported trace.

use super::exposition::escaped;
use crate::clock;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

/// The exemplars of one histogram, by the index of their bucket. Empty without traces.
#[derive(Default)]
pub(super) struct Exemplars(Mutex<BTreeMap<usize, Exemplar>>);

struct Exemplar {
    trace_id: Box<str>,
    value: f64,
    unix_ms: u64,
}

/// The exemplar of each bucket, as OpenMetrics has it, by the bucket's name and labels.
pub(super) type OfBuckets = HashMap<String, String>;

impl Exemplars {
    /// Notes a value whose trace is exported. `bounds`: the upper bounds of the buckets.
    pub(super) fn note(&self, bounds: &[f64], value: f64, trace_id: &str) {
        let bucket = bounds.partition_point(|bound| *bound < value);
        let exemplar = Exemplar {
            trace_id: trace_id.into(),
            value,
            unix_ms: clock::unix_ms(),
        };
        self.0.lock().insert(bucket, exemplar);
    }

    /// Adds them to `all`. `labels`: names and values, in the order of the page.
    pub(super) fn collect(
        &self,
        name: &str,
        labels: [(&str, &str); 3],
        bounds: &[f64],
        all: &mut OfBuckets,
    ) {
        for (bucket, exemplar) in &*self.0.lock() {
            let mut series = format!("{name}_bucket{{");
            for (label, value) in labels {
                // Writing to a string cannot fail.
                let _ = write!(series, "{label}=\"{}\",", escaped(value));
            }
            let _ = match bounds.get(*bucket) {
                Some(bound) => write!(series, "le=\"{bound}\"}}"),
                None => write!(series, "le=\"+Inf\"}}"),
            };
            let Exemplar {
                trace_id,
                value,
                unix_ms,
            } = exemplar;
            let (seconds, millis) = (unix_ms / 1000, unix_ms % 1000);
            let text = format!("# {{trace_id=\"{trace_id}\"}} {value} {seconds}.{millis:03}");
            all.insert(series, text);
        }
    }
}
