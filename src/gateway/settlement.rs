//! Settles a request: charges its use of its key's limits and balance.
//!
//! The [`SettlementGuard`] owns both from the last filter to the end. The phase that first knows how the
//! request has ended settles it; dropping the guard settles a request that no phase has settled. The
//! ledger decides how much is charged.

use super::count;
use super::exchange::Exchange;
use super::passthrough;
use super::record;
use super::stage::Admitted;
use super::stored;
use std::sync::Arc;
use std::time::Instant;
use tollgate_count::tokens_of_sample;
use tollgate_engine::counts::How;
use tollgate_filter::{FixedCharge, RequestContext};
use tollgate_ledger::{Payable, Paying, Reservation};
use tollgate_types::{
    AdmissionGuard, BillingState, ChargedBefore, CountSource, Ending, ErrorCode, Format,
    LARGEST_WINDOW, Least, Money, Prices, ProviderTool, ReasoningMode, RequestFacts, RequestId,
    ReservationGuard, ServiceTier, Settled, Thinking, Usage, UsageDetails, Weight,
};
use tollgate_wire::usage::ReportedUsage;

/// The part of its key's limits and balance that a request holds. Dropping it charges what was delivered.
#[derive(Default)]
pub struct SettlementGuard {
    admission: Option<Box<dyn AdmissionGuard>>,
    reservation: Option<Box<dyn ReservationGuard>>,
    /// The stored response that the reservation pays for, if it does.
    due: Option<Box<(Payable, Paying)>>,
    /// The model that made it.
    made_by: Option<Arc<str>>,
    settled: Option<(BillingState, Settled)>,
    /// The weight of one token of output in the limits, if the charge is fixed.
    fixed: Option<u64>,
}

impl SettlementGuard {
    /// Takes over the reservation and limits that the filters have taken, even if one has refused the request.
    pub fn take(&mut self, request: &mut RequestContext, arrival: Instant) {
        if let Some(admission) = request.admission.take() {
            self.admission = Some(admission);
        }
        if let Some(mut reservation) = request.reservation.take() {
            reservation.set_arrival(arrival);
            self.reservation = Some(reservation);
        }
        self.fixed = request.fixed.as_ref().map(FixedCharge::tokens);
    }

    /// How the request has ended and what it was charged, once it is settled.
    pub const fn settled(&self) -> Option<&(BillingState, Settled)> {
        self.settled.as_ref()
    }

    /// Adds a reservation for a stored response that is not paid yet.
    pub fn reserve_due(&mut self, reservation: Reservation, due: Payable, paying: Paying) {
        self.reservation = Some(Box::new(reservation));
        self.made_by = Some(Arc::clone(&due.served));
        self.due = Some(Box::new((due, paying)));
    }

    /// The model that made the stored response that the request pays for.
    pub const fn made_by(&self) -> Option<&Arc<str>> {
        self.made_by.as_ref()
    }

    /// Whether the client has got the stored response before that is to be paid for.
    pub fn is_seen(&self) -> bool {
        self.due.as_ref().is_some_and(|due| due.0.is_seen())
    }

    /// Whether a stored response is to be paid for.
    pub const fn is_of_stored(&self) -> bool {
        self.due.is_some()
    }

    /// Charges a stored response at most the amount due, and nothing if the client does not get it.
    fn limit_to_due(&mut self, ending: &mut Ending) {
        let Some((due, paying)) = self.due.take().map(|due| *due) else {
            return;
        };
        let is_whole = matches!(
            ending.state,
            BillingState::Completed | BillingState::Incomplete
        );
        let mut usage = ending.reported.unwrap_or(ending.delivered);
        usage.output = usage.output.max(ending.least.output);
        // The first request has counted the same text.
        let was_counted = due.has_ended && ending.reported.is_none();
        if is_whole && !was_counted && usage.total() > 0 {
            *ending = Ending {
                status: ending.status,
                error: ending.error,
                reported: Some(due.rest(&usage)),
                details: ending.details,
                before: Some(ChargedBefore {
                    whole: usage,
                    charged: due.charged,
                    cost: due.cost,
                }),
                absurd: ending.absurd,
                model_served: Some(due.served),
                ..Ending::unreported(ending.state, Usage::default())
            };
            paying.done();
        } else if let Some(reservation) = self.reservation.take() {
            *ending = Ending {
                status: ending.status,
                error: ending.error,
                model_served: ending.model_served.take(),
                ..Ending::unreported(ending.state, Usage::default())
            };
            reservation.release();
        }
    }

