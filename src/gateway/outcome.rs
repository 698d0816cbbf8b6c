//! What becomes of each attempt, reported to the health of those that were asked.
//!
//! The one way in: whoever learns how an attempt went calls one of these functions, and
//! none of them decides what follows. Whom a failure counts against stands here; what that
//! means for the next request is the business of `tollgate_routing::health`.

use super::exchange::Exchange;
use crate::{clock, events};
use pingora_core::upstreams::peer::HttpPeer;
use std::time::Instant;
use tollgate_routing::UpstreamModel;
use tollgate_routing::health::Blame;
use tollgate_types::Usage;
use tollgate_wire::fault::{FaultClass, UpstreamFault};

/// Something of the answer passes to the caller, `now`: the first time that content is in it, which a
/// comment or a ping is not, the attempt under way has done well.
pub fn passes(exchange: &mut Exchange, now: Instant) {
    if exchange.attempts.has_content() || !exchange.answer.has_content() {
        return;
    }
    exchange.attempts.note_content();
    let facts = exchange.request.as_ref().and_then(|it| it.facts.as_ref());
    let is_stream = facts.is_some_and(|facts| facts.stream);
    if let Some((ticket, began)) = exchange.attempts.ticket() {
        let took = is_stream.then(|| now.saturating_duration_since(began));
        ticket.first_content(took, clock::steady_ms(now), &mut events::breaker_changed);
    }
}

/// The attempt under way has failed, before its first content or after it. What else is to be
/// asked at the same place goes behind the others.
pub fn failed(exchange: &mut Exchange, fault: &UpstreamFault) {
    let blame = blame(fault);
    if let Some((ticket, _)) = exchange.attempts.ticket() {
        let (wait, now) = (fault.retry_after, clock::steady_ms(Instant::now()));
        // Under a wildcard the caller chose the name that its provider does not know.
        let is_made_up = ticket.place().deployment.upstream_model == UpstreamModel::AsRequested;
        let counted = match blame {
            Blame::Model if is_made_up => Blame::Nobody,
            _ => blame,
        };
        let tell = &mut events::breaker_changed;
        let class = fault.class.as_str();
        ticket.failed(counted, class, wait, now, fastrand::u64(..), tell);
    }
    exchange.attempts.put_behind(blame);
}

/// The address of the attempt under way could not be reached; the failure is told as well.
pub fn unreachable(exchange: &Exchange, peer: &HttpPeer) {
    if let Some(candidate) = exchange.attempts.current() {
        candidate.pool.unreachable(peer);
    }
}

/// The tokens that the attempt under way has used are known: what its limits were charged is
/// corrected.
pub fn used(exchange: &mut Exchange, usage: &Usage) {
    if let Some((ticket, _)) = exchange.attempts.ticket() {
        let counts = [
            usage.input,
            usage.cache_read,
            usage.cache_write,
            usage.output,
        ];
        let tokens = counts.into_iter().fold(0, u64::saturating_add);
        ticket.used(tokens, clock::steady_ms(Instant::now()));
    }
}

/// The attempt under way says nothing of anybody: its connection was stale, the caller left,
/// or its answer is at its end. An exchange that is dropped does this by itself.
pub fn over(exchange: &mut Exchange) {
    exchange.attempts.drop_ticket();
}

/// The attempt under way has asked nobody: it says nothing of anybody, and has used no tokens.
pub fn asked_nobody(exchange: &mut Exchange) {
    used(exchange, &Usage::default());
    over(exchange);
}

/// Whom a failure counts against.
const fn blame(fault: &UpstreamFault) -> Blame {
    use FaultClass as C;
    match fault.class {
        C::ContextLength(_)
        | C::ContentPolicy
        | C::UnreadableReasoning
        | C::InvalidRequest
        | C::OutOfFiles
        | C::RequestOverRateLimit => Blame::Nobody,
        // What is forbidden may be the model alone.
        C::Credential if is_forbidden(fault) => Blame::Seat,
        C::Credential | C::Quota => Blame::Credential,
        C::RateLimit => Blame::Seat,
        C::InvalidModel => Blame::Model,
        C::Unreachable => Blame::Provider,
        C::Busy | C::ServerError | C::ConnectionBroken | C::ResponseTimeout | C::BrokenAnswer => {
            Blame::Deployment
        }
    }
}

/// Whether the status is 403: that of the answer, or what an error within a success tells.
const fn is_forbidden(fault: &UpstreamFault) -> bool {
    matches!(
        (fault.status, fault.told_status),
        (Some(403), _) | (None, Some(403))
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_wire::fault::classify_body;

    #[test]
    fn what_is_forbidden_within_a_success_counts_against_the_seat() {
        let examples = [
            (r#"{"error":{"code":403,"message":"x"}}"#, Blame::Seat),
            (
                r#"{"type":"error","error":{"type":"permission_error","message":"x"}}"#,
                Blame::Seat,
            ),
            (r#"{"error":{"code":401,"message":"x"}}"#, Blame::Credential),
            (
                r#"{"type":"error","error":{"type":"authentication_error","message":"x"}}"#,
                Blame::Credential,
            ),
        ];
        for (body, expected) in examples {
            assert_eq!(blame(&classify_body(body.as_bytes())), expected, "{body}");
        }
    }
}
