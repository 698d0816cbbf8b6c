//! The rules of `docs/reference/charging.md`: from the facts of a request to its use.
//!
//! They read no clock and no state. The ledger computes the amount and corrects implausible reports.

use std::time::Duration;
use tollgate_types::{
    BillingState, Ending, Format, Least, ProviderTool, ReasoningMode, RequestFacts, ServiceTier,
    SpecialPrices, Thinking, Usage, UsageDetails, Weight,
};
use tollgate_wire::answer::StopReason;
use tollgate_wire::fault::{FaultClass, UpstreamFault};
use tollgate_wire::usage::ReportedUsage;

/// The facts that decide in which state a request ends.
#[derive(Clone, Copy, Debug, Default)]
pub struct End<'a> {
    /// The client has disconnected.
    pub client_left: bool,
    /// An attempt has reached a provider.
    pub was_asked: bool,
    /// The client has got the head of an answer, not of an error.
    pub is_answered: bool,
    /// The answer ended with an error after its head.
    pub is_broken: bool,
    /// The request timed out because the client did not read.
    pub client_stalled: bool,
    /// The client has not sent the whole body.
    pub awaits_body: bool,
    /// The failure that the client gets.
    pub fault: Option<&'a UpstreamFault>,
    /// Why the model stopped.
    pub stop: Option<StopReason>,
}

/// The billing state in which a request ends.
pub fn state(end: &End<'_>) -> BillingState {
    use BillingState as S;
    let is_unfit = || {
        end.fault
            .is_some_and(|it| it.class == FaultClass::UnfitAnswer)
    };
    match end.stop {
        _ if end.client_left => S::ClientClosed,
        _ if !end.was_asked && end.is_answered => S::Completed,
        _ if !end.was_asked => S::Rejected,
        // The model has produced tokens, and the client's prompt can have caused the wrong form.
        _ if is_unfit() => S::Incomplete,
        // Reading slowly must not hide what the provider has produced.
        _ if end.is_broken && end.client_stalled => S::ClientClosed,
        _ if end.is_broken => S::UpstreamFailed,
        // An error that the client must correct is no failure of the provider.
        _ if !end.is_answered && end.fault.map_or(end.awaits_body, must_change) => S::Rejected,
        _ if !end.is_answered => S::UpstreamFailed,
        Some(stop) if !stop.is_complete() => S::Incomplete,
        _ => S::Completed,
    }
}

/// Whether the client must correct the request. If the gateway lacks files or memory, it asks no other
/// provider either, but the same request can succeed later.
const fn must_change(fault: &UpstreamFault) -> bool {
    use FaultClass as C;
    !fault.try_elsewhere() && !matches!(fault.class, C::OutOfFiles | C::OutOfMemory)
}

/// The facts that decide what a request has used, at its end or so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts {
    /// The request, if a model answers it.
    pub asked: Asked,
    /// The fixed usage of a request for an open path of a provider.
    pub fixed: Option<Usage>,
    /// A provider works on the request, or has worked on it.
    pub is_worked_on: bool,
    /// The client has got the head of the provider's answer.
    pub is_delivered: bool,
    /// What the provider has reported so far.
    pub report: ReportedUsage,
    /// The report came with the stop reason or after it.
    pub has_final_usage: bool,
    /// The answer is an event stream.
    pub is_stream: bool,
    /// The client needs nothing more of the answer.
    pub is_complete: bool,
    /// The gateway has ended the answer at a stop sequence.
    pub is_cut_short: bool,
    /// The answer does not have the form that the request asks for.
    pub is_unfit: bool,
    /// Sound or pictures are requested, or have arrived: only the report has their size.
    pub has_media: bool,
    /// Bytes of text and arguments of tool calls that have arrived.
    pub text_bytes: u64,
}

/// A request that a model answers. The default uses no model.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asked {
    /// The client's format.
    pub format: Option<Format>,
    /// The number of answers.
    pub choices: u64,
    /// It asks for a stream.
    pub streams: bool,
    /// Input tokens that the body shows: the gateway's count, else an estimate by length.
    pub input: u64,
    /// The size of the body does not bound its input: [`has_unmeasured_input`].
    pub has_unmeasured_input: bool,
    /// The model can read the input several times, for hosted tools or a summary.
    pub reads_again: bool,
    /// Tokens of the stored items that it names; the context window if their size is unknown.
    pub stored_tokens: u64,
    /// Tools that the provider runs.
    pub hosted_tools: u64,
    /// The searches that a rerank is likely to cost.
    pub rerank_searches: u64,
    /// The answer can have output that its stream does not show: [`can_hide_output`].
    pub can_hide_output: bool,
    /// Output tokens that the model produces in a second; 0 if the endpoint's answers have no output.
    pub output_rate: u64,
}

