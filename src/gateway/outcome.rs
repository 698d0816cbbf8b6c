//! Reports the outcome of each attempt to the health of its deployment.
//!
//! These functions decide what a failure counts against. `tollgate_routing::health` decides what that
//! means for the next request, `failure.rs` what follows for this one.

use super::exchange::Exchange;
use pingora_core::upstreams::peer::HttpPeer;
use std::time::{Duration, Instant};
use tollgate_routing::UpstreamModel;
use tollgate_routing::health::Blame;
use tollgate_telemetry::{clock, events};
use tollgate_types::Usage;
use tollgate_wire::fault::{FaultClass, UpstreamFault};

/// Notes that a part of the answer is about to be sent. The first content, which a comment or a ping is not,
/// makes the attempt a success.
pub fn before_send(exchange: &mut Exchange, now: Instant) {
    if exchange.attempts.has_content() || !exchange.answer.has_content() {
        return;
    }
    exchange.attempts.note_content();
    let admitted = exchange.stage.admitted();
    let is_stream = admitted.is_some_and(|it| it.facts().stream);
    if let Some((ticket, began)) = exchange.attempts.ticket() {
        let took = is_stream.then(|| now.saturating_duration_since(began));
        ticket.first_content(took, clock::steady_ms(now), &mut events::breaker_changed);
    }
}

/// Notes that the current attempt has failed, before or after its first content. Candidates that share the
/// cause move behind the others.
pub fn failed(exchange: &mut Exchange, fault: &UpstreamFault) {
    let blame = blame(fault);
    if let Some((ticket, _)) = exchange.attempts.ticket() {
        let (wait, now) = (wait(fault), clock::steady_ms(Instant::now()));
        // Under a wildcard, the client has chosen the name that the provider does not know.
        let is_made_up = matches!(
            ticket.handle().deployment.upstream_model,
            UpstreamModel::AsRequested { .. }
        );
        let counted = match fault.class {
            FaultClass::InvalidModel if is_made_up => Blame::None,
            FaultClass::Forbidden if is_made_up => Blame::DeploymentCredentialInDoubt,
            // The credential can be without the right to a path that the client has chosen.
            FaultClass::Credential if exchange.opened.is_some() => Blame::DeploymentCredential,
            _ => blame,
        };
        let report = &mut events::breaker_changed;
        let class = fault.class.as_str();
        ticket.failed(counted, class, wait, now, fastrand::u64(..), report);
    }
    if fault.class == FaultClass::Credential
        && let Some((_, began)) = exchange.attempts.ticket()
    {
        let (sent, now) = (clock::steady_ms(began), clock::steady_ms(Instant::now()));
        if let Some(candidate) = exchange.attempts.current() {
            candidate.refused(sent, now);
        }
    }
    exchange.attempts.put_behind(blame);
}

/// Notes that the address of the current attempt cannot be reached. The failure is reported separately. Returns
/// whether the provider has another address that can be tried.
pub fn unreachable(exchange: &Exchange, peer: &HttpPeer) -> bool {
    let attempts = &exchange.attempts;
    let current = attempts.current().zip(attempts.began());
    current.is_some_and(|(it, began)| it.pool.unreachable(peer, began))
}

/// Notes that the provider of the current attempt requires HTTP/1.1. The failure is reported separately.
pub fn requires_http1(exchange: &Exchange) {
    if let Some(candidate) = exchange.attempts.current() {
        candidate.pool.require_http1();
    }
}

/// The tokens of the current attempt are known: corrects the charge of its limits.
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

/// Ends the attempt without a verdict on its provider: the client has disconnected, or the answer has ended.
/// A dropped exchange does this itself.
pub fn over(exchange: &mut Exchange) {
    exchange.attempts.drop_ticket();
}

/// Ends an attempt that has reached no provider: without a verdict, and without tokens.
pub fn reached_no_provider(exchange: &mut Exchange) {
    used(exchange, &Usage::default());
    over(exchange);
}