    /// The id of the request's record, if it is charged.
    pub fn charged(&self, id: RequestId) -> Option<RequestId> {
        (self.reservation.is_some() || self.settled.is_some()).then_some(id)
    }

    /// Whether the cost is charged: only deployments with a price can serve the request.
    pub fn pays_money(&self) -> bool {
        self.reservation.as_ref().is_some_and(|it| it.pays_money())
    }

    fn is_open(&self) -> bool {
        self.reservation.is_some() || self.admission.is_some()
    }

    /// Sets the prices of the deployment that is asked. A stored response keeps those of the model that
    /// made it.
    pub fn set_prices(&mut self, prices: Option<Prices>) {
        if let Some(reservation) = self.reservation.as_mut().filter(|_| self.due.is_none()) {
            reservation.set_prices(prices);
        }
    }

    /// Notes that the answer has begun to flow.
    pub fn first_byte(&mut self) {
        if let Some(reservation) = &mut self.reservation {
            reservation.first_byte();
        }
    }

    fn settle(&mut self, ending: &Ending, was_done: bool) {
        let state = ending.state;
        let settled = self.reservation.take().map(|it| {
            // A request that ends before an attempt costs nothing and leaves no record.
            let is_unused = matches!(state, BillingState::Rejected | BillingState::ClientClosed);
            if is_unused && !was_done {
                return it.release();
            }
            it.settle(ending)
        });
        if let Some(admission) = self.admission.take() {
            // Dropping the admission of a refused request gives everything back.
            if was_done {
                let usage = match settled {
                    // As charged: an implausible report does not count for the limits either.
                    Some(settled) => settled.usage,
                    // Free requests count as zero usage.
                    None if state.is_free(ending.delivered.output) => Usage::default(),
                    None => ending.reported.unwrap_or(ending.delivered),
                };
                let output = usage.output.saturating_mul(self.fixed.unwrap_or(1));
                admission.finish(usage.total_input(), output);
            }
        }
        if let Some(settled) = settled {
            self.settled = Some((state, settled));
        }
    }
}

/// Notes that a piece of the answer is about to be sent. From here on it is charged even if the client
/// disconnects. Settles an answer that is complete.
pub fn before_send(exchange: &mut Exchange, now: Instant) {
    stored::note(exchange);
    if exchange.answer.is_complete() {
        let state = record::ending(exchange, None);
        return settle(exchange, state);
    }
    let reservation = exchange.settlement.reservation.as_ref();
    // Progress is read only when it is kept; a settlement computes it anew.
    if !reservation.is_some_and(|it| it.is_keeping_due(now)) {
        return;
    }
    // Once stored, it is charged even after a crash.
    let model = exchange.model_served();
    let report = exchange.answer.usage();
    let details = details(exchange, &report);
    note_delivered(exchange, &report, details);
    if let Some(reservation) = &mut exchange.settlement.reservation {
        reservation.keep_progress(now, model);
    }
}

/// Notes what was delivered so far: it is charged if the reservation is dropped.
fn note_delivered(exchange: &mut Exchange, report: &ReportedUsage, details: UsageDetails) {
    let delivered = delivered(exchange, report, output_by_length);
    if let Some(reservation) = &mut exchange.settlement.reservation {
        reservation.progress(delivered, details);
    }
}

