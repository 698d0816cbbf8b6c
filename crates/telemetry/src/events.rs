//! Events for operators: one function per event, each with its metrics and log
//! line. Labels come from the configuration alone, so that their number is bounded.

mod builder;
mod edge;
mod exemplars;
mod exposition;
pub mod families;
mod health;
mod load;
mod requests;

pub use edge::{
    ConnectionRefusal, HeadRefusal, Shed, connection_closed, connection_opened, connection_refused,
    connections, handshake_failed, head_refused, http2_flood, request_shed, resident_memory,
    slow_reader_cut,
};
pub use exposition::{PageFormat, exposition, gather};
pub use load::{InFlight, OpenStream, held, hold_less, hold_more};
pub use requests::{Finished, request_finished};

use arc_swap::ArcSwapOption;
use builder::Builder;
use edge::Edge;
use once_cell::sync::Lazy;
use parking_lot::Mutex;
use prometheus::process_collector::ProcessCollector;
use prometheus::{CounterVec, HistogramVec, IntCounter, IntCounterVec, IntGauge, Opts, Registry};
use requests::RouteMeter;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tollgate_providers::{FetchFault, Report, Token};
use tollgate_routing::health::{BreakerScope, Change, Fleet, Transition};
use tollgate_routing::{Catalog, Decision};
use tollgate_types::{ErrorCode, Format, LimitHit};
use tollgate_wire::fault::{FaultClass, UpstreamFault, shortened};

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
    content_cut: IntCounter,
    reloads: IntCounterVec,
    token_counts: IntCounterVec,
    choices: IntCounterVec,
    limits_hit: IntCounterVec,
    edge: Edge,
}

static METRICS: Lazy<Metrics> = Lazy::new(Metrics::new);

/// Seconds: from a cached answer to the longest thought.
const SECONDS: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0,
];

const ROUTE: &[&str] = &["format", "model", "provider"];

/// The names of the histograms of requests.
const DURATION: &str = "tollgate_request_duration_seconds";
const FIRST_BYTE: &str = "tollgate_time_to_first_byte_seconds";

impl Metrics {
    fn new() -> Self {
        let make = Builder::default();
        make.register(ProcessCollector::for_self());
        let build = Opts::new("tollgate_build_info", "The program; always 1.")
            .const_label("version", env!("CARGO_PKG_VERSION"))
            .const_label("os", std::env::consts::OS)
            .const_label("arch", std::env::consts::ARCH);
        make.kept(IntGauge::with_opts(build)).set(1);
        let requests = make.counters(
            "tollgate_requests_total",
            "Finished requests, by status and error code.",
            &["format", "model", "provider", "status", "code"],
        );
        let formats = Format::ALL.map(Format::as_str);
        for format in formats.into_iter().chain([NO_FORMAT]) {
            for code in ErrorCode::ALL {
                let status = code.default_status().to_string();
                requests.with_label_values(&[format, "", "", &status, code.as_str()]);
            }
        }
        Self {
            requests,
            duration: make.histograms(
                DURATION,
                "Seconds from the request's head to the answer's end.",
            ),
            first_byte: make.histograms(
                FIRST_BYTE,
                "Seconds from the request's head to the first byte of a provider's answer that was sent.",
            ),
            tokens: make.counters(
                "tollgate_tokens_total",
                "Tokens that providers reported, by kind; each token has one kind. Output includes reasoning.",
                &["format", "model", "provider", "kind"],
            ),
            reasoning: make.counters(
                "tollgate_reasoning_tokens_total",
                "Output tokens that were reasoning, as providers reported them.",
                ROUTE,
            ),
            generation: make.amounts(
                "tollgate_generation_seconds_total",
                "Seconds from sending a request to its end, for requests with reported usage.",
            ),
            cost: make.amounts(
                "tollgate_cost_total",
                "Cost of requests to models with a price, in the currency of the prices.",
            ),
            in_flight: make.gauge(
                "tollgate_requests_in_flight",
                "Running requests to providers.",
            ),
            streams: make.gauge("tollgate_streams_open", "Streams that are being sent."),
            bodies: make.gauge(
                "tollgate_request_body_bytes",
                "Memory that request bodies, and what is made of them, take.",
            ),
            upstream_faults: make.counters(
                "tollgate_upstream_faults_total",
                "Failed attempts at a provider, whether or not a client noticed, by class.",
                &["provider", "class"],
            ),
            retries_refused: make.counter(
                "tollgate_retries_refused_total",
                "Failed attempts that were not retried because the retry budget was used up.",
            ),
            breakers_opened: make.counters(
                "tollgate_breaker_opened_total",
                "Times that a breaker opened, by what it is for.",
                &["scope", "provider", "deployment", "credential"],
            ),
            token_refreshes: make.counters(
                "tollgate_credential_refreshes_total",
                "Tokens fetched for a credential: ok, or how that failed.",
                &["provider", "credential", "outcome"],
            ),
            access_lines_lost: make.counter(
                "tollgate_access_lines_lost_total",
                "Access log lines lost because their reader was too slow, or the file or the journal did not take them.",
            ),
            spans: make.counters_of(
                "tollgate_trace_spans_total",
                "Sampled spans, by result: exported, dropped because the queue was full, or failed at the collector.",
                "result",
                SpanResult::ALL.map(SpanResult::as_str),
            ),
            content_cut: make.counter(
                "tollgate_trace_content_cut_total",
                "Prompts and answers that are not whole in traces: longer than 4 MiB, or too many wait for their export.",
            ),
            reloads: make.counters_of(
                "tollgate_configuration_reloads_total",
                "Reloads of the configuration: applied, unchanged or failed.",
                "outcome",
                ReloadOutcome::ALL.map(ReloadOutcome::as_str),
            ),
            token_counts: make.counters_of(
                "tollgate_token_counts_total",
                "Answers to count_tokens: counted upstream, from the cache, local, or by length because too many were asked for.",
                "source",
                CountSource::ALL.map(CountSource::as_str),
            ),
            choices: make.counters(
                "tollgate_auto_choices_total",
                "Models that the gateway chose, by the rule that decided.",
                &["profile", "model", "why"],
            ),
            limits_hit: make.counters_of(
                "tollgate_limits_hit_total",
                "Requests refused by a limit of their key, by its balance, or for the invalid keys of their address.",
                "limit",
                LimitHit::ALL.map(LimitHit::as_str),
            ),
            edge: Edge::new(&make),
            registry: make.0,
        }
    }
}

