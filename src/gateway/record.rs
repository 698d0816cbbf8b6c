//! What is told of a request when it is over: metrics and one line of the access log.

use super::body::RequestBody;
use super::exchange::{Exchange, Told};
use super::{outcome, settlement};
use crate::access_log::Fields;
use crate::clock;
use crate::events::{self, Finished};
use pingora_core::{Error, ErrorSource};
use std::time::Instant;
use tollgate_ledger::BillingState;
use tollgate_types::{ErrorCode, Format, Usage};
use tollgate_wire::fault::{FaultClass, UpstreamFault};

/// A status for the log alone: the caller left before it was told one.
pub const CLIENT_CLOSED: u16 = 499;

/// A status for the log alone: the gateway ended before it told the caller one.
const CUT: u16 = 503;

/// Tells of a request that is over, once.
pub fn record(exchange: &mut Exchange, error: Option<&Error>) {
    let Some(log) = exchange.log.take() else {
        return;
    };
    let duration = exchange.started.elapsed();
    let since_start = |at: Instant| at.saturating_duration_since(exchange.started);
    let first_byte = exchange.first_byte.map(since_start);
    let usage = exchange
        .answer
        .usage()
        .and_then(|reported| reported.believed());
    if let Some(usage) = &usage {
        outcome::used(exchange, usage);
    }
    outcome::over(exchange);
    let candidate = exchange.attempts.current();
    let provider = candidate.map(|candidate| &candidate.deployment.provider.name);
    let request = exchange.stage.request();
    let route = request.and_then(|request| request.route.as_ref());
    let told = exchange.told;
    let status = told.map_or(CLIENT_CLOSED, |told| told.status);
    let code = exchange.broken.or(told.and_then(|told| told.code));
    events::request_finished(&Finished {
        format: exchange.format(),
        model: route.map(|route| &route.model_id),
        provider,
        status,
        code,
        duration,
        first_byte,
        usage,
        generation: exchange.timer.since_sent(),
    });
    log.line(|line| {
        let (method, uri) = &exchange.target;
        let settled = exchange.settlement.settled();
        let facts = request.and_then(|request| request.facts.as_ref());
        let identity = exchange.stage.identity();
        let body = exchange.stage.body();
        // What was settled stands, whatever became of the last bytes.
        let outcome = settled.map_or_else(|| ending(exchange, error), |(state, _)| *state);
        line.word("time", clock::now().as_str());
        line.word("id", exchange.id.as_str());
        let client = exchange.client.map(|client| client.to_string());
        line.optional_text("client", client.as_deref());
        line.text("method", method.as_str());
        line.text("path", uri.path());
        line.optional_word("format", exchange.format().map(Format::as_str));
        line.optional_text("key", identity.map(|identity| identity.key.as_str()));
        line.optional_text(
            "model_asked",
            facts.and_then(|facts| facts.model.as_deref()),
        );
        line.optional_text("model", exchange.model_name());
        if let Some(reason) = route.and_then(|route| route.reason.as_deref()) {
            line.text("route_reason", reason);
        }
        line.optional_text("provider", provider.map(|provider| &**provider));
        line.number("status", status.into());
        line.optional_word("code", code.map(ErrorCode::as_str));
        line.word("outcome", outcome.as_str());
        line.flag("stream", facts.is_some_and(|facts| facts.stream));
        line.number("attempts", whole(exchange.attempts.made()));
        line.number("request_bytes", body.map_or(0, RequestBody::len));
        line.number("answer_bytes", whole(exchange.answer_bytes));
        line.millis("first_byte_ms", first_byte);
        line.millis("duration_ms", Some(duration));
        line.optional_object("usage", usage, write_usage);
        line.optional_number("charged", settled.map(|(_, settled)| settled.charged));
        // Without usage, as of most failures, nothing was counted.
        let counted = settled.filter(|(_, settled)| settled.usage.total() > 0);
        line.optional_word("count", counted.map(|(_, settled)| settled.source.as_str()));
    });
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

/// Settles and tells of a request that was cut before its end; nothing else has ended it. It
/// is the gateway's own failure, and costs what was delivered.
pub fn cut(exchange: &mut Exchange) {
    if exchange.log.is_none() {
        return;
    }
    let code = ErrorCode::ServiceUnavailable;
    if exchange.told.is_none() {
        exchange.told = Some(Told {
            status: CUT,
            code: Some(code),
        });
    } else if !exchange.answer.is_complete() {
        exchange.broken = Some(code);
    }
    settlement::settle(exchange, ending(exchange, None));
    record(exchange, None);
}

/// How a request ended (`decisions`, "Tokens, plans and charging").
pub fn ending(exchange: &Exchange, error: Option<&Error>) -> BillingState {
    let is_reported = error.is_some_and(|error| *error.esource() == ErrorSource::Downstream);
    if is_reported || exchange.caller.is_draining() {
        return BillingState::ClientClosed;
    }
    if exchange.attempts.made() == 0 {
        let refused = exchange.told.is_none_or(|told| told.code.is_some());
        return if refused {
            BillingState::Rejected
        } else {
            BillingState::Completed
        };
    }
    let is_error = exchange.told.is_none_or(|told| told.code.is_some());
    // What the caller must mend is no failure of the provider's.
    let fault = exchange.fault.as_ref();
    let was_not_sent = || exchange.stage.body().is_some_and(|it| it.is_awaited());
    let was_refused = is_error && fault.map_or_else(was_not_sent, must_change);
    let stop = exchange.answer.facts().and_then(|facts| facts.stop);
    match stop {
        // The model has worked, and the caller's words can have led it astray.
        _ if exchange.has_unfit_answer() => BillingState::Incomplete,
        _ if exchange.broken.is_some() => BillingState::UpstreamFailed,
        _ if was_refused => BillingState::Rejected,
        _ if is_error => BillingState::UpstreamFailed,
        Some(stop) if !stop.is_complete() => BillingState::Incomplete,
        _ => BillingState::Completed,
    }
}

/// Whether a request has failed for what its caller must mend. What the gateway itself lacks is
/// not: nobody else is asked then either, but the same request can pass a moment later.
const fn must_change(fault: &UpstreamFault) -> bool {
    use FaultClass as C;
    !fault.try_elsewhere() && !matches!(fault.class, C::OutOfFiles | C::OutOfMemory)
}