/// The request of the current attempt was not sent: it takes nothing from any limit.
pub fn not_sent(exchange: &mut Exchange) {
    if let Some((ticket, _)) = exchange.attempts.ticket() {
        ticket.not_sent(clock::steady_ms(Instant::now()));
    }
    over(exchange);
}

/// How long a provider has asked all requests to wait. Beside other failures, `retry-after` is about this request.
fn wait(fault: &UpstreamFault) -> Option<Duration> {
    use FaultClass as C;
    let is_for_all = matches!(fault.class, C::RateLimit | C::Busy | C::Quota);
    fault.retry_after.filter(|_| is_for_all)
}

/// The scope that a failure counts against.
const fn blame(fault: &UpstreamFault) -> Blame {
    use FaultClass as C;
    match fault.class {
        C::ContextLength(_)
        | C::ContentPolicy
        | C::UnreadableReasoning
        | C::InvalidRequest
        | C::UnfitAnswer
        | C::OutOfFiles
        | C::OutOfMemory
        | C::RequestOverRateLimit => Blame::None,
        C::Credential | C::Quota => Blame::Credential,
        // The refusal can concern only this model and this credential.
        C::Forbidden | C::RateLimit => Blame::DeploymentCredential,
        C::InvalidModel if fault.is_403() => Blame::DeploymentCredential,
        C::InvalidModel => Blame::Model,
        C::Blocked => Blame::DeploymentCredentialInDoubt,
        C::Unreachable => Blame::Provider,
        C::Busy | C::ServerError | C::ConnectionBroken | C::ResponseTimeout | C::BrokenAnswer => {
            Blame::Deployment
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderMap;
    use tollgate_wire::fault::{UpstreamAnswer, classify, classify_body};

    #[test]
    fn a_credential_refused_at_one_model_counts_against_no_other() {
        let examples = [
            (
                r#"{"error":{"message":"Project `p` does not have access to model `x`","type":"invalid_request_error","param":null,"code":"model_not_found"}}"#,
                Blame::DeploymentCredential,
            ),
            (
                r#"{"__type":"AccessDeniedException","message":"You don't have access to the model with the specified model ID."}"#,
                Blame::DeploymentCredential,
            ),
            (
                r#"{"type":"error","error":{"type":"permission_error","message":"x"}}"#,
                Blame::DeploymentCredential,
            ),
            (
                r#"{"__type":"UnrecognizedClientException","message":"The security token included in the request is invalid."}"#,
                Blame::Credential,
            ),
            (
                "<html>Sorry, you have been blocked</html>",
                Blame::DeploymentCredentialInDoubt,
            ),
            (
                r#"{"error":{"message":"You are not allowed to request logprobs from this model","type":"invalid_request_error","param":null,"code":null}}"#,
                Blame::None,
            ),
        ];
        for (body, expected) in examples {
            let fault = classify(&UpstreamAnswer {
                status: 403,
                headers: &HeaderMap::new(),
                body: body.as_bytes(),
                now: std::time::SystemTime::now(),
            });
            assert_eq!(blame(&fault), expected, "{body}");
        }
    }

    #[test]
    fn a_failure_that_is_final_for_the_request_counts_against_nothing() {
        for class in FaultClass::ALL {
            let fault = UpstreamFault::without_answer(class);
            // A shorter request would be served.
            let is_too_large = class == FaultClass::RequestOverRateLimit;
            let is_final = !fault.try_elsewhere() || is_too_large;
            assert_eq!(blame(&fault) == Blame::None, is_final, "{class:?}");
        }
    }

    #[test]
    fn a_403_within_a_success_counts_against_the_credential_at_the_deployment() {
        let examples = [
            (
                r#"{"error":{"code":403,"message":"x"}}"#,
                Blame::DeploymentCredential,
            ),
            (
                r#"{"type":"error","error":{"type":"permission_error","message":"x"}}"#,
                Blame::DeploymentCredential,
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