/// Counts one more of these labels.
fn inc<const N: usize>(counters: &IntCounterVec, labels: [&str; N]) {
    counters.with_label_values(&labels).inc();
}

/// The label of requests to paths of no format.
const NO_FORMAT: &str = "none";

/// The fleet whose health the metrics page reports.
static FLEET: Lazy<ArcSwapOption<Fleet>> = Lazy::new(ArcSwapOption::default);

/// Makes the metrics page report the health of this fleet, and at least one series of every counter from 0 on.
/// The counters of a format, a model and a provider appear with their first request: all of them would be
/// hundreds of thousands.
pub fn watch(fleet: &Arc<Fleet>, catalog: &Catalog) {
    for provider in catalog.providers() {
        for class in FaultClass::ALL {
            let labels = [&*provider.name, class.as_str()];
            METRICS.upstream_faults.with_label_values(&labels);
        }
        RouteMeter::of(None, &"".into(), &provider.name);
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

/// A limit has refused a request.
pub fn limit_hit(limit: LimitHit) {
    inc(&METRICS.limits_hit, [limit.as_str()]);
}

/// The outcome of a successful fetch of a token.
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
            let labels = [scope.as_str(), provider, deployment, credential];
            inc(&METRICS.breakers_opened, labels);
            log::warn!("{name}: breaker opened for {span:.1?}");
        }
        Change::Closed => log::info!("{name}: breaker closed"),
    }
}

/// An attempt has failed at a provider. `cause`: the error of the connection. `deployment`: its name, if the
/// operator has named the model, and so the whole path.
pub fn upstream_fault(
    request: &impl Display,
    provider: &str,
    deployment: Option<&str>,
    fault: &UpstreamFault,
    cause: Option<&dyn Display>,
) {
    let class = fault.class.as_str();
    inc(&METRICS.upstream_faults, [provider, class]);
    let status = fault.status.map(|it| format!(", status {it}"));
    let code = fault.provider_code.as_ref();
    let code = code.map(|it| format!(", code {it}"));
    let [status, code] = [status, code].map(Option::unwrap_or_default);
    let said = fault.words.as_ref().map(|words| shortened(&words.message));
    let cause: &dyn Display = match (cause, &said) {
        (Some(cause), _) => cause,
        (None, Some(said)) => said,
        (None, None) if fault.class == FaultClass::Unreachable => &"its host has no address",
        (None, None) => &"in its answer",
    };
    log::warn!("{request}: provider {provider}: {class}{status}{code}: {cause}");
    if let Some(ahead) = fault.clock_ahead {
        if !is_due(provider, "clock") {
            return;
        }
        let side = if ahead > 0 { "ahead of" } else { "behind" };
        let seconds = ahead.unsigned_abs();
        log::error!(
            "{request}: provider {provider}: the clock of this machine is {seconds} s {side} the provider's, so that \
             signatures and assertions are refused: synchronise it"
        );
    } else if let Some(advice) = advice(fault, deployment)
        && is_due(provider, &advice)
    {
        log::error!("{request}: provider {provider}: {advice}");
    }
}

