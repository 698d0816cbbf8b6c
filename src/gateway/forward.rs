//! Forwards an answer: its head, then each piece. An answer that was held, is an error, or has failed is sent at
//! its end.
//!
//! `answer.rs` decides which bytes of a piece are sent; `failure.rs`, which error the client gets.

use super::answer::{Next, UpstreamHead};
use super::exchange::Exchange;
use super::reader::content_length;
use super::respond::{self, Local};
use super::{body, count, drain, failure, is_committed, outcome, outgoing, settlement};
use bytes::Bytes;
use http::StatusCode;
use pingora::http::ResponseHeader;
use pingora_core::{Error, ErrorSource, ErrorType, Result};
use pingora_proxy::Session;
use std::time::Instant;
use tollgate_wire::fault::UpstreamFault;

/// Pingora does not write a head with this status: it stands for the final head until that is committed.
const NOT_YET: u16 = 103;

/// Takes the head of the answer.
///
/// # Errors
///
/// The head alone shows that the attempt has failed, or it is late.
pub fn take_head(exchange: &mut Exchange, head: &mut ResponseHeader) -> Result<(), UpstreamFault> {
    // No request asks for an upgrade, and Pingora would forward a 101 unchanged.
    if head.status == StatusCode::SWITCHING_PROTOCOLS {
        return Err(UpstreamFault::broken_answer());
    }
    let now = Instant::now();
    // This includes 1xx heads: each one restarts Pingora's read time-out.
    if exchange.timer.is_over(now) {
        return Err(UpstreamFault::response_timeout());
    }
    if head.status.is_informational() {
        return Ok(());
    }
    let not_yet = ResponseHeader::build(NOT_YET, Some(0));
    let (Ok(not_yet), Some(expected)) = (not_yet, outgoing::expectation(exchange)) else {
        log::error!("{}: an answer arrived without a request", exchange.id);
        return Err(UpstreamFault::connection_broken());
    };
    let parts = http::response::Parts::from(std::mem::replace(head, not_yet));
    let upstream = UpstreamHead {
        status: parts.status.as_u16(),
        headers: parts.headers,
    };
    exchange.answer.begin(upstream, expected, now)?;
    exchange.timer.note(exchange.answer.progress(), now);
    drain::look(exchange);
    if exchange.answer.is_stream() {
        exchange.timer.expect_events();
    }
    Ok(())
}

/// Replaces a piece of the provider's answer by what the client gets now.
///
/// # Errors
///
/// The attempt ends here: it has failed, or the rest follows in [`finish_failed`].
pub fn pass_piece(
    session: &mut Session,
    exchange: &mut Exchange,
    body: &mut Option<Bytes>,
    end: bool,
) -> Result<()> {
    let written = session.body_bytes_sent();
    exchange.sent.bytes = written;
    let bytes = body.as_ref().map_or(0, Bytes::len);
    if !exchange.caller.note_bytes(bytes, &exchange.snapshot.drain) {
        let error = Error::explain(ErrorType::ConnectionClosed, "more than is drained");
        return Err(error.into_down());
    }
    let now = Instant::now();
    match take_piece(exchange, body.take(), end, written, now) {
        Next::Hold => {}
        Next::Pass(piece) => {
            outcome::before_send(exchange, now);
            settlement::before_send(exchange, now);
            *body = Some(exchange.timer.hand_over(piece));
        }
        Next::Commit {
            head,
            body: first,
            length,
        } => {
            outcome::before_send(exchange, now);
            count::before_send(exchange, &first);
            respond::commit(session, exchange, &head, length, now)?;
            *body = Some(exchange.timer.hand_over(first));
        }
        Next::Finish { head } => {
            outcome::before_send(exchange, now);
            match head {
                Some(head) => respond::commit(session, exchange, &head, None, now)?,
                None => settlement::before_send(exchange, now),
            }
            return Err(failure::end_attempt(false));
        }
        Next::Fail(fault) => {
            let committed = is_committed(session);
            let again = failure::note(exchange, fault, None) && !committed;
            // Counting can take milliseconds, and this hook must not wait.
            if again || committed || !end || count::can_stand_in(exchange) {
                return Err(failure::end_attempt(again));
            }
            commit_error(session, exchange, body)?;
        }
    }
    Ok(())
}

