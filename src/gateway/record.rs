//! What is told of a request when it is over: metrics and one line of the access log.

use super::exchange::{Exchange, Told};
use super::{outcome, toll};
use crate::clock::{self, Timestamp};
use crate::events::{self, Finished};
use pingora_core::{Error, ErrorSource};
use serde::Serialize;
use std::time::{Duration, Instant};
use tollgate_ledger::BillingState;
use tollgate_types::{ErrorCode, Format, Usage};

/// A status for the log alone: the caller left before it was told one.
pub const CLIENT_CLOSED: u16 = 499;

/// A status for the log alone: the gateway ended before it told the caller one.
const CUT: u16 = 503;

/// One line of the access log.
#[derive(Serialize)]
pub struct AccessLine<'a> {
    time: Timestamp,
    id: &'a str,
    method: &'a str,
    path: &'a str,
    format: Option<Format>,
    key: Option<&'a str>,
    model_asked: Option<&'a str>,
    model: Option<&'a str>,
    provider: Option<&'a str>,
    status: u16,
    code: Option<ErrorCode>,
    outcome: BillingState,
    stream: bool,
    attempts: usize,
    request_bytes: u64,
    answer_bytes: usize,
    first_byte_ms: Option<f64>,
    duration_ms: f64,
    usage: Option<Usage>,
    charged: Option<u64>,
    count: Option<&'static str>,
}

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
    let route = exchange
        .request
        .as_ref()
        .and_then(|request| request.route.as_ref());
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
    });
    log.line(|| {
        let (method, uri) = &exchange.target;
        let settled = exchange.toll.settled();
        let facts = exchange
            .request
            .as_ref()
            .and_then(|request| request.facts.as_ref());
        let identity = exchange
            .request
            .as_ref()
            .and_then(|request| request.identity.as_ref());
        AccessLine {
            time: clock::now(),
            id: exchange.id.as_str(),
            method: method.as_str(),
            path: uri.path(),
            format: exchange.format(),
            key: identity.map(|identity| identity.key.as_str()),
            model_asked: facts.and_then(|facts| facts.model.as_deref()),
            model: exchange.model_name(),
            provider: provider.map(|provider| &**provider),
            status,
            code,
            // What was settled stands, whatever became of the last bytes.
            outcome: settled.map_or_else(|| ending(exchange, error), |(state, _)| *state),
            stream: facts.is_some_and(|facts| facts.stream),
            attempts: exchange.attempts.made(),
            request_bytes: exchange
                .body
                .as_ref()
                .map_or(0, super::body::RequestBody::len),
            answer_bytes: exchange.answer_bytes,
            first_byte_ms: first_byte.map(millis),
            duration_ms: millis(duration),
            usage,
            charged: settled.map(|(_, settled)| settled.charged),
            count: settled.map(|(_, settled)| settled.source.as_str()),
        }
    });
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
    toll::settle(exchange, ending(exchange, None));
    record(exchange, None);
}

/// How a request ended (`decisions`, "Tokens, plans and charging").
pub fn ending(exchange: &Exchange, error: Option<&Error>) -> BillingState {
    if error.is_some_and(|error| *error.esource() == ErrorSource::Downstream) {
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
    let was_refused = is_error && fault.is_some_and(|fault| !fault.try_elsewhere());
    let stop = exchange.answer.facts().and_then(|facts| facts.stop);
    match stop {
        _ if exchange.broken.is_some() => BillingState::UpstreamFailed,
        _ if was_refused => BillingState::Rejected,
        _ if is_error => BillingState::UpstreamFailed,
        Some(stop) if !stop.is_complete() => BillingState::Incomplete,
        _ => BillingState::Completed,
    }
}

/// Milliseconds with three places: finer is noise.
fn millis(span: Duration) -> f64 {
    (span.as_secs_f64() * 1e6).round() / 1e3
}
