//! Events for operators: one function per event, each with its metrics and log
//! line. Labels come from the configuration alone, so that their number is bounded.

mod edge;
pub mod families;
mod health;

pub use edge::{
    ConnectionRefusal, HeadRefusal, Shed, connection_closed, connection_opened, connection_refused,
    connections, handshake_failed, head_refused, http2_flood, request_shed, resident_memory,
    slow_reader_cut,
};

use arc_swap::ArcSwapOption;
use once_cell::sync::Lazy;
use parking_lot::RwLock;
use prometheus::process_collector::ProcessCollector;
use prometheus::proto::MetricFamily;
use prometheus::{
    Counter, CounterVec, Encoder, Histogram, HistogramOpts, HistogramVec, IntCounter,
    IntCounterVec, IntGauge, Opts, Registry, TextEncoder,
};
use std::collections::HashMap;
use std::fmt::Display;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tollgate_providers::{FetchFault, Report, Token};
use tollgate_routing::health::{BreakerScope, Change, Fleet, Transition};
use tollgate_routing::{Catalog, Decision, ModelKind};
use tollgate_types::{ErrorCode, Format, Money, Usage};
use tollgate_wire::fault::{FaultClass, UpstreamFault};

/// Everything that is measured.
struct Metrics {
    registry: Registry,
    requests: IntCounterVec,
    duration: HistogramVec,
    first_byte: HistogramVec,
    tokens: IntCounterVec,
    reasoning: IntCounterVec,
    generation: CounterVec,
    cost: CounterVec,
    in_flight: IntGauge,
    streams: IntGauge,
    bodies: IntGauge,
    upstream_faults: IntCounterVec,
    retries_refused: IntCounter,
    breakers_opened: IntCounterVec,
    token_refreshes: IntCounterVec,
    access_lines_lost: IntCounter,
    spans: IntCounterVec,
    reloads: IntCounterVec,
    token_counts: IntCounterVec,
    choices: IntCounterVec,
}

static METRICS: Lazy<Metrics> = Lazy::new(Metrics::new);

/// Seconds: from a cached answer to the longest thought.
const SECONDS: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0,
];

const ROUTE: &[&str] = &["format", "model", "provider"];

