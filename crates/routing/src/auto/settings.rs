//! How the service chooses a model, as it stands in the file.

use super::Signal;
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tollgate_settings::Duration;

/// How strong a model is, and how dear.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// Quick and cheap: for what any model can do.
    Light,
    /// For most of what is asked.
    Middle,
    /// For what little else can do.
    Strong,
}

impl Tier {
    /// The name in configuration and in route reasons.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Middle => "middle",
            Self::Strong => "strong",
        }
    }
}

/// What a model costs, per million tokens, in a currency of your choice.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PriceSettings {
    /// Input.
    #[schemars(range(min = 0))]
    pub input: f64,
    /// Output.
    #[schemars(range(min = 0))]
    pub output: f64,
}

/// The most that models may cost, per million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PriceCapSettings {
    /// Input. Default: anything.
    #[schemars(range(min = 0))]
    pub input: Option<f64>,
    /// Output. Default: anything.
    #[schemars(range(min = 0))]
    pub output: Option<f64>,
}

/// How the service chooses where the caller leaves it to it, under the model name `auto`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AutoSettings {
    /// Models in order of preference. Where they have tiers, a score of the request says
    /// which tier is wanted, and the order decides within it. Where none has, the first is
    /// taken that the key may use and that can answer the request.
    #[schemars(length(min = 1, max = 64))]
    pub candidates: Vec<String>,
    /// The family under which `auto` and the other profiles are listed.
    #[serde(default = "other")]
    pub family: String,
    /// The model that answers where the score says little: the one to choose for
    /// everything. Default: the first candidate.
    pub best: Option<String>,
    /// What each signal adds to a request's score.
    #[serde(default)]
    pub weights: WeightsSettings,
    /// What score asks for which tier.
    #[serde(default)]
    pub thresholds: ThresholdSettings,
    /// What models may cost: dearer ones are passed over.
    #[serde(default)]
    pub max_price: PriceCapSettings,
    /// A profile whose choice is told in the access log and in metrics beside the choice
    /// that was made, and is not acted on.
    pub shadow: Option<String>,
    /// How long a conversation without requests keeps its model.
    #[serde(default = "an_hour")]
    pub conversation_ttl: Duration,
    /// Further names that let the service choose, each with its own rules. What a profile
    /// does not say is as in `auto`.
    #[serde(default)]
    #[schemars(length(max = 16))]
    pub profiles: IndexMap<String, ProfileSettings>,
}

/// A further name that lets the service choose.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProfileSettings {
    /// Models in order of preference. Default: those of `auto`.
    #[schemars(length(min = 1, max = 64))]
    pub candidates: Option<Vec<String>>,
    /// The model that answers where the score says little. Default: that of `auto` where it
    /// is a candidate, else the first candidate.
    pub best: Option<String>,
    /// What each signal adds to a request's score.
    pub weights: WeightsSettings,
    /// What score asks for which tier.
    pub thresholds: ThresholdSettings,
    /// What models may cost. Default: as in `auto`, for each of input and output.
    pub max_price: PriceCapSettings,
    /// A profile whose choice is told beside this one's. Default: none.
    pub shadow: Option<String>,
}

/// What score asks for which tier. Scores are from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ThresholdSettings {
    /// From here on, the middle tier. Default: 0.15.
    #[schemars(range(min = 0, max = 2))]
    pub middle: Option<f64>,
    /// From here on, the strong tier. Default: 0.4.
    #[schemars(range(min = 0, max = 2))]
    pub strong: Option<f64>,
    /// So near to one of them, the best single model answers. Default: 0.02.
    #[schemars(range(min = 0, max = 1))]
    pub doubt: Option<f64>,
    /// So far beyond one of them, a conversation moves up to a stronger model. Default: 0.1.
    #[schemars(range(min = 0, max = 1))]
    pub hysteresis: Option<f64>,
}

/// What each signal adds to a request's score; below zero it takes away. Signals are from
/// 0 to 1, but for the effort, which is from -1 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WeightsSettings {
    /// What every request has. Default: 0.2.
    #[schemars(range(min = -10, max = 10))]
    pub base: Option<f64>,
    /// The conversation's length, by its doublings: 256 bytes are 0.1, 256 KB are 1. Default:
    /// 0.5.
    #[schemars(range(min = -10, max = 10))]
    pub length: Option<f64>,
    /// Fences, identifiers, keywords and marks of code. Default: 0.15.
    #[schemars(range(min = -10, max = 10))]
    pub code: Option<f64>,
    /// Formulas and words of mathematics. Default: 0.3.
    #[schemars(range(min = -10, max = 10))]
    pub math: Option<f64>,
    /// Tools are offered or were called. Default: 0.05.
    #[schemars(range(min = -10, max = 10))]
    pub tools: Option<f64>,
    /// Calls of tools and their results in the conversation, by doublings: 63 are 1.
    /// Default: 0.1.
    #[schemars(range(min = -10, max = 10))]
    pub tool_traffic: Option<f64>,
    /// Messages after the first, by doublings: 63 are 1. Default: 0.
    #[schemars(range(min = -10, max = 10))]
    pub turns: Option<f64>,
    /// The share of letters that are not Latin. Default: 0.1.
    #[schemars(range(min = -10, max = 10))]
    pub script: Option<f64>,
    /// The effort asked for: minimal is -1, low -0.5, high 0.5, max 1; a thinking budget of
    /// 16,000 tokens is 1. Default: 0.4.
    #[schemars(range(min = -10, max = 10))]
    pub effort: Option<f64>,
    /// Images, documents or sound. Default: 0.1.
    #[schemars(range(min = -10, max = 10))]
    pub media: Option<f64>,
    /// English words that ask for work, such as `prove` or `debug`: four are 1. Default: 0.5.
    #[schemars(range(min = -10, max = 10))]
    pub hard_words: Option<f64>,
    /// English words that ask for little, such as `translate`: two are 1. Default: -0.25.
    #[schemars(range(min = -10, max = 10))]
    pub easy_words: Option<f64>,
    /// Items of lists in what the user says: eight are 1. Default: 0.1.
    #[schemars(range(min = -10, max = 10))]
    pub lists: Option<f64>,
}

impl WeightsSettings {
    /// What is said of a signal.
    pub(crate) const fn of(&self, signal: Signal) -> Option<f64> {
        match signal {
            Signal::Length => self.length,
            Signal::Code => self.code,
            Signal::Math => self.math,
            Signal::Tools => self.tools,
            Signal::ToolTraffic => self.tool_traffic,
            Signal::Turns => self.turns,
            Signal::Script => self.script,
            Signal::Effort => self.effort,
            Signal::Media => self.media,
            Signal::Hard => self.hard_words,
            Signal::Easy => self.easy_words,
            Signal::Lists => self.lists,
        }
    }
}

fn other() -> String {
    "other".to_owned()
}

const fn an_hour() -> Duration {
    Duration::from_secs(3600)
}
