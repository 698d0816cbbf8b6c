//! A sample for the dashboard: rates of the last minute, made of the same counters as `/metrics`.

use crate::api::Api;
use crate::health::OpenBreaker;
use axum::body::Bytes;
use prometheus::proto::{Metric, MetricFamily};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;
use tollgate_telemetry::{clock, events, recent};
use tollgate_types::{ErrorCode, Format, Usage};

/// Samples that are kept: rates are those of the last minute.
const KEPT: usize = 31;
/// The most rows of a table in an event.
const MOST_ROWS: usize = 250;
/// The most open breakers in an event.
const MOST_BREAKERS: usize = 100;
/// The longest name in an event, in characters. Clients choose the names of wildcard models.
const MOST_CHARS: usize = 200;

/// The sources of a sample, besides the counters of the process.
pub(super) struct Sources {
    api: Arc<Api>,
}

impl Sources {
    pub(super) fn of(api: &Arc<Api>) -> Self {
        Self {
            api: Arc::clone(api),
        }
    }
}

/// The counters of one model at one provider.
#[derive(Clone, Debug, Default)]
struct Cell {
    requests: f64,
    /// Requests with an error of any cause.
    failed: f64,
    /// Input, cache read, cache write, output.
    tokens: [f64; 4],
    cost: f64,
    /// Times to the first byte, cumulative by bound.
    first: Vec<f64>,
}

const KINDS: [&str; 4] = ["input", "cache_read", "cache_write", "output"];

impl Cell {
    fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.failed += other.failed;
        self.cost += other.cost;
        for (sum, value) in self.tokens.iter_mut().zip(other.tokens) {
            *sum += value;
        }
        if self.first.len() < other.first.len() {
            self.first.resize(other.first.len(), 0.0);
        }
        for (sum, value) in self.first.iter_mut().zip(&other.first) {
            *sum += value;
        }
    }

    /// The increase since `earlier`.
    fn since(&self, earlier: Option<&Self>) -> Self {
        let mut change = self.clone();
        let Some(earlier) = earlier else {
            return change;
        };
        change.requests -= earlier.requests;
        change.failed -= earlier.failed;
        change.cost -= earlier.cost;
        for (value, earlier) in change.tokens.iter_mut().zip(earlier.tokens) {
            *value -= earlier;
        }
        for (value, earlier) in change.first.iter_mut().zip(&earlier.first) {
            *value -= earlier;
        }
        change
    }
}

