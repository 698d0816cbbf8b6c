//! The sections of the configuration that routing owns, as they stand in the file.
//!
//! The comments here are the reference: the JSON Schema and the operator's page are made
//! from them. Nothing is checked here beyond shape; [`crate::Catalog::build`] does that.

mod passthrough;
mod price;
mod routing;

pub use crate::auto::settings::{
    AutoSettings, Conditions, PriceCapSettings, ProfileSettings, RuleSettings,
};
pub use passthrough::{PassthroughMethod, PassthroughSettings};
pub use price::{PriceChangeSettings, PriceSettings};
pub use routing::{
    AffinitySettings, Balance, CheckSettings, ExplainSetting, HealthSettings, LimitSettings,
    RoutingSettings,
};

use crate::ModelFeature;
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use tollgate_providers::{AwsSettings, AzureSettings, CommandSettings, GoogleSettings};
use tollgate_settings::{Duration, SecretSource, TokenCount};
use tollgate_types::{
    Capabilities, Effort, Format, ReasoningMode, ThinkingStyle, Tokenizer, Weight, Weights,
};

/// Everything that a catalog is built from.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CatalogSettings {
    /// The providers, by name.
    pub providers: IndexMap<String, ProviderSettings>,
    /// Families of models, by name.
    pub families: IndexMap<String, FamilySettings>,
    /// Models, by identifier.
    pub models: IndexMap<String, ModelSettings>,
    /// Further names, each with the model that it stands for.
    pub aliases: IndexMap<String, String>,
    /// The names that leave the choice to the gateway.
    pub auto: Option<AutoSettings>,
    /// How requests are spread over deployments.
    pub routing: RoutingSettings,
}

/// A service that answers: its address, what it speaks, and how to log in to it.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProviderSettings {
    /// Base address: scheme, host, and where needed port and path prefix, as in
    /// `https://api.example.com`. The paths of the formats are appended to it.
    pub address: String,
    /// The wire formats that the provider speaks, each by its name or with its own path.
    #[schemars(length(min = 1))]
    pub formats: Vec<FormatEntry>,
    /// What the gateway logs in with, used by their weights; one that is refused or has asked
    /// too much is passed over. None: requests go out without one.
    #[serde(default)]
    pub credentials: Vec<CredentialEntry>,
    /// Headers set on every request to this provider.
    #[serde(default)]
    pub headers: IndexMap<String, String>,
    /// Names of the caller's headers that are passed on, besides those that the format needs.
    #[serde(default)]
    pub pass_headers: Vec<String>,
    /// How long each part of an exchange may take.
    #[serde(default)]
    pub timeouts: TimeoutSettings,
    /// What the provider can of what its formats allow, for requests that are translated.
    /// Default: what each format's own provider can, without tools of its own.
    #[serde(default)]
    pub capabilities: Capabilities,
    /// The family by whose rules the tokens of its models are counted, where a model does not
    /// say. Default: from its name for the model.
    pub tokenizer: Option<Tokenizer>,
    /// Whether to speak HTTP/2 to the provider.
    #[serde(default)]
    pub http2: Http2Setting,
    /// How the provider's certificate is verified; for `https` addresses.
    pub tls: Option<UpstreamTlsSettings>,
    /// When it, its deployments and its credentials are passed over. Default: as `routing.health`
    /// says; what is given here stands in the place of all of that.
    pub health: Option<HealthSettings>,
    /// How it is looked after beside the requests, so that one that is down is known before a
    /// request meets it. Default: requests alone show it.
    pub check: Option<CheckSettings>,
    /// Other paths of the provider that keys may use, such as those of images, audio, files and
    /// batches. Default: none.
    #[serde(default)]
    pub passthrough: Vec<PassthroughSettings>,
}

/// A format by its name, or with the settings that differ from the usual.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum FormatEntry {
    /// The format, at its usual path.
    Name(Format),
    /// The format, with its own settings.
    Full(FormatSettings),
}

