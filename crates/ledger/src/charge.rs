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
    /// Input tokens that the body shows.
    pub input: u64,
    /// Input tokens that it does not show (stored, found by a provider's tools): reserved as far
    /// as the balance has them.
    pub hidden_input: u64,
    /// Output tokens over all answers asked for: the output limit (or the model's
    /// maximum where the request gives none), thinking budget included, times `n`.
    pub output: u64,
    /// The smallest output for which sending the request is worth anything.
    pub useful_output: u64,
    /// The most input that the model can process for it: a report of more is not believed.
    pub believed_input: u64,
    /// The same of output.
    pub believed_output: u64,
}

impl UpperBound {
    /// What to reserve, as far as the balance has it.
    pub fn tokens(&self, weights: &Weights) -> u64 {
        let hidden = weights.heaviest_input().of(self.hidden_input);
        Weights::whole_tokens(
            self.thousandths(self.output, weights)
                .saturating_add(hidden),
        )
    }

    /// What must be there for a useful answer.
    pub fn useful_tokens(&self, weights: &Weights) -> u64 {
        Weights::whole_tokens(self.thousandths(self.useful_output.min(self.output), weights))
    }

    /// What the visible input and so much output count for.
    fn thousandths(&self, output: u64, weights: &Weights) -> u128 {
        let input = weights.heaviest_input().of(self.input);
        input.saturating_add(weights.output.of(output))
    }

    /// The hidden input that was reserved: what fits into `reserved` beside everything else.
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

    /// The output tokens that fit into `reserved` beside the visible input, when not all of them
    /// do.
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
    /// Output tokens that the provider can have produced, delivered or not, and that were reserved:
    /// charged where the caller has disconnected before they were reported.
    pub produced: u64,
    /// Input tokens that the body does not show and that were reserved: charged in the same case.
    pub stored_input: u64,
    /// What an honest report says at least.
    pub least: Least,
}

/// What an honest report of a usage says at least, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Least {
    /// Input, read from or written to a cache or not.
    pub input: u64,
    /// Output.
    pub output: u64,
}

impl Counts {
    /// What a request used whose provider reported nothing.
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
    /// The usage that they were computed from.
    pub usage: Usage,
    /// Where that usage comes from.
    pub source: CountSource,
    /// The upstream's report could not be believed and was cut down or replaced.
    pub clamped: bool,
}

impl Charge {
    /// The rules.
    ///
    /// - A refused request costs nothing.
    /// - A failure before any output was delivered costs nothing.
    /// - Else what the upstream reported counts, and where it reported nothing, what the
    ///   gateway counted.
    /// - A caller that disconnects before the usage was reported pays for what its provider can
    ///   have produced, where that is more than was delivered, and for what it had stored.
    /// - A report of zero for an answer that has content is no report.
    /// - A report that is lower than any honest one is raised to that.
    /// - A report of more than the model can process is wrong: it is cut down to what the
    ///   request was expected to cost at most.
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
                // What a provider has said on the way has the same ceiling.
                let charge = believe(counts.used(state), bound, weights);
                Self {
                    source: CountSource::Estimated,
                    clamped: charge.clamped || reported.is_some(),
                    ..charge
                }
            }
        }
    }

    /// The same, raised where it is below what any honest report says.
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

/// Takes a report as far as it can be believed.
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
