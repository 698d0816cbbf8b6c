//! The sections of the configuration that routing owns, as they stand in the file.
//!
//! The comments here are the reference: the JSON Schema and the operator's page are made
//! from them. Nothing is checked here beyond shape; [`crate::Catalog::build`] does that.

mod passthrough;
mod price;
mod routing;
mod short_form;

pub use crate::auto::settings::{
    AutoSettings, Conditions, PriceCapSettings, ProfileSettings, RuleSettings,
};
pub use passthrough::{PassthroughMethod, PassthroughSettings};
pub use price::{
    LongPromptSettings, PriceChangeSettings, PriceSettings, TierSettings, ToolPriceSettings,
};
pub use routing::{
    AffinitySettings, Balance, CheckSettings, ExplainSetting, HealthSettings, LimitSettings,
    RoutingSettings,
};

use crate::ModelFeature;
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
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
    /// Base URL: scheme, host, and where needed port and path prefix, as in
    /// `https://api.example.com`. The paths of the formats are appended to it.
    pub address: String,
    /// The wire formats of the provider, each by its name or with its own path.
    #[schemars(length(min = 1))]
    pub formats: Vec<FormatEntry>,
    /// Credentials of the gateway, used by their weights. Default: none, and requests have no
    /// credential.
    #[serde(default)]
    pub credentials: Vec<CredentialEntry>,
    /// Headers set on every request to this provider.
    #[serde(default)]
    pub headers: IndexMap<String, String>,
    /// Request headers of clients to forward, besides those of the format.
    #[serde(default)]
    pub pass_headers: Vec<String>,
    /// How long each part of an exchange may take.
    #[serde(default)]
    pub timeouts: TimeoutSettings,
    /// The features of its formats that the provider supports, for translated requests.
    /// Default: those of each format's own provider, without tools of its own.
    #[serde(default)]
    pub capabilities: Capabilities,
    /// The family of rules by which tokens of its models are counted, unless a model has its own.
    /// Default: by the upstream model name.
    pub tokenizer: Option<Tokenizer>,
    /// Whether to speak HTTP/2 to the provider.
    #[serde(default)]
    pub http2: Http2Setting,
    /// How the provider's certificate is verified; for `https` addresses.
    pub tls: Option<UpstreamTlsSettings>,
    /// When its breakers open, and those of its deployments and credentials. Default:
    /// `routing.health`. A value here replaces all of `routing.health`.
    pub health: Option<HealthSettings>,
    /// Active checks, which find a failed provider before a request reaches it. Default: none.
    pub check: Option<CheckSettings>,
    /// Other paths of the provider that keys may use, such as those of images, audio, files and
    /// batches. Default: none.
    #[serde(default)]
    pub passthrough: Vec<PassthroughSettings>,
}

/// A format by its name, or with the settings that differ from the usual.
#[derive(Clone, Debug, Serialize, JsonSchema)]
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
    /// Path after the base URL; it may have a query. `{model}` stands for the upstream model
    /// name, percent-encoded: `/openai/deployments/{model}/chat/completions?api-version=2024-10-21`.
    /// Usual: `/v1/chat/completions`, `/v1/responses`, `/v1/messages`,
    /// `/v1beta/models/{model}:generateContent`, `/model/{model}/converse`,
    /// `/v1/embeddings`, `/v1/rerank`.
    pub path: Option<String>,
    /// The same for requests whose answer is a stream. Default: `path`; Gemini:
    /// `/v1beta/models/{model}:streamGenerateContent?alt=sse`; Converse: `/model/{model}/converse-stream`.
    pub stream_path: Option<String>,
    /// Messages and Gemini only: the path of the token counter for clients of this format, where the provider has one
    /// (`/v1/messages/count_tokens`, `/v1beta/models/{model}:countTokens`). Without it the gateway counts by itself.
    pub count_tokens: Option<String>,
    /// Embeddings only: the API of the provider, if it is not that of OpenAI. `bedrock`: InvokeModel, usual path
    /// `/model/{model}/invoke`, for Cohere's models if the upstream name has `cohere.`, for Amazon Titan if it has
    /// `titan`. `bedrock_titan`, `bedrock_cohere`: for models of one vendor under any name, such as the ARN of an
    /// application inference profile. `gemini`: `/v1beta/models/{model}:batchEmbedContents`. `vertex_predict`,
    /// `vertex_embed_content`: `/models/{model}:predict`, `/models/{model}:embedContent`. Titan and
    /// `vertex_embed_content` take one text in a request.
    pub api: Option<EmbeddingsApi>,
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

/// An API of embeddings for which the gateway translates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EmbeddingsApi {
    /// InvokeModel of Amazon Bedrock, for models of Amazon Titan and Cohere by their names.
    Bedrock,
    /// The same for models of Amazon Titan.
    BedrockTitan,
    /// The same for models of Cohere.
    BedrockCohere,
    /// `batchEmbedContents` of the Gemini API.
    Gemini,
    /// `predict` of Vertex AI, for models of text embeddings.
    VertexPredict,
    /// `embedContent` of Vertex AI, for newer models.
    VertexEmbedContent,
}

