//! Explains what would happen to a request, and why, without sending it: the filters of the
//! configuration run on it as on any other, over services that hold nothing and give nothing
//! away, and then every deployment of its model is looked at.
//!
//! `display` has the texts for people, `dry` the services for filters.

#![forbid(unsafe_code)]

mod candidates;
mod display;
mod dry;

use bytes::Bytes;
use candidates::Question;
use dry::Dry;
use futures::FutureExt;
use http::{HeaderMap, HeaderValue, Method, header};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::sync::Arc;
use tokio::runtime::Handle;
use tollgate_config::Config;
use tollgate_engine::accounts;
use tollgate_engine::accounts::Accounts;
use tollgate_engine::catalog::IndexedCatalog;
use tollgate_engine::endpoints;
use tollgate_engine::model_request::ModelRequest;
use tollgate_engine::open_path::{self, OpenPath};
use tollgate_engine::pipeline::{Part, Pipeline};
use tollgate_filter::{Endpoint, Head, RequestContext, Verdict};
use tollgate_ledger::{KeyRecord, KeySelector, KeyState, Store, StoreError};
use tollgate_routing::health::{DeploymentHandle, Fleet};
use tollgate_telemetry::clock;
use tollgate_types::{ErrorCode, Format, Identity, Money, PublicError, RequestId};
use tollgate_wire::conversation;
use tollgate_wire::peek::{PeekLimits, Peeked, Peeker};

/// A request to be explained.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExplainOrder {
    /// Whose request it is: the id of a key (`key_…`), the beginning of its text (`sk-…`), or
    /// its text.
    pub key: String,
    /// The endpoint, by path and query. Default: `/v1/chat/completions`.
    #[serde(default = "chat")]
    pub path: String,
    /// The name that the caller's software gives its session, in the first header of
    /// `routing.affinity.headers`.
    #[serde(default)]
    pub session: Option<String>,
    /// The body of the request, as the caller sends it.
    pub request: serde_json::Value,
}

impl ExplainOrder {
    /// The path and the query.
    fn split(&self) -> (&str, Option<&str>) {
        match self.path.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (&self.path, None),
        }
    }
}

fn chat() -> String {
    Endpoint::ChatCompletions.path().to_owned()
}

/// The course that a request would take.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Explanation {
    /// Its outcome.
    pub outcome: Outcome,
    /// The endpoint that its path means.
    pub endpoint: String,
    /// The format in which it is written.
    pub format: Option<String>,
    /// The key.
    pub key: KeyShown,
    /// The filters in order, up to the one that ends it.
    pub filters: Vec<FilterShown>,
    /// The model that answers; `null` where none was found.
    pub model: Option<ModelShown>,
    /// The most that it can cost.
    pub bound: Option<BoundShown>,
    /// The key's balance.
    pub balance: Option<BalanceShown>,
    /// The key's limits in a minute.
    pub limits: Vec<LimitShown>,
    /// The model's deployments in the order in which they are asked, then those that are not.
    pub candidates: Vec<CandidateShown>,
}

/// The outcome of a request.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Outcome {
    /// It is sent to the first candidate.
    Sent {
        /// The provider of it.
        provider: String,
    },
    /// The gateway answers it itself.
    AnsweredHere,
    /// It is refused.
    Refused(ErrorShown),
}

/// An error as the caller gets it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ErrorShown {
    /// The HTTP status.
    pub status: u16,
    /// The code.
    pub code: String,
    /// The message.
    pub message: String,
}

/// The key.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct KeyShown {
    /// Its id.
    pub id: String,
    /// Its name, given by its owner.
    pub name: String,
    /// Its plan.
    pub plan: Option<String>,
    /// Whether it works.
    pub state: KeyState,
}

/// A filter and what it says.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FilterShown {
    /// Its name.
    pub name: String,
    /// Why it ends the request; `null` where it does not.
    pub refusal: Option<ErrorShown>,
    /// Headers that it puts on the answer.
    pub headers: Vec<String>,
}