/// Model and provider.
type Way = (String, String);
/// A kind of event and its name.
type Cause = (&'static str, String);

/// The counters at one time.
struct Counters {
    at: Instant,
    cells: HashMap<Way, Cell>,
    causes: BTreeMap<Cause, f64>,
    gauges: BTreeMap<&'static str, f64>,
    bounds: Vec<f64>,
}

/// The last samples.
#[derive(Default)]
pub(super) struct History(VecDeque<Counters>);

/// A sample: a server-sent event for each kind of viewer.
#[derive(Clone, Default)]
pub(super) struct Sample {
    /// With the last requests.
    pub(super) all: Bytes,
    /// Without them. Empty: this needs the token.
    pub(super) overview: Bytes,
}

/// An event.
#[derive(Serialize)]
struct Event {
    /// In milliseconds of Unix time.
    at: u64,
    /// Seconds that the rates of the tables are of.
    window: f64,
    version: &'static str,
    gauges: BTreeMap<&'static str, f64>,
    /// Since the sample before, in a minute.
    now: Row,
    /// In the window.
    total: Row,
    models: Vec<Row>,
    more_models: usize,
    providers: Vec<Row>,
    more_providers: usize,
    causes: Vec<CauseRow>,
    more_causes: usize,
    breakers: Vec<OpenBreaker>,
    more_breakers: usize,
    requests: Vec<RequestRow>,
}

/// A line of a table; rates are in a minute.
#[derive(Serialize, Default)]
struct Row {
    name: String,
    requests: f64,
    failed: f64,
    tokens: [f64; 4],
    cost: f64,
    /// The 50th, 95th and 99th percentile of the time to the first byte, in seconds.
    first: Option<[f64; 3]>,
    /// Requests since the process began.
    all: f64,
}

#[derive(Serialize)]
struct CauseRow {
    kind: &'static str,
    name: String,
    /// In the window.
    count: f64,
    /// Since the process began.
    all: f64,
}

#[derive(Serialize)]
pub(super) struct RequestRow {
    id: String,
    at: u64,
    format: Option<&'static str>,
    key: Option<String>,
    model: Option<String>,
    provider: Option<String>,
    reason: Option<String>,
    route: Option<String>,
    status: u16,
    code: Option<&'static str>,
    outcome: &'static str,
    attempts: usize,
    failed: Vec<FailedRow>,
    first_ms: Option<u128>,
    ms: u128,
    usage: Option<[u64; 5]>,
    cost: Option<String>,
}

#[derive(Serialize)]
struct FailedRow {
    deployment: String,
    class: &'static str,
    status: Option<u16>,
    after_ms: u128,
}

impl History {
    /// Takes a sample. Blocks for milliseconds.
    pub(super) fn sample(&mut self, sources: &Sources) -> Sample {
        let counters = Counters::read(&events::gather());
        if self.0.len() >= KEPT {
            self.0.pop_front();
        }
        self.0.push_back(counters);
        let Some((last, first)) = self.0.back().zip(self.0.front()) else {
            return Sample::default();
        };
        let before = self.0.iter().rev().nth(1).unwrap_or(last);
        let mut event = last.event(first, before);
        if let Ok(control) = sources.api.operations().control() {
            let health = control.health();
            event.breakers = health.open_breakers();
            event.more_breakers = cut(&mut event.breakers, MOST_BREAKERS);
        }
        let overview = match sources.api.has_open_overview() {
            true => written(&event),
            false => Bytes::new(),
        };
        event.requests = recent::last().iter().map(RequestRow::of).collect();
        let all = written(&event);
        Sample { all, overview }
    }
}

/// A server-sent event.
fn written(event: &Event) -> Bytes {
    let mut text = b"data: ".to_vec();
    if let Err(fault) = serde_json::to_writer(&mut text, event) {
        log::error!("the dashboard cannot be written: {fault}");
    }
    text.extend_from_slice(b"\n\n");
    text.into()
}

/// Shortens a list, and returns how much it has lost.
fn cut<T>(list: &mut Vec<T>, most: usize) -> usize {
    let more = list.len().saturating_sub(most);
    list.truncate(most);
    more
}

fn label<'a>(metric: &'a Metric, name: &str) -> &'a str {
    let pair = metric.get_label().iter().find(|it| it.name() == name);
    pair.map_or("", |it| it.value())
}

impl Counters {
    fn read(families: &[MetricFamily]) -> Self {
        let mut this = Self {
            at: Instant::now(),
            cells: HashMap::new(),
            causes: BTreeMap::new(),
            gauges: BTreeMap::new(),
            bounds: Vec::new(),
        };
        for family in families {
            for metric in family.get_metric() {
                this.add(family.name(), metric);
            }
        }
        this
    }

    fn add(&mut self, family: &str, metric: &Metric) {
        let value = metric.get_counter().get_value();
        match family {
            "tollgate_requests_total" if value > 0.0 => {
                let (code, status) = (label(metric, "code"), label(metric, "status"));
                let cell = self.cell(metric);
                cell.requests += value;
                if !code.is_empty() || status == "499" {
                    cell.failed += value;
                    let name = if code.is_empty() {
                        "client_closed"
                    } else {
                        code
                    };
                    self.cause("error", name.to_owned(), value);
                }
            }
            "tollgate_tokens_total" if value > 0.0 => {
                let kind = label(metric, "kind");
                let place = KINDS.iter().position(|it| *it == kind);
                let cell = self.cell(metric);
                if let Some(tokens) = place.and_then(|it| cell.tokens.get_mut(it)) {
                    *tokens += value;
                }
            }
            "tollgate_cost_total" if value > 0.0 => self.cell(metric).cost += value,
            "tollgate_time_to_first_byte_seconds" => self.add_times(metric),
            "tollgate_upstream_faults_total" if value > 0.0 => {
                let (provider, class) = (label(metric, "provider"), label(metric, "class"));
                self.cause("upstream", format!("{provider}: {class}"), value);
            }
            "tollgate_limits_hit_total" => self.limit("key", label(metric, "limit"), value),
            "tollgate_requests_shed_total" => {
                self.limit("gateway", label(metric, "reason"), value);
            }
            "tollgate_connections_refused_total" => {
                self.limit("connections", label(metric, "reason"), value);
            }
            "tollgate_slow_readers_total" => self.limit("connections", "slow_reader", value),
            "tollgate_requests_in_flight" => self.gauge("in_flight", metric),
            "tollgate_streams_open" => self.gauge("streams", metric),
            "tollgate_connections" => self.gauge("connections", metric),
            "process_resident_memory_bytes" => self.gauge("memory", metric),
            "process_start_time_seconds" => self.gauge("started", metric),
            _ => {}
        }
    }

