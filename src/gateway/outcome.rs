//! What becomes of each attempt, reported to the health of those that were asked.
//!
//! The one way in: whoever learns how an attempt went calls one of these functions, and
//! none of them decides what follows. Whom a failure counts against stands here; what that
//! means for the next request is the business of `tollgate_routing::health`.

use super::exchange::Exchange;
use tollgate_routing::health::Blame;
use tollgate_wire::fault::{FaultClass, UpstreamFault};

/// The first content event of the attempt under way has come, or the whole of an answer
/// that is no stream. What was committed for its length or its age alone is none.
pub fn first_content(exchange: &mut Exchange) {
    if let Some(ticket) = exchange.attempts.ticket() {
        ticket.first_content();
    }
}

/// The attempt under way has failed, before its first content or after it.
pub fn failed(exchange: &mut Exchange, fault: &UpstreamFault) {
    if let Some(ticket) = exchange.attempts.ticket() {
        ticket.failed(blame(fault), fault.retry_after);
    }
}

/// The attempt under way says nothing of anybody: its connection was stale, the caller left,
/// or its answer is at its end. An exchange that is dropped does this by itself.
pub fn over(exchange: &mut Exchange) {
    exchange.attempts.drop_ticket();
}

/// Whom a failure counts against.
const fn blame(fault: &UpstreamFault) -> Blame {
    use FaultClass as C;
    match fault.class {
        C::ContextLength(_)
        | C::ContentPolicy
        | C::UnreadableReasoning
        | C::InvalidRequest
        | C::RequestOverRateLimit => Blame::Nobody,
        C::Credential | C::Quota => Blame::Credential,
        C::RateLimit => Blame::Rate,
        C::InvalidModel => Blame::Model,
        C::Unreachable => Blame::Provider,
        C::Busy | C::ServerError | C::ConnectionBroken | C::ResponseTimeout | C::BrokenAnswer => {
            Blame::Deployment
        }
    }
}
