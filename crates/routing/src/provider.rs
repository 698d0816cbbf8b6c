//! Providers, what the gateway logs in to them with, and the deployments at them.

use crate::health::{BreakerPolicy, Limits};
use crate::{FormatSet, PriceList, settings::EmbeddingsApi, settings::ModelTimeoutSettings};
use crate::{Passthrough, PassthroughRule};
use http::{HeaderName, HeaderValue};
use std::{path::PathBuf, sync::Arc, time::Duration};
use tollgate_providers::{Obstacle, Proof, QuerySecret, Signer, Source, Token};
use tollgate_settings::Environment;
use tollgate_types::{AskedTier, Capabilities, Format, PerFormat, ServiceTier, Tokenizer};

/// A service that answers.
#[derive(Clone, Debug)]
pub struct Provider {
    /// Its name in configuration, metrics and logs.
    pub name: Arc<str>,
    /// Host name or address, without brackets.
    pub host: Arc<str>,
    /// Port.
    pub port: u16,
    /// How its certificate is verified; `None` for a cleartext address.
    pub tls: Option<UpstreamTls>,
    /// The value of the `host` header: the host, with the port where it is not the scheme's own.
    pub authority: HeaderValue,
    /// Whether to speak HTTP/2.
    pub http2: Http2,
    /// Its credentials, used in turn; may be empty.
    pub credentials: Vec<Credential>,
    /// Headers set on every request.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// The caller's headers that are passed on, besides those that the format needs.
    pub pass_headers: Vec<HeaderName>,
    /// How long each part of an exchange may take.
    pub timeouts: Timeouts,
    /// The features that its requests may use.
    pub capabilities: Capabilities,
    /// Events of its streams that its formats do not define, and that pass all the same.
    pub stream_events: Arc<[Box<str>]>,
    /// How the tokens of its models are counted, if configured.
    pub tokenizer: Option<Tokenizer>,
    /// When the breakers of it, its deployments and its credentials open. `None`: never.
    pub health: Option<BreakerPolicy>,
    /// The longest wait that it may ask for.
    pub max_retry_after: Duration,
    /// How it is looked after beside the requests.
    pub check: Option<Check>,
    /// Its paths that are open; `None` if none are.
    pub passthrough: Option<Passthrough>,
    /// Where it serves each format; `None` if it does not speak the format.
    pub(crate) endpoints: PerFormat<Option<Endpoint>>,
}

impl Provider {
    /// Where the provider serves `format`.
    pub const fn endpoint(&self, format: Format) -> Option<&Endpoint> {
        self.endpoints.get(format).as_ref()
    }

    /// The formats that it speaks.
    pub fn formats(&self) -> FormatSet {
        let spoken = self.endpoints.iter().filter(|(_, at)| at.is_some());
        spoken.map(|(format, _)| format).collect()
    }
}

/// Where a provider serves one format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// For whole answers.
    pub whole: Target,
    /// For streams.
    pub streamed: Target,
    /// For counts of tokens, if the provider counts them (messages and Gemini).
    pub count_tokens: Option<Target>,
}

impl Endpoint {
    /// Where a request of this purpose goes.
    pub const fn target(&self, purpose: Purpose) -> Option<&Target> {
        match purpose {
            Purpose::Answer => Some(&self.whole),
            Purpose::Stream => Some(&self.streamed),
            Purpose::Count => self.count_tokens.as_ref(),
        }
    }
}

/// The purpose of a request to a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A whole answer, or something stored.
    Answer,
    /// A streamed answer.
    Stream,
    /// The number of tokens of a request.
    Count,
}

impl Purpose {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Answer, Self::Stream, Self::Count];
}

/// Where requests of one purpose go, and what is changed in their bodies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Path and query, with the prefix of the base URL. [`MODEL`] stands for the upstream model.
    pub path: Arc<str>,
    /// The changes.
    pub patch: Arc<BodyPatch>,
    /// The API of the bodies, if it is not that of the format.
    pub api: Option<EmbeddingsApi>,
}

/// Stands for the upstream model in the path of an endpoint.
pub const MODEL: &str = "{model}";

/// The top-level fields of a body that the configuration sets, renames and removes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BodyPatch {
    /// Names with their values as JSON.
    pub set: Vec<(Box<str>, Box<str>)>,
    /// Names.
    pub remove: Vec<Box<str>>,
    /// Names with other names for the same field. If a body has both, the second one stays, unless it
    /// is `null`.
    pub rename: Vec<(Box<str>, Box<str>)>,
    /// The tier that the request asks for by what is set, if it is not the standard one.
    pub tier: Option<ServiceTier>,
}

impl BodyPatch {
    /// Whether bodies stay as they are.
    pub const fn is_empty(&self) -> bool {
        self.set.is_empty() && self.remove.is_empty() && self.rename.is_empty()
    }