    fn cell(&mut self, metric: &Metric) -> &mut Cell {
        let way = (
            label(metric, "model").to_owned(),
            label(metric, "provider").to_owned(),
        );
        self.cells.entry(way).or_default()
    }

    fn cause(&mut self, kind: &'static str, name: String, value: f64) {
        *self.causes.entry((kind, name)).or_default() += value;
    }

    fn limit(&mut self, of: &str, name: &str, value: f64) {
        if value > 0.0 {
            self.cause("limit", format!("{of}: {name}"), value);
        }
    }

    fn gauge(&mut self, name: &'static str, metric: &Metric) {
        self.gauges.insert(name, metric.get_gauge().get_value());
    }

    fn add_times(&mut self, metric: &Metric) {
        let histogram = metric.get_histogram();
        if histogram.get_sample_count() == 0 {
            return;
        }
        let buckets = histogram.get_bucket();
        if self.bounds.is_empty() {
            self.bounds = buckets.iter().map(|it| it.upper_bound()).collect();
        }
        let counts = buckets.iter().map(|it| it.cumulative_count());
        let counts = counts.chain([histogram.get_sample_count()]);
        let first = counts.map(float).collect();
        self.cell(metric).add(&Cell {
            first,
            ..Cell::default()
        });
    }

    fn event(&self, first: &Self, before: &Self) -> Event {
        let (window, last) = (self.seconds_since(first), self.seconds_since(before));
        let mut models: BTreeMap<&str, (Cell, f64)> = BTreeMap::new();
        let mut providers: BTreeMap<&str, (Cell, f64)> = BTreeMap::new();
        let (mut total, mut now, mut all) = (Cell::default(), Cell::default(), 0.0);
        for (way, cell) in &self.cells {
            let change = cell.since(first.cells.get(way));
            now.add(&cell.since(before.cells.get(way)));
            total.add(&change);
            all += cell.requests;
            for (name, table) in [(&way.0, &mut models), (&way.1, &mut providers)] {
                // A refused request has neither.
                if !name.is_empty() {
                    let (sum, all) = table.entry(name).or_default();
                    sum.add(&change);
                    *all += cell.requests;
                }
            }
        }
        let rows = |table: BTreeMap<&str, (Cell, f64)>| {
            let row = |(name, (cell, all))| self.row(name, &cell, all, window);
            let mut rows: Vec<_> = table.into_iter().map(row).collect();
            let busier = |row: &Row| (row.requests, row.all);
            rows.sort_by(|one, other| {
                let order = busier(other).partial_cmp(&busier(one));
                order.unwrap_or(std::cmp::Ordering::Equal)
            });
            let more = cut(&mut rows, MOST_ROWS);
            (rows, more)
        };
        let (models, more_models) = rows(models);
        let (providers, more_providers) = rows(providers);
        let (causes, more_causes) = self.causes_since(first);
        Event {
            at: clock::unix_ms(),
            window,
            version: env!("CARGO_PKG_VERSION"),
            gauges: self.gauges.clone(),
            now: self.row("", &now, all, last),
            total: self.row("", &total, all, window),
            models,
            more_models,
            providers,
            more_providers,
            causes,
            more_causes,
            breakers: Vec::new(),
            more_breakers: 0,
            requests: Vec::new(),
        }
    }

    fn seconds_since(&self, earlier: &Self) -> f64 {
        self.at.saturating_duration_since(earlier.at).as_secs_f64()
    }