impl EmbeddingsApi {
    /// Where the provider serves it, unless the configuration gives a path.
    pub(crate) const fn usual_path(self) -> &'static str {
        match self {
            Self::Bedrock | Self::BedrockTitan | Self::BedrockCohere => "/model/{model}/invoke",
            Self::Gemini => "/v1beta/models/{model}:batchEmbedContents",
            Self::VertexPredict => "/models/{model}:predict",
            Self::VertexEmbedContent => "/models/{model}:embedContent",
        }
    }

    /// The fields of a client's request that the API has, apart from the input.
    pub(crate) const fn fields(self) -> &'static [&'static str] {
        match self {
            Self::Bedrock => &[
                "dimensions",
                "encoding_format",
                "normalize",
                "input_type",
                "truncate",
            ],
            Self::BedrockTitan => &["dimensions", "encoding_format", "normalize"],
            Self::BedrockCohere => &["dimensions", "encoding_format", "input_type", "truncate"],
            Self::Gemini | Self::VertexPredict | Self::VertexEmbedContent => {
                &["dimensions", "encoding_format", "task_type"]
            }
        }
    }

    /// The same for one vendor: that of a model. `None`: its name does not say which.
    pub fn of_model(self, upstream_model: &str) -> Option<Self> {
        match self {
            Self::Bedrock if upstream_model.contains("cohere.") => Some(Self::BedrockCohere),
            Self::Bedrock if upstream_model.contains("titan") => Some(Self::BedrockTitan),
            Self::Bedrock => None,
            other => Some(other),
        }
    }
}

impl FormatSettings {
    /// The format at its usual path.
    pub(crate) fn usual(name: Format) -> Self {
        Self {
            name,
            path: None,
            stream_path: None,
            count_tokens: None,
            api: None,
            set: IndexMap::new(),
            remove: Vec::new(),
        }
    }
}

/// A credential by its secret alone, or with a name and the header it is sent in.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum CredentialEntry {
    /// The secret, named after where it is had from.
    Secret(SecretSource),
    /// The secret, with its own settings.
    Full(Box<CredentialSettings>),
}

/// A credential for a provider: a secret, or tokens that it fetches and renews. Exactly one
/// of `secret`, `google`, `azure`, `aws` and `command`.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CredentialSettings {
    /// Name in metrics and logs. Default: the source of the secret, or its kind.
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
    /// The query parameter that carries a `secret` instead of a header, such as `key`. Intermediaries log addresses: use a
    /// header if the provider accepts one.
    pub query: Option<String>,
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
    /// Time to connect, TLS included.
    pub connect: Duration,
    /// The default of the next three.
    pub read: Duration,
    /// From the connection to the head of the answer. The head of a whole answer arrives when
    /// generation ends. Default: `read`.
    pub first_byte: Option<Duration>,
    /// Streams: from the connection to the first content; pings and comments do not count. Then the
    /// next provider is tried. Default: `read`.
    pub first_token: Option<Duration>,
    /// From one event of a stream to the next, after the first content; pings and comments do not
    /// count. For whole answers: between two reads. Default: `read`.
    pub between_events: Option<Duration>,
    /// For one write of the request. A connection on which the provider acknowledges nothing for
    /// twice as long is closed.
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

/// The time-outs of a model's providers, if they differ from the usual ones.
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
    /// The name in the certificate. Default: the host of the address.
    pub server_name: Option<String>,
    /// Whether the certificate is verified. Turn off for tests only.
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
    /// The model group, which keys and plans name. Required, here or in an included file.
    pub group: Option<String>,
    /// The deployments of the family's models, unless a model has its own.
    #[serde(default)]
    #[schemars(length(max = 64))]
    pub deployments: Vec<DeploymentEntry>,
    /// The weights of the family's tokens, unless a model has its own.
    #[serde(default)]
    pub weights: WeightSettings,
}

/// The weight of one token of each kind when it is charged: `0.1` makes ten of them one.
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
    /// The weights that are not whole thousandths, by field.
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
#[derive(Clone, Debug, Serialize, JsonSchema)]
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
    /// The upstream model name. Default: the `upstream_model` of the model, else its identifier.
    /// `*` alone stands for the `upstream_model` of the model, else for the part that a pattern of the family matches.
    pub upstream_model: Option<String>,
    /// The formats to use here, of those of the provider. Default: all of them.
    pub formats: Option<Vec<Format>>,
    /// Priority: 0 first, higher numbers only after all lower ones.
    #[serde(default)]
    pub priority: u16,
    /// Its share of the requests among deployments of one priority.
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    pub weight: u16,
    /// Relative cost, in any unit: `least_in_flight` prefers the cheaper of two equal deployments.
    #[schemars(range(min = 0))]
    pub cost: Option<f64>,
    /// Capabilities of the model here, where they are not those of its provider.
    pub capabilities: Option<CapabilitiesPatch>,
    /// The price of the model here, if it is another one. Default: the model's `price`.
    pub price: Option<Box<PriceSettings>>,
    /// How much it takes. Default: any amount.
    #[serde(default)]
    pub limits: LimitSettings,
}