impl Metrics {
    #[expect(
        clippy::expect_used,
        reason = "names and labels are fixed here: a wrong one fails the first test that runs"
    )]
    fn new() -> Self {
        let registry = Registry::new();
        let counters = |name: &str, help: &str, labels: &[&str]| {
            let vec = IntCounterVec::new(Opts::new(name, help), labels).expect("valid metric");
            registry
                .register(Box::new(vec.clone()))
                .expect("registered once");
            vec
        };
        let histograms = |name: &str, help: &str| {
            let opts = HistogramOpts::new(name, help).buckets(SECONDS.to_vec());
            let vec = HistogramVec::new(opts, ROUTE).expect("valid metric");
            registry
                .register(Box::new(vec.clone()))
                .expect("registered once");
            vec
        };
        let gauge = |name: &str, help: &str| {
            let gauge = IntGauge::new(name, help).expect("valid metric");
            registry
                .register(Box::new(gauge.clone()))
                .expect("registered once");
            gauge
        };
        let amounts = |name: &str, help: &str| {
            let vec = CounterVec::new(Opts::new(name, help), ROUTE).expect("valid metric");
            registry
                .register(Box::new(vec.clone()))
                .expect("registered once");
            vec
        };
        let generation = amounts(
            "tollgate_generation_seconds_total",
            "Seconds from sending a request to its end, for requests with reported usage.",
        );
        let cost = amounts(
            "tollgate_cost_total",
            "Cost of requests to models with a price, in the currency of the prices.",
        );
        let lost = IntCounter::new(
            "tollgate_access_lines_lost_total",
            "Access log lines lost because their reader was too slow or the file could not be written.",
        )
        .expect("valid metric");
        registry
            .register(Box::new(lost.clone()))
            .expect("registered once");
        let refused = IntCounter::new(
            "tollgate_retries_refused_total",
            "Failed attempts that were not retried because the retry budget was used up.",
        )
        .expect("valid metric");
        registry
            .register(Box::new(refused.clone()))
            .expect("registered once");
        let build = IntGauge::with_opts(
            Opts::new("tollgate_build_info", "The program; always 1.")
                .const_label("version", env!("CARGO_PKG_VERSION"))
                .const_label("os", std::env::consts::OS)
                .const_label("arch", std::env::consts::ARCH),
        )
        .expect("valid metric");
        build.set(1);
        registry.register(Box::new(build)).expect("registered once");
        registry
            .register(Box::new(ProcessCollector::for_self()))
            .expect("registered once");
        let metrics = Self {
            requests: counters(
                "tollgate_requests_total",
                "Finished requests, by status and error code.",
                &["format", "model", "provider", "status", "code"],
            ),
            duration: histograms(
                "tollgate_request_duration_seconds",
                "Seconds from the request's head to the answer's end.",
            ),
            first_byte: histograms(
                "tollgate_time_to_first_byte_seconds",
                "Seconds from the request's head to the first byte of a provider's answer that was sent.",
            ),
            tokens: counters(
                "tollgate_tokens_total",
                "Tokens that providers reported, by kind; each token has one kind. Output includes reasoning.",
                &["format", "model", "provider", "kind"],
            ),
            reasoning: counters(
                "tollgate_reasoning_tokens_total",
                "Output tokens that were reasoning, as providers reported them.",
                ROUTE,
            ),
            generation,
            cost,
            in_flight: gauge(
                "tollgate_requests_in_flight",
                "Running requests to providers.",
            ),
            streams: gauge("tollgate_streams_open", "Streams that are being sent."),
            bodies: gauge(
                "tollgate_request_body_bytes",
                "Memory that request bodies, and what is made of them, take.",
            ),
            upstream_faults: counters(
                "tollgate_upstream_faults_total",
                "Failed attempts at a provider, whether or not a client noticed, by class.",
                &["provider", "class"],
            ),
            retries_refused: refused,
            breakers_opened: counters(
                "tollgate_breaker_opened_total",
                "Times that a breaker opened, by what it is for.",
                &["scope", "provider", "deployment", "credential"],
            ),
            token_refreshes: counters(
                "tollgate_credential_refreshes_total",
                "Tokens fetched for a credential: ok, or how that failed.",
                &["provider", "credential", "outcome"],
            ),
            access_lines_lost: lost,
            spans: counters(
                "tollgate_trace_spans_total",
                "Sampled spans, by result: exported, dropped because the queue was full, or failed at the collector.",
                &["result"],
            ),
            reloads: counters(
                "tollgate_configuration_reloads_total",
                "Reloads of the configuration: applied, unchanged or failed.",
                &["outcome"],
            ),
            token_counts: counters(
                "tollgate_token_counts_total",
                "Answers to count_tokens: counted upstream, from the cache, local, or by length because too many were asked for.",
                &["source"],
            ),
            choices: counters(
                "tollgate_auto_choices_total",
                "Models that the gateway chose, by the rule that decided.",
                &["profile", "model", "why"],
            ),
            registry,
        };
        for outcome in ReloadOutcome::ALL {
            metrics.reloads.with_label_values(&[outcome.as_str()]);
        }
        for result in SpanResult::ALL {
            metrics.spans.with_label_values(&[result.as_str()]);
        }
        for source in CountSource::ALL {
            metrics.token_counts.with_label_values(&[source.as_str()]);
        }
        for format in Format::ALL
            .map(Format::as_str)
            .into_iter()
            .chain([NO_FORMAT])
        {
            for code in ErrorCode::ALL {
                let status = code.default_status().to_string();
                let labels = [format, "", "", &status, code.as_str()];
                metrics.requests.with_label_values(&labels);
            }
        }
        metrics
    }
}

/// The label of requests to paths of no format.
const NO_FORMAT: &str = "none";

/// The counters and histograms of this process.
pub fn gather() -> Vec<MetricFamily> {
    let mut families = METRICS.registry.gather();
    families.extend(edge::gather());
    families
}

/// The page that Prometheus reads, with `further` families at its end.
pub fn exposition(further: Vec<MetricFamily>) -> Vec<u8> {
    let mut families = gather();
    if let Some(fleet) = FLEET.load_full() {
        families.extend(health::families(&fleet));
    }
    families.extend(further);
    // The encoder refuses a family without samples.
    families.retain(|family| !family.get_metric().is_empty());
    let mut page = Vec::with_capacity(16 * 1024);
    if let Err(fault) = TextEncoder::new().encode(&families, &mut page) {
        log::error!("metrics cannot be written: {fault}");
    }
    page
}

/// The fleet whose health the metrics page reports.
static FLEET: Lazy<ArcSwapOption<Fleet>> = Lazy::new(ArcSwapOption::default);

