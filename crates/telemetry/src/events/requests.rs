//! Finished requests: their counters, histograms and exemplars.

use super::exemplars::{Exemplars, OfBuckets};
use super::{DURATION, FIRST_BYTE, METRICS, NO_FORMAT, SECONDS, inc};
use once_cell::sync::Lazy;
use parking_lot::RwLock;
use prometheus::{Counter, Histogram, HistogramVec, IntCounter};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tollgate_types::{ErrorCode, Format, Money, Usage};

/// The metrics of one way through the gateway, looked up once a request.
pub(super) struct RouteMeter {
    ok: IntCounter,
    duration: Timing,
    first_byte: Timing,
    labels: [Arc<str>; 3],
    tokens: [IntCounter; 4],
    reasoning: IntCounter,
    generation: Counter,
    cost: Counter,
}

type RouteKey = (Option<Format>, Arc<str>, Arc<str>);

type Routes = HashMap<RouteKey, Arc<RouteMeter>, foldhash::fast::RandomState>;

static ROUTES: Lazy<RwLock<Routes>> = Lazy::new(RwLock::default);

impl RouteMeter {
    /// Exclusive: their sum is the number of tokens.
    const KINDS: [&str; 4] = ["input", "cache_read", "cache_write", "output"];
    /// How requests fail for reasons that no client causes; with 200, the answer broke off.
    const FAILURES: [(&str, ErrorCode); 6] = [
        ("200", ErrorCode::UpstreamError),
        ("200", ErrorCode::ServiceUnavailable),
        ("502", ErrorCode::UpstreamError),
        ("504", ErrorCode::UpstreamError),
        ("503", ErrorCode::ServiceUnavailable),
        ("500", ErrorCode::InternalError),
    ];

    pub(super) fn of(format: Option<Format>, model: &Arc<str>, provider: &Arc<str>) -> Arc<Self> {
        let key = (format, Arc::clone(model), Arc::clone(provider));
        if let Some(meter) = ROUTES.read().get(&key) {
            return Arc::clone(meter);
        }
        let labels = [format_label(format, model), model, provider];
        let [format, model, provider] = labels;
        let requests = |status: &str, code: &str| {
            METRICS
                .requests
                .with_label_values(&[format, model, provider, status, code])
        };
        for (status, code) in Self::FAILURES {
            requests(status, code.as_str());
        }
        let meter = Arc::new(Self {
            ok: requests("200", ""),
            duration: Timing::default(),
            first_byte: Timing::default(),
            labels: labels.map(Arc::from),
            reasoning: METRICS.reasoning.with_label_values(&labels),
            generation: METRICS.generation.with_label_values(&labels),
            cost: METRICS.cost.with_label_values(&labels),
            tokens: Self::KINDS.map(|kind| {
                METRICS
                    .tokens
                    .with_label_values(&[format, model, provider, kind])
            }),
        });
        ROUTES.write().insert(key, Arc::clone(&meter));
        meter
    }
}

/// How long requests take, in seconds.
#[derive(Default)]
struct Timing {
    /// It appears with its first value: histograms are most of a route's series.
    histogram: OnceLock<Histogram>,
    exemplars: Exemplars,
}

impl Timing {
    fn observe(
        &self,
        histograms: &HistogramVec,
        labels: &[Arc<str>; 3],
        took: Duration,
        trace_id: Option<&str>,
    ) {
        let seconds = took.as_secs_f64();
        self.histogram
            .get_or_init(|| histograms.with_label_values(labels))
            .observe(seconds);
        if let Some(trace_id) = trace_id {
            self.exemplars.note(SECONDS, seconds, trace_id);
        }
    }
}

/// The exemplars of all requests.
pub(super) fn exemplars() -> OfBuckets {
    let mut all = OfBuckets::new();
    for meter in ROUTES.read().values() {
        let [format, model, provider] = &meter.labels;
        let labels = [
            ("format", &**format),
            ("model", model),
            ("provider", provider),
        ];
        for (name, timing) in [(DURATION, &meter.duration), (FIRST_BYTE, &meter.first_byte)] {
            timing.exemplars.collect(name, labels, SECONDS, &mut all);
        }
    }
    all
}

/// The label of a request to `model`: an open path has a name in place of a model, and no format.
const fn format_label(format: Option<Format>, model: &str) -> &'static str {
    match format {
        None if model.is_empty() => NO_FORMAT,
        format => Format::name_of(format),
    }
}

/// The record of a finished request.
pub struct Finished<'a> {
    /// The caller's format.
    pub format: Option<Format>,
    /// The model that answered, or was chosen to; of an open path, the name of its entry.
    pub model: Option<&'a Arc<str>>,
    /// The provider that was asked last.
    pub provider: Option<&'a Arc<str>>,
    /// The status that the client got; 499 if it had disconnected before.
    pub status: u16,
    /// The error's code, where it was one.
    pub code: Option<ErrorCode>,
    /// From the head to the end.
    pub duration: Duration,
    /// From the head to the first byte of a provider's answer.
    pub first_byte: Option<Duration>,
    /// The usage that the provider reported.
    pub usage: Option<Usage>,
    /// Its cost, if the prices are known.
    pub cost: Option<Money>,
    /// From sending the request to its provider to its end.
    pub generation: Option<Duration>,
    /// Its trace, if that is exported.
    pub trace_id: Option<&'a str>,
}

/// A request is over.
pub fn request_finished(finished: &Finished<'_>) {
    static NONE: Lazy<Arc<str>> = Lazy::new(|| "".into());
    let model = finished.model.unwrap_or(&NONE);
    let provider = finished.provider.unwrap_or(&NONE);
    let meter = RouteMeter::of(finished.format, model, provider);
    if finished.status == 200 && finished.code.is_none() {
        meter.ok.inc();
    } else {
        let format = format_label(finished.format, model);
        let code = finished.code.map_or("", ErrorCode::as_str);
        let status = finished.status.to_string();
        inc(&METRICS.requests, [format, model, provider, &status, code]);
    }
    let observe = |timing: &Timing, histograms, took| {
        timing.observe(histograms, &meter.labels, took, finished.trace_id);
    };
    observe(&meter.duration, &METRICS.duration, finished.duration);
    if let Some(first_byte) = finished.first_byte {
        observe(&meter.first_byte, &METRICS.first_byte, first_byte);
    }
    if let Some(cost) = finished.cost {
        meter.cost.inc_by(units(cost));
    }
    if let Some(usage) = finished.usage {
        let Usage {
            input,
            cache_read,
            cache_write,
            output,
            reasoning,
        } = usage;
        let generation = finished.generation.unwrap_or_default();
        meter.generation.inc_by(generation.as_secs_f64());
        meter.reasoning.inc_by(reasoning);
        let counts = [input, cache_read, cache_write, output];
        for (counter, count) in meter.tokens.iter().zip(counts) {
            counter.inc_by(count);
        }
    }
}

/// An amount in units of the currency. Prometheus has floating-point numbers alone; the ledger is exact.
#[expect(clippy::cast_precision_loss, reason = "a counter has no more digits")]
fn units(cost: Money) -> f64 {
    cost.nanos() as f64 / 1e9
}