/// Takes a piece of the answer, unless it is late.
fn take_piece(
    exchange: &mut Exchange,
    piece: Option<Bytes>,
    end: bool,
    written: usize,
    now: Instant,
) -> Next {
    if exchange.timer.is_over(now) {
        return exchange.answer.give_up(UpstreamFault::response_timeout());
    }
    let next = exchange.answer.push(piece, end, written);
    match next {
        // After a time-out has shut the connection down, its end looks like the end of the answer.
        Next::Fail(_) if exchange.timer.has_fired() && !exchange.answer.is_error() => {
            Next::Fail(UpstreamFault::response_timeout())
        }
        next => {
            drain::look(exchange);
            match end {
                true => exchange.timer.stop(),
                false => exchange.timer.note(exchange.answer.progress(), now),
            }
            next
        }
    }
}

/// Sends an answer that was held until its end, or the error that it is.
pub async fn finish_held(session: &mut Session, exchange: &mut Exchange) -> Result<()> {
    let fault = match exchange.answer.push(None, true, session.body_bytes_sent()) {
        Next::Commit { head, body, length } => {
            let now = Instant::now();
            outcome::before_send(exchange, now);
            count::before_send(exchange, &body);
            respond::commit(session, exchange, &head, length, now)?;
            settlement::settle(exchange, None);
            return session.write_response_body(Some(body), true).await;
        }
        Next::Fail(fault) => fault,
        Next::Hold | Next::Pass(_) | Next::Finish { .. } => UpstreamFault::broken_answer(),
    };
    failure::note(exchange, fault, None);
    let answer = last_answer(exchange).await;
    respond::write(session, exchange, answer).await
}

/// Sends an error instead of the answer of the last candidate, of which nothing was sent. The client's
/// connection can be used again.
fn commit_error(
    session: &mut Session,
    exchange: &mut Exchange,
    body: &mut Option<Bytes>,
) -> Result<()> {
    let error = failure::public_error(exchange);
    let (head, text) = respond::compose(session, exchange, Local::error(error));
    respond::write_now(session, head)?;
    *body = Some(text);
    Ok(())
}

/// Ends the answer after the last attempt has failed, or the client's body was refused.
///
/// # Errors
///
/// The client has disconnected.
pub async fn finish_failed(
    session: &mut Session,
    exchange: &mut Exchange,
    error: &Error,
) -> Result<()> {
    if *error.esource() == ErrorSource::Downstream {
        let is_stalled = error.etype == ErrorType::ReadTimedout;
        let refusal = exchange.take_refusal();
        let refusal = refusal.or_else(|| is_stalled.then(body::took_too_long));
        if let Some(refusal) = refusal.filter(|_| !is_committed(session)) {
            session.set_keepalive(None);
            // A client that no longer sends can still read.
            let _ = respond::write(session, exchange, Local::error(refusal)).await;
        }
        return Ok(());
    }
    if is_committed(session) {
        return finish_broken_stream(session, exchange).await;
    }
    if exchange.failures.shown().is_none() {
        log::error!("{}: {error}", exchange.id);
    }
    session.set_keepalive(None);
    let answer = last_answer(exchange).await;
    respond::write(session, exchange, answer).await
}

/// The answer to the client if no provider has answered.
async fn last_answer(exchange: &Exchange) -> Local {
    let instead = count::instead(exchange).await;
    instead.unwrap_or_else(|| Local::error(failure::public_error(exchange)))
}

/// Ends an answer of which a part was sent: one that is complete as usual, a stream with an error event in the
/// client's format, any other answer by closing the connection.
async fn finish_broken_stream(session: &mut Session, exchange: &mut Exchange) -> Result<()> {
    if exchange.answer.is_complete() {
        // Only the last bytes and the end are missing.
        let written = session.body_bytes_sent();
        let rest = exchange.answer.rest(written);
        let all = u64::try_from(written.saturating_add(rest.len())).unwrap_or(u64::MAX);
        // Over HTTP/2, Pingora would end an answer that is shorter than its head has announced.
        let announced = session.response_written();
        let announced = announced.and_then(|head| content_length(&head.headers));
        let ends = announced.is_none_or(|length| length <= all);
        return session.write_response_body(Some(rest), ends).await;
    }
    let error = respond::final_word(exchange, failure::public_error(exchange));
    settlement::break_off(exchange, error.code);
    let id = exchange.id;
    let written = session.body_bytes_sent();
    if let Some(last) = exchange.answer.failure_event(&error, &id, written) {
        session.write_response_body(Some(last), true).await?;
    }
    Ok(())
}