    fn causes_since(&self, first: &Self) -> (Vec<CauseRow>, usize) {
        let mut rows: Vec<_> = self
            .causes
            .iter()
            .map(|(cause, all)| CauseRow {
                kind: cause.0,
                name: shortened(&cause.1),
                count: all - first.causes.get(cause).unwrap_or(&0.0),
                all: *all,
            })
            .collect();
        rows.sort_by(|one, other| {
            let order = (other.count, other.all).partial_cmp(&(one.count, one.all));
            order.unwrap_or(std::cmp::Ordering::Equal)
        });
        let more = cut(&mut rows, MOST_ROWS);
        (rows, more)
    }

    fn row(&self, name: &str, cell: &Cell, all: f64, seconds: f64) -> Row {
        // The first sample has nothing before it.
        let minutes = if seconds > 0.0 {
            seconds / 60.0
        } else {
            f64::INFINITY
        };
        let at = |share| percentile(&self.bounds, &cell.first, share);
        Row {
            name: shortened(name),
            requests: cell.requests / minutes,
            failed: cell.failed / minutes,
            tokens: cell.tokens.map(|it| it / minutes),
            cost: cell.cost / minutes,
            first: at(0.5)
                .zip(at(0.95))
                .zip(at(0.99))
                .map(|((p50, p95), p99)| [p50, p95, p99]),
            all,
        }
    }
}

/// A percentile by linear interpolation in its bucket, as Prometheus has it. `None`: there are no values.
fn percentile(bounds: &[f64], cumulative: &[f64], share: f64) -> Option<f64> {
    let count = cumulative.last().copied().filter(|it| *it > 0.0)?;
    let rank = share * count;
    let mut below = (0.0, 0.0);
    for (bound, upto) in bounds.iter().zip(cumulative) {
        if *upto >= rank && *upto > below.1 {
            let part = (rank - below.1) / (upto - below.1);
            return Some((bound - below.0).mul_add(part, below.0));
        }
        below = (*bound, *upto);
    }
    // Beyond the last bound nothing is known.
    bounds.last().copied()
}

impl RequestRow {
    pub(super) fn of(request: &recent::Recent) -> Self {
        let failed = |it: &recent::FailedAttempt| FailedRow {
            deployment: shortened(&it.deployment),
            class: it.class,
            status: it.status,
            after_ms: it.after.as_millis(),
        };
        let usage = |it: Usage| {
            [
                it.input,
                it.cache_read,
                it.cache_write,
                it.output,
                it.reasoning,
            ]
        };
        Self {
            id: request.id.as_str().to_owned(),
            at: request.at,
            format: request.format.map(Format::as_str),
            key: request.key.as_ref().map(|it| it.as_str().to_owned()),
            model: request.model.as_deref().map(shortened),
            provider: request.provider.as_deref().map(shortened),
            reason: request.route_reason.as_deref().map(shortened),
            route: request.route.as_deref().map(shortened),
            status: request.status,
            code: request.code.map(ErrorCode::as_str),
            outcome: request.outcome,
            attempts: request.attempts,
            failed: request.failed.iter().map(failed).collect(),
            first_ms: request.first_byte.map(|it| it.as_millis()),
            ms: request.duration.as_millis(),
            usage: request.usage.map(usage),
            cost: request.cost.map(|it| it.to_string()),
        }
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(MOST_CHARS).collect()
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts of requests are far below 2^53"
)]
const fn float(value: u64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_interpolated_in_its_bucket() {
        let bounds = [0.1, 0.2, 0.4];
        let cumulative = [10.0, 20.0, 40.0, 40.0];
        let at = |share| percentile(&bounds, &cumulative, share).unwrap();
        assert!((at(0.25) - 0.1).abs() < 1e-9, "{}", at(0.25));
        assert!((at(0.5) - 0.2).abs() < 1e-9, "{}", at(0.5));
        assert!((at(0.75) - 0.3).abs() < 1e-9, "{}", at(0.75));
        assert_eq!(percentile(&bounds, &[0.0; 4], 0.5), None);
        // All values are beyond the last bound.
        let at = percentile(&bounds, &[0.0, 0.0, 0.0, 5.0], 0.5);
        assert!((at.unwrap() - 0.4).abs() < 1e-9);
    }
}