const fn one() -> u16 {
    1
}

/// Capabilities that replace those of the provider, one by one.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(try_from = "Map<String, Value>", into = "Map<String, Value>")]
pub struct CapabilitiesPatch(#[schemars(with = "Capabilities")] Map<String, Value>);

impl CapabilitiesPatch {
    /// The capabilities with this patch.
    pub(crate) fn over(&self, base: &Capabilities) -> Capabilities {
        // Checked when it was read.
        self.merged(base).unwrap_or_else(|_| base.clone())
    }

    /// The refused fields that it lists.
    pub(crate) fn refused_fields(&self) -> Vec<String> {
        self.over(&Capabilities::default()).refused_fields
    }

    fn merged(&self, base: &Capabilities) -> Result<Capabilities, serde_json::Error> {
        let mut all: Map<String, Value> = serde_json::from_value(serde_json::to_value(base)?)?;
        for (name, value) in &self.0 {
            match (all.get_mut(name), value) {
                (Some(Value::Object(known)), Value::Object(own)) => {
                    known.extend(
                        own.iter()
                            .map(|(name, value)| (name.clone(), value.clone())),
                    );
                }
                _ => drop(all.insert(name.clone(), value.clone())),
            }
        }
        serde_json::from_value(Value::Object(all))
    }
}

impl TryFrom<Map<String, Value>> for CapabilitiesPatch {
    type Error = String;

    fn try_from(patch: Map<String, Value>) -> Result<Self, String> {
        // They decide what the gateway does for a whole endpoint.
        let of_chat = |name: &str| {
            patch
                .get("chat")
                .is_some_and(|chat| chat.get(name).is_some())
        };
        let of_provider = [
            ("stream_events", patch.contains_key("stream_events")),
            (
                "chat.max_completion_tokens",
                of_chat("max_completion_tokens"),
            ),
            ("chat.stream_options", of_chat("stream_options")),
        ];
        if let Some((name, _)) = of_provider.into_iter().find(|(_, is_given)| *is_given) {
            return Err(format!(
                "'{name}' is a capability of the whole provider: set it there"
            ));
        }
        let patch = Self(patch);
        let checked = patch.merged(&Capabilities::default());
        checked.map(|_| patch).map_err(|fault| fault.to_string())
    }
}

impl From<CapabilitiesPatch> for Map<String, Value> {
    fn from(patch: CapabilitiesPatch) -> Self {
        patch.0
    }
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
    #[schemars(range(max = 253_402_300_799_u64))]
    pub created: Option<u64>,
    /// Most tokens of input and output together. Reports of more input are cut to it. Default:
    /// unknown; requests are not checked, and reports are cut to 2,000,000.
    pub context_window: Option<TokenCount>,
    /// Most tokens of an answer. Reports of more are cut to it. Default: unknown, not checked.
    pub max_output_tokens: Option<TokenCount>,
    /// Output tokens per second, hidden reasoning included. If an answer can hide output, a client
    /// that disconnects pays for the elapsed time at this rate. Default: 60.
    pub output_rate: Option<u32>,
    /// The efforts that it accepts; others become the nearest, with notice. Default: all of the format.
    #[serde(default)]
    pub efforts: Vec<Effort>,
    /// Whether it accepts `temperature`, `top_p` and `top_k`; if not, they are dropped with notice. In the Gemini format,
    /// clients of Gemini send them all the same. Default: yes.
    pub sampling: Option<bool>,
    /// How it is asked to think by a request in the messages format, for requests that ask for
    /// no way themselves. Default: with a budget where `reasoning` is `extended`, else as its
    /// provider's `capabilities.messages.adaptive_thinking` says. In the Gemini format `budget`
    /// is for models before Gemini 3; the others take levels and check the signatures of calls.
    pub thinking: Option<ThinkingStyle>,
    /// The family by whose rules its tokens are counted, wherever it is served. Default: the
    /// provider's `tokenizer`, else from the provider's name for the model.
    pub tokenizer: Option<Tokenizer>,
    /// The weights of its tokens when they are charged. Default: the family's.
    #[serde(default)]
    pub weights: WeightSettings,
    /// How long its providers may take for it, where that is not what they usually may.
    #[serde(default)]
    pub timeouts: ModelTimeoutSettings,
    /// Its capabilities, where they are not those of its provider.
    pub capabilities: Option<CapabilitiesPatch>,
    /// Features that the model lacks; `auto` does not choose it for requests that need them.
    #[serde(default)]
    pub unsupported: Vec<ModelFeature>,
    /// Its price per million tokens: what its requests cost, and what `auto` compares with
    /// `max_price`. Default: unknown; requests have no cost then.
    pub price: Option<Box<PriceSettings>>,
    /// The upstream model name. Default: the identifier.
    pub upstream_model: Option<String>,
    /// Its deployments. Default: those of its family.
    #[schemars(length(max = 64))]
    pub deployments: Option<Vec<DeploymentEntry>>,
    /// How requests are balanced over deployments of one priority. Default: `routing.balance`.
    pub balance: Option<Balance>,
}