/// The model that answers.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ModelShown {
    /// The model name in the request.
    pub asked: Option<String>,
    /// Its entry in the catalog.
    pub id: String,
    /// The group that a key needs for it.
    pub group: String,
    /// Why this one, where `auto` chose it.
    pub reason: Option<String>,
    /// What the conversation has to do with that; `null` where the request names its model, and
    /// if only the running gateway knows.
    pub conversation: Option<ConversationShown>,
}

/// The conversation that a request for `auto` belongs to.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ConversationShown {
    /// The model that has answered it so far; `null` where it begins with this request, or was
    /// forgotten.
    pub model: Option<String>,
    /// The choice if it began with this request; `null` if it does.
    pub anew: Option<AnewShown>,
}

/// The choice for the beginning of a conversation.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct AnewShown {
    /// The model.
    pub model: String,
    /// Why this one.
    pub reason: String,
}

/// The reservation for a request.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct BoundShown {
    /// Input tokens that the body does not exceed.
    pub input: u64,
    /// Input tokens that the body does not show: stored, or found by tools of the provider.
    pub hidden: u64,
    /// Output tokens.
    pub output: u64,
    /// All of them as the model counts them: what is reserved, of the hidden ones as many as the
    /// balance has.
    pub tokens: u64,
    /// The least rest for a useful answer.
    pub useful: u64,
    /// The cost at most, by the dearest prices of the deployments; `null` where none is known.
    pub cost: Option<Money>,
}

/// A key's balance.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct BalanceShown {
    /// Tokens of valid grants that are not spent; in a running gateway, those of them that no other
    /// process has leased.
    pub left: u64,
    /// Of these, what requests under way hold in this process.
    pub held: u64,
    /// The same of money; `null` where the key does not pay in money.
    pub money: Option<MoneyShown>,
    /// The output tokens of each answer that go to the provider as its limit, where the balance is
    /// enough for these only.
    pub output_limit: Option<u64>,
}

/// A key's balance in money.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct MoneyShown {
    /// The rest, as of tokens.
    pub left: Money,
    /// Of this, what requests under way hold in this process.
    pub held: Money,
}

/// A limit.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LimitShown {
    /// Its subject.
    pub name: String,
    /// How many in a minute.
    pub limit: u64,
    /// How many are left; `null`: only the running gateway knows.
    pub remaining: Option<u64>,
    /// How many this request takes.
    pub needed: u64,
}

/// A deployment, asked under one of its provider's credentials.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CandidateShown {
    /// Whether it can be asked.
    pub asked: bool,
    /// Why it stands here, or is not asked.
    pub reason: String,
    /// Its provider.
    pub provider: String,
    /// The credential, by name; `null` where the provider asks for none.
    pub credential: Option<String>,
    /// The upstream model name.
    pub model: String,
    /// Its priority: all of one come before the next.
    pub priority: u32,
    /// Its share among equals.
    pub weight: u32,
    /// The format in which it is asked.
    pub format: Option<String>,
    /// Whether the request is translated for it.
    pub translated: bool,
    /// Fields of the request that it does not get.
    pub dropped: Vec<String>,
}

/// The sources of an explanation.
pub struct Ground<'a> {
    /// The configuration.
    pub config: &'a Config,
    /// The keys.
    pub store: &'a Arc<Store>,
    /// The state of the running gateway.
    pub accounts: Option<&'a Accounts>,
    /// The providers as the running gateway has them.
    pub running: Option<&'a dyn Running>,
}

/// The state of the providers, which only the running gateway has.
pub trait Running {
    /// Their health.
    fn fleet(&self) -> &Arc<Fleet>;

    /// Finds the provider that has stored a thing for a key: one of its deployments, and the index of the
    /// credential in that deployment.
    fn holder<'a>(&'a self, identity: &'a Identity, id: &'a str) -> Holding<'a>;
}

