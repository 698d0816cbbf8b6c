//! Why a model was chosen: as data, as text for `x-route-reason`, and as a label for metrics.

use crate::{Model, ModelFeature};
use std::{fmt, sync::Arc};

/// The choice of a profile, with its reason.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The profile.
    pub profile: Arc<str>,
    /// The model that answers.
    pub model: Arc<Model>,
    /// The reason.
    pub why: Why,
    /// The conversation's model so far, if it cannot answer any more.
    pub moved_from: Option<(Arc<Model>, Obstacle)>,
    /// The models that came first and cannot answer.
    pub passed_over: Vec<(Arc<Model>, Obstacle)>,
}

/// The reason why a model cannot answer a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// It costs more than the profile's cap.
    Price,
    /// It cannot do something that the request needs.
    Lacks(ModelFeature),
    /// It does not reason, and the request asks for it.
    Reasoning,
    /// Its answers are shorter than the request allows.
    OutputLimit,
    /// The request does not fit into its context window.
    Context,
    /// None of its deployments can answer now.
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

/// The reason of a choice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// A rule, by its label.
    Rule(Arc<str>),
    /// The order of the candidates.
    Default,
    /// The model has answered the conversation so far.
    Stays,
}

impl Decision {
    const MOVED: &str = "moved";
    const DEFAULT: &str = "default";
    const STAYS: &str = "stays";
    /// The labels besides those of rules.
    pub(super) const LABELS: [&str; 3] = [Self::MOVED, Self::DEFAULT, Self::STAYS];

    /// The label for metrics: one of few, all of them known from the configuration.
    pub fn label(&self) -> &str {
        match (&self.why, &self.moved_from) {
            (_, Some(_)) => Self::MOVED,
            (Why::Rule(label), None) => label,
            (Why::Default, None) => Self::DEFAULT,
            (Why::Stays, None) => Self::STAYS,
        }
    }
}

/// The text of `x-route-reason`: ASCII, of bounded length, without text of the client.
impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// More than that does not fit a header that people read.
        const MOST: usize = 8;
        write!(f, "{}: ", self.profile)?;
        if let Some((from, obstacle)) = &self.moved_from {
            write!(f, "moved from {} ({}), ", from.id, obstacle.as_str())?;
        }
        match &self.why {
            Why::Rule(label) => f.write_str(label)?,
            Why::Default => f.write_str("default")?,
            Why::Stays => f.write_str("stays with the conversation's model")?,
        }
        if self.moved_from.is_some() {
            return Ok(());
        }
        let mut separator = ", passed over ";
        for (model, obstacle) in self.passed_over.iter().take(MOST) {
            write!(f, "{separator}{} ({})", model.id, obstacle.as_str())?;
            separator = ", ";
        }
        Ok(())
    }
}