/// The cost of a request: of its charge or, without a balance, of the provider's report. `None` if no prices are known.
pub fn cost(exchange: &Exchange) -> Option<Money> {
    if let Some((_, settled)) = exchange.settlement.settled() {
        return settled.cost;
    }
    let report = exchange.answer.usage();
    let prices = exchange.attempts.current()?.prices()?;
    // Cohere reports searches without tokens.
    let mut said = report.details;
    let searches = *said.calls_mut(ProviderTool::Rerank);
    let usage = report.plausible().or((searches > 0).then(Usage::default))?;
    Some(prices.cost(&usage, &details(exchange, &report)))
}

/// Settles an answer that ends with this error after its head was sent.
pub fn break_off(exchange: &mut Exchange, code: ErrorCode) {
    exchange.sent.break_off(code);
    let state = record::ending(exchange, None);
    settle(exchange, state);
}

/// Settles the request, unless it is settled already. Must run before the last bytes of the answer are
/// sent.
pub fn settle(exchange: &mut Exchange, state: BillingState) {
    if !exchange.settlement.is_open() {
        return;
    }
    let report = exchange.answer.usage();
    let details = details(exchange, &report);
    // If the text cannot be counted because that panics, this is charged.
    note_delivered(exchange, &report, details);
    // A fixed charge needs no report.
    let fixed = passthrough::usage(exchange).filter(|_| exchange.answer.is_complete());
    let reported = fixed.or_else(|| final_usage(exchange, &report));
    let mut ending = match state {
        BillingState::Rejected => Ending::unreported(state, Usage::default()),
        _ => used(exchange, state, &report, reported),
    };
    ending.absurd = report.absurd || report.conflicting;
    ending.details = details;
    price_media(exchange, &mut ending);
    ending.status = exchange.sent.status();
    ending.error = exchange.sent.code();
    ending.model_served = exchange.model_served();
    // Whether a provider got the request, or the gateway has done the work itself.
    let was_done = exchange.attempts.made() > 0 || done_here(exchange);
    exchange.settlement.limit_to_due(&mut ending);
    let most = exchange.settlement.reservation.as_ref();
    let most = most.map_or(0, |reservation| reservation.most_tokens());
    exchange.settlement.settle(&ending, was_done);
    let settled = exchange.settlement.settled().map(|(_, settled)| *settled);
    if let Some(Settled {
        usage,
        source,
        clamped,
        ..
    }) = settled
    {
        let is_known = source == CountSource::Reported && !clamped;
        let tokens = if is_known { usage.total() } else { most };
        stored::measure(exchange, tokens);
        if is_known && matches!(state, BillingState::Completed | BillingState::Incomplete) {
            stored::note_paid(exchange);
        }
    }
}

/// Prices the hidden output of a disconnected answer with sound or pictures as these, whichever is dearer.
fn price_media(exchange: &Exchange, ending: &mut Ending) {
    if ending.reported.is_some() || !has_media(exchange) {
        return;
    }
    let prices = exchange.attempts.current().and_then(|it| it.prices());
    let special = prices.map(|prices| prices.special).unwrap_or_default();
    let hidden = ending.produced.saturating_sub(ending.delivered.output);
    let part = match special.image_output > special.audio_output {
        true => &mut ending.details.image_output,
        false => &mut ending.details.audio_output,
    };
    *part = hidden.max(*part);
}

/// Whether only the provider's report has the size of the output: sound and pictures are requested, or have
/// arrived.
pub fn has_media(exchange: &Exchange) -> bool {
    let admitted = exchange.stage.admitted();
    let are_asked = admitted.is_some_and(|it| it.facts().asks_for_media());
    let facts = exchange.answer.facts();
    are_asked || facts.is_some_and(|it| it.has_unmeasured_output)
}

