//! The attempts of a request: which candidate is next, and how an attempt with it starts. `outgoing` prepares the
//! request to it.

mod attempts;
mod candidate;
mod tally;

pub use attempts::Attempts;
pub use candidate::{Candidate, LogIn};
pub use tally::Tally;

use super::deadlines::Deadlines;
use super::exchange::Exchange;
use super::load;
use super::memory_permit::MemoryPermit;
use super::outgoing::{self, NotReady, Outgoing};
use super::timer::AttemptTimer;
use super::trace;
use bytes::Bytes;
use http::Version;
use pingora_core::upstreams::peer::{ALPN, HttpPeer};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tollgate_engine::candidate::full_fault;
use tollgate_routing::health::{Refusal, Ticket};
use tollgate_routing::plan::Why;
use tollgate_routing::{Http2, Provider};
use tollgate_telemetry::events;
use tollgate_types::PublicError;
use tollgate_wire::fault::UpstreamFault;

/// Prepares the request for the next candidate that can carry it, and leaves out the candidates before it.
/// `room`: the memory that the request has waited for.
///
/// # Errors
///
/// Why no candidate can carry it.
pub fn make_ready(
    exchange: &mut Exchange,
    mut room: Option<MemoryPermit>,
) -> Result<(), PublicError> {
    let (mut refusal, mut shed) = (None, None);
    while let Some(candidate) = exchange.attempts.next_candidate() {
        match outgoing::prepare(exchange, candidate, room.take()) {
            Ok((format, outgoing)) => {
                exchange.attempts.set_ready(format, outgoing);
                return Ok(());
            }
            Err(NotReady::Refused(error)) => drop(refusal.get_or_insert(error)),
            Err(NotReady::Shed(why)) => shed = Some(why),
        }
        exchange.attempts.leave_out();
    }
    // A lack of memory is temporary, so it is the better error.
    let refusal = shed.map(load::shed).or(refusal);
    refusal.map_or(Ok(()), Err)
}

/// Prepares the request for the next candidate that has an address and can carry it, and leaves out the
/// candidates before it.
pub fn prepare_next(exchange: &mut Exchange) {
    loop {
        if !exchange.attempts.is_ready() {
            // After an error, the last resorts are left.
            let _ = make_ready(exchange, None);
        }
        let next = exchange.attempts.next_candidate();
        let Some(next) = next.filter(|it| !it.pool.has_address()) else {
            return;
        };
        let provider = &next.deployment.provider.name;
        let fault = UpstreamFault::unreachable();
        events::upstream_fault(&exchange.id, provider, None, &fault, None);
        let deployment = Arc::clone(&next.deployment.name);
        let after = exchange.arrival.at.elapsed();
        exchange.failures.note_attempt(deployment, &fault, after);
        exchange.attempts.leave_out();
    }
}

/// The peer of the next attempt: the address of the next candidate that has one. `None`: there is none, or
/// the time of the request is over.
pub fn next_peer(exchange: &mut Exchange) -> Option<Box<HttpPeer>> {
    while Instant::now() < exchange.request_ends() {
        prepare_next(exchange);
        let admitted = exchange.stage.admitted();
        let tokens = admitted.map_or(0, |it| it.facts().likely_input_tokens());
        let is_unbilled = exchange.is_unbilled();
        let attempts = &mut exchange.attempts;
        attempts.drop_ticket();
        if attempts.next_candidate().is_none() && attempts.add_last_resorts() {
            continue;
        }
        let ready = attempts.take_ready();
        let candidate = attempts.advance()?;
        let Some(mut peer) = candidate.pool.peer() else {
            continue;
        };
        let began = Instant::now();
        let is_last_resort = candidate.why == Why::LastResort;
        match candidate.enter(tokens, is_unbilled, began) {
            Ok(ticket) => {
                start(exchange, &mut peer, ready, ticket, began);
                return Some(peer);
            }
            Err(Refusal::Full(full)) => attempts.note_full(full),
            // A last resort passes every breaker, so a candidate in cooldown is kept only once.
            Err(Refusal::Open) if !is_last_resort => attempts.keep_as_last_resort(),
            Err(Refusal::Open) => {}
        }
    }
    None
}

