//! The weights of tokens in charges.

use crate::Usage;
use serde::{Deserialize, Serialize};

/// The weight of one token of a kind, in thousandths of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Weight(u32);

impl Weight {
    /// One token counts for one.
    pub const ONE: Self = Self(1000);
    /// The largest weight: one token counts for a thousand.
    pub const MAX: Self = Self(1_000_000);

    /// From thousandths; more than [`Weight::MAX`] becomes that.
    pub const fn from_thousandths(thousandths: u32) -> Self {
        if thousandths > Self::MAX.0 {
            Self::MAX
        } else {
            Self(thousandths)
        }
    }

    /// From a weight with three decimal places; negative values are 0.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "such a cast stays within the range of its type"
    )]
    pub fn from_factor(factor: f64) -> Self {
        Self::from_thousandths((factor * 1000.0).round() as u32)
    }

    /// The weight in thousandths.
    pub const fn thousandths(self) -> u32 {
        self.0
    }

    /// The weight of this many tokens, in thousandths of a token.
    pub const fn of(self, tokens: u64) -> u128 {
        (self.0 as u128).saturating_mul(tokens as u128)
    }
}

/// The weights of the four kinds of tokens of one model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Weights {
    /// Uncached input.
    pub input: Weight,
    /// Input read from a cache.
    pub cache_read: Weight,
    /// Input written to a cache.
    pub cache_write: Weight,
    /// Output, reasoning included.
    pub output: Weight,
}

impl Default for Weights {
    fn default() -> Self {
        Self {
            input: Weight::ONE,
            cache_read: Weight::ONE,
            cache_write: Weight::ONE,
            output: Weight::ONE,
        }
    }
}

impl Weights {
    /// The weights with which one token of output is charged this many tokens, and nothing else is. `None`:
    /// the weight would be too large.
    pub fn fixed(tokens: u64) -> Option<Self> {
        let nothing = Weight(0);
        let thousandths = tokens.checked_mul(1000)?;
        Some(Self {
            input: nothing,
            cache_read: nothing,
            cache_write: nothing,
            output: Weight(u32::try_from(thousandths).ok()?),
        })
    }

    /// The tokens that `usage` is charged: the weighted sum, rounded up once.
    pub fn charge(&self, usage: &Usage) -> u64 {
        let sum = self
            .input
            .of(usage.input)
            .saturating_add(self.cache_read.of(usage.cache_read))
            .saturating_add(self.cache_write.of(usage.cache_write))
            .saturating_add(self.output.of(usage.output));
        Self::whole_tokens(sum)
    }

    /// The largest weight of input, because the state of a cache is not known beforehand.
    pub fn heaviest_input(&self) -> Weight {
        self.input.max(self.cache_read).max(self.cache_write)
    }

    /// Thousandths in whole tokens, rounded up.
    pub fn whole_tokens(thousandths: u128) -> u64 {
        u64::try_from(thousandths.div_ceil(1000)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::Weight;

    #[test]
    fn a_factor_counts_to_three_places_and_has_bounds() {
        for (factor, thousandths) in [
            (1.0, 1000),
            (0.1, 100),
            (1.25, 1250),
            (0.0004, 0),
            (0.0005, 1),
            (-1.0, 0),
            (f64::NAN, 0),
            (f64::INFINITY, 1_000_000),
        ] {
            assert_eq!(Weight::from_factor(factor).thousandths(), thousandths);
        }
    }
}