/// The reported tier, parts and tools.
fn details(exchange: &Exchange, report: &ReportedUsage) -> UsageDetails {
    let asked = || tier_sent(exchange);
    let mut details = UsageDetails {
        // Only the final report says in which tier the provider serves.
        tier: match report.tier {
            Some(said) if report.has_input => said,
            Some(said) => dearer(exchange, said, asked()),
            None => asked(),
        },
        ..report.details
    };
    // Without a final report, the calls that have arrived count.
    if final_usage(exchange, report).is_none() {
        for (calls, seen) in details.tool_calls.iter_mut().zip(report.seen_calls) {
            *calls = seen.max(*calls);
        }
    }
    if let Some((tool, least)) = unreported_calls(exchange) {
        let calls = details.calls_mut(tool);
        if *calls == 0 && is_worked_on(exchange) {
            *calls = least;
        }
    }
    details
}

/// The dearer of two tiers at the current deployment. One without a price has that of the standard tier.
fn dearer(exchange: &Exchange, one: ServiceTier, other: ServiceTier) -> ServiceTier {
    let prices = exchange.attempts.current().and_then(|it| it.prices());
    let factor = |tier| prices.and_then(|it| it.special.factor(tier));
    let factor = |tier| factor(tier).unwrap_or(Weight::ONE);
    match factor(one) > factor(other) {
        true => one,
        false => other,
    }
}

/// The dearest tier for which the provider was asked.
fn tier_sent(exchange: &Exchange) -> ServiceTier {
    let facts = exchange.stage.admitted().map(Admitted::facts);
    let mut asked = facts.map_or_else(Vec::new, |facts| facts.tiers.clone());
    let dropped = exchange.attempts.dropped();
    asked.retain(|it| !dropped.iter().any(|field| field == it.field));
    let candidate = exchange.attempts.current();
    let endpoint = candidate.and_then(|it| it.deployment.provider.endpoint(it.format));
    let tier = endpoint.and_then(|endpoint| endpoint.whole.patch.tiers(&asked).max());
    tier.unwrap_or_default()
}

/// The calls of a tool that the provider charges even if its answer reports none.
fn unreported_calls(exchange: &Exchange) -> Option<(ProviderTool, u64)> {
    let admitted = exchange.stage.admitted()?;
    let facts = admitted.facts();
    let has_shown_none = !facts.stream && !exchange.answer.is_complete();
    match admitted.format {
        Format::Rerank => Some((ProviderTool::Rerank, facts.likely_rerank_searches())),
        _ if facts.hosted_tools == 0 => None,
        // An option for searches: chat has no other tools of providers.
        Format::Chat => Some((ProviderTool::WebSearch, 1)),
        // The calls stand in the answer, of which nothing has come.
        _ if has_shown_none => Some((ProviderTool::WebSearch, facts.hosted_tools)),
        _ => None,
    }
}

/// The use of a request of which its provider has reported this so far, and this at the end.
fn used(
    exchange: &Exchange,
    state: BillingState,
    report: &ReportedUsage,
    reported: Option<Usage>,
) -> Ending {
    // If the provider reports output, the text need not be counted.
    let output = match reported {
        Some(usage) if usage.output > 0 => output_by_length,
        _ => output_by_text,
    };
    let mut seen = *report;
    if state == BillingState::UpstreamFailed {
        // The caller did not cause the failure: hidden output is not charged.
        let hidden = std::mem::take(&mut seen.usage.reasoning);
        seen.usage.output = seen.usage.output.saturating_sub(hidden);
    }
    let delivered = delivered(exchange, &seen, output);
    // The provider's stream was closed before its end.
    let is_left = state == BillingState::ClientClosed
        || exchange.answer.is_cut_short()
        || exchange.failures.has_unfit_answer();
    // Text that has arrived was produced, whether it was forwarded or not.
    let (produced, hidden_input) = match is_left {
        true => {
            let produced = produced(exchange).max(output(exchange));
            (produced, hidden_input(exchange, report))
        }
        false => (0, 0),
    };
    Ending {
        reported,
        produced,
        hidden_input,
        least: reported.map_or_else(Least::default, |usage| least(exchange, &usage, &delivered)),
        ..Ending::unreported(state, delivered)
    }
}