/// The result of [`Running::holder`].
pub type Holding<'a> =
    Pin<Box<dyn Future<Output = Result<(Arc<DeploymentHandle>, usize), PublicError>> + Send + 'a>>;

/// Why a request cannot be explained.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    /// The order is not valid.
    #[error("{0}")]
    Order(String),
    /// The store cannot be read, or has no such key.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Explains a request. Blocks on the store, and changes nothing.
///
/// # Errors
///
/// The key or the path is not known; the configuration cannot be joined; only the running gateway can say.
pub fn explain(ground: &Ground<'_>, order: &ExplainOrder) -> Result<Explanation, ExplainError> {
    let record = ground.store.find_key(&KeySelector::parse(&order.key)?)?;
    let (path, _) = order.split();
    let matched = endpoints::match_path(path);
    let matched = matched.map_err(|error| ExplainError::Order(error.message.into_owned()))?;
    let headers = headers(ground.config, order.session.as_deref())?;
    let catalog = Arc::new(catalog(ground));
    let dry = Dry::new(ground, &record, &catalog);
    let pipeline = Pipeline::build(&ground.config.filters, &dry.services())
        .map_err(|faults| ExplainError::Order(ground.config.locate(faults).to_string()))?;
    let id = RequestId::from_parts(clock::unix_ms(), fastrand::u128(..));
    let client = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let mut walk = Walk {
        ground,
        order,
        headers,
        pipeline,
        catalog,
        request: RequestContext::new(id, matched.endpoint, Some(client)),
        filters: Vec::new(),
        candidates: Vec::new(),
    };
    let outcome = match walk.run() {
        Ok(outcome) => outcome,
        Err(End::Refused(error)) => Outcome::Refused(error.into()),
        Err(End::Unknown) => {
            let message = "only the running gateway can say: ask its admin API";
            return Err(ExplainError::Order(message.to_owned()));
        }
    };
    Ok(walk.into_explanation(outcome, &record, dry))
}

/// Why a walk ends before its request is sent or answered.
enum End {
    Refused(PublicError),
    /// It depends on what only the running gateway has.
    Unknown,
}

impl From<PublicError> for End {
    fn from(error: PublicError) -> Self {
        Self::Refused(error)
    }
}

/// A request on its way.
struct Walk<'a> {
    ground: &'a Ground<'a>,
    order: &'a ExplainOrder,
    headers: HeaderMap,
    pipeline: Pipeline,
    catalog: Arc<IndexedCatalog>,
    request: RequestContext,
    filters: Vec<FilterShown>,
    candidates: Vec<CandidateShown>,
}