/// Whether the size of the body does not bound its input tokens.
pub const fn has_unmeasured_input(facts: &RequestFacts) -> bool {
    facts.template || facts.media.unmeasured > 0
}

/// Whether only the provider's report has the size of the input.
pub const fn has_unknown_input(facts: &RequestFacts) -> bool {
    facts.reads_again() || has_unmeasured_input(facts)
}

/// Whether the answer can have output that its stream does not show, besides sound and pictures.
pub fn can_hide_output(facts: &RequestFacts, reasoning: ReasoningMode) -> bool {
    reasoning != ReasoningMode::None
        || facts.needs.reasoning
        || facts.thinks
        || facts.predicts
        || matches!(facts.thinking, Some(Thinking::Adaptive | Thinking::Other))
        || facts.reads_again()
}

/// Output tokens by the length of a text. Cheap: it runs while an answer is forwarded.
pub const fn output_by_length(text_bytes: u64) -> u64 {
    /// For text and arguments of tool calls, in the scripts of most answers.
    const BYTES_PER_TOKEN: u64 = 4;
    text_bytes.div_ceil(BYTES_PER_TOKEN)
}

impl Facts {
    /// The usage that is charged as reported: a fixed one, or the provider's report once it is final. Before
    /// that, its numbers grow.
    pub fn reported(&self) -> Option<Usage> {
        if self.fixed.is_some() {
            return self.fixed.filter(|_| self.is_complete);
        }
        let is_final = self.is_complete
            || self.asked.choices <= 1 && self.has_final_usage
            || !self.is_stream && self.is_unfit;
        // An answer that the gateway cuts at a stop sequence has no final report.
        let usage = self.report.plausible()?;
        (!self.is_cut_short && is_final).then_some(usage)
    }

    /// Whether the provider's stream was closed before its end.
    pub fn is_left(&self, state: BillingState) -> bool {
        state == BillingState::ClientClosed || self.is_cut_short || self.is_unfit
    }

    /// The provider's report so far, if it is plausible. Every request has input: a report without any is
    /// ignored.
    fn reported_so_far(&self) -> Option<Usage> {
        let report = &self.report;
        (report.usage.total_input() > 0 && !report.absurd).then_some(report.usage)
    }

    /// Whether the size of the body decides the charged input: no report has it.
    pub fn is_charged_by_body(&self, state: BillingState) -> bool {
        self.is_worked_on
            && self.fixed.is_none()
            && self.reported().or_else(|| self.reported_so_far()).is_none()
            && !state.is_free(self.is_delivered.into())
    }

    /// The tokens that were sent and delivered so far. `output`: those of the text that has arrived.
    pub fn delivered(&self, output: u64) -> Usage {
        // Text that is still held back was not delivered.
        let only_delivered = |output| if self.is_delivered { output } else { 0 };
        if self.fixed.is_some() {
            // The provider has answered once its head was sent, even if the upload has not ended.
            return self.fixed.filter(|_| self.is_delivered).unwrap_or_default();
        }
        if !self.is_worked_on {
            return Usage::default();
        }
        match self.reported_so_far() {
            Some(said) => Usage {
                output: only_delivered(output.max(said.output)),
                ..said
            },
            None => Usage {
                input: self.asked.input,
                output: only_delivered(output),
                ..Usage::default()
            },
        }
    }

    /// The use of a request that has ended. `output`: tokens of the text that has arrived; `ran`: how long its
    /// provider has worked on it.
    pub fn used(&self, state: BillingState, output: u64, ran: impl FnOnce() -> Duration) -> Ending {
        if state == BillingState::Rejected {
            return Ending::unreported(state, Usage::default());
        }
        let mut facts = *self;
        if state == BillingState::UpstreamFailed {
            // The client did not cause the failure: hidden output is not charged.
            let usage = &mut facts.report.usage;
            let hidden = std::mem::take(&mut usage.reasoning);
            usage.output = usage.output.saturating_sub(hidden);
        }
        let delivered = facts.delivered(output);
        let reported = self.reported();
        // Text that has arrived was produced, whether it was forwarded or not.
        let (produced, hidden_input) = match self.is_left(state) {
            true => (self.produced(ran).max(output), self.hidden_input()),
            false => (0, 0),
        };
        Ending {
            reported,
            produced,
            hidden_input,
            least: reported.map_or_else(Least::default, |it| self.least(&it, &delivered)),
            ..Ending::unreported(state, delivered)
        }
    }

    /// Output tokens that the provider can have produced in this time, at the rate of its model. Zero if the
    /// client sees all output while it is produced.
    fn produced(&self, ran: impl FnOnce() -> Duration) -> u64 {
        const MICROS: u128 = 1_000_000;
        if !self.is_worked_on {
            return 0;
        }
        if let Some(fixed) = self.fixed {
            return fixed.output;
        }
        let asked = &self.asked;
        if asked.streams && !asked.can_hide_output && !self.has_media {
            return 0;
        }
        let rate = u128::from(asked.output_rate).saturating_mul(asked.choices.max(1).into());
        let tokens = ran().as_micros().saturating_mul(rate).div_ceil(MICROS);
        u64::try_from(tokens).unwrap_or(u64::MAX)
    }

