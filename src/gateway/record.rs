//! What is told of a request when it is over: metrics and one line of the access log.

use super::exchange::Exchange;
use crate::access_log::AccessLog;
use crate::clock::{self, Timestamp};
use crate::events::{self, Finished};
use pingora_core::{Error, ErrorSource};
use pingora_proxy::Session;
use serde::Serialize;
use std::time::{Duration, Instant};
use tollgate_types::{ErrorCode, Format, Usage};

/// How a request ended (`decisions`, "Tokens, plans and charging").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Answered in full, by a provider or here.
    Completed,
    /// The provider stopped early.
    Incomplete,
    /// The caller hung up.
    ClientClosed,
    /// The provider failed, before or within its answer.
    UpstreamFailed,
    /// Refused before a provider was asked.
    Rejected,
}

/// A status for the log alone: the caller left before it was told one.
const CLIENT_CLOSED: u16 = 499;

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
    outcome: Outcome,
    stream: bool,
    attempts: usize,
    request_bytes: u64,
    answer_bytes: usize,
    first_byte_ms: Option<f64>,
    duration_ms: f64,
    usage: Option<Usage>,
}

/// Tells of a request that is over.
pub fn record(session: &Session, exchange: &Exchange, error: Option<&Error>, log: &AccessLog) {
    let duration = exchange.started.elapsed();
    let since_start = |at: Instant| at.saturating_duration_since(exchange.started);
    let first_byte = exchange.first_byte.map(since_start);
    let usage = exchange
        .answer
        .usage()
        .and_then(|reported| reported.believed());
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
        let head = session.req_header();
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
            method: head.method.as_str(),
            path: head.uri.path(),
            format: exchange.format(),
            key: identity.map(|identity| identity.key.as_str()),
            model_asked: facts.and_then(|facts| facts.model.as_deref()),
            model: exchange.model_name(),
            provider: provider.map(|provider| &**provider),
            status,
            code,
            outcome: outcome(exchange, error),
            stream: facts.is_some_and(|facts| facts.stream),
            attempts: exchange.attempts.made(),
            request_bytes: exchange
                .body
                .as_ref()
                .map_or(0, super::body::RequestBody::len),
            answer_bytes: session.body_bytes_sent(),
            first_byte_ms: first_byte.map(millis),
            duration_ms: millis(duration),
            usage,
        }
    });
}

fn outcome(exchange: &Exchange, error: Option<&Error>) -> Outcome {
    if error.is_some_and(|error| *error.esource() == ErrorSource::Downstream) {
        return Outcome::ClientClosed;
    }
    if exchange.attempts.made() == 0 {
        let refused = exchange.told.is_none_or(|told| told.code.is_some());
        return if refused {
            Outcome::Rejected
        } else {
            Outcome::Completed
        };
    }
    let failed = exchange.broken.is_some() || exchange.told.is_none_or(|told| told.code.is_some());
    let stop = exchange.answer.facts().and_then(|facts| facts.stop);
    match stop {
        _ if failed => Outcome::UpstreamFailed,
        Some(stop) if !stop.is_complete() => Outcome::Incomplete,
        _ => Outcome::Completed,
    }
}

/// Milliseconds with three places: finer is noise.
fn millis(span: Duration) -> f64 {
    (span.as_secs_f64() * 1e6).round() / 1e3
}
