//! One model of the catalog.

use crate::plan::Balancing;
use crate::{Deployment, FormatSet, PriceList, settings::ModelTimeoutSettings};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};
use tollgate_types::{
    AskedTier, Effort, MessagesCapabilities, Prices, ReasoningMode, RequestNeeds, ServiceTier,
    ThinkingStyle, Tokenizer, Weights,
};

tollgate_types::named! {
    /// Something that a model may be unable to do.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum ModelFeature {
        /// Calling tools.
        Tools = "tools",
        /// Reading images.
        Images = "images",
        /// Reading documents, such as PDF files.
        Documents = "documents",
        /// Hearing or producing sound.
        Audio = "audio",
        /// Answering by a JSON schema.
        Schema = "schema",
    }
}

impl ModelFeature {
    /// Whether a request needs it.
    pub const fn is_needed(self, needs: &RequestNeeds) -> bool {
        match self {
            Self::Tools => needs.tools,
            Self::Images => needs.images,
            Self::Documents => needs.documents,
            Self::Audio => needs.audio,
            Self::Schema => needs.schema,
        }
    }
}

impl fmt::Display for ModelFeature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The kind of a model's entry in the catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ModelKind {
    /// A model of its own.
    Model,
    /// A listed name for another model; [`crate::Catalog::resolve`] gives the other.
    Alias {
        /// The identifier of the model that answers.
        of: Arc<str>,
    },
    /// Stands for every name that begins with `prefix`; never listed.
    Wildcard {
        /// The beginning of such a name.
        prefix: Arc<str>,
    },
    /// A name that leaves the choice to the gateway, such as `auto`: its [`crate::Profile`]
    /// chooses the model.
    Auto,
}

/// A model: what clients see of it, and its deployments.
#[derive(Clone, Debug)]
pub struct Model {
    /// The identifier that callers send. For a wildcard, the pattern: a bounded value for metrics.
    pub id: Arc<str>,
    /// The kind of its entry.
    pub kind: ModelKind,
    /// The family, which `GET /v1/models` gives as `owned_by` too.
    pub family: Arc<str>,
    /// The model group by which keys and plans admit it. A profile has its family's, but access
    /// to it depends on its candidates: ask [`crate::Catalog::is_usable`].
    pub group: Arc<str>,
    /// The name for people.
    pub display_name: Arc<str>,
    /// How it reasons.
    pub reasoning: ReasoningMode,
    /// Whether it is the recommended model of its family.
    pub recommended: bool,
    /// When it was released, in seconds since 1970.
    pub created: u64,
    /// Tokens that input and output may have together, if known.
    pub context_window: Option<u64>,
    /// Tokens that an answer may have, if known.
    pub max_output_tokens: Option<u64>,
    /// Output tokens that it produces in a second, hidden reasoning included.
    pub output_rate: u32,
    /// The efforts that it accepts. Empty: all efforts of the format.
    pub efforts: Vec<Effort>,
    /// Whether it accepts `temperature`, `top_p` and `top_k`.
    pub sampling: bool,
    /// How it is asked to think in the messages format, if configured.
    pub thinking: Option<ThinkingStyle>,
    /// How its tokens are counted, if configured.
    pub tokenizer: Option<Tokenizer>,
    /// The weights of its tokens when they are charged.
    pub weights: Weights,
    /// Its own time-outs, which replace those of its providers.
    pub timeouts: ModelTimeoutSettings,
    /// The features that it is known to lack.
    pub unsupported: Vec<ModelFeature>,
    /// Its prices.
    pub price: Option<PriceList>,
    /// Further names that resolve to it; dotted forms are not listed.
    pub aliases: Vec<Arc<str>>,
    /// Where it is served, in order of priority.
    pub deployments: Vec<Arc<Deployment>>,
    /// How requests are spread over them.
    pub balancing: Balancing,
}

impl Model {
    /// The formats that at least one deployment speaks.
    pub fn formats(&self) -> FormatSet {
        self.deployments
            .iter()
            .fold(FormatSet::EMPTY, |all, deployment| {
                all.union(deployment.formats)
            })
    }

    /// Whether one of its deployments has a price for requests that ask for these tiers.
    pub fn is_priced(&self, asked: &[AskedTier]) -> bool {
        self.deployments.iter().any(|it| it.is_priced(asked))
    }

    /// Of each kind of tokens the highest price of its deployments, of those at `provider` if a request
    /// can go to no other. The price of fast mode counts if the request asks for it, or a deployment sets it.
    /// `None`: none of them has a price.
    pub fn dearest_prices(
        &self,
        provider: Option<&str>,
        asked: &[AskedTier],
        now: SystemTime,
    ) -> Option<Prices> {
        /// Requests are sent within this time. Prices that change in it count.
        const SENT_WITHIN: Duration = Duration::from_secs(3600);
        self.prices(provider, |deployment, list| {
            let prices = list.dearest(now, SENT_WITHIN);
            let is_fast = deployment
                .tiers(asked)
                .any(|tier| tier == ServiceTier::Fast);
            match is_fast {
                true => prices,
                false => prices.without_fast_mode(),
            }
        })
    }

    /// Of each kind of tokens the highest price of its deployments at a time, in any tier.
    pub fn prices_at(&self, time: SystemTime) -> Option<Prices> {
        self.prices(None, |_, list| *list.at(time))
    }

    fn prices(
        &self,
        provider: Option<&str>,
        of: impl Fn(&Deployment, &PriceList) -> Prices,
    ) -> Option<Prices> {
        let can_serve = |it: &&Arc<Deployment>| provider.is_none_or(|at| *it.provider.name == *at);
        let deployments = self.deployments.iter().filter(can_serve);
        let prices = deployments.filter_map(|it| Some(of(it, it.price.as_ref()?)));
        prices.reduce(|all, prices| all.dearest(&prices))
    }

    /// Whether a request to a messages provider asks for adaptive thinking, and not for a budget.
    pub fn adaptive_thinking(&self, provider: &MessagesCapabilities) -> bool {
        match self.thinking {
            Some(style) => style == ThinkingStyle::Adaptive,
            None => self.reasoning != ReasoningMode::Extended && provider.adaptive_thinking,
        }
    }

    /// Whether a request to a Gemini provider asks for a level of thinking, and not for a budget.
    pub fn thinking_levels(&self) -> bool {
        self.thinking != Some(ThinkingStyle::Budget)
    }

    /// Whether this name leaves the choice to the gateway.
    pub fn is_auto(&self) -> bool {
        self.kind == ModelKind::Auto
    }
}
