//! Why a model was chosen: as data, as text for `x-route-reason`, and as a word for metrics.

use super::{Score, Tier};
use crate::{Capability, Model};
use std::{fmt, sync::Arc};

/// What a profile chose, and all that went into it.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The profile.
    pub profile: Arc<str>,
    /// The model that answers.
    pub model: Arc<Model>,
    /// Why this one.
    pub why: Why,
    /// The score, where the profile has tiers.
    pub score: Option<Score>,
    /// Every candidate that the caller may use, in order of preference.
    pub considered: Vec<Considered>,
}

/// A candidate that was looked at.
#[derive(Clone, Debug)]
pub struct Considered {
    /// The candidate.
    pub model: Arc<Model>,
    /// What keeps it from answering.
    pub obstacle: Option<Obstacle>,
}

/// What keeps a model from answering a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// It costs more than the profile may.
    Price,
    /// It cannot do something that the request needs.
    Lacks(Capability),
    /// It does not reason, and the request asks for it.
    Reasoning,
    /// Its answers are shorter than the request allows.
    OutputLimit,
    /// The request does not fit into its context window.
    Context,
    /// Nobody serves it at the moment.
    Unavailable,
}

impl Obstacle {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Price => "price",
            Self::Lacks(capability) => capability.as_str(),
            Self::Reasoning => "reasoning",
            Self::OutputLimit => "output limit",
            Self::Context => "context",
            Self::Unavailable => "unavailable",
        }
    }
}

/// Why a model was chosen.
#[derive(Clone, Debug)]
pub enum Why {
    /// The first that fits.
    FirstChoice,
    /// The score asks for this tier.
    Tier(Tier),
    /// The score is near a threshold, so the best single model answers.
    Doubt,
    /// It has answered the conversation so far.
    Stays,
    /// The conversation has come to need a stronger model.
    Rises {
        /// The model so far.
        from: Arc<Model>,
    },
    /// The model so far cannot answer any more.
    Moves {
        /// The model so far.
        from: Arc<Model>,
        /// What keeps it.
        obstacle: Obstacle,
    },
    /// The model so far is no candidate any more.
    Gone,
}

impl Why {
    /// The model so far, where the conversation has moved away from one that is still known.
    pub const fn from(&self) -> Option<&Arc<Model>> {
        match self {
            Self::Rises { from } | Self::Moves { from, .. } => Some(from),
            _ => None,
        }
    }

    /// A word out of few, for metrics and history.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::FirstChoice => "first",
            Self::Tier(Tier::Light) => "light",
            Self::Tier(Tier::Middle) => "middle",
            Self::Tier(Tier::Strong) => "strong",
            Self::Doubt => "doubt",
            Self::Stays => "stays",
            Self::Rises { .. } => "rises",
            Self::Moves { .. } | Self::Gone => "moves",
        }
    }
}

/// The text of `x-route-reason`: ASCII, no caller's text in it, of bounded length.
impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.profile)?;
        if let Some(score) = &self.score {
            write!(f, "score {:.2}, ", score.value)?;
        }
        match &self.why {
            Why::FirstChoice => return self.passed_over(f, "first choice"),
            Why::Tier(tier) => {
                write!(f, "{}", tier.as_str())?;
                let is_other = self.model.tier != Some(*tier);
                if is_other {
                    let given = self.model.tier.map_or("none", Tier::as_str);
                    write!(f, " wanted, {given} to be had")?;
                }
            }
            Why::Doubt => write!(f, "in doubt the best single model")?,
            Why::Stays => write!(f, "stays with the conversation's model")?,
            Why::Rises { from } => write!(f, "moved up from {}", from.id)?,
            Why::Moves { from, obstacle } => {
                write!(f, "moved from {} ({})", from.id, obstacle.as_str())?;
            }
            Why::Gone => write!(
                f,
                "moved, the conversation's model is no candidate any more"
            )?,
        }
        Ok(())
    }
}

impl Decision {
    /// The candidates before the chosen one, with their obstacles; `otherwise` where none is.
    fn passed_over(&self, f: &mut fmt::Formatter<'_>, otherwise: &str) -> fmt::Result {
        /// More than that, nobody reads in a header.
        const MOST: usize = 8;
        let before = self
            .considered
            .iter()
            .take_while(|it| it.model.id != self.model.id);
        let mut separator = "passed over ";
        for it in before.take(MOST) {
            let obstacle = it.obstacle.map_or("", Obstacle::as_str);
            write!(f, "{separator}{} ({obstacle})", it.model.id)?;
            separator = ", ";
        }
        if separator == ", " {
            return Ok(());
        }
        f.write_str(otherwise)
    }
}