impl Walk<'_> {
    fn run(&mut self) -> Result<Outcome, End> {
        if let Some(outcome) = self.pass(Part::Head)? {
            return Ok(outcome);
        }
        if self.request.endpoint.is_stored() {
            return self.stored();
        }
        if self.request.endpoint == Endpoint::Passthrough {
            return self.open_path();
        }
        let Some(format) = self
            .request
            .format()
            .filter(|_| self.request.endpoint.is_model_endpoint())
        else {
            let ended = self.pass(Part::Local)?;
            return Ok(ended.unwrap_or(Outcome::AnsweredHere));
        };
        let body = Bytes::from(self.order.request.to_string());
        let most = self.ground.config.server.limits.body_bytes.get();
        if u64::try_from(body.len()).is_ok_and(|length| length > most) {
            let message = format!("the request body is larger than {most} bytes");
            return Err(PublicError::new(ErrorCode::RequestTooLarge, message).into());
        }
        let peeked = self.peek(format, &body)?;
        let mut facts = peeked.facts.clone();
        if let Some(texts) = &peeked.texts {
            let found = conversation::inspect(texts, std::slice::from_ref(&body));
            facts.conversation = Some(Box::new(found));
        }
        self.request.set_facts(facts);
        self.request.body = Some(body.clone());
        if let Some(outcome) = self.pass(Part::Body)? {
            return Ok(outcome);
        }
        let route = self.request.route.as_ref();
        let model = route
            .and_then(|route| self.catalog.model(route.model))
            .cloned();
        let Some(model) = model else {
            return Ok(Outcome::AnsweredHere);
        };
        let question = Question {
            ground: self.ground,
            request: ModelRequest {
                context: &self.request,
                model: &model,
                format,
                pieces: std::slice::from_ref(&body),
                peeked: &peeked,
                settings: &self.ground.config.translation,
            },
            catalog: &self.catalog,
            model: &model,
            session: self.order.session.as_deref(),
        };
        let (candidates, outcome) = question.answer();
        self.candidates = candidates;
        Ok(outcome?)
    }

    /// The outcome of a request for an item that a provider has stored.
    fn stored(&mut self) -> Result<Outcome, End> {
        if let Some(outcome) = self.pass(Part::Stored)? {
            return Ok(outcome);
        }
        let matched = endpoints::match_path(self.order.split().0)?;
        let (Some(running), Ok(runtime)) = (self.ground.running, Handle::try_current()) else {
            return Err(End::Unknown);
        };
        let (Some(identity), Some(id)) = (&self.request.identity, matched.id) else {
            return Ok(Outcome::AnsweredHere);
        };
        let (handle, credential) = runtime.block_on(running.holder(identity, id))?;
        let (candidates, outcome) = candidates::of_holder(&handle, credential);
        self.candidates = candidates;
        Ok(outcome?)
    }

    /// The outcome of a request for an open path of a provider, with its first method.
    fn open_path(&mut self) -> Result<Outcome, End> {
        let matched = endpoints::match_path(self.order.split().0)?;
        let rest = matched.id.unwrap_or_default();
        let path = OpenPath::find(self.catalog.catalog(), rest)?;
        let method = path.methods().into_iter().next().unwrap_or_default();
        let rule = path.rule(&method, self.request.identity()?)?;
        self.request.fixed = Some(open_path::charge(rule));
        if let Some(outcome) = self.pass(Part::Passthrough)? {
            return Ok(outcome);
        }
        let running = self.ground.running;
        let alone = Fleet::new(self.catalog.catalog(), None);
        let fleet = running.map_or(&alone, |it| &**it.fleet());
        let handle = fleet.open_path(rule);
        let handle = handle.ok_or_else(endpoints::unknown_path)?;
        let (candidates, outcome) = candidates::of_open_path(handle, &path);
        self.candidates = candidates;
        Ok(outcome?)
    }

    fn peek(&self, format: Format, body: &[u8]) -> Result<Peeked, PublicError> {
        let limits = PeekLimits {
            model_required: false,
            ..PeekLimits::default()
        };
        let (path, query) = self.order.split();
        let address = endpoints::address(endpoints::match_path(path)?, query)?;
        let mut peeker = Peeker::new(format, &limits).with_address(address);
        if self.request.endpoint.is_count() {
            peeker = peeker.for_count();
        }
        if self.catalog.catalog().has_profiles() {
            peeker = peeker.with_texts();
        }
        peeker.push(body).map_err(|fault| fault.public())?;
        peeker.finish().map_err(|fault| fault.public())
    }

    /// Runs the filters of a part; what ends the request there.
    fn pass(&mut self, part: Part) -> Result<Option<Outcome>, End> {
        let head = Head {
            method: &Method::POST,
            path: self.order.split().0,
            headers: &self.headers,
        };
        let filters = self.pipeline.of(part).to_vec();
        for (name, filter) in filters {
            let before = self.request.answer_headers.len();
            let decision = wait(filter.on_request(head, &mut self.request))?;
            let added = self.request.answer_headers.iter().skip(before);
            let headers = added
                .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap_or_default()));
            let mut shown = FilterShown {
                name: name.to_owned(),
                refusal: None,
                headers: headers.collect(),
            };
            let ended = match decision {
                Ok(Verdict::Continue) => None,
                Ok(Verdict::Answer { .. }) => Some(Ok(Some(Outcome::AnsweredHere))),
                Err(error) => {
                    shown.refusal = Some(error.clone().into());
                    Some(Err(error.into()))
                }
            };
            self.filters.push(shown);
            if let Some(ended) = ended {
                return ended;
            }
        }
        Ok(None)
    }

    fn into_explanation(self, outcome: Outcome, record: &KeyRecord, dry: Dry) -> Explanation {
        let Self {
            request,
            catalog,
            filters,
            candidates,
            ..
        } = self;
        let facts = request.facts_if_read();
        let route = request.route.as_ref();
        let seen = dry.into_seen();
        let conversation = seen.conversation;
        let model = route.and_then(|route| {
            let model = catalog.model(route.model)?;
            Some(ModelShown {
                asked: facts
                    .and_then(|facts| facts.model.as_deref())
                    .map(str::to_owned),
                id: model.id.to_string(),
                group: model.group.to_string(),
                reason: route.reason.as_deref().map(str::to_owned),
                conversation,
            })
        });
        Explanation {
            outcome,
            endpoint: request.endpoint.path().to_owned(),
            format: request.format().map(|format| format.as_str().to_owned()),
            key: KeyShown {
                id: record.id().to_string(),
                name: record.identity.name.clone(),
                plan: record.identity.plan.clone(),
                state: record.state(accounts::now()),
            },
            filters,
            model,
            bound: seen.bound,
            balance: seen.balance.map(|balance| BalanceShown {
                output_limit: request.output_limit,
                ..balance
            }),
            limits: seen.limits,
            candidates,
        }
    }
}