/// Starts the attempt with the reached candidate and this peer.
fn start(
    exchange: &mut Exchange,
    peer: &mut HttpPeer,
    ready: Option<Outgoing>,
    ticket: Option<(Ticket, Instant)>,
    began: Instant,
) {
    let is_unbilled = exchange.is_unbilled();
    if exchange.attempts.start(ready, ticket, began) {
        exchange.retries.of(is_unbilled).note_request();
    }
    let attempts = &exchange.attempts;
    let body = attempts.outgoing.body.as_ref();
    let opened = exchange.opened.as_ref();
    let is_streamed = opened.is_some_and(|it| it.upload.is_some());
    if let Some(candidate) = attempts.current() {
        choose_http(peer, &candidate.deployment.provider, body, is_streamed);
    }
    // A body that is still on its way does not hold back its head.
    peer.options.join_request_header = !exchange.awaits_body();
    start_timer(exchange, peer, began);
    trace::begin_attempt(exchange);
}

/// Chooses HTTP/1.1 for a body that exceeds the first window of HTTP/2, if the provider accepts both.
/// Over HTTP/2, Pingora sends the whole body before it reads an answer, and would lose an error that the
/// provider sends in between, such as 413 or 429.
fn choose_http(peer: &mut HttpPeer, provider: &Provider, body: Option<&Bytes>, is_streamed: bool) {
    /// The initial window of a stream (RFC 9113, section 6.9.2).
    const FIRST_WINDOW: usize = 65_535;
    let is_large = body.is_some_and(|body| body.len() > FIRST_WINDOW);
    if (is_large || is_streamed) && provider.http2 == Http2::Auto {
        peer.options.alpn = ALPN::H1;
    }
}

/// Starts the timer of the attempt with this peer.
fn start_timer(exchange: &mut Exchange, peer: &mut HttpPeer, now: Instant) {
    let admitted = exchange.stage.admitted();
    let Some(candidate) = exchange.attempts.current() else {
        return;
    };
    let usual = candidate.deployment.provider.timeouts.answer;
    let bounds = admitted.map_or(usual, |it| usual.under(&it.model.timeouts));
    let streams = admitted.is_some_and(|it| it.facts().stream);
    let ends = exchange.request_ends();
    // Pingora limits the time for a piece of the body over HTTP/1.1 alone.
    let upload = exchange
        .upload()
        .filter(|_| exchange.arrival.version == Version::HTTP_2);
    let patience = upload.map(|_| exchange.snapshot.limits.body.time);
    let deadlines = Deadlines::new(bounds, streams, patience, now, ends);
    let timer = AttemptTimer::begin(deadlines, now, &exchange.timer);
    // Zero means no time-out in one place and an expired one in another.
    const LEAST: Duration = Duration::from_millis(1);
    let left = ends.saturating_duration_since(now).max(LEAST);
    let options = &mut peer.options;
    options.read_timeout = timer.read_timeout(now).map(|it| it.max(LEAST));
    options.connection_timeout = options.connection_timeout.map(|it| it.min(left));
    options.total_connection_timeout = options.total_connection_timeout.map(|it| it.min(left));
    exchange.timer = timer;
}

/// The body of the current attempt, about to be sent.
pub fn send(exchange: &mut Exchange, body: Bytes) -> Bytes {
    match exchange.attempts.current() {
        Some(candidate) => {
            let longest = candidate.deployment.provider.timeouts.write;
            exchange.timer.send(body, longest)
        }
        None => body,
    }
}

/// Why no candidate was asked, although there were some.
pub fn none_asked(exchange: &Exchange) -> UpstreamFault {
    if Instant::now() >= exchange.request_ends() {
        return UpstreamFault::response_timeout();
    }
    let full = exchange.attempts.full();
    full.map_or_else(UpstreamFault::unreachable, full_fault)
}
