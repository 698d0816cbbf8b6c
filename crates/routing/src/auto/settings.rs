//! How the gateway chooses a model, as it stands in the configuration file.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tollgate_settings::{ByteSize, Duration};
use tollgate_types::{Effort, Money, Script};

/// The highest price of a model per million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PriceCapSettings {
    /// Input. Default: no cap.
    pub input: Option<Money>,
    /// Output. Default: no cap.
    pub output: Option<Money>,
}

/// How the gateway chooses a model for requests that name `auto`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AutoSettings {
    /// The models to choose from. If no rule decides, the first of them answers that the key may
    /// use and that can answer the request.
    #[schemars(length(min = 1, max = 64))]
    pub candidates: Vec<String>,
    /// Rules, read from top to bottom. The first rule decides whose conditions hold and one of
    /// whose models can answer.
    #[serde(default)]
    #[schemars(length(max = 64))]
    pub rules: Vec<RuleSettings>,
    /// The family under which `auto` and the other profiles are listed.
    #[serde(default = "other")]
    pub family: String,
    /// The highest price of a model; models above it are passed over.
    #[serde(default)]
    pub max_price: PriceCapSettings,
    /// How long a conversation without requests keeps its model.
    #[serde(default = "an_hour")]
    pub conversation_ttl: Duration,
    /// Further names for which the gateway chooses. A profile uses the value of `auto` for each key
    /// that it leaves out.
    #[serde(default)]
    #[schemars(length(max = 16))]
    pub profiles: IndexMap<String, ProfileSettings>,
}

/// A further name for which the gateway chooses.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ProfileSettings {
    /// The models to choose from. Default: those of `auto`.
    #[schemars(length(min = 1, max = 64))]
    pub candidates: Option<Vec<String>>,
    /// Rules. Default: those of `auto`, without the models that are not candidates here.
    #[schemars(length(max = 64))]
    pub rules: Option<Vec<RuleSettings>>,
    /// The highest price of a model. Default: as in `auto`, for each of input and output.
    pub max_price: PriceCapSettings,
}

/// Which models come first for some requests.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RuleSettings {
    /// The name of the rule in `x-route-reason` and metrics. Default: its position, from 1.
    pub name: Option<String>,
    /// The conditions, at least one. All of them must hold.
    pub when: Conditions,
    /// The models in order of preference, all of them candidates.
    #[serde(rename = "use")]
    #[schemars(length(min = 1, max = 64))]
    pub models: Vec<String>,
}

/// The conditions of a rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Conditions {
    /// The text has at least this size: messages, instructions and tools together, without images
    /// and other media.
    pub min_text: Option<ByteSize>,
    /// The text has at most this size.
    pub max_text: Option<ByteSize>,
    /// The conversation has at least so many messages, or items in the responses format.
    pub min_messages: Option<u32>,
    /// The conversation has at most so many messages.
    pub max_messages: Option<u32>,
    /// Whether tools are offered or were used.
    pub tools: Option<bool>,
    /// Whether an image is in the conversation.
    pub images: Option<bool>,
    /// Whether a document is in the conversation.
    pub documents: Option<bool>,
    /// Whether audio is in the conversation or requested as output.
    pub audio: Option<bool>,
    /// Whether the user's last message has a fenced code block (three back quotes) in its first
    /// 16 KiB.
    pub code: Option<bool>,
    /// The script of the first 16 KiB of the user's last message: `not_latin` if a third of the
    /// letters or more are not Latin.
    pub script: Option<Script>,
    /// The request asks for at least this reasoning effort. A thinking budget counts as an effort.
    pub min_effort: Option<Effort>,
    /// The request asks for a reasoning effort, and for at most this one.
    pub max_effort: Option<Effort>,
}

fn other() -> String {
    "other".to_owned()
}

const fn an_hour() -> Duration {
    Duration::from_secs(3600)
}