/// Where a provider serves a format.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FormatSettings {
    /// The format.
    pub name: Format,
    /// Path after the base address; it may have a query. `{model}` stands for the upstream model
    /// name, percent-encoded: `/openai/deployments/{model}/chat/completions?api-version=2024-10-21`.
    /// Usual: `/v1/chat/completions`, `/v1/responses`, `/v1/messages`,
    /// `/v1beta/models/{model}:generateContent`, `/model/{model}/converse`,
    /// `/v1/embeddings`, `/v1/rerank`.
    pub path: Option<String>,
    /// The same for requests whose answer is a stream. Default: `path`; Gemini:
    /// `/v1beta/models/{model}:streamGenerateContent?alt=sse`; Converse: `/model/{model}/converse-stream`.
    pub stream_path: Option<String>,
    /// Messages only: the path of the token counter, where the provider has one
    /// (`/v1/messages/count_tokens`). Without it the gateway counts by itself.
    pub count_tokens: Option<String>,
    /// Top-level fields that are set in the body of every request, with their values. They replace
    /// those of the client.
    #[serde(default)]
    pub set: IndexMap<String, serde_json::Value>,
    /// Top-level fields that are removed from the body of every request. `model` can be removed if
    /// the path has `{model}`; requests to a path without it keep the field. `stream` can be removed
    /// if there is a `stream_path`.
    #[serde(default)]
    pub remove: Vec<String>,
}

impl FormatSettings {
    /// The format at its usual path.
    pub(crate) fn usual(name: Format) -> Self {
        Self {
            name,
            path: None,
            stream_path: None,
            count_tokens: None,
            set: IndexMap::new(),
            remove: Vec::new(),
        }
    }
}

/// A credential by its secret alone, or with a name and the header it is sent in.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum CredentialEntry {
    /// The secret, named after where it is had from.
    Secret(SecretSource),
    /// The secret, with its own settings.
    Full(Box<CredentialSettings>),
}

/// What the gateway logs in to a provider with: a secret, or tokens that it fetches and renews. Exactly one
/// of `secret`, `google`, `azure`, `aws` and `command`.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CredentialSettings {
    /// Name in metrics and logs. Default: where the secret is had from, or the kind of the source.
    pub name: Option<String>,
    /// The secret.
    pub secret: Option<SecretSource>,
    /// Access tokens of Google Cloud.
    pub google: Option<GoogleSettings>,
    /// Access tokens of Microsoft Entra.
    pub azure: Option<AzureSettings>,
    /// Keys of AWS, which each request is signed with.
    pub aws: Option<AwsSettings>,
    /// Tokens that a program prints.
    pub command: Option<CommandSettings>,
    /// The header that carries it: `authorization` (as `Bearer`), or any other, such as
    /// `x-api-key` (as it is). Default: `authorization`; for a secret and messages `x-api-key`.
    pub header: Option<String>,
    /// Its share of the provider's requests.
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    pub weight: u16,
    /// How much it takes, over all models of the provider. Default: any amount.
    #[serde(default)]
    pub limits: LimitSettings,
}

/// How long each part of an exchange with a provider may take.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TimeoutSettings {
    /// To connect, TLS included.
    pub connect: Duration,
    /// The longest silence, where none of the next three says otherwise.
    pub read: Duration,
    /// From the connection to the head of the answer. An answer that is no stream comes when
    /// all of it is made. Default: `read`.
    pub first_byte: Option<Duration>,
    /// Streams: from the connection to the first content; pings and comments are none. A
    /// provider that is slower is replaced by the next one. Default: `read`.
    pub first_token: Option<Duration>,
    /// From one event of a stream to the next once content has come; pings and comments are
    /// none. Of an answer that is no stream, between two reads. Default: `read`.
    pub between_events: Option<Duration>,
    /// For one write of the request to be taken. A connection, used or not, on which the provider
    /// takes nothing of what was sent for twice as long is closed.
    pub write: Duration,
    /// How long an unused connection is kept. Keep it below the provider's own limit.
    pub idle: Duration,
}

impl Default for TimeoutSettings {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            // The SDKs of the three formats wait ten minutes by default.
            read: Duration::from_secs(600),
            first_byte: None,
            first_token: None,
            between_events: None,
            write: Duration::from_secs(60),
            idle: Duration::from_secs(50),
        }
    }
}