/// The catalog, with what the running gateway remembers and how its providers are doing.
fn catalog(ground: &Ground<'_>) -> IndexedCatalog {
    let mut catalog = IndexedCatalog::new(ground.config.catalog.clone());
    if let Some(accounts) = ground.accounts {
        catalog = catalog.with_conversations(accounts.conversations());
    }
    if let Some(running) = ground.running {
        catalog = catalog.with_fleet(Arc::clone(running.fleet()));
    }
    catalog
}

/// The headers that every caller sends, and the one that names its session. There is no credential: the key of
/// the request is known already.
fn headers(config: &Config, session: Option<&str>) -> Result<HeaderMap, ExplainError> {
    let mut headers = HeaderMap::new();
    let json = HeaderValue::from_static("application/json");
    headers.insert(header::CONTENT_TYPE, json);
    let explained = HeaderValue::from_static("Bearer sk-explained");
    headers.insert(header::AUTHORIZATION, explained);
    headers.insert(header::HOST, HeaderValue::from_static("gateway"));
    if let Some(session) = session {
        let name = config.catalog.affinity().headers.first().ok_or_else(|| {
            ExplainError::Order(
                "session: routing.affinity.headers names no header for it".to_owned(),
            )
        })?;
        let value = HeaderValue::from_str(session).map_err(|_| {
            ExplainError::Order("session: it cannot be sent in a header".to_owned())
        })?;
        headers.insert(name.clone(), value);
    }
    Ok(headers)
}

/// Blocks this thread until a future is ready. Outside the gateway no filter has anything to wait for.
fn wait<T>(future: impl Future<Output = T>) -> Result<T, End> {
    match Handle::try_current() {
        Ok(runtime) => Ok(runtime.block_on(future)),
        Err(_) => future.now_or_never().ok_or(End::Unknown),
    }
}

impl From<PublicError> for ErrorShown {
    fn from(error: PublicError) -> Self {
        Self {
            status: error.status,
            code: error.code.as_str().to_owned(),
            message: error.message.into_owned(),
        }
    }
}