/// The lowest plausible report. Every request has input and every text has tokens: if a report has none, the
/// gateway's count is used.
fn least(exchange: &Exchange, reported: &Usage, delivered: &Usage) -> Least {
    /// No token of the published vocabularies is longer, and no recorded answer has more bytes per reported
    /// token: most have 3 to 6; one whose reasoning is shown but not reported has 50.
    const MOST_BYTES_PER_TOKEN: u64 = 128;
    // If the provider runs tools, the text can be their results.
    let admitted = exchange.stage.admitted();
    let runs_tools = admitted.is_some_and(|it| it.facts().hosted_tools > 0);
    let by_length = exchange.answer.text_bytes() / MOST_BYTES_PER_TOKEN;
    Least {
        input: match reported.total_input() {
            0 => delivered.total_input(),
            _ => 0,
        },
        output: match reported.output {
            _ if exchange.sent.first_byte().is_none() => 0,
            0 if !runs_tools => delivered.output,
            _ if !runs_tools => by_length,
            _ => 0,
        },
    }
}

/// Output tokens that the provider can have produced since the request was sent, at the rate of its model.
/// Zero if the client sees all output while it is produced.
fn produced(exchange: &Exchange) -> u64 {
    const MICROS: u128 = 1_000_000;
    if let Some(fixed) = passthrough::usage(exchange) {
        return if is_worked_on(exchange) {
            fixed.output
        } else {
            0
        };
    }
    let (Some(admitted), true) = (exchange.stage.admitted(), is_worked_on(exchange)) else {
        return 0;
    };
    if !admitted.request.endpoint.has_output() {
        return 0;
    }
    let (model, facts) = (&admitted.model, admitted.facts());
    let is_seen = facts.stream
        && model.reasoning == ReasoningMode::None
        && !facts.needs.reasoning
        && !facts.thinks
        && !facts.predicts
        && !matches!(facts.thinking, Some(Thinking::Adaptive | Thinking::Other))
        && !facts.reads_again()
        && !has_media(exchange);
    if is_seen {
        return 0;
    }
    let rate = u128::from(model.output_rate).saturating_mul(facts.choices.max(1).into());
    let ran = exchange.timer.since_sent().unwrap_or_default();
    let tokens = ran.as_micros().saturating_mul(rate).div_ceil(MICROS);
    u64::try_from(tokens).unwrap_or(u64::MAX)
}

/// Input tokens that the body does not show, `u64::MAX` if their number is unknown; the ledger reduces them to
/// what is reserved. A report at the beginning of the answer includes all but the results of hosted tools.
fn hidden_input(exchange: &Exchange, report: &ReportedUsage) -> u64 {
    let (Some(admitted), true) = (exchange.stage.admitted(), is_worked_on(exchange)) else {
        return 0;
    };
    let facts = admitted.facts();
    let is_reported = plausible_so_far(report).is_some();
    if facts.reads_again() || (!is_reported && has_unmeasured_input(facts)) {
        return u64::MAX;
    }
    if is_reported || facts.stored_ids.is_empty() {
        return 0;
    }
    let window = admitted.model.context_window.unwrap_or(LARGEST_WINDOW);
    admitted.request.stored_tokens.unwrap_or(window).min(window)
}

/// Whether the size of the body does not bound its input tokens.
const fn has_unmeasured_input(facts: &RequestFacts) -> bool {
    facts.template || facts.media.unmeasured > 0
}

/// Whether only the provider's report has the size of the input.
pub const fn has_unknown_input(facts: &RequestFacts) -> bool {
    facts.reads_again() || has_unmeasured_input(facts)
}

/// Whether a provider works on the request, or has worked on it.
fn is_worked_on(exchange: &Exchange) -> bool {
    exchange.attempts.made() > 0 && !exchange.awaits_body() && !exchange.attempts.is_paused()
}

