//! The declared properties of a model.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The longest name of a model in bytes, without the `*` of a pattern. A usage record has two of them, and shares its
/// slot of the settlement file with the payments.
pub const MAX_MODEL_NAME_BYTES: usize = 96;

crate::named! {
    /// How a model reasons (specification, section 2).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    pub enum ReasoningMode {
        /// The model decides how much it thinks.
        Adaptive = "adaptive",
        /// Thinking is turned on with a budget.
        Extended = "extended",
        /// The provider's own default; the request is left alone.
        #[default]
        ProviderDefault = "provider_default",
        /// The model does not reason.
        None = "none",
    }
}

impl fmt::Display for ReasoningMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How thinking is requested in the messages format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum ThinkingStyle {
    /// `enabled`, with a budget in tokens.
    Budget,
    /// `adaptive`, with an effort.
    Adaptive,
}

crate::named! {
    /// The requested amount of thinking.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    #[expect(missing_docs, reason = "the names on the wire, from least to most")]
    pub enum Effort {
        None = "none",
        Minimal = "minimal",
        Low = "low",
        Medium = "medium",
        High = "high",
        Xhigh = "xhigh",
        Max = "max",
    }
}

impl Effort {
    /// The effort that thinks about as much as this budget in tokens.
    pub const fn of_thinking_budget(budget: u64) -> Self {
        match budget {
            ..2048 => Self::Low,
            2048..8192 => Self::Medium,
            8192..24_576 => Self::High,
            _ => Self::Xhigh,
        }
    }

    /// Of the efforts that a model accepts, the nearest one: none greater, if there is one. `None` for no effort.
    pub fn nearest(self, known: &[Self]) -> Option<Self> {
        if self == Self::None {
            return None;
        }
        let reasons = |effort: &&Self| **effort != Self::None;
        let below = known.iter().filter(|effort| **effort < self);
        let above = known.iter().filter(|effort| **effort > self);
        below.filter(reasons).max().or(above.min()).copied()
    }

    /// The thinking budget, in tokens, for this effort with models that take budgets; `None`: no
    /// thinking.
    pub const fn thinking_budget(self) -> Option<u64> {
        match self {
            Self::None => None,
            Self::Minimal | Self::Low => Some(2048),
            Self::Medium => Some(8192),
            Self::High => Some(16_384),
            // The most for which the SDKs need no stream.
            Self::Xhigh | Self::Max => Some(31_999),
        }
    }
}

/// Whether a client of the messages format requests thinking: `thinking.type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Thinking {
    /// `enabled`: with a budget.
    Enabled,
    /// `adaptive`: as much as the model finds useful.
    Adaptive,
    /// `disabled`.
    Disabled,
    /// Unknown: providers add values.
    Other,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_and_efforts_agree_on_how_much_is_much() {
        for (budget, effort) in [
            (1024, Effort::Low),
            (4096, Effort::Medium),
            (16_384, Effort::High),
            (31_999, Effort::Xhigh),
        ] {
            assert_eq!(Effort::of_thinking_budget(budget), effort, "{budget}");
        }
        for effort in [Effort::Low, Effort::Medium, Effort::High, Effort::Xhigh] {
            let budget = effort.thinking_budget().unwrap();
            assert!(
                Effort::of_thinking_budget(budget) >= effort,
                "{effort:?}: {budget}"
            );
        }
    }
}
