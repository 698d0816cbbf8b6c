//! Writes heads and bodies to the client: the gateway's own answers, and a provider's once it is committed.

use super::answer::UpstreamHead;
use super::body;
use super::exchange::Exchange;
use super::{passthrough, route_reason, settlement};
use bytes::Bytes;
use futures::FutureExt;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version};
use pingora::http::ResponseHeader;
use pingora_core::{Error, ErrorType};
use pingora_proxy::Session;
use std::time::{Duration, Instant};
pub use tollgate_engine::candidate::internal_error;
use tollgate_telemetry::events;
use tollgate_types::PublicError;
use tollgate_wire::{headers as wire_headers, render};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const MODEL: HeaderName = HeaderName::from_static("x-model");
const ROUTE_REASON: HeaderName = HeaderName::from_static("x-route-reason");
const DROPPED_FIELDS: HeaderName = HeaderName::from_static("x-dropped-fields");
const OUTPUT_LIMIT: HeaderName = HeaderName::from_static("x-output-limit");
const ATTEMPTS: HeaderName = HeaderName::from_static("x-attempts");
const COST: HeaderName = HeaderName::from_static("x-cost");
pub(super) const COUNT_SOURCE: HeaderName = HeaderName::from_static("x-token-count-source");

/// The status of an answer without a body.
const NO_CONTENT: u16 = 204;

/// An answer of the gateway itself.
pub struct Local {
    what: What,
    headers: Vec<(HeaderName, HeaderValue)>,
}

enum What {
    Body {
        status: u16,
        content_type: &'static str,
        body: Bytes,
    },
    Error(PublicError),
}

impl Local {
    /// An answer with a body.
    pub const fn new(status: u16, content_type: &'static str, body: Bytes) -> Self {
        Self {
            what: What::Body {
                status,
                content_type,
                body,
            },
            headers: Vec::new(),
        }
    }

    /// An answer of JSON, with status 200.
    pub const fn json(body: Bytes) -> Self {
        Self::new(200, "application/json", body)
    }

    /// An answer without a body.
    pub fn of_headers(headers: &HeaderMap) -> Self {
        let mut answer = Self::new(NO_CONTENT, "", Bytes::new());
        for (name, value) in headers {
            answer.add(name.clone(), value.clone());
        }
        answer
    }

    /// An error, written in the client's format.
    pub const fn error(error: PublicError) -> Self {
        Self {
            what: What::Error(error),
            headers: Vec::new(),
        }
    }

    /// Adds a header.
    pub fn add(&mut self, name: HeaderName, value: HeaderValue) {
        self.headers.push((name, value));
    }
}

/// How long the gateway reads an unwanted body, so that the client can read its answer: closing a
/// connection with unread bytes resets it.
const LINGER: Duration = Duration::from_secs(2);
/// The most bytes that it reads.
const MOST_LINGERED: usize = 64 * 1024 * 1024;

/// Writes an answer of the gateway, and leaves the connection ready for the next request or properly
/// closed.
///
/// # Errors
///
/// The client has disconnected.
pub async fn write(
    session: &mut Session,
    exchange: &mut Exchange,
    answer: Local,
) -> Result<(), Box<Error>> {
    let (head, body) = compose(session, exchange, answer);
    let is_whole = session.is_body_done();
    let may_wait = !is_whole && exchange.concurrent.linger();
    let is_read = is_whole || (may_wait && drain_small(session).await);
    if !is_read {
        // The rest of the body would be read as the next request.
        session.set_keepalive(None);
    }
    session.write_response_header(Box::new(head), false).await?;
    let body = if session.req_header().method == Method::HEAD {
        Bytes::new()
    } else {
        body
    };
    session.write_response_body(Some(body), true).await?;
    if !is_read && may_wait && !body::expects_continue(session) {
        linger(session).await;
    }
    Ok(())
}

/// Reads the rest of a small body, so that the connection can be used again. `false` if the body is large.
async fn drain_small(session: &mut Session) -> bool {
    /// Bytes that a client has probably sent together with the head.
    const SMALL: u64 = 64 * 1024;
    const SOON: Duration = Duration::from_millis(500);
    let length = body::declared_length(session).ok().flatten();
    if length.is_none_or(|it| it > SMALL) || body::expects_continue(session) {
        return false;
    }
    let draining = tokio::time::timeout(SOON, session.drain_request_body());
    matches!(draining.await, Ok(Ok(()))) && session.is_body_done()
}

async fn linger(session: &mut Session) {
    let mut left = MOST_LINGERED;
    let draining = async {
        while let Ok(Some(piece)) = session.read_request_body().await {
            left = left.saturating_sub(piece.len());
            if left == 0 {
                break;
            }
        }
    };
    // The answer is sent. A client that keeps sending may lose it.
    let _ = tokio::time::timeout(LINGER, draining).await;
}

/// Composes an answer of the gateway, without writing it. Settles the request.
pub fn compose(
    session: &Session,
    exchange: &mut Exchange,
    answer: Local,
) -> (ResponseHeader, Bytes) {
    let (status, code, content_type, body, advice) = match answer.what {
        What::Body {
            status,
            content_type,
            body,
        } => (status, None, content_type, body, None),
        What::Error(error) => {
            let error = final_word(exchange, error);
            if let Some(limit) = error.limit {
                events::limit_hit(limit);
            }
            let body = render::error_body(exchange.format(), &error, &exchange.id);
            (
                error.status,
                Some(error.code),
                "application/json",
                body,
                Some(error),
            )
        }
    };
    exchange.sent.begin_own(status, code);
    settlement::settle(exchange, None);
    let mut headers = own_headers(session, exchange, None);
    if status != NO_CONTENT {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    }
    // The length in an answer to HEAD is that of the answer to GET, which is not always known.
    let is_head = session.req_header().method == Method::HEAD;
    if status != NO_CONTENT && !(is_head && body.is_empty()) {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    }
    headers.extend(advice.iter().flat_map(render::error_headers));
    headers.extend(answer.headers);
    (head(session, status, headers), body)
}

