//! The rules of charging, without any state.
//!
//! `balance` decides which grants pay, and `ledger` commits it.

pub use tollgate_types::{BillingState, CountSource, Least, UpperBound};
use tollgate_types::{Usage, Weights};

/// The usage of a request at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The report of the upstream, if any. A negative, fractional or unreadable number is not a
    /// report.
    pub reported: Option<Usage>,
    /// The gateway's own count of sent input and delivered output.
    pub delivered: Usage,
    /// Output tokens that the provider can have produced, delivered or not, and that were reserved.
    pub produced: u64,
    /// Input tokens that the body does not show and that were reserved.
    pub hidden_input: u64,
    /// The lowest plausible report.
    pub least: Least,
}

impl Counts {
    /// The usage of a request whose provider reported nothing.
    fn used(&self) -> Usage {
        Usage {
            output: self.delivered.output.max(self.produced),
            input: self.delivered.input.saturating_add(self.hidden_input),
            ..self.delivered
        }
    }
}

/// The charge of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// Tokens to pay.
    pub tokens: u64,
    /// The usage from which they were computed.
    pub usage: Usage,
    /// The source of that usage.
    pub source: CountSource,
    /// The upstream's report was implausible, and was reduced or replaced.
    pub clamped: bool,
}

impl Charge {
    /// The rules.
    ///
    /// - A refused request costs nothing.
    /// - A failure before any output was delivered costs nothing.
    /// - Otherwise the upstream's report counts. If there is none, the gateway's own count does, and what the
    ///   provider can have produced, if that is more, and hidden input.
    /// - A report of zero for an answer with content does not count.
    /// - A report below the lowest plausible one is raised to that.
    /// - A report of more than the model can process is reduced to that. A report of more than [`ABSURD`] times
    ///   as much is reduced to the reservation.
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
                    output: counts.least.output.min(bound.plausible_output),
                    ..counts.least
                };
                clamp(reported, bound, weights).at_least(&least, weights)
            }
            reported => {
                // A report from the middle of the answer has the same ceiling.
                let charge = clamp(counts.used(), bound, weights);
                Self {
                    source: CountSource::Estimated,
                    clamped: charge.clamped || reported.is_some(),
                    ..charge
                }
            }
        }
    }

    /// The same, raised to the lowest plausible report.
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

/// A report above this many times the maximum of the model is not a count. A lower report can be right,
/// because the model can process more than its configuration says.
const ABSURD: u64 = 8;

/// Reduces a report to plausible numbers.
fn clamp(reported: Usage, bound: &UpperBound, weights: &Weights) -> Charge {
    let mut usage = reported;
    let reduced = |reported: u64, most: u64, expected| match reported > most.saturating_mul(ABSURD)
    {
        true => expected,
        false => most,
    };
    let input = reported.total_input();
    if input > bound.plausible_input {
        let expected = bound.input.saturating_add(bound.hidden_input);
        usage.input = reduced(input, bound.plausible_input, expected);
        usage.cache_read = 0;
        usage.cache_write = 0;
    }
    if reported.output > bound.plausible_output {
        usage.output = reduced(reported.output, bound.plausible_output, bound.output);
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
