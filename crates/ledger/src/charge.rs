//! What a request costs: the rules, without any state.
//!
//! Who pays from which grant is decided in `balance`; where it is written down, in
//! `ledger`.

use serde::{Deserialize, Serialize};
use std::fmt;
use tollgate_types::{Usage, Weights};

/// The most that a request can use, in tokens as the model counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpperBound {
    /// Input tokens, estimated.
    pub input: u64,
    /// Input tokens beyond them that nobody could see: not reserved, and believed when they
    /// are reported.
    pub unseen_input: u64,
    /// Output tokens over all answers asked for: the output limit (or the model's
    /// maximum where the request gives none), thinking budget included, times `n`.
    pub output: u64,
    /// The smallest output for which sending the request is worth anything.
    pub useful_output: u64,
}

impl UpperBound {
    /// What the whole request can be charged.
    pub fn tokens(&self, weights: &Weights) -> u64 {
        self.with_output(self.output, weights)
    }

    /// What must be there for a useful answer.
    pub fn useful_tokens(&self, weights: &Weights) -> u64 {
        self.with_output(self.useful_output.min(self.output), weights)
    }

    fn with_output(&self, output: u64, weights: &Weights) -> u64 {
        let input = weights.heaviest_input().of(self.input);
        Weights::whole_tokens(input.saturating_add(weights.output.of(output)))
    }

    /// The output tokens that fit into `reserved`, when not all of them do.
    pub fn output_that_fits(&self, reserved: u64, weights: &Weights) -> Option<u64> {
        if reserved >= self.tokens(weights) {
            return None;
        }
        let room = u128::from(reserved)
            .saturating_mul(1000)
            .saturating_sub(weights.heaviest_input().of(self.input));
        let output = room.checked_div(u128::from(weights.output.thousandths()))?;
        Some(u64::try_from(output).unwrap_or(u64::MAX).min(self.output))
    }
}

/// How a request ended, as far as money is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BillingState {
    /// The answer is whole.
    Completed,
    /// The upstream stopped early: a limit, a filter.
    Incomplete,
    /// The caller hung up.
    ClientClosed,
    /// The upstream failed.
    UpstreamFailed,
    /// The request was refused, here or upstream.
    Rejected,
}

impl BillingState {
    /// Every state, in the order of their numbers in the file.
    pub const ALL: [Self; 5] = [
        Self::Completed,
        Self::Incomplete,
        Self::ClientClosed,
        Self::UpstreamFailed,
        Self::Rejected,
    ];

    /// Whether a request that ended so costs nothing: it was refused, or its provider failed
    /// before so much as a token of `output` was delivered.
    pub const fn is_free(self, output: u64) -> bool {
        match self {
            Self::Rejected => true,
            Self::UpstreamFailed => output == 0,
            Self::Completed | Self::Incomplete | Self::ClientClosed => false,
        }
    }

    /// The name on the wire, in filters and in logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Incomplete => "incomplete",
            Self::ClientClosed => "client_closed",
            Self::UpstreamFailed => "upstream_failed",
            Self::Rejected => "rejected",
        }
    }

    /// The state of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == name)
    }
}

impl fmt::Display for BillingState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Where a count comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CountSource {
    /// The upstream reported it.
    Reported,
    /// The gateway counted what it sent and delivered.
    Estimated,
}

impl CountSource {
    /// The name on the wire and in logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Reported => "reported",
            Self::Estimated => "estimated",
        }
    }
}

/// What is known about a request's usage when it ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// What the upstream reported, if it did. A negative, fractional or unreadable
    /// number is no report.
    pub reported: Option<Usage>,
    /// What the gateway counted of its own: the input sent and the output delivered.
    pub delivered: Usage,
}

/// What a request is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// Tokens to pay.
    pub tokens: u64,
    /// The usage that they were computed from.
    pub usage: Usage,
    /// Where that usage comes from.
    pub source: CountSource,
    /// The upstream's report could not be believed and was cut down or replaced.
    pub clamped: bool,
}

/// How much more than the upper bound an upstream may report before nobody believes it.
/// Estimates of input are off by tens of percent, hidden prompts add some thousands.
const BELIEVABLE_FACTOR: u64 = 4;
const BELIEVABLE_EXTRA: u64 = 100_000;

impl Charge {
    /// The rules.
    ///
    /// - A refused request costs nothing.
    /// - A failure before any output was delivered costs nothing.
    /// - Else what the upstream reported counts, and where it reported nothing, what the
    ///   gateway counted.
    /// - A report of zero for an answer that has content is no report.
    /// - A report far beyond the upper bound is cut down to the bound: the report is
    ///   wrong, and the bound is the most that was agreed to.
    pub fn by_rule(
        state: BillingState,
        counts: &Counts,
        bound: &UpperBound,
        weights: &Weights,
    ) -> Self {
        if state.is_free(counts.delivered.output) {
            return Self::nothing();
        }
        let missing = |usage: &Usage| usage.total() == 0 && counts.delivered.output > 0;
        match counts.reported {
            Some(reported) if !missing(&reported) => believe(reported, bound, weights),
            reported => Self {
                tokens: weights.charge(&counts.delivered),
                usage: counts.delivered,
                source: CountSource::Estimated,
                clamped: reported.is_some(),
            },
        }
    }

    const fn nothing() -> Self {
        Self {
            tokens: 0,
            usage: Usage {
                input: 0,
                cache_read: 0,
                cache_write: 0,
                output: 0,
                reasoning: 0,
            },
            source: CountSource::Reported,
            clamped: false,
        }
    }
}

/// Takes a report as far as it can be believed.
fn believe(reported: Usage, bound: &UpperBound, weights: &Weights) -> Charge {
    let most = |tokens: u64| {
        tokens
            .saturating_mul(BELIEVABLE_FACTOR)
            .saturating_add(BELIEVABLE_EXTRA)
    };
    let mut usage = reported;
    if reported.total_input() > most(bound.input).saturating_add(bound.unseen_input) {
        usage.input = bound.input;
        usage.cache_read = 0;
        usage.cache_write = 0;
    }
    if reported.output > most(bound.output) {
        usage.output = bound.output;
    }
    usage.reasoning = usage.reasoning.min(usage.output);
    let clamped = usage != reported;
    Charge {
        tokens: weights.charge(&usage),
        usage,
        // What nobody reported is not told as if somebody had.
        source: match clamped {
            true => CountSource::Estimated,
            false => CountSource::Reported,
        },
        clamped,
    }
}

#[cfg(test)]
mod tests;
