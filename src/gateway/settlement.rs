//! Settles a request: charges its use of its key's limits and balance.
//!
//! The [`SettlementGuard`] owns both from the last filter to the end. The phase that first knows how the
//! request has ended settles it; dropping the guard settles a request that no phase has settled. This file
//! collects the facts of the request, [`rules`] decides its use, and the ledger computes the amount.

mod guard;
mod rules;

pub use guard::SettlementGuard;
pub use rules::has_unknown_input;

use super::count;
use super::exchange::Exchange;
use super::passthrough;
use super::stage::Admitted;
use super::stored;
use pingora_core::{Error, ErrorSource};
use rules::{Asked, End, Facts};
use std::time::Instant;
use tollgate_count::tokens_of_sample;
use tollgate_engine::counts::How;
use tollgate_types::{
    BillingState, CountSource, Ending, ErrorCode, LARGEST_WINDOW, Money, ProviderTool, ServiceTier,
    Settled, SpecialPrices, Usage, UsageDetails,
};

/// Notes that a piece of the answer is about to be sent. From here on it is charged even if the client
/// disconnects. Settles an answer that is complete.
pub fn before_send(exchange: &mut Exchange, now: Instant) {
    stored::note(exchange);
    if exchange.answer.is_complete() {
        return settle(exchange, None);
    }
    // Progress is read only when it is kept; a settlement computes it anew.
    let text_bytes = exchange.answer.text_bytes();
    if !exchange.settlement.is_keeping_due(now, text_bytes) {
        return;
    }
    let model = exchange.model_served();
    let facts = facts(exchange);
    note_delivered(exchange, &facts, details(exchange, &facts));
    exchange.settlement.keep_progress(now, text_bytes, model);
}

/// Notes what was delivered so far: it is charged if the guard is dropped.
fn note_delivered(exchange: &mut Exchange, facts: &Facts, details: UsageDetails) {
    let delivered = facts.delivered(rules::output_by_length(facts.text_bytes));
    exchange.settlement.note_delivered(delivered, details);
}

/// The cost of a request: of its charge or, without a balance, of the provider's report. `None` if no prices
/// are known.
pub fn cost(exchange: &Exchange) -> Option<Money> {
    if let Some((_, settled)) = exchange.settlement.settled() {
        return settled.cost;
    }
    let facts = facts(exchange);
    let prices = exchange.attempts.current()?.prices()?;
    // Cohere reports searches without tokens.
    let mut said = facts.report.details;
    let searches = *said.calls_mut(ProviderTool::Rerank);
    let usage = facts.report.plausible();
    let usage = usage.or((searches > 0).then(Usage::default))?;
    Some(prices.cost(&usage, &details(exchange, &facts)))
}

/// Settles an answer that ends with this error after its head was sent.
pub fn break_off(exchange: &mut Exchange, code: ErrorCode) {
    exchange.sent.break_off(code);
    settle(exchange, None);
}

/// Settles the request, unless it is settled already. Must run before the last bytes of the answer are
/// sent. `error`: Pingora's, if the request ends with one.
pub fn settle(exchange: &mut Exchange, error: Option<&Error>) {
    if !exchange.settlement.is_open() {
        return;
    }
    let state = state(exchange, error);
    let mut facts = facts(exchange);
    let details = details(exchange, &facts);
    // If the text cannot be counted because that panics, this is charged.
    note_delivered(exchange, &facts, details);
    if facts.is_charged_by_body(state) {
        facts.asked.input = input_by_sample(exchange).unwrap_or(facts.asked.input);
    }
    let output = match facts.is_delivered || facts.is_left(state) {
        true => output(exchange, &facts),
        // Text that was held back does not count.
        false => 0,
    };
    let ran = || exchange.timer.since_sent().unwrap_or_default();
    let mut ending = Ending {
        details,
        absurd: facts.report.absurd || facts.report.conflicting,
        status: exchange.sent.status(),
        error: exchange.sent.code(),
        model_served: exchange.model_served(),
        ..facts.used(state, output, ran)
    };
    if ending.reported.is_none() && facts.has_media {
        rules::price_media(&mut ending, &special_prices(exchange));
    }
    // Whether a provider got the request, or the gateway has done the work itself.
    let was_done = exchange.attempts.tally.made() > 0 || done_here(exchange);
    let most = exchange.settlement.most_tokens();
    if let Some(settled) = exchange.settlement.settle(ending, was_done) {
        note_stored(exchange, state, &settled, most);
    }
}

