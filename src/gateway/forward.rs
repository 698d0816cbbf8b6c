//! Forwards an answer: piece by piece, or at its end if it was held, was an error, or has failed.
//!
//! `answer.rs` decides which bytes of a piece are sent; `failure.rs`, which error the client gets.

use super::answer::Next;
use super::exchange::Exchange;
use super::reader::content_length;
use super::respond::{self, Local};
use super::{count, drain, failure, outcome, settlement};
use bytes::Bytes;
use pingora_core::Result;
use pingora_proxy::Session;
use std::time::Instant;
use tollgate_wire::fault::UpstreamFault;

/// Takes a piece of the answer, unless it is late.
pub fn take_piece(
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
pub fn commit_error(
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

/// The answer to the client if no provider has answered.
pub async fn last_answer(exchange: &Exchange) -> Local {
    let instead = count::instead(exchange).await;
    instead.unwrap_or_else(|| Local::error(failure::public_error(exchange)))
}

/// Ends an answer of which a part was sent: one that is complete as usual, a stream with an error event in the
/// client's format, any other answer by closing the connection.
pub async fn finish_broken_stream(session: &mut Session, exchange: &mut Exchange) -> Result<()> {
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