    /// Input tokens that the body does not show, `u64::MAX` if their number is unknown; the ledger reduces them
    /// to what is reserved. A report at the beginning of the answer includes all but the results of hosted tools.
    fn hidden_input(&self) -> u64 {
        let asked = &self.asked;
        let is_reported = self.reported_so_far().is_some();
        match () {
            () if !self.is_worked_on => 0,
            () if asked.reads_again => u64::MAX,
            () if is_reported => 0,
            () if asked.has_unmeasured_input => u64::MAX,
            () => asked.stored_tokens,
        }
    }

    /// The lowest plausible report. Every request has input and every text has tokens: if a report has none, the
    /// gateway's count is used.
    fn least(&self, reported: &Usage, delivered: &Usage) -> Least {
        /// No token of the published vocabularies is longer, and no recorded answer has more bytes per reported
        /// token: most have 3 to 6; one whose reasoning is shown but not reported has 50.
        const MOST_BYTES_PER_TOKEN: u64 = 128;
        // If the provider runs tools, the text can be their results.
        let is_models_text = self.is_delivered && self.asked.hosted_tools == 0;
        Least {
            input: match reported.total_input() {
                0 => delivered.total_input(),
                _ => 0,
            },
            output: match reported.output {
                _ if !is_models_text => 0,
                0 => delivered.output,
                _ => self.text_bytes / MOST_BYTES_PER_TOKEN,
            },
        }
    }

    /// The reported parts and calls of tools, in this tier.
    pub fn details(&self, tier: ServiceTier) -> UsageDetails {
        let mut details = UsageDetails {
            tier,
            ..self.report.details
        };
        // Without a final report, the calls that have arrived count.
        if self.reported().is_none() {
            for (calls, seen) in details.tool_calls.iter_mut().zip(self.report.seen_calls) {
                *calls = seen.max(*calls);
            }
        }
        if let Some((tool, least)) = self.unreported_calls().filter(|_| self.is_worked_on) {
            let calls = details.calls_mut(tool);
            if *calls == 0 {
                *calls = least;
            }
        }
        details
    }

    /// The calls of a tool that the provider charges even if its answer reports none.
    fn unreported_calls(&self) -> Option<(ProviderTool, u64)> {
        let asked = &self.asked;
        match asked.format? {
            Format::Rerank => Some((ProviderTool::Rerank, asked.rerank_searches)),
            _ if asked.hosted_tools == 0 => None,
            // An option for searches: chat has no other tools of providers.
            Format::Chat => Some((ProviderTool::WebSearch, 1)),
            // The answer would list the calls, and none of it has arrived.
            _ if !asked.streams && !self.is_complete => {
                Some((ProviderTool::WebSearch, asked.hosted_tools))
            }
            _ => None,
        }
    }
}

/// The tier that is charged. Only the final report says in which tier the provider serves; before it, the dearer
/// of the reported and the requested tier counts. One without a price has that of the standard tier.
pub fn tier(
    report: &ReportedUsage,
    asked: impl FnOnce() -> ServiceTier,
    special: impl FnOnce() -> SpecialPrices,
) -> ServiceTier {
    let Some(said) = report.tier else {
        return asked();
    };
    if report.has_input {
        return said;
    }
    let (asked, special) = (asked(), special());
    let factor = |tier| special.factor(tier).unwrap_or(Weight::ONE);
    match factor(said) > factor(asked) {
        true => said,
        false => asked,
    }
}

/// Prices the hidden output of an unreported answer with sound or pictures as these, whichever is dearer.
pub fn price_media(ending: &mut Ending, special: &SpecialPrices) {
    let hidden = ending.produced.saturating_sub(ending.delivered.output);
    let part = match special.image_output > special.audio_output {
        true => &mut ending.details.image_output,
        false => &mut ending.details.audio_output,
    };
    *part = hidden.max(*part);
}

/// The usage of a stored response that is paid for when the client gets it. `was_counted`: its own request has
/// counted the text to its end. `None`: nothing is due.
pub fn payable(ending: &Ending, was_counted: bool) -> Option<Usage> {
    let is_whole = matches!(
        ending.state,
        BillingState::Completed | BillingState::Incomplete
    );
    let mut usage = ending.reported.unwrap_or(ending.delivered);
    usage.output = usage.output.max(ending.least.output);
    let is_new = ending.reported.is_some() || !was_counted;
    (is_whole && is_new && usage.total() > 0).then_some(usage)
}

#[cfg(test)]
mod tests;