/// What a model's providers may take, where it is not what they usually may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ModelTimeoutSettings {
    /// From the connection to the head of the answer. Default: the provider's.
    pub first_byte: Option<Duration>,
    /// Streams: from the connection to the first content. Default: the provider's.
    pub first_token: Option<Duration>,
    /// From one event of a stream to the next. Default: the provider's.
    pub between_events: Option<Duration>,
}

/// Whether HTTP/2 is spoken to a provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Http2Setting {
    /// Where both sides agree on it (TLS with ALPN), otherwise HTTP/1.1.
    #[default]
    Auto,
    /// Always; on a cleartext address with prior knowledge.
    Always,
    /// Never: HTTP/1.1.
    Never,
}

/// How a provider's certificate is verified.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct UpstreamTlsSettings {
    /// PEM file with the certificate authorities to trust, instead of the system's.
    pub ca: Option<PathBuf>,
    /// The name that the certificate must carry. Default: the host of the address.
    pub server_name: Option<String>,
    /// Whether the certificate is verified at all. Turn off for tests only.
    pub verify: bool,
}

impl Default for UpstreamTlsSettings {
    fn default() -> Self {
        Self {
            ca: None,
            server_name: None,
            verify: true,
        }
    }
}

/// Models that belong together.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FamilySettings {
    /// The model group by which keys and plans admit the family's models. Required, here or
    /// in an included file.
    pub group: Option<String>,
    /// Where the family's models are served, unless a model says otherwise.
    #[serde(default)]
    #[schemars(length(max = 64))]
    pub deployments: Vec<DeploymentEntry>,
    /// What the family's tokens count for, unless a model says otherwise.
    #[serde(default)]
    pub weights: WeightSettings,
}

/// What one token of each kind counts for when it is charged: `0.1` makes ten of them one.
/// Three decimal places count, and more are refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WeightSettings {
    /// Input that no cache holds. Default: 1.
    #[schemars(range(min = 0, max = 1000))]
    pub input: Option<f64>,
    /// Input read from the provider's cache. Default: 1.
    #[schemars(range(min = 0, max = 1000))]
    pub cache_read: Option<f64>,
    /// Input written to the provider's cache. Default: 1.
    #[schemars(range(min = 0, max = 1000))]
    pub cache_write: Option<f64>,
    /// Output, reasoning included. Default: 1.
    #[schemars(range(min = 0, max = 1000))]
    pub output: Option<f64>,
}

impl WeightSettings {
    /// What cannot be counted as it is written, by field: a weight is in thousandths.
    pub(crate) fn faults(&self) -> impl Iterator<Item = (&'static str, String)> {
        /// Room for how binary fractions stand for decimal ones.
        const EXACT: f64 = 1e-6;
        let fields = [
            ("input", self.input),
            ("cache_read", self.cache_read),
            ("cache_write", self.cache_write),
            ("output", self.output),
        ];
        fields.into_iter().filter_map(|(field, weight)| {
            let (weight, thousandths) = weight.map(|weight| (weight, weight * 1000.0))?;
            let is_exact = (thousandths - thousandths.round()).abs() < EXACT;
            let message = || {
                let counted = thousandths.round() / 1000.0;
                format!("three decimal places count: {weight} would be {counted}")
            };
            (!is_exact).then(|| (field, message()))
        })
    }

    /// These, and the family's where one of these is not set.
    pub(crate) fn over(&self, family: &Self) -> Weights {
        let weight = |own: Option<f64>, family: Option<f64>| {
            own.or(family).map_or(Weight::ONE, Weight::from_factor)
        };
        Weights {
            input: weight(self.input, family.input),
            cache_read: weight(self.cache_read, family.cache_read),
            cache_write: weight(self.cache_write, family.cache_write),
            output: weight(self.output, family.output),
        }
    }
}

/// A deployment in short, or with all its settings.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum DeploymentEntry {
    /// The provider's name, or `provider/upstream-model`.
    Short(String),
    /// All settings.
    Full(DeploymentSettings),
}

