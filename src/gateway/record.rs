//! Records a request that is over: metrics and one line of the access log.

use super::exchange::Exchange;
use super::{admission, outcome, route_reason, settlement, trace};
use http::Version;
use pingora_core::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tollgate_filter::Route;
use tollgate_telemetry::access_log::Fields;
use tollgate_telemetry::clock;
use tollgate_telemetry::events::{self, Finished};
use tollgate_telemetry::recent::{self, Recent};
use tollgate_types::{ErrorCode, Format, Settled, Usage};

/// The status in the log if the gateway ended before the client got one.
const DROPPED: u16 = 503;

/// The facts of a request that is over, for metrics, the recent requests and the access log.
struct Facts<'a> {
    ended: trace::Ended,
    settled: Option<&'a Settled>,
    /// The provider that was asked last.
    provider: Option<&'a Arc<str>>,
    route: Option<&'a Route>,
    trace_id: Option<&'a str>,
    first_byte: Option<Duration>,
    duration: Duration,
}

/// Records a request that is over, once.
pub fn record(exchange: &mut Exchange, error: Option<&Error>) {
    let Some(log) = exchange.log.take() else {
        return;
    };
    let duration = exchange.arrival.at.elapsed();
    let since_start = |at: Instant| at.saturating_duration_since(exchange.arrival.at);
    let first_byte = exchange.sent.first_byte().map(since_start);
    let usage = exchange.answer.usage().plausible();
    if let Some(usage) = &usage {
        outcome::used(exchange, usage);
    }
    outcome::over(exchange);
    let kept = exchange.answer.take_kept();
    let mut trace = exchange.trace.take();
    if let Some(trace) = &mut trace {
        trace.set_answer(kept);
    }
    let trace_id = trace.as_ref().map(|trace| trace.id());
    let candidate = exchange.attempts.current();
    let request = exchange.stage.request();
    // The settlement counts, even if the last bytes could not be sent.
    let settled = exchange.settlement.settled();
    let facts = Facts {
        ended: trace::Ended {
            status: exchange.sent.status(),
            code: exchange.sent.code(),
            outcome: settled
                .map_or_else(|| settlement::state(exchange, error), |(state, _)| *state),
            usage,
            cost: settlement::cost(exchange),
        },
        settled: settled.map(|(_, settled)| settled),
        provider: candidate.map(|candidate| &candidate.deployment.provider.name),
        route: request.and_then(|request| request.route.as_ref()),
        trace_id: trace_id.as_deref(),
        first_byte,
        duration,
    };
    let is_exported = trace.is_some_and(|trace| trace::finish(*trace, exchange, &facts.ended));
    report_metrics(exchange, &facts, is_exported);
    remember_recent(exchange, &facts);
    log.line(|line| write_line(line, exchange, &facts));
}

fn report_metrics(exchange: &Exchange, facts: &Facts<'_>, is_exported: bool) {
    let ended = &facts.ended;
    events::request_finished(&Finished {
        format: exchange.format(),
        model: exchange.label(),
        provider: facts.provider,
        status: ended.status,
        code: ended.code,
        duration: facts.duration,
        first_byte: facts.first_byte,
        usage: ended.usage,
        cost: ended.cost,
        generation: exchange.timer.since_sent(),
        trace_id: facts.trace_id.filter(|_| is_exported),
    });
}

/// Shows the request on the dashboard.
fn remember_recent(exchange: &Exchange, facts: &Facts<'_>) {
    let ended = &facts.ended;
    recent::remember(Recent {
        id: exchange.id,
        at: clock::unix_ms(),
        format: exchange.format(),
        key: exchange.stage.identity().map(|it| it.key.clone()),
        model: exchange.label().and_then(|label| {
            let name = exchange.model_name()?;
            // Under a wildcard, the name from the request.
            let is_fixed = *name == **label;
            Some(if is_fixed {
                Arc::clone(label)
            } else {
                name.into()
            })
        }),
        provider: facts.provider.cloned(),
        route_reason: facts.route.and_then(|route| route.reason.clone()),
        route: (!exchange.attempts.left_out.0.is_empty()
            || !exchange.failures.attempts().is_empty())
        .then(|| route_reason::named(exchange))
        .flatten(),
        status: ended.status,
        code: ended.code,
        outcome: ended.outcome.as_str(),
        attempts: exchange.attempts.tally.made(),
        failed: exchange.failures.attempts().to_vec(),
        first_byte: facts.first_byte,
        duration: facts.duration,
        usage: ended.usage,
        cost: ended.cost,
    });
}