/// An error after the filters have changed it.
pub fn final_word(exchange: &Exchange, mut error: PublicError) -> PublicError {
    if let Some(request) = exchange.stage.request() {
        exchange.snapshot.pipeline.error(request, &mut error);
    }
    error
}

/// Commits a provider's answer: sends its head `now`.
///
/// # Errors
///
/// The head cannot be written at once. Pingora's body hooks cannot wait, and a client whose socket does not
/// accept the first kilobyte does not read.
pub fn commit(
    session: &mut Session,
    exchange: &mut Exchange,
    upstream: &UpstreamHead,
    length: Option<u64>,
    now: Instant,
) -> Result<(), Box<Error>> {
    exchange.sent.begin_upstream(upstream.status, now);
    exchange.settlement.first_byte();
    let is_charged_by_body = settlement::may_charge_by_body(exchange);
    if let Some(body) = exchange.stage.body_mut() {
        if is_charged_by_body {
            body.keep_sample();
        }
        body.release();
    }
    settlement::before_send(exchange, now);
    let mut headers = own_headers(session, exchange, Some(&upstream.headers));
    passthrough::pass_answer(exchange, &upstream.headers, &mut headers);
    match length {
        _ if upstream.status == NO_CONTENT => {}
        Some(length) => {
            headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
        }
        None if session.req_header().version == Version::HTTP_11 => {
            headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        }
        // HTTP/2 frames by itself, HTTP/1.0 by the connection's end.
        None => {}
    }
    write_now(session, head(session, upstream.status, headers))
}

/// Writes a head where nothing can be awaited.
///
/// # Errors
///
/// As [`commit`].
pub fn write_now(session: &mut Session, head: ResponseHeader) -> Result<(), Box<Error>> {
    let writing = session.write_response_header(Box::new(head), false);
    tokio::task::unconstrained(writing)
        .now_or_never()
        .unwrap_or_else(|| {
            Err(Error::explain(
                ErrorType::WriteTimedout,
                "the client did not accept the head",
            ))
        })
        // The client has disconnected, or does not read.
        .map_err(|e| e.into_down())
}

/// The gateway's headers of an answer, and those that the filters add.
fn own_headers(session: &Session, exchange: &Exchange, upstream: Option<&HeaderMap>) -> HeaderMap {
    // A stream keeps it until its end, and 12 headers take half the memory of 13.
    let mut headers = HeaderMap::with_capacity(12);
    let cors = &exchange.snapshot.cors;
    cors.expose(exchange.arrival.origin.as_ref(), &mut headers);
    if let Ok(id) = HeaderValue::from_str(exchange.id.as_str()) {
        if let Some(name) = exchange.format().and_then(wire_headers::request_id) {
            headers.insert(name, id.clone());
        }
        headers.insert(REQUEST_ID, id);
    }
    let Some(request) = exchange.stage.request() else {
        return headers;
    };
    exchange
        .snapshot
        .pipeline
        .answer(request, upstream, &mut headers);
    if let Some(route) = &request.route {
        insert_text(
            &mut headers,
            MODEL,
            exchange.model_name().unwrap_or(&route.model_id),
        );
        let is_asked = route_reason::is_requested(exchange, &session.req_header().headers);
        let asked = is_asked.then(|| route_reason::text(exchange)).flatten();
        let chosen = route.reason.as_deref();
        match (chosen, asked) {
            (Some(chosen), Some(asked)) => {
                let both = format!("{chosen}; {asked}");
                insert_text(&mut headers, ROUTE_REASON, &both);
            }
            (Some(chosen), None) => insert_text(&mut headers, ROUTE_REASON, chosen),
            (None, Some(asked)) => insert_text(&mut headers, ROUTE_REASON, &asked),
            (None, None) => {}
        }
    }
    let outgoing = &exchange.attempts.outgoing;
    if !outgoing.dropped.is_empty() {
        let dropped = outgoing.dropped.join(", ");
        insert_text(&mut headers, DROPPED_FIELDS, &dropped);
    }
    if exchange.attempts.tally.made() > 1 {
        headers.insert(ATTEMPTS, HeaderValue::from(exchange.attempts.tally.made()));
    }
    // A complete answer is settled before its head is written.
    let settled = exchange.settlement.settled();
    if let Some(cost) = settled.and_then(|(_, settled)| settled.cost) {
        insert_text(&mut headers, COST, &cost.to_string());
    }
    if request.endpoint.is_count() && upstream.is_some() {
        headers.insert(COUNT_SOURCE, HeaderValue::from_static("upstream"));
    }
    headers.extend(request.answer_headers.iter().cloned());
    if let Some(limit) = outgoing.changed_limit {
        headers.insert(OUTPUT_LIMIT, HeaderValue::from(limit));
    }
    headers
}

fn insert_text(headers: &mut HeaderMap, name: HeaderName, text: &str) {
    if let Ok(value) = HeaderValue::from_str(text) {
        headers.insert(name, value);
    }
}

fn head(session: &Session, status: u16, headers: HeaderMap) -> ResponseHeader {
    let (mut parts, ()) = http::Response::new(()).into_parts();
    parts.status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    parts.version = session.req_header().version;
    parts.headers = headers;
    parts.into()
}