/// One place where a model is served.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeploymentSettings {
    /// The provider that serves it.
    pub provider: String,
    /// The name by which the provider knows the model. Default: the model's own
    /// `upstream_model`, and where there is none its identifier. With a pattern, `*` is the part of
    /// the name that the pattern's `*` stands for.
    pub upstream_model: Option<String>,
    /// The formats to use here, out of those that the provider speaks. Default: all of them.
    pub formats: Option<Vec<Format>>,
    /// When it is tried: 0 first, higher numbers only after all lower ones.
    #[serde(default)]
    pub priority: u16,
    /// Its share of the requests among deployments of one priority.
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    pub weight: u16,
    /// What it costs, in any unit that is the same for all: the cheaper one is taken where
    /// `least_in_flight` finds two equal.
    #[schemars(range(min = 0))]
    pub cost: Option<f64>,
    /// The price of the model here, if it is another one. Default: the model's `price`.
    pub price: Option<PriceSettings>,
    /// How much it takes. Default: any amount.
    #[serde(default)]
    pub limits: LimitSettings,
}

const fn one() -> u16 {
    1
}

/// A model of the catalog.
///
/// An identifier that ends in `*` stands for every name that begins so and has no entry
/// of its own; the name asked for goes upstream, and such an entry is not listed.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelSettings {
    /// The family; gives group and deployments. Required unless `alias_of` is given.
    pub family: Option<String>,
    /// The model that answers to this name. The name is listed like a model, with the
    /// other's properties; only `display_name`, `created` and `recommended` are its own.
    pub alias_of: Option<String>,
    /// The model group, where it is not the family's.
    pub group: Option<String>,
    /// Name for people. Default: the identifier.
    pub display_name: Option<String>,
    /// How the model reasons. Default: `provider_default`, which leaves requests alone.
    pub reasoning: Option<ReasoningMode>,
    /// Whether it is the recommended model of its family.
    #[serde(default)]
    pub recommended: bool,
    /// When it was released, in seconds since 1970. Default: the start of 2026.
    pub created: Option<u64>,
    /// Tokens that input and output may have together. A provider's report of more input is not
    /// believed. Default: unknown; nothing is checked, and 2,000,000 are believed.
    pub context_window: Option<TokenCount>,
    /// Tokens that an answer may have. A provider's report of more is not believed. Default:
    /// unknown, not checked.
    pub max_output_tokens: Option<TokenCount>,
    /// Output tokens that it produces in a second, hidden reasoning included. A caller that
    /// disconnects pays for the time until then at this rate, where the answer can hide output.
    /// Default: 60.
    pub output_rate: Option<u32>,
    /// The efforts that it takes, for requests that are translated. Default: all that the
    /// format knows.
    #[serde(default)]
    pub efforts: Vec<Effort>,
    /// Whether it takes `temperature`, `top_p` and `top_k`; if not, requests that are
    /// translated go without, with notice. Default: yes.
    pub sampling: Option<bool>,
    /// How it is asked to think by a request in the messages format, for requests that ask for
    /// no way themselves. Default: with a budget where `reasoning` is `extended`, else as its
    /// provider's `capabilities.messages.adaptive_thinking` says. In the Gemini format `budget`
    /// is for models before Gemini 3; the others take levels and check the signatures of calls.
    pub thinking: Option<ThinkingStyle>,
    /// The family by whose rules its tokens are counted, wherever it is served. Default: the
    /// provider's `tokenizer`, else from the provider's name for the model.
    pub tokenizer: Option<Tokenizer>,
    /// What its tokens count for when they are charged. Default: the family's.
    #[serde(default)]
    pub weights: WeightSettings,
    /// How long its providers may take for it, where that is not what they usually may.
    #[serde(default)]
    pub timeouts: ModelTimeoutSettings,
    /// What the model is known to be unable to do; `auto` takes another one then.
    #[serde(default)]
    pub unsupported: Vec<ModelFeature>,
    /// Its price per million tokens: what its requests cost, and what `auto` compares with
    /// `max_price`. Default: unknown; requests have no cost then.
    pub price: Option<PriceSettings>,
    /// The name by which providers know it. Default: the identifier.
    pub upstream_model: Option<String>,
    /// Where it is served. Default: where its family is.
    #[schemars(length(max = 64))]
    pub deployments: Option<Vec<DeploymentEntry>>,
    /// How its requests are spread over deployments of one priority. Default: as
    /// `routing.balance` says.
    pub balance: Option<Balance>,
}