    /// The tiers that a body asks for once it is changed, if it asks for `asked` before.
    pub fn tiers(&self, asked: &[AskedTier]) -> impl Iterator<Item = ServiceTier> {
        let is_left = |it: &&AskedTier| !self.decides_on(it.field);
        let left = asked.iter().filter(is_left).map(|it| it.tier);
        left.chain(self.tier)
    }

    /// Whether what the client writes into a field is overwritten or removed.
    fn decides_on(&self, field: &str) -> bool {
        let mut set = self.set.iter().map(|(name, _)| name);
        set.any(|name| **name == *field) || self.remove.iter().any(|name| **name == *field)
    }
}

/// How a provider's certificate is verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamTls {
    /// PEM file of the authorities to trust, instead of the system's.
    pub ca: Option<PathBuf>,
    /// The name sent as SNI and looked for in the certificate; never empty.
    pub server_name: Arc<str>,
    /// Whether it is verified at all.
    pub verify: bool,
}

/// Whether HTTP/2 is spoken to a provider.
pub use crate::settings::Http2Setting as Http2;

/// How long each part of an exchange may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Time to connect, TLS included.
    pub connect: Duration,
    /// For the answer.
    pub answer: AnswerTimeouts,
    /// For one write of the request.
    pub write: Duration,
    /// How long an unused connection is kept.
    pub idle: Duration,
}

/// How long an answer may take, part by part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnswerTimeouts {
    /// From the connection to the head.
    pub first_byte: Duration,
    /// Streams: from the connection to the first content.
    pub first_token: Duration,
    /// From one event to the next once content has come; pings are none. Without a stream,
    /// between two reads.
    pub between_events: Duration,
}

impl AnswerTimeouts {
    /// These, but for what a model has of its own.
    #[must_use]
    pub fn under(self, own: &ModelTimeoutSettings) -> Self {
        let one = |own: Option<tollgate_settings::Duration>, usual: Duration| {
            own.map_or(usual, tollgate_settings::Duration::get)
        };
        Self {
            first_byte: one(own.first_byte, self.first_byte),
            first_token: one(own.first_token, self.first_token),
            between_events: one(own.between_events, self.between_events),
        }
    }
}

/// Active checks of the provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The path that is fetched; `None`: a connection is enough.
    pub path: Option<Arc<str>>,
    /// From one check to the next.
    pub every: Duration,
    /// How long one may take.
    pub timeout: Duration,
}

/// A credential for a provider. `Debug` shows the name alone.
#[derive(Clone)]
pub struct Credential {
    /// Its name in metrics and logs, unique at its provider.
    pub name: Arc<str>,
    /// Its share of the provider's requests; at least 1.
    pub weight: u16,
    /// How much it takes.
    pub limits: Limits,
    pub(crate) login: LogIn,
}

/// How a credential logs in.
#[derive(Clone)]
pub(crate) enum LogIn {
    /// With a secret: the header for each format, ready to send and marked sensitive.
    Fixed(Box<PerFormat<(HeaderName, HeaderValue)>>),
    /// With a secret in the query.
    Query(QuerySecret),
    /// With signatures of keys that do not end.
    Signed(Signer),
    /// With tokens of this source, in this header. Health keeps the current one.
    Tokens {
        source: Arc<Source>,
        header: HeaderName,
    },
}

impl Credential {
    /// The proof for a request of `format`. `None` for tokens.
    pub fn proof(&self, format: Format) -> Option<Proof> {
        match &self.login {
            LogIn::Fixed(headers) => {
                let (name, value) = headers.get(format);
                Some(Proof::Header(name.clone(), value.clone()))
            }
            LogIn::Query(secret) => Some(Proof::Query(secret.clone())),
            LogIn::Signed(signer) => Some(Proof::Signature(signer.clone())),
            LogIn::Tokens { .. } => None,
        }
    }

    /// Whether it signs requests, for which their body must be there.
    pub fn signs(&self) -> bool {
        match &self.login {
            LogIn::Fixed(_) | LogIn::Query(_) => false,
            LogIn::Signed(_) => true,
            LogIn::Tokens { source, .. } => source.signs(),
        }
    }

    /// A token of its source, which is to be fetched. `None`: it logs in with a secret.
    pub(crate) fn token(&self, provider: &Arc<str>) -> Option<Arc<Token>> {
        let LogIn::Tokens { source, header } = &self.login else {
            return None;
        };
        let names = [Arc::clone(provider), Arc::clone(&self.name)];
        let token = Token::new(Arc::clone(source), header.clone(), names);
        Some(Arc::new(token))
    }

    /// Why its source cannot give tokens now, as far as this machine shows.
    pub fn obstacle(&self, environment: &dyn Environment) -> Option<Obstacle> {
        match &self.login {
            LogIn::Tokens { source, .. } => source.obstacle(environment),
            LogIn::Fixed(_) | LogIn::Query(_) | LogIn::Signed(_) => None,
        }
    }