/// Whether the gateway itself has counted tokens or returned a remembered answer.
fn done_here(exchange: &Exchange) -> bool {
    let request = exchange.stage.request();
    let is_stored = request.is_some_and(|request| request.endpoint.is_stored());
    exchange.sent.is_answer() && (is_stored || count::is_count(exchange))
}

/// The provider's report, once it is final. Before that, its numbers grow.
pub fn reported(exchange: &Exchange) -> Option<Usage> {
    final_usage(exchange, &exchange.answer.usage())
}

fn final_usage(exchange: &Exchange, report: &ReportedUsage) -> Option<Usage> {
    let answer = &exchange.answer;
    let admitted = exchange.stage.admitted();
    let is_one = admitted.is_none_or(|it| it.facts().choices <= 1);
    let is_final = || {
        let is_said = answer.facts().is_some_and(|facts| facts.has_final_usage);
        let is_whole = !answer.is_stream() && exchange.failures.has_unfit_answer();
        answer.is_complete() || is_one && is_said || is_whole
    };
    // An answer that the gateway cuts at a stop sequence has no final report.
    let usage = report.plausible()?;
    (!answer.is_cut_short() && is_final()).then_some(usage)
}

/// The tokens that were sent and delivered so far. `output` counts those of the answer's text.
fn delivered(exchange: &Exchange, report: &ReportedUsage, output: fn(&Exchange) -> u64) -> Usage {
    if let Some(fixed) = passthrough::usage(exchange) {
        // The provider has answered once its head was sent, even if the upload has not ended.
        return exchange
            .sent
            .first_byte()
            .map_or_else(Usage::default, |_| fixed);
    }
    if !is_worked_on(exchange) {
        return Usage::default();
    }
    // Text that is still held back was not delivered.
    let counted = Usage {
        input: input_sent(exchange),
        output: exchange.sent.first_byte().map_or(0, |_| output(exchange)),
        ..Usage::default()
    };
    plausible_so_far(report).map_or(counted, |said| Usage {
        output: match exchange.sent.first_byte() {
            Some(_) => counted.output.max(said.output),
            None => 0,
        },
        ..said
    })
}

/// Input tokens that were sent: the count, but no more than is ever reserved for the body, else an estimate by
/// length.
pub fn input_sent(exchange: &Exchange) -> u64 {
    let Some(admitted) = exchange.stage.admitted() else {
        return 0;
    };
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
    match admitted.is_some_and(|it| has_unmeasured_input(it.facts())) {
        true => 0,
        false => input_sent(exchange),
    }
}

/// Output tokens by the length of the text. Cheap: it runs for every piece.
fn output_by_length(exchange: &Exchange) -> u64 {
    /// For text and arguments of tool calls, in the scripts of most answers.
    const BYTES_PER_TOKEN: u64 = 4;
    exchange.answer.text_bytes().div_ceil(BYTES_PER_TOKEN)
}

/// Output tokens by counting a sample of the text. Uses the length if the vocabulary is not loaded, because
/// this function must not wait.
fn output_by_text(exchange: &Exchange) -> u64 {
    let by_length = || output_by_length(exchange);
    let Some(How { rules, .. }) = how_counted(exchange) else {
        return by_length();
    };
    if !rules.vocabulary.is_loaded() {
        return by_length();
    }
    exchange.answer.report().map_or(0, |it| {
        tokens_of_sample(&it.text_sample(), it.text_bytes(), &rules)
    })
}

/// How the text of the current deployment is counted.
fn how_counted(exchange: &Exchange) -> Option<How> {
    let deployment = &exchange.attempts.current()?.deployment;
    let request = &exchange.stage.admitted()?.request;
    exchange.snapshot.counts.how(request, deployment)
}

/// The provider's report so far, if it is plausible.
fn plausible_so_far(report: &ReportedUsage) -> Option<Usage> {
    // Every request has input: a report without any is ignored.
    (report.usage.total_input() > 0 && !report.absurd).then_some(report.usage)
}