/// Notes the size of a stored response, at most `most` tokens, and whether it is paid for.
fn note_stored(exchange: &Exchange, state: BillingState, settled: &Settled, most: u64) {
    let is_known = settled.source == CountSource::Reported && !settled.clamped;
    let tokens = match is_known {
        true => settled.usage.total(),
        false => most,
    };
    stored::measure(exchange, tokens);
    if is_known && matches!(state, BillingState::Completed | BillingState::Incomplete) {
        stored::note_paid(exchange);
    }
}

/// How a request has ended, as far as its charge is concerned. `error`: Pingora's, if it ends with one.
pub fn state(exchange: &Exchange, error: Option<&Error>) -> BillingState {
    let is_reported = error.is_some_and(|error| *error.esource() == ErrorSource::Downstream);
    let sent = &exchange.sent;
    rules::state(&End {
        client_left: is_reported || exchange.caller.is_draining(),
        was_asked: exchange.attempts.tally.made() > 0,
        is_answered: sent.is_answer(),
        is_broken: sent.is_broken(),
        client_stalled: sent.is_broken() && exchange.timer.was_the_callers(),
        awaits_body: exchange.awaits_body(),
        fault: exchange.failures.shown(),
        stop: exchange.answer.facts().and_then(|facts| facts.stop),
    })
}

/// Whether the gateway itself has counted tokens or returned a remembered answer.
fn done_here(exchange: &Exchange) -> bool {
    let request = exchange.stage.request();
    let is_stored = request.is_some_and(|request| request.endpoint.is_stored());
    exchange.sent.is_answer() && (is_stored || count::is_count(exchange))
}

/// The provider's report, once it is final.
pub fn reported(exchange: &Exchange) -> Option<Usage> {
    facts(exchange).reported()
}

/// The facts so far.
fn facts(exchange: &Exchange) -> Facts {
    let answer = &exchange.answer;
    Facts {
        asked: exchange.stage.admitted().map(asked).unwrap_or_default(),
        fixed: passthrough::usage(exchange),
        is_worked_on: exchange.attempts.tally.made() > 0
            && !exchange.awaits_body()
            && !exchange.attempts.is_paused(),
        is_delivered: exchange.sent.first_byte().is_some(),
        report: answer.usage(),
        has_final_usage: answer.facts().is_some_and(|facts| facts.has_final_usage),
        is_stream: answer.is_stream(),
        is_complete: answer.is_complete(),
        is_cut_short: answer.is_cut_short(),
        is_unfit: exchange.failures.has_unfit_answer(),
        has_media: has_media(exchange),
        text_bytes: answer.text_bytes(),
    }
}

fn asked(admitted: &Admitted) -> Asked {
    let (model, facts) = (&admitted.model, admitted.facts());
    let window = model.context_window.unwrap_or(LARGEST_WINDOW);
    Asked {
        format: Some(admitted.format),
        choices: facts.choices,
        streams: facts.stream,
        input: input_of(admitted),
        has_unmeasured_input: rules::has_unmeasured_input(facts),
        reads_again: facts.reads_again(),
        stored_tokens: match facts.stored_ids.is_empty() {
            true => 0,
            false => admitted.request.stored_tokens.unwrap_or(window).min(window),
        },
        hosted_tools: facts.hosted_tools,
        rerank_searches: facts.likely_rerank_searches(),
        can_hide_output: rules::can_hide_output(facts, model.reasoning),
        output_rate: match admitted.request.endpoint.has_output() {
            true => model.output_rate.into(),
            false => 0,
        },
    }
}

/// Whether only the provider's report has the size of the output: sound and pictures are requested, or have
/// arrived.
pub fn has_media(exchange: &Exchange) -> bool {
    let admitted = exchange.stage.admitted();
    let are_asked = admitted.is_some_and(|it| it.facts().asks_for_media());
    let facts = exchange.answer.facts();
    are_asked || facts.is_some_and(|it| it.has_unmeasured_output)
}

/// The tier, the reported parts and the calls of tools.
fn details(exchange: &Exchange, facts: &Facts) -> UsageDetails {
    let asked = || tier_sent(exchange);
    facts.details(rules::tier(&facts.report, asked, || {
        special_prices(exchange)
    }))
}

/// The special prices of the current deployment.
fn special_prices(exchange: &Exchange) -> SpecialPrices {
    let prices = exchange.attempts.current().and_then(|it| it.prices());
    prices.map(|prices| prices.special).unwrap_or_default()
}

