//! Reservations and charges of requests: the types that filters, gateway and ledger share.
//!
//! The ledger decides which rule charges a request.

use crate::{ErrorCode, Money, Prices, Rates, Usage, UsageDetails};
use serde::{Deserialize, Serialize};
use std::{fmt, sync::Arc, time::Instant};

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
    /// The most input that the model can process: a higher report is implausible and is reduced to it.
    pub plausible_input: u64,
    /// The same for output.
    pub plausible_output: u64,
}

impl UpperBound {
    /// The amount to reserve, as far as the balance has it.
    pub fn amount(&self, rates: &Rates) -> u64 {
        rates.whole(rates.parts_of(self.input.saturating_add(self.hidden_input), self.output))
    }

    /// The amount that a useful answer needs.
    pub fn useful_amount(&self, rates: &Rates) -> u64 {
        let output = self.useful_output.min(self.output);
        rates.whole(rates.parts_of(self.input, output))
    }

    /// The hidden input that was reserved: as much as fits into `reserved` beside the rest.
    pub fn hidden_that_fits(&self, reserved: u64, rates: &Rates) -> u64 {
        let rest = rates.parts_of(self.input, self.output);
        rates.input_in(reserved, rest).min(self.hidden_input)
    }

    /// The output tokens that fit into `reserved` beside the visible input; `None` if all of them do.
    pub fn output_that_fits(&self, reserved: u64, rates: &Rates) -> Option<u64> {
        if reserved >= rates.whole(rates.parts_of(self.input, self.output)) {
            return None;
        }
        let output = rates.output_in(reserved, rates.parts_of(self.input, 0));
        (output < self.output).then_some(output)
    }
}

crate::named! {
    /// How a request ended, for its charge.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum BillingState {
        /// The answer is complete.
        Completed = "completed",
        /// The upstream stopped early, because of a limit or a filter.
        Incomplete = "incomplete",
        /// The client disconnected.
        ClientClosed = "client_closed",
        /// The upstream failed.
        UpstreamFailed = "upstream_failed",
        /// The request was refused, here or upstream.
        Rejected = "rejected",
    }
}

impl BillingState {
    /// Whether a request in this state is free: it was refused, or its provider failed before one token
    /// of `output` was delivered.
    pub const fn is_free(self, output: u64) -> bool {
        match self {
            Self::Rejected => true,
            Self::UpstreamFailed => output == 0,
            Self::Completed | Self::Incomplete | Self::ClientClosed => false,
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

crate::named! {
    /// The source of a count.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum CountSource {
        /// The upstream reported it.
        Reported = "reported",
        /// The gateway counted what it sent and delivered.
        Estimated = "estimated",
    }
}

/// The lowest plausible usage in a report, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Least {
    /// Input, cached or not.
    pub input: u64,
    /// Output.
    pub output: u64,
}

/// What was charged before for a response of which the rest is charged.
#[derive(Clone, Copy, Debug)]
pub struct ChargedBefore {
    /// The usage of the whole response.
    pub whole: Usage,
    /// The usage that was charged.
    pub charged: Usage,
    /// The cost that was charged; `None` if the price was unknown.
    pub cost: Option<Money>,
}

/// How a request ended.
#[derive(Clone, Debug)]
pub struct Ending {
    /// How it ended, for its charge.
    pub state: BillingState,
    /// The HTTP status that the client got.
    pub status: u16,
    /// The error that the client got.
    pub error: Option<ErrorCode>,
    /// The report of the upstream, if any; the last of several.
    pub reported: Option<Usage>,
    /// The parts of that report that can have prices of their own.
    pub details: UsageDetails,
    /// For the rest of a response, whose `details` are those of the whole one.
    pub before: Option<ChargedBefore>,
    /// The report had invalid numbers (negative, fractional, unreadable), or a later report was lower.
    pub absurd: bool,
    /// The sent and delivered tokens: the gateway's count, or the provider's reports so far if they are higher.
    pub delivered: Usage,
    /// Output tokens that the provider can have produced, delivered or not. They are charged as far as they were
    /// reserved, unless there is a report. Zero if the provider itself has ended the answer.
    pub produced: u64,
    /// Input tokens that the body does not show (stored, media, found by tools of the provider), `u64::MAX` if
    /// their number is unknown; in the same way.
    pub hidden_input: u64,
    /// The lowest plausible report.
    pub least: Least,
    /// The model that served, if one did.
    pub model_served: Option<Arc<str>>,
}

impl Ending {
    /// A request that ended without a report.
    pub fn unreported(state: BillingState, delivered: Usage) -> Self {
        Self {
            state,
            status: 0,
            error: None,
            reported: None,
            details: UsageDetails::default(),
            before: None,
            absurd: false,
            delivered,
            produced: 0,
            hidden_input: 0,
            least: Least::default(),
            model_served: None,
        }
    }
}

/// The result of a settlement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settled {
    /// Tokens charged, the overdraft included.
    pub charged: u64,
    /// Tokens that the leases of this process did not cover. On a server, free tokens can still pay them.
    pub overdraft: u64,
    /// The source of the count.
    pub source: CountSource,
    /// The upstream's report was implausible and was corrected.
    pub clamped: bool,
    /// The charged usage.
    pub usage: Usage,
    /// The cost in money; `None` if the prices are unknown.
    pub cost: Option<Money>,
    /// The part of the cost that the leases of this process did not cover; `None` if the key does not pay in
    /// money.
    pub cost_overdraft: Option<Money>,
}

impl Settled {
    /// A settlement that charges nothing.
    pub fn nothing() -> Self {
        Self {
            charged: 0,
            overdraft: 0,
            source: CountSource::Reported,
            clamped: false,
            usage: Usage::default(),
            cost: None,
            cost_overdraft: None,
        }
    }
}

/// The part of its key's limits that a request has taken. Dropping it returns all of it.
pub trait AdmissionGuard: Send + Sync {
    /// Ends the request with its actual tokens: a surplus returns to the limits, a shortage becomes
    /// a debt.
    fn finish(self: Box<Self>, input: u64, output: u64);
}

/// A request's reservation of tokens, money or both. Dropping it charges the delivered tokens.
pub trait ReservationGuard: Send + Sync {
    /// The output limit that the reservation allows, if it does not cover the maximum cost. The
    /// provider must get this limit.
    fn output_limit(&self) -> Option<u64>;

    /// The most tokens, input and output, that the request can have with this reservation.
    fn most_tokens(&self) -> u64;

    /// Whether the cost is charged: only deployments with a price can serve the request.
    fn pays_money(&self) -> bool;

    /// Sets when the request arrived: the times in its record count from then.
    fn set_arrival(&mut self, at: Instant);

    /// Notes that the answer has begun to flow.
    fn first_byte(&mut self);

    /// Sets the prices of the deployment that the request is sent to; `None` if they are unknown.
    fn set_prices(&mut self, prices: Option<Prices>);

    /// Notes the tokens delivered so far, with their tier, their parts and the calls of tools.
    fn progress(&mut self, delivered: Usage, details: UsageDetails);

    /// Whether it is time to call [`ReservationGuard::keep_progress`].
    fn is_keeping_due(&self, now: Instant) -> bool;

    /// Stores the tokens delivered so far, which are charged if the process crashes. Does not wait.
    fn keep_progress(&mut self, now: Instant, model_served: Option<Arc<str>>);

    /// Charges the usage of the request and releases the rest.
    fn settle(self: Box<Self>, ending: &Ending) -> Settled;

    /// Gives everything back and leaves no record.
    fn release(self: Box<Self>) -> Settled;
}
