//! The units of balances: a value for each, and the amounts that tokens take from a balance in each.

use crate::{MOST_ROUNDS, Money, Prices, Weights};
use serde::{Deserialize, Serialize};

crate::named! {
    /// The unit of a balance, a grant or a charge.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Unit {
        /// Tokens, by their weights.
        Tokens = "tokens",
        /// Money, in nano-units.
        Money = "money",
    }
}

impl Unit {
    /// The unit of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.as_str() == name)
    }
}

/// A value for each unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerUnit<T> {
    /// Of tokens.
    pub tokens: T,
    /// Of money.
    pub money: T,
}

impl<T> PerUnit<T> {
    /// The value of each unit.
    pub fn from_fn(mut of: impl FnMut(Unit) -> T) -> Self {
        Self {
            tokens: of(Unit::Tokens),
            money: of(Unit::Money),
        }
    }

    /// The value of a unit.
    pub const fn get(&self, unit: Unit) -> &T {
        match unit {
            Unit::Tokens => &self.tokens,
            Unit::Money => &self.money,
        }
    }

    /// The same, to be changed.
    pub const fn get_mut(&mut self, unit: Unit) -> &mut T {
        match unit {
            Unit::Tokens => &mut self.tokens,
            Unit::Money => &mut self.money,
        }
    }

    /// The values of both.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        [&self.tokens, &self.money].into_iter()
    }

    /// The same, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        [&mut self.tokens, &mut self.money].into_iter()
    }
}

/// The most that a token takes from a balance, in parts of the smallest amount of its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// Amounts for calls of a provider's tools.
    calls: u64,
    input: u64,
    output: u64,
    /// The number of parts in one amount.
    parts: u64,
}

impl Rates {
    /// The most that this input and output (in tokens) take, in parts.
    pub const fn parts_of(&self, input: u64, output: u64) -> u128 {
        let calls = (self.calls as u128).saturating_mul(self.parts as u128);
        let input = (self.input as u128).saturating_mul(input as u128);
        let output = (self.output as u128).saturating_mul(output as u128);
        input.saturating_add(output).saturating_add(calls)
    }

    /// Parts in whole amounts, rounded up.
    pub fn whole(&self, parts: u128) -> u64 {
        u64::try_from(parts.div_ceil(self.parts.into())).unwrap_or(u64::MAX)
    }

    /// The input tokens that fit beside this many parts; `u64::MAX` if input takes nothing.
    pub fn input_in(&self, amount: u64, beside: u128) -> u64 {
        self.tokens_in(amount, beside, self.input)
    }

    /// The same for output.
    pub fn output_in(&self, amount: u64, beside: u128) -> u64 {
        self.tokens_in(amount, beside, self.output)
    }

    fn tokens_in(&self, amount: u64, beside: u128, rate: u64) -> u64 {
        let room = u128::from(amount).saturating_mul(self.parts.into());
        let tokens = room.saturating_sub(beside).checked_div(rate.into());
        tokens.map_or(u64::MAX, |it| u64::try_from(it).unwrap_or(u64::MAX))
    }
}

impl From<&Weights> for Rates {
    fn from(weights: &Weights) -> Self {
        Self {
            calls: 0,
            input: weights.heaviest_input().thousandths().into(),
            output: weights.output.thousandths().into(),
            parts: 1000,
        }
    }
}

impl From<&Prices> for Rates {
    fn from(prices: &Prices) -> Self {
        Self {
            calls: 0,
            input: prices.dearest_input().nanos(),
            output: prices.dearest_output().nanos(),
            parts: Prices::TOKENS,
        }
    }
}

/// The rates at which the tokens of a request take from the balances of its key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tariff {
    /// The weights of the tokens.
    pub weights: Weights,
    /// The highest prices of the deployments that can serve the request, or those of the one that served it.
    /// `None`: none of them has a price.
    pub prices: Option<Prices>,
    /// Calls of a provider's tools that the balance of money must cover.
    #[serde(skip)]
    pub tool_calls: u64,
}

impl Tariff {
    /// The tariff of a request that counts as one token of output, whatever it uses. `None`: the charge
    /// exceeds the largest weight or price.
    pub fn fixed(tokens: u64, price: Option<Money>) -> Option<Self> {
        let prices = |price: Money| {
            let output = price.nanos().checked_mul(Prices::TOKENS)?;
            Some(Prices {
                output: Money::from_nanos(output),
                ..Prices::default()
            })
        };
        let prices = match price {
            Some(price) => Some(prices(price)?),
            None => None,
        };
        Some(Self {
            weights: Weights::fixed(tokens)?,
            prices,
            tool_calls: 0,
        })
    }

    /// The most calls of a tool in a plausible report. Some models search without being asked to.
    pub fn most_calls(&self) -> u64 {
        /// As many as are reserved for one tool.
        const LEAST: u64 = 10;
        self.tool_calls.max(LEAST).saturating_mul(MOST_ROUNDS)
    }

    /// The most that a token takes from a balance in this unit; `None` if unknown.
    pub fn rates(&self, unit: Unit) -> Option<Rates> {
        match unit {
            Unit::Tokens => Some(Rates::from(&self.weights)),
            Unit::Money => self.prices.as_ref().map(|prices| Rates {
                calls: prices
                    .dearest_call()
                    .nanos()
                    .saturating_mul(self.tool_calls),
                ..Rates::from(prices)
            }),
        }
    }
}

impl From<Weights> for Tariff {
    fn from(weights: Weights) -> Self {
        Self {
            weights,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Usage, UsageDetails};

    #[test]
    fn a_fixed_tariff_takes_its_charge_exactly_in_both_units() {
        let used = Usage {
            output: 1,
            ..Usage::default()
        };
        for (tokens, price) in [
            (0, "0"),
            (0, "0.000000001"),
            (7, "0.04"),
            (4_294_967, "18446"),
        ] {
            let price: Money = price.parse().unwrap();
            let tariff = Tariff::fixed(tokens, Some(price)).unwrap();
            assert_eq!(tariff.weights.charge(&used), tokens);
            let cost = tariff.prices.unwrap().cost(&used, &UsageDetails::default());
            assert_eq!(cost, price);
            for (unit, amount) in [(Unit::Tokens, tokens), (Unit::Money, price.nanos())] {
                let rates = tariff.rates(unit).unwrap();
                assert_eq!(rates.whole(rates.parts_of(0, 1)), amount);
            }
            assert_eq!(tariff.weights.charge(&Usage::default()), 0);
        }
        assert_eq!(Tariff::fixed(4_294_968, None), None);
        assert_eq!(Tariff::fixed(0, "18447".parse().ok()), None);
        assert_eq!(Tariff::fixed(1, None).unwrap().rates(Unit::Money), None);
    }
}