    /// Whether it logs in as another one does: of the same secret or source, in the same headers.
    pub(crate) fn has_secret_of(&self, other: &Self) -> bool {
        match (&self.login, &other.login) {
            (LogIn::Fixed(one), LogIn::Fixed(another)) => one == another,
            (LogIn::Query(one), LogIn::Query(another)) => one == another,
            (LogIn::Signed(one), LogIn::Signed(another)) => one == another,
            (
                LogIn::Tokens { source, header },
                LogIn::Tokens {
                    source: other_source,
                    header: other_header,
                },
            ) => source == other_source && header == other_header,
            _ => false,
        }
    }
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Credential")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// The name under which a provider knows a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpstreamModel {
    /// Always this one.
    Fixed(Arc<str>),
    /// The name that the caller asked for: deployments of a pattern.
    AsRequested {
        /// The first byte of the name that the provider is sent.
        from: usize,
    },
}

/// One place where a model is served.
#[derive(Clone, Debug)]
pub struct Deployment {
    /// `provider/upstream-model`, for metrics and logs; a wildcard's ends in its pattern.
    pub name: Arc<str>,
    /// The provider.
    pub provider: Arc<Provider>,
    /// The model's name there.
    pub upstream_model: UpstreamModel,
    /// The features that its requests may use.
    pub capabilities: Capabilities,
    /// The formats to use here.
    pub formats: FormatSet,
    /// When it is tried: lower first.
    pub priority: u16,
    /// Its share among deployments of one priority; at least 1.
    pub weight: u16,
    /// Its cost, in a unit of the operator's.
    pub cost: Option<f64>,
    /// The prices of the model's tokens here.
    pub price: Option<PriceList>,
    /// How much it takes.
    pub limits: Limits,
}

impl Deployment {
    /// The deployment for an open path, so that its health is neither that of a model nor of another path.
    pub(crate) fn of_open_path(provider: &Arc<Provider>, rule: &PassthroughRule) -> Self {
        Self {
            name: Arc::clone(&rule.name),
            provider: Arc::clone(provider),
            upstream_model: UpstreamModel::Fixed("".into()),
            capabilities: provider.capabilities.clone(),
            formats: provider.formats(),
            priority: 0,
            weight: 1,
            cost: None,
            price: None,
            limits: Limits::default(),
        }
    }

    /// Whether the cost of a request is known that asks for these tiers.
    pub fn is_priced(&self, asked: &[AskedTier]) -> bool {
        let price = self.price.as_ref();
        price.is_some_and(|price| self.tiers(asked).all(|tier| price.has_tier(tier)))
    }

    /// The tiers that requests ask for when they leave, in any format of the deployment, if clients ask
    /// for `asked`.
    pub(crate) fn tiers(&self, asked: &[AskedTier]) -> impl Iterator<Item = ServiceTier> {
        let formats = Format::ALL.into_iter();
        let formats = formats.filter(|format| self.formats.contains(*format));
        let endpoints = formats.filter_map(|format| self.provider.endpoint(format));
        endpoints.flat_map(|endpoint| endpoint.whole.patch.tiers(asked))
    }

    /// The format in which the gateway asks it for a client of `format`: the client's own if the
    /// deployment speaks it, else the one that carries most of the request.
    pub fn format_for(&self, format: Format) -> Option<Format> {
        self.formats_for(format).next()
    }

    /// The formats in which it can serve a client of `format`: the client's own first, then those
    /// that carry most of the request.
    pub fn formats_for(&self, format: Format) -> impl Iterator<Item = Format> + use<> {
        use Format::{Chat, Converse, Embeddings, Gemini, Messages, Rerank, Responses};
        const IN_ORDER: PerFormat<&[Format]> = PerFormat {
            chat: &[Chat, Responses, Messages, Gemini, Converse],
            // Chat has no room for reasoning that comes back.
            responses: &[Responses, Messages, Gemini, Converse, Chat],
            messages: &[Messages, Responses, Gemini, Converse, Chat],
            gemini: &[Gemini, Messages, Responses, Converse, Chat],
            converse: &[Converse, Messages, Responses, Gemini, Chat],
            // Not a conversation.
            embeddings: &[Embeddings],
            rerank: &[Rerank],
        };
        let spoken = self.formats;
        let in_order = IN_ORDER[format].iter().copied();
        in_order.filter(move |it| spoken.contains(*it))
    }

    /// The model name to send upstream, where the caller asked for `requested`.
    pub fn upstream_model<'a>(&'a self, requested: &'a str) -> &'a str {
        match &self.upstream_model {
            UpstreamModel::Fixed(name) => name,
            UpstreamModel::AsRequested { from } => requested.get(*from..).unwrap_or(requested),
        }
    }
}