fn write_line(line: &mut Fields<'_>, exchange: &Exchange, facts: &Facts<'_>) {
    let ended = &facts.ended;
    let arrival = &exchange.arrival;
    let request = exchange.stage.request();
    let read = request.and_then(|request| request.facts_if_read());
    let identity = exchange.stage.identity();
    line.word("time", clock::now().as_str());
    line.word("id", exchange.id.as_str());
    if let Some(record) = exchange.settlement.record() {
        line.word("record", record.as_str());
    }
    if let Some(trace_id) = facts.trace_id {
        line.word("trace_id", trace_id);
    }
    line.optional_address("client", arrival.client);
    line.text("method", arrival.method.as_str());
    line.text("path", arrival.uri.path());
    line.word("protocol", protocol(arrival.version));
    line.optional_word("format", exchange.format().map(Format::as_str));
    line.optional_text("key", identity.map(|identity| identity.key.as_str()));
    line.optional_text("model_asked", read.and_then(|read| read.model.as_deref()));
    line.optional_text("model", exchange.model_name());
    if let Some(reason) = facts.route.and_then(|route| route.reason.as_deref()) {
        line.text("route_reason", reason);
    }
    line.optional_text("provider", facts.provider.map(|provider| &**provider));
    line.number("status", ended.status.into());
    line.optional_word("code", ended.code.map(ErrorCode::as_str));
    line.word("outcome", ended.outcome.as_str());
    line.flag("stream", read.is_some_and(|read| read.stream));
    line.number("attempts", whole(exchange.attempts.tally.made()));
    line.number("request_bytes", exchange.request_bytes());
    line.number("answer_bytes", whole(exchange.sent.bytes));
    line.millis("first_byte_ms", facts.first_byte);
    line.millis("duration_ms", Some(facts.duration));
    line.optional_object("usage", ended.usage, write_usage);
    line.optional_number("charged", facts.settled.map(|settled| settled.charged));
    let cost = ended.cost.map(|cost| cost.to_string());
    line.optional_text("cost", cost.as_deref());
    // Most failures have no usage, and so no source of a count.
    let counted = facts.settled.filter(|settled| settled.usage.total() > 0);
    line.optional_word("count", counted.map(|settled| settled.source.as_str()));
}

/// The version of HTTP, as in a request line.
const fn protocol(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "HTTP/1.0",
        Version::HTTP_2 => "HTTP/2.0",
        _ => "HTTP/1.1",
    }
}

fn write_usage(usage: Usage, line: &mut Fields<'_>) {
    let Usage {
        input,
        cache_read,
        cache_write,
        output,
        reasoning,
    } = usage;
    line.number("input", input);
    line.number("cache_read", cache_read);
    line.number("cache_write", cache_write);
    line.number("output", output);
    line.number("reasoning", reasoning);
}

fn whole(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// Settles and records a request whose task was dropped before its end. This is a failure of the gateway
/// and costs what was delivered.
pub fn record_dropped(exchange: &mut Exchange) {
    if exchange.log.is_none() {
        return;
    }
    let code = ErrorCode::ServiceUnavailable;
    if !exchange.sent.has_head() {
        exchange.sent.begin_own(DROPPED, Some(code));
    } else if !exchange.answer.is_complete() {
        exchange.sent.break_off(code);
    }
    // The task can be dropped while a filter waits.
    admission::take_guards(exchange);
    settlement::settle(exchange, None);
    record(exchange, None);
}