/// Whether the operator is to read this of a provider: once a minute, because every request can fail for the same
/// reason.
fn is_due(provider: &str, reason: &str) -> bool {
    const EVERY: Duration = Duration::from_secs(60);
    static LOGGED: Mutex<BTreeMap<String, Instant>> = Mutex::new(BTreeMap::new());
    let now = Instant::now();
    let mut logged = LOGGED.lock();
    logged.retain(|_, at| now.saturating_duration_since(*at) < EVERY);
    let known = logged.len();
    logged.entry(format!("{provider}: {reason}")).or_insert(now);
    logged.len() > known
}

/// The advice to the operator about a failure that does not end by itself.
fn advice(fault: &UpstreamFault, deployment: Option<&str>) -> Option<String> {
    let code = fault.provider_code.as_deref().unwrap_or_default();
    let says = |part: &str| code.to_ascii_lowercase().contains(part);
    let advice = match fault.class {
        FaultClass::Credential if says("signature") => {
            "the signature is refused: 'secret_key' is wrong, or 'region' and 'service' are not those of 'address'"
        }
        FaultClass::Credential if says("client") || says("expiredtoken") => {
            "the access key is refused: it is unknown or deleted, or its session has ended; replace it"
        }
        FaultClass::Credential => {
            "the credential is refused: replace it if it was revoked or has ended, and check that it belongs to 'address'"
        }
        FaultClass::Forbidden => {
            "the credential may not do this: give its account access to the model and to the region of 'address'"
        }
        FaultClass::Quota => "the account has no credit left, or has reached its spending limit",
        FaultClass::InvalidModel => {
            return deployment.map(|name| {
                format!(
                    "it does not serve '{name}': check 'upstream_model', that a deployment or a model of this name exists \
                     in the region of 'address', and that the account may use it"
                )
            });
        }
        // Azure, of a path or a version of its API.
        FaultClass::InvalidRequest if code == "404" && deployment.is_some() => {
            "it does not know the path: check 'address' and its query, and the format's 'path'"
        }
        _ => return None,
    };
    Some(advice.to_owned())
}

/// A request is not tried again because others have used up the retry budget.
pub fn retry_refused() {
    METRICS.retries_refused.inc();
}

tollgate_types::named! {
    /// Where the answer to `count_tokens` came from.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum CountSource {
        /// The provider counted.
        Upstream = "upstream",
        /// The count was in the cache.
        Cache = "cache",
        /// It was counted here.
        Local = "local",
        /// Too many were to be counted: the length stands for the count.
        Length = "length",
    }
}

/// A caller gets the count of tokens that it asked for.
pub fn tokens_counted(source: CountSource) {
    inc(&METRICS.token_counts, [source.as_str()]);
}

/// A profile has chosen a model.
pub fn model_chosen(decision: &Decision) {
    let labels = [&*decision.profile, &*decision.model.id, decision.label()];
    inc(&METRICS.choices, labels);
}

tollgate_types::named! {
    /// The result of exporting a sampled span.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum SpanResult {
        /// The collector has accepted it.
        Exported = "exported",
        /// The queue was full.
        Dropped = "dropped",
        /// The collector did not accept it.
        Failed = "failed",
    }
}

/// Counts sampled spans.
pub fn spans(result: SpanResult, count: usize) {
    let count = u64::try_from(count).unwrap_or(u64::MAX);
    let labels = [result.as_str()];
    METRICS.spans.with_label_values(&labels).inc_by(count);
}

/// A prompt or an answer is not whole in its trace.
pub fn content_cut() {
    METRICS.content_cut.inc();
}

/// Lines of the access log were lost.
pub fn access_lines_lost(count: usize) {
    let count = u64::try_from(count).unwrap_or(u64::MAX);
    METRICS.access_lines_lost.inc_by(count);
}

tollgate_types::named! {
    /// The result of a reload.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ReloadOutcome {
        /// It is served.
        Applied = "applied",
        /// There was nothing new in it.
        Unchanged = "unchanged",
        /// It was at fault, and is not served.
        Failed = "failed",
    }
}

/// The configuration was read again.
pub fn reloaded(outcome: ReloadOutcome) {
    inc(&METRICS.reloads, [outcome.as_str()]);
}