/// The dearest tier for which the provider was asked.
fn tier_sent(exchange: &Exchange) -> ServiceTier {
    let facts = exchange.stage.admitted().map(Admitted::facts);
    let mut asked = facts.map_or_else(Vec::new, |facts| facts.tiers.clone());
    let dropped = &exchange.attempts.outgoing.dropped;
    asked.retain(|it| !dropped.iter().any(|field| field == it.field));
    let candidate = exchange.attempts.current();
    let endpoint = candidate.and_then(|it| it.deployment.provider.endpoint(it.format));
    let tier = endpoint.and_then(|endpoint| endpoint.whole.patch.tiers(&asked).max());
    tier.unwrap_or_default()
}

/// Input tokens that were sent; 0 without a model.
pub fn input_sent(exchange: &Exchange) -> u64 {
    exchange.stage.admitted().map_or(0, input_of)
}

/// The input tokens of a request: the count, but no more than is ever reserved for the body, else an estimate
/// by length.
fn input_of(admitted: &Admitted) -> u64 {
    let facts = admitted.facts();
    match admitted.request.input {
        Some(counted) => counted.tokens.min(facts.most_input()),
        // Each text has a token at least.
        None => facts.likely_input_tokens().max(facts.documents),
    }
}

/// The input tokens that a stream can show before its provider reports them. Zero if the body does not bound
/// them.
pub fn shown_input(exchange: &Exchange) -> u64 {
    let admitted = exchange.stage.admitted();
    match admitted.is_some_and(|it| rules::has_unmeasured_input(it.facts())) {
        true => 0,
        false => input_sent(exchange),
    }
}

/// Whether the request may have to be charged by a sample of its body after the body was released: its input was
/// not counted, and the answer has not reported it.
pub fn may_charge_by_body(exchange: &Exchange) -> bool {
    let admitted = exchange.stage.admitted();
    let is_uncounted =
        admitted.is_some_and(|it| it.request.input.is_none() && it.request.endpoint.has_output());
    is_uncounted
        && exchange.answer.usage().usage.total_input() == 0
        && how_counted(exchange).is_some_and(|it| it.rules.vocabulary.is_loaded())
}

/// The input tokens of a request whose input was not counted, by counting a sample of its body. `None`: there is
/// no sample, the sample may contain media, or the vocabulary is not loaded.
fn input_by_sample(exchange: &Exchange) -> Option<u64> {
    /// A sample of so many runs likely has no more than one of media that are a smaller part of the body.
    const RUNS: u64 = 16;
    let admitted = exchange.stage.admitted()?;
    let (facts, body) = (admitted.facts(), &admitted.body);
    let is_text = facts.media.bytes <= body.len() / RUNS && admitted.request.endpoint.has_output();
    let rules = how_counted(exchange)?.rules;
    if admitted.request.input.is_some() || !is_text || !rules.vocabulary.is_loaded() {
        return None;
    }
    let sample = body.sample();
    let bytes = u64::try_from(sample.len()).ok().filter(|it| *it > 0)?;
    let tokens = tokens_of_sample(&sample, bytes, &rules);
    // What stands around the texts is sampled, too.
    let text = tokens.saturating_mul(facts.text_bytes).div_ceil(bytes);
    let tokens = text.saturating_add(facts.media_tokens());
    Some(tokens.min(facts.most_input()))
}

/// Output tokens of the text that has arrived. If the provider reports output, the text need not be counted.
fn output(exchange: &Exchange, facts: &Facts) -> u64 {
    match facts.reported() {
        Some(usage) if usage.output > 0 => None,
        _ => output_by_text(exchange),
    }
    .unwrap_or_else(|| rules::output_by_length(facts.text_bytes))
}

/// Output tokens by counting a sample of the text. `None` if the vocabulary is not loaded, because this function
/// must not wait.
fn output_by_text(exchange: &Exchange) -> Option<u64> {
    let rules = how_counted(exchange)?.rules;
    if !rules.vocabulary.is_loaded() {
        return None;
    }
    Some(exchange.answer.report().map_or(0, |it| {
        tokens_of_sample(&it.text_sample(), it.text_bytes(), &rules)
    }))
}

/// How the text of the current deployment is counted.
fn how_counted(exchange: &Exchange) -> Option<How> {
    let deployment = &exchange.attempts.current()?.deployment;
    let request = &exchange.stage.admitted()?.request;
    exchange.snapshot.counts.how(request, deployment)
}
