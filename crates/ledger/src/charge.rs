//! What a request costs: the rules, without any state.
//!
//! `balance` decides which grants pay, and `ledger` commits it.

use serde::{Deserialize, Serialize};
use std::fmt;
use tollgate_types::{Usage, Weights};

/// The most that a request can use, in tokens as the model counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpperBound {
    /// Input tokens that the body shows.
    pub input: u64,
    /// Input tokens that the body does not show (stored, found by tools of a provider): reserved as far
    /// as the balance has them.
    pub hidden_input: u64,
    /// Output tokens of all answers: the output limit (the model's maximum if the request gives none),
    /// thinking budget included, times `n`.
    pub output: u64,
    /// The smallest output that is useful.
    pub useful_output: u64,
    /// The most input that the model can process: a report of more is not believed.
    pub believed_input: u64,
    /// The same of output.
    pub believed_output: u64,
}

impl UpperBound {
    /// The tokens to reserve, as far as the balance has them.
    pub fn tokens(&self, weights: &Weights) -> u64 {
        let hidden = weights.heaviest_input().of(self.hidden_input);
        Weights::whole_tokens(
            self.thousandths(self.output, weights)
                .saturating_add(hidden),
        )
    }

    /// The tokens that a useful answer needs.
    pub fn useful_tokens(&self, weights: &Weights) -> u64 {
        Weights::whole_tokens(self.thousandths(self.useful_output.min(self.output), weights))
    }

    /// The cost of the visible input and of so much output, in thousandths of tokens.
    fn thousandths(&self, output: u64, weights: &Weights) -> u128 {
        let input = weights.heaviest_input().of(self.input);
        input.saturating_add(weights.output.of(output))
    }

    /// The hidden input that was reserved: as much as fits into `reserved` beside the rest.
    pub fn hidden_that_fits(&self, reserved: u64, weights: &Weights) -> u64 {
        let room = u128::from(reserved)
            .saturating_mul(1000)
            .saturating_sub(self.thousandths(self.output, weights));
        let weight = u128::from(weights.heaviest_input().thousandths());
        let tokens = room.checked_div(weight).unwrap_or(u128::MAX);
        u64::try_from(tokens)
            .unwrap_or(u64::MAX)
            .min(self.hidden_input)
    }

    /// The output tokens that fit into `reserved` beside the visible input; `None` if all of them do.
    pub fn output_that_fits(&self, reserved: u64, weights: &Weights) -> Option<u64> {
        if reserved >= Weights::whole_tokens(self.thousandths(self.output, weights)) {
            return None;
        }
        let room = u128::from(reserved)
            .saturating_mul(1000)
            .saturating_sub(weights.heaviest_input().of(self.input));
        let output = room.checked_div(u128::from(weights.output.thousandths()))?;
        Some(u64::try_from(output).unwrap_or(u64::MAX).min(self.output))
    }
}

/// How a request ended, for its charge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BillingState {
    /// The answer is complete.
    Completed,
    /// The upstream stopped early: a limit, a filter.
    Incomplete,
    /// The client disconnected.
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

    /// Whether a request in this state is free: it was refused, or its provider failed before one token
    /// of `output` was delivered.
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

/// What is known of a request's usage at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// What the upstream reported, if it did. A negative, fractional or unreadable number is no report.
    pub reported: Option<Usage>,
    /// What the gateway counted: the input that it sent and the output that it delivered.
    pub delivered: Usage,
    /// Output tokens that the provider can have produced, delivered or not, and that were reserved.
    /// They are charged if the client disconnected before the usage was reported.
    pub produced: u64,
    /// Input tokens that the body does not show and that were reserved; charged in the same case.
    pub stored_input: u64,
    /// The least that an honest report says.
    pub least: Least,
}

/// The least that an honest report of a usage says, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Least {
    /// Input, cached or not.
    pub input: u64,
    /// Output.
    pub output: u64,
}

impl Counts {
    /// The usage of a request whose provider reported nothing.
    fn used(&self, state: BillingState) -> Usage {
        let mut usage = self.delivered;
        if state == BillingState::ClientClosed {
            usage.output = usage.output.max(self.produced);
            usage.input = usage.input.saturating_add(self.stored_input);
        }
        usage
    }
}

/// What a request is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// Tokens to pay.
    pub tokens: u64,
    /// The usage from which they were computed.
    pub usage: Usage,
    /// Where that usage comes from.
    pub source: CountSource,
    /// The upstream's report was not believed, and was reduced or replaced.
    pub clamped: bool,
}

impl Charge {
    /// The rules.
    ///
    /// - A refused request costs nothing.
    /// - A failure before any output was delivered costs nothing.
    /// - Otherwise the upstream's report counts. If there is none, the gateway's own count does.
    /// - A client that disconnects before the usage was reported pays for what its provider can have
    ///   produced, if that is more than was delivered, and for stored input.
    /// - A report of zero for an answer that has content is no report.
    /// - A report that is lower than any honest one is raised to that.
    /// - A report of more than the model can process is wrong: it is reduced to the most that the
    ///   request was expected to cost.
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
            Some(reported) if !missing(&reported) => {
                let least = Least {
                    output: counts.least.output.min(bound.believed_output),
                    ..counts.least
                };
                believe(reported, bound, weights).at_least(&least, weights)
            }
            reported => {
                // A report from the middle of the answer has the same ceiling.
                let charge = believe(counts.used(state), bound, weights);
                Self {
                    source: CountSource::Estimated,
                    clamped: charge.clamped || reported.is_some(),
                    ..charge
                }
            }
        }
    }

    /// The same, raised to the least that an honest report says.
    fn at_least(self, least: &Least, weights: &Weights) -> Self {
        let mut usage = self.usage;
        usage.output = usage.output.max(least.output);
        let missing = least.input.saturating_sub(usage.total_input());
        usage.input = usage.input.saturating_add(missing);
        if usage == self.usage {
            return self;
        }
        Self {
            tokens: weights.charge(&usage),
            usage,
            source: CountSource::Estimated,
            clamped: true,
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

/// Reduces a report to what can be believed.
fn believe(reported: Usage, bound: &UpperBound, weights: &Weights) -> Charge {
    let mut usage = reported;
    if reported.total_input() > bound.believed_input {
        usage.input = bound.input.saturating_add(bound.hidden_input);
        usage.cache_read = 0;
        usage.cache_write = 0;
    }
    if reported.output > bound.believed_output {
        usage.output = bound.output;
    }
    usage.reasoning = usage.reasoning.min(usage.output);
    let clamped = usage != reported;
    Charge {
        tokens: weights.charge(&usage),
        usage,
        // A clamped report counts as estimated.
        source: match clamped {
            true => CountSource::Estimated,
            false => CountSource::Reported,
        },
        clamped,
    }
}

#[cfg(test)]
mod tests;