/// Makes the metrics page report the health of this fleet, and every counter that the configuration
/// implies, from 0 on: without a sample before it, the rate of a first event is lost.
pub fn watch(fleet: &Arc<Fleet>, catalog: &Catalog) {
    for provider in catalog.providers() {
        for class in FaultClass::ALL {
            let labels = [&*provider.name, class.as_str()];
            METRICS.upstream_faults.with_label_values(&labels);
        }
    }
    let is_asked = |kind: &ModelKind| matches!(kind, ModelKind::Model | ModelKind::Wildcard { .. });
    for model in catalog.all().filter(|model| is_asked(&model.kind)) {
        for deployment in &model.deployments {
            for format in Format::ALL {
                RouteMeter::of(Some(format), &model.id, &deployment.provider.name);
            }
        }
    }
    for profile in catalog.profiles() {
        for model in &profile.candidates {
            for why in profile.labels() {
                let labels = [&*profile.name, &*model.id, why];
                METRICS.choices.with_label_values(&labels);
            }
        }
    }
    for handle in fleet.all() {
        for credential in &*handle.credentials {
            for scope in BreakerScope::ALL {
                let [provider, deployment, credential] = health::names(scope, handle, credential);
                let labels = [scope.as_str(), provider, deployment, credential];
                METRICS.breakers_opened.with_label_values(&labels);
            }
        }
    }
    for (_, credential) in fleet.credentials() {
        if let Some(token) = &credential.token {
            for outcome in FetchFault::ALL
                .map(FetchFault::as_str)
                .into_iter()
                .chain([OK])
            {
                token_outcome(token, outcome);
            }
        }
    }
    FLEET.store(Some(Arc::clone(fleet)));
}

/// A check has opened or closed the breaker of a provider.
pub fn provider_changed(provider: &str, change: Change) {
    changed(BreakerScope::Provider, [provider, "", ""], change);
}

/// The outcome of fetching a token, where it was fetched.
const OK: &str = "ok";

fn token_outcome(token: &Token, outcome: &str) -> IntCounter {
    let [provider, credential] = token.names();
    let labels = [provider, credential, outcome];
    METRICS.token_refreshes.with_label_values(&labels)
}

/// A token was fetched, or could not be.
pub fn token_refreshed(report: &Report) {
    let [provider, credential] = report.token.names();
    let outcome = report.failure.as_ref();
    let outcome = outcome.map_or(OK, |failure| failure.fault.as_str());
    token_outcome(&report.token, outcome).inc();
    let name = format_args!("provider {provider}, credential '{credential}'");
    match (&report.failure, report.valid_for) {
        (None, Some(valid)) if report.is_news || report.was_refused => {
            log::info!("{name}: a token was fetched, valid for {valid:.0?}");
        }
        (None, _) => {}
        (Some(failure), Some(valid)) => log::warn!(
            "{name}: no new token: {failure}; the current one is valid for another {valid:.0?}, the next attempt is \
             in {:.0?}",
            report.next_in
        ),
        (Some(failure), None) => log::error!(
            "{name}: no token: {failure}; requests are not sent with this credential, the next attempt is in {:.0?}",
            report.next_in
        ),
    }
}

/// A breaker has opened or closed.
pub fn breaker_changed(transition: &Transition<'_>) {
    let labels = health::labels(transition);
    changed(transition.scope, labels, transition.change);
}

fn changed(scope: BreakerScope, [provider, deployment, credential]: [&str; 3], change: Change) {
    let name = match scope {
        BreakerScope::Provider => format!("provider {provider}"),
        BreakerScope::Deployment => format!("deployment {deployment}"),
        BreakerScope::Credential => format!("provider {provider}, credential '{credential}'"),
        BreakerScope::DeploymentCredential => {
            format!("deployment {deployment}, credential '{credential}'")
        }
    };
    match change {
        Change::Opened(span) => {
            METRICS
                .breakers_opened
                .with_label_values(&[scope.as_str(), provider, deployment, credential])
                .inc();
            log::warn!("{name}: breaker opened for {span:.1?}");
        }
        Change::Closed => log::info!("{name}: breaker closed"),
    }
}

/// The metrics of one way through the gateway, looked up once a request.
pub struct RouteMeter {
    ok: IntCounter,
    /// Histograms appear with their first value: they are most of a route's series.
    duration: OnceLock<Histogram>,
    first_byte: OnceLock<Histogram>,
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

