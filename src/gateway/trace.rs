//! The trace of a request: what the exchange puts into its spans.

use super::exchange::Exchange;
use std::sync::Arc;
use tollgate_filter::{Endpoint, RequestContext};
use tollgate_ledger::BillingState;
use tollgate_traces::{Attempt, Facts, RequestTrace};
use tollgate_types::{ErrorCode, Format, Money, RequestFacts, Usage};
use tollgate_wire::answer::AnswerFacts;
use tollgate_wire::fault::UpstreamFault;

/// Begins the span of the current attempt.
pub fn begin_attempt(exchange: &mut Exchange) {
    let Some(trace) = &mut exchange.trace else {
        return;
    };
    let Some(candidate) = exchange.attempts.current() else {
        return;
    };
    let provider = &candidate.deployment.provider;
    let upstream_model = |asked| candidate.deployment.upstream_model(asked).to_owned();
    let admitted = exchange.stage.admitted();
    trace.begin_attempt(Attempt {
        provider: Arc::clone(&provider.name),
        host: Arc::clone(&provider.host),
        port: provider.port,
        operation: operation(exchange.stage.request(), candidate.format),
        model: admitted.map(|it| upstream_model(it.model_asked())),
    });
    if let (Some(identity), Some(body)) = (exchange.stage.identity(), exchange.stage.body()) {
        let kept = trace.keep_prompt(identity.key.as_str(), body.pieces());
        exchange.answer.keep_in(kept);
    }
}

/// Ends the span of the current attempt, which has failed.
pub fn fail_attempt(exchange: &mut Exchange, fault: &UpstreamFault) {
    if let Some(trace) = &mut exchange.trace {
        trace.fail_attempt(fault.class.as_str(), fault.status);
    }
}

/// Removes the span of the current attempt: nothing was sent.
pub fn retract_attempt(exchange: &mut Exchange) {
    if let Some(trace) = &mut exchange.trace {
        trace.retract_attempt();
    }
}

/// The end of a request, as `record` knows it.
pub struct Ended {
    /// The status that the client got.
    pub status: u16,
    /// The code of the error that the client got.
    pub code: Option<ErrorCode>,
    /// How the request has ended.
    pub outcome: BillingState,
    /// The usage that the provider reported.
    pub usage: Option<Usage>,
    /// The cost, if the prices are known.
    pub cost: Option<Money>,
}

/// Ends the trace that was taken out of the exchange. Returns whether it is exported.
pub fn finish(trace: RequestTrace, exchange: &Exchange, ended: &Ended) -> bool {
    let has_failed = ended.status >= 500 || exchange.sent.is_broken();
    if !trace.is_sampled(has_failed) {
        return false;
    }
    let request = exchange.stage.request();
    let facts = request.and_then(RequestContext::facts_if_read);
    let answer = exchange.answer.facts();
    let stops: Vec<_> = answer
        .map(AnswerFacts::stop_words)
        .into_iter()
        .flatten()
        .collect();
    let settled = exchange.settlement.settled();
    let identity = exchange.stage.identity();
    trace.export(&Facts {
        id: exchange.id.as_str(),
        method: exchange.arrival.method.as_str(),
        route: request.map(|request| request.endpoint.path()),
        status: ended.status,
        code: ended.code.map(ErrorCode::as_str),
        outcome: ended.outcome.as_str(),
        has_failed,
        key: identity.map(|identity| identity.key.as_str()),
        model: exchange.model_name(),
        stream: facts.is_some_and(|facts| facts.stream),
        output: facts.and_then(|facts| facts.output),
        seed: facts.and_then(|facts| facts.seed),
        conversation: facts.and_then(conversation),
        output_limit: facts.and_then(|facts| facts.output_limit),
        choices: facts.map_or(1, |facts: &RequestFacts| facts.choices),
        usage: ended.usage,
        charged: settled.map(|(_, settled)| settled.charged),
        cost: ended.cost,
        first_byte: exchange.sent.first_byte(),
        stops: &stops,
        answer_id: answer.and_then(|it| it.id.as_deref()),
        answer_model: answer.and_then(|it| it.model.as_deref()),
    });
    true
}

/// The id of the conversation that the provider keeps and the request continues.
fn conversation(facts: &RequestFacts) -> Option<&str> {
    let mut stored = facts.stored_ids.iter();
    let conversation = stored.find(|stored| &*stored.field == "conversation");
    conversation.map(|stored| stored.id.as_str())
}

/// The operation, by the semantic conventions if they define it.
fn operation(request: Option<&RequestContext>, format: Format) -> &'static str {
    match request.map(|request| request.endpoint) {
        Some(endpoint) if endpoint.is_count() => "count_tokens",
        Some(endpoint) if endpoint.is_stored() => "stored_response",
        Some(Endpoint::Passthrough) => "passthrough",
        _ => match format {
            Format::Gemini => "generate_content",
            Format::Embeddings => "embeddings",
            Format::Rerank => "rerank",
            _ => "chat",
        },
    }
}
