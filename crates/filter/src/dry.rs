//! A reservation for tests and explanations.

use std::{sync::Arc, time::Instant};
use tollgate_types::{Ending, Prices, ReservationGuard, Settled, Usage, UsageDetails};

/// A reservation that takes nothing from a balance and charges nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct DryReservation {
    /// The tokens that a real one would reserve.
    pub tokens: u64,
    /// The output limit that these tokens allow, if they do not cover the maximum cost.
    pub output_limit: Option<u64>,
    /// Whether the cost would be charged.
    pub pays_money: bool,
}

impl ReservationGuard for DryReservation {
    fn output_limit(&self) -> Option<u64> {
        self.output_limit
    }

    fn most_tokens(&self) -> u64 {
        self.tokens
    }

    fn pays_money(&self) -> bool {
        self.pays_money
    }

    fn set_arrival(&mut self, _: Instant) {}

    fn first_byte(&mut self) {}

    fn progress(&mut self, _: Usage, _: UsageDetails) {}

    fn is_keeping_due(&self, _: Instant) -> bool {
        false
    }

    fn keep_progress(&mut self, _: Instant, _: Option<Arc<str>>) {}

    fn set_prices(&mut self, _: Option<Prices>) {}

    fn settle(self: Box<Self>, _: &Ending) -> Settled {
        Settled::nothing()
    }

    fn release(self: Box<Self>) -> Settled {
        Settled::nothing()
    }
}