    fn of(format: Option<Format>, model: &Arc<str>, provider: &Arc<str>) -> Arc<Self> {
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
            duration: OnceLock::new(),
            first_byte: OnceLock::new(),
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

    fn observe(&self, cell: &OnceLock<Histogram>, histograms: &HistogramVec, took: Duration) {
        let histogram = cell.get_or_init(|| histograms.with_label_values(&self.labels));
        histogram.observe(took.as_secs_f64());
    }
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
    /// What the provider reported.
    pub usage: Option<Usage>,
    /// What it cost, if the prices are known.
    pub cost: Option<Money>,
    /// From sending the request to its provider to its end.
    pub generation: Option<Duration>,
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
        METRICS
            .requests
            .with_label_values(&[format, model, provider, &status, code])
            .inc();
    }
    meter.observe(&meter.duration, &METRICS.duration, finished.duration);
    if let Some(first_byte) = finished.first_byte {
        meter.observe(&meter.first_byte, &METRICS.first_byte, first_byte);
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

/// An attempt has failed at a provider. The cause is what the connection said of it.
pub fn upstream_fault(
    request: &impl Display,
    provider: &str,
    fault: &UpstreamFault,
    cause: Option<&dyn Display>,
) {
    let class = fault.class.as_str();
    METRICS
        .upstream_faults
        .with_label_values(&[provider, class])
        .inc();
    let status = fault.status.map(|it| format!(", status {it}"));
    let code = fault.provider_code.as_ref();
    let code = code.map(|it| format!(", code {it}"));
    let [status, code] = [status, code].map(Option::unwrap_or_default);
    let cause: &dyn Display = match (cause, &fault.words) {
        (Some(cause), _) => cause,
        (None, Some(words)) => &words.message,
        (None, None) if fault.class == FaultClass::Unreachable => &"its host has no address",
        (None, None) => &"in its answer",
    };
    log::warn!("{request}: provider {provider}: {class}{status}{code}: {cause}");
    if let Some(ahead) = fault.clock_ahead {
        let side = if ahead > 0 { "ahead of" } else { "behind" };
        let seconds = ahead.unsigned_abs();
        log::error!(
            "{request}: provider {provider}: the clock of this machine is {seconds} s {side} the provider's, so that \
             signatures and assertions are refused: synchronise it"
        );
    }
}

/// A request is not tried again because others have used up the retry budget.
pub fn retry_refused() {
    METRICS.retries_refused.inc();
}

/// Where the answer to `count_tokens` came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountSource {
    /// The provider counted.
    Upstream,
    /// The count was in the cache.
    Cache,
    /// It was counted here.
    Local,
    /// Too many were to be counted: the length stands for the count.
    Length,
}

impl CountSource {
    const ALL: [Self; 4] = [Self::Upstream, Self::Cache, Self::Local, Self::Length];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Upstream => "upstream",
            Self::Cache => "cache",
            Self::Local => "local",
            Self::Length => "length",
        }
    }
}

/// A caller gets the count of tokens that it asked for.
pub fn tokens_counted(source: CountSource) {
    METRICS
        .token_counts
        .with_label_values(&[source.as_str()])
        .inc();
}

/// A profile has chosen a model.
pub fn model_chosen(decision: &Decision) {
    let labels = [&*decision.profile, &*decision.model.id, decision.label()];
    METRICS.choices.with_label_values(&labels).inc();
}

/// What became of a sampled span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanResult {
    /// The collector has accepted it.
    Exported,
    /// The queue was full.
    Dropped,
    /// The collector did not accept it.
    Failed,
}

impl SpanResult {
    const ALL: [Self; 3] = [Self::Exported, Self::Dropped, Self::Failed];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Exported => "exported",
            Self::Dropped => "dropped",
            Self::Failed => "failed",
        }
    }
}

/// Counts sampled spans.
pub fn spans(result: SpanResult, count: usize) {
    let count = u64::try_from(count).unwrap_or(u64::MAX);
    let labels = [result.as_str()];
    METRICS.spans.with_label_values(&labels).inc_by(count);
}

/// Lines of the access log were lost.
pub fn access_lines_lost(count: usize) {
    let count = u64::try_from(count).unwrap_or(u64::MAX);
    METRICS.access_lines_lost.inc_by(count);
}

/// Counts a request, from its head until it is dropped, and among those with which it competes.
pub struct InFlight(Stage);

/// How far a request has come, as far as it counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Its key is not known yet.
    Arriving,
    /// It goes to a provider.
    UnderWay,
    /// The gateway answers it by itself.
    Local,
    /// It is answered; its caller may still send.
    Lingering,
}

