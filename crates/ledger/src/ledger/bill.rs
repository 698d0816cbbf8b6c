//! What a request is charged in each unit when it ends. Pure: the rules of `charge`, with the amounts that the
//! request has reserved.

use crate::charge::{Charge, CountSource, Counts, UpperBound};
use tollgate_types::{
    ChargedBefore, Ending, Money, PerUnit, Prices, Rates, Tariff, Unit, UsageDetails,
};

/// The terms on which a request was admitted.
pub(super) struct Terms {
    pub(super) bound: UpperBound,
    pub(super) tariff: Tariff,
    /// The prices of the deployment that answers, if they are known.
    pub(super) prices: Option<Prices>,
    /// The reserved amounts; `None` if the request need not be covered in that unit.
    pub(super) reserved: PerUnit<Option<u64>>,
}

/// A charge, and its cost if the prices are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bill {
    pub(super) charge: Charge,
    pub(super) cost: Option<Money>,
}

impl Bill {
    pub(super) fn amounts(&self) -> PerUnit<u64> {
        PerUnit {
            tokens: self.charge.tokens,
            money: self.cost.unwrap_or_default().nanos(),
        }
    }
}

impl Terms {
    /// The output for which all reserved amounts suffice; `None` if nothing is reserved for output.
    pub(super) fn output_limit(&self) -> Option<u64> {
        let limits = self
            .reserved_at_rates()
            .filter_map(|(reserved, rates)| self.bound.output_that_fits(reserved, &rates));
        limits.min()
    }

    /// The hidden input that is reserved.
    fn hidden_input(&self) -> u64 {
        let tokens = self
            .reserved_at_rates()
            .map(|(reserved, rates)| self.bound.hidden_that_fits(reserved, &rates));
        tokens.min().unwrap_or(0)
    }

    /// The reserved amount in each unit, with the most that a token takes of it.
    fn reserved_at_rates(&self) -> impl Iterator<Item = (u64, Rates)> + '_ {
        Unit::ALL
            .into_iter()
            .filter_map(|unit| self.reserved.get(unit).zip(self.tariff.rates(unit)))
    }

    pub(super) fn bill(&self, ending: &Ending) -> Bill {
        let plausible = ending.details.with_calls_within(self.tariff.most_calls());
        let mut charge = self.charge(ending);
        if charge.usage.total() > 0 && plausible != ending.details {
            charge.source = CountSource::Estimated;
            charge.clamped = true;
        }
        let mut bill = Bill {
            cost: self.cost(&charge, &plausible),
            charge,
        };
        if let Some(before) = ending.before.filter(|_| !charge.clamped) {
            self.subtract(&mut bill, &before, &ending.details);
        }
        bill
    }

    fn charge(&self, ending: &Ending) -> Charge {
        let produced = self.output_limit().unwrap_or(self.bound.output);
        let counts = Counts {
            reported: ending.reported,
            delivered: ending.delivered,
            produced: ending.produced.min(produced),
            hidden_input: ending.hidden_input.min(self.hidden_input()),
            least: ending.least,
        };
        let weights = &self.tariff.weights;
        let mut charge = Charge::by_rule(ending.state, &counts, &self.bound, weights);
        charge.clamped |= ending.absurd;
        charge
    }

    /// The reported tier, parts and tool calls count for an estimate, too.
    fn cost(&self, charge: &Charge, details: &UsageDetails) -> Option<Money> {
        let nothing = UsageDetails::default();
        let details = match charge.usage.total() {
            0 => &nothing,
            _ => details,
        };
        let prices = self.prices?;
        Some(prices.cost(&charge.usage, details))
    }

    /// Reduces the bill of a response's rest to what the whole response costs beyond what was charged `before`:
    /// whether a prompt is long, and how many tools were called, is known of the whole one.
    fn subtract(&self, bill: &mut Bill, before: &ChargedBefore, of_whole: &UsageDetails) {
        let weights = &self.tariff.weights;
        let whole = weights.charge(&before.whole);
        let due = whole.saturating_sub(weights.charge(&before.charged));
        // An estimate can have been too high in one kind of tokens and too low in another.
        bill.charge.tokens = bill.charge.tokens.min(due);
        if let (Some(prices), Some(cost)) = (self.prices, before.cost) {
            bill.cost = Some(prices.cost(&before.whole, of_whole).minus(cost));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::charge::BillingState;
    use tollgate_types::Usage;

    const fn output(output: u64) -> Usage {
        Usage {
            input: 0,
            cache_read: 0,
            cache_write: 0,
            output,
            reasoning: 0,
        }
    }

    /// A report of 10 tokens of output, at a price of 3 each.
    #[test]
    fn the_rest_of_a_response_costs_what_the_whole_one_costs_beyond_the_charge_before() {
        let prices = Prices {
            output: Money::from_nanos(3 * Prices::TOKENS),
            ..Prices::default()
        };
        let before = |whole, charged, cost: Option<u64>| ChargedBefore {
            whole: output(whole),
            charged: output(charged),
            cost: cost.map(Money::from_nanos),
        };
        for (prices, before, absurd, tokens, cost) in [
            (Some(prices), None, false, 10, Some(30)),
            (None, None, false, 10, None),
            (
                Some(prices),
                Some(before(14, 4, Some(12))),
                false,
                10,
                Some(30),
            ),
            // Too much was charged before.
            (
                Some(prices),
                Some(before(14, 8, Some(24))),
                false,
                6,
                Some(18),
            ),
            (
                Some(prices),
                Some(before(14, 20, Some(60))),
                false,
                0,
                Some(0),
            ),
            // The price was unknown.
            (Some(prices), Some(before(14, 4, None)), false, 10, Some(30)),
            (None, Some(before(14, 4, Some(12))), false, 10, None),
            // The report of the whole response is not trusted.
            (
                Some(prices),
                Some(before(14, 8, Some(24))),
                true,
                10,
                Some(30),
            ),
        ] {
            let terms = Terms {
                bound: UpperBound {
                    input: 0,
                    hidden_input: 0,
                    output: 100,
                    useful_output: 0,
                    plausible_input: 100,
                    plausible_output: 100,
                },
                tariff: Tariff::default(),
                prices,
                reserved: PerUnit::default(),
            };
            let ending = Ending {
                reported: Some(output(10)),
                before,
                absurd,
                ..Ending::unreported(BillingState::Completed, output(10))
            };
            let bill = terms.bill(&ending);
            assert_eq!(bill.charge.tokens, tokens, "{before:?}");
            assert_eq!(bill.cost.map(Money::nanos), cost, "{before:?}");
        }
    }
}