/// Requests that are there, whatever stage they have reached.
static ALL: AtomicU64 = AtomicU64::new(0);
/// Requests that the gateway answers by itself.
static LOCAL: AtomicU64 = AtomicU64::new(0);
/// Requests that are answered and whose callers may still send.
static LINGERING: AtomicU64 = AtomicU64::new(0);

impl InFlight {
    /// One more, whose key is not known yet.
    pub fn begin() -> Self {
        ALL.fetch_add(1, Ordering::Relaxed);
        Self(Stage::Arriving)
    }

    /// Requests to providers under way.
    pub fn count() -> u64 {
        u64::try_from(METRICS.in_flight.get()).unwrap_or(0)
    }

    /// Requests under way that the gateway answers by itself.
    pub fn local() -> u64 {
        LOCAL.load(Ordering::Relaxed)
    }

    /// All requests, whatever stage they have reached.
    pub fn all() -> u64 {
        ALL.load(Ordering::Relaxed)
    }

    /// It goes to a provider.
    pub fn go_on(&mut self) {
        self.enter(Stage::UnderWay);
    }

    /// The gateway answers it by itself.
    pub fn stay(&mut self) {
        self.enter(Stage::Local);
    }

    /// It is answered, and competes with no other request. `false`: so many are there already that it
    /// is not worth waiting for what its caller may still send.
    pub fn linger(&mut self) -> bool {
        const MOST: u64 = 1024;
        self.enter(Stage::Lingering);
        LINGERING.load(Ordering::Relaxed) <= MOST
    }

    fn enter(&mut self, stage: Stage) {
        if self.0 == stage {
            return;
        }
        self.leave();
        self.0 = stage;
        match stage {
            Stage::Arriving => {}
            Stage::UnderWay => METRICS.in_flight.inc(),
            Stage::Local => drop(LOCAL.fetch_add(1, Ordering::Relaxed)),
            Stage::Lingering => drop(LINGERING.fetch_add(1, Ordering::Relaxed)),
        }
    }

    fn leave(&self) {
        match self.0 {
            Stage::Arriving => {}
            Stage::UnderWay => METRICS.in_flight.dec(),
            Stage::Local => drop(LOCAL.fetch_sub(1, Ordering::Relaxed)),
            Stage::Lingering => drop(LINGERING.fetch_sub(1, Ordering::Relaxed)),
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.leave();
        ALL.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Counts an answer among those being streamed for as long as it lives.
pub struct OpenStream(());

impl OpenStream {
    /// One more.
    pub fn begin() -> Self {
        METRICS.streams.inc();
        Self(())
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        METRICS.streams.dec();
    }
}

/// Bytes of memory that requests hold.
static HELD: AtomicU64 = AtomicU64::new(0);

/// Requests hold so many bytes of memory more, where `allowed` finds nothing against as many as it
/// is then; concurrent readers see none of those that are refused.
///
/// # Errors
///
/// What `allowed` has against it.
pub fn hold_more<E>(bytes: u64, allowed: impl Fn(u64) -> Result<(), E>) -> Result<(), E> {
    let mut held = held();
    loop {
        let all = held.saturating_add(bytes);
        allowed(all)?;
        match HELD.compare_exchange_weak(held, all, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => break,
            Err(now) => held = now,
        }
    }
    METRICS.bodies.add(i64::try_from(bytes).unwrap_or(i64::MAX));
    Ok(())
}

/// Requests hold so many bytes less.
pub fn hold_less(bytes: u64) {
    HELD.fetch_sub(bytes, Ordering::Relaxed);
    METRICS.bodies.sub(i64::try_from(bytes).unwrap_or(i64::MAX));
}

/// How many bytes requests hold.
pub fn held() -> u64 {
    HELD.load(Ordering::Relaxed)
}

/// What came of reading the configuration again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReloadOutcome {
    /// It is served.
    Applied,
    /// There was nothing new in it.
    Unchanged,
    /// It was at fault, and is not served.
    Failed,
}

impl ReloadOutcome {
    const ALL: [Self; 3] = [Self::Applied, Self::Unchanged, Self::Failed];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Unchanged => "unchanged",
            Self::Failed => "failed",
        }
    }
}

/// The configuration was read again.
pub fn reloaded(outcome: ReloadOutcome) {
    METRICS.reloads.with_label_values(&[outcome.as_str()]).inc();
}
