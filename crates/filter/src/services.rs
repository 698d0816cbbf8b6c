//! What the gateway lends to filters: small traits over the key store, the catalog and the
//! ledger.

use crate::RequestContext;
use http::{HeaderMap, HeaderName, HeaderValue};
use std::{net::IpAddr, num::NonZeroU32, pin::Pin, sync::Arc, time::Duration};
use tollgate_types::{
    AdmissionGuard, Claim, Format, Identity, InputCount, KeyId, Limited, MaybeReady, NamedItem,
    OwnerFailure, ReasoningMode, RequestFacts, ReservationGuard, Shortage, StoredAt, UpperBound,
};

/// What a filter may hold on to when it is built.
#[derive(Clone)]
pub struct Services {
    /// Whose key is it?
    pub keys: Arc<dyn KeyDirectory>,
    /// Which models are there?
    pub catalog: Arc<dyn Catalog>,
    /// Is the key within its limits?
    pub limits: Arc<dyn Limiter>,
    /// Can the key pay?
    pub balances: Arc<dyn Balances>,
    /// Whose is what providers have stored?
    pub stored: Arc<dyn StoredThings>,
    /// How many tokens is it?
    pub counting: Arc<dyn Counting>,
}

/// Finds the holder of a credential.
pub trait KeyDirectory: Send + Sync {
    /// Looks up a credential that came from this address, in memory if possible, else in the store.
    fn lookup(&self, credential: &str, from: Option<IpAddr>) -> MaybeReady<KeyLookup>;
}

/// What is known of a credential.
pub enum KeyLookup {
    /// It belongs to this active key.
    Known(Arc<Identity>),
    /// It is malformed, unknown, expired or revoked. The reason is for the log alone:
    /// all of them get the same answer.
    Refused(&'static str),
    /// The address has tried too many credentials that were refused; it may try again then.
    TooManyAttempts(Duration),
    /// The store cannot say at the moment.
    Unavailable,
}

/// Names a model within one configuration: an index, so that it costs nothing to keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ModelHandle(pub u32);

/// A model as filters see it.
#[derive(Clone, Copy)]
pub struct ModelView<'a> {
    /// Its handle.
    pub handle: ModelHandle,
    /// Its identifier.
    pub id: &'a Arc<str>,
    /// The model group that a key needs for it.
    pub group: &'a str,
    /// The providers of its deployments, by name.
    pub providers: &'a [Arc<str>],
    /// The formats of those callers whose requests one of its deployments is sent as responses.
    pub responses_for: &'a [Format],
    /// How it reasons.
    pub reasoning: ReasoningMode,
    /// Tokens that an answer may have, where known.
    pub max_output_tokens: Option<u64>,
    /// Tokens that its input may have, where known.
    pub context_window: Option<u64>,
}

/// Finds models by name.
pub trait Catalog: Send + Sync {
    /// Resolves a name: exactly, then through the aliases, then in its dotted form.
    fn resolve(&self, name: &str) -> Option<ModelView<'_>>;

    /// The model that a route names.
    fn model(&self, handle: ModelHandle) -> Option<ModelView<'_>>;

    /// Whether `name` leaves the choice to the gateway.
    fn is_auto(&self, name: &str) -> bool;

    /// Chooses a model for a request among those that `allowed` admits, and says why.
    fn choose(
        &self,
        asked: &Asked<'_>,
        allowed: &dyn Fn(ModelView<'_>) -> bool,
    ) -> Option<Chosen<'_>>;
}

/// A request that leaves the choice of its model to the service.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The name that it gives.
    pub name: &'a str,
    /// What it asks for.
    pub facts: &'a RequestFacts,
    /// The key that it came with.
    pub key: &'a KeyId,
    /// The headers, of which one may name its conversation.
    pub headers: &'a HeaderMap,
    /// Whether its model answers it: a count of tokens is about the next answer and none.
    pub is_answered: bool,
}

/// A model that was chosen.
#[derive(Clone)]
pub struct Chosen<'a> {
    /// The model.
    pub model: ModelView<'a>,
    /// Why, for the client.
    pub reason: Arc<str>,
}

/// Knows which key owns what providers have stored.
pub trait StoredThings: Send + Sync {
    /// Finds something that the key has had stored.
    fn find(&self, key: &KeyId, id: &str) -> MaybeReady<Result<StoredThing, OwnerFailure>>;

    /// Whether a key may send items of these names. It may never send what another key owns, and what
    /// no known key owns only if the item has contents.
    fn check(&self, key: &KeyId, items: Vec<NamedItem>) -> MaybeReady<Claim>;
}

/// Something that a key has had stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredThing {
    /// Where it is.
    pub at: StoredAt,
    /// The most input tokens that it makes in a request, if that is known.
    pub tokens: Option<u64>,
}

/// Keeps keys within their limits.
pub trait Limiter: Send + Sync {
    /// Takes what a request needs from each of its key's limits, or nothing from any of them.
    ///
    /// # Errors
    ///
    /// The first limit that the request exceeds, or the limits of the key are not known.
    fn admit(&self, load: Load, identity: &Identity) -> Result<Admission, NotAdmitted>;

    /// The state of a key's limits now: for a request that is refused after it has given back what it
    /// took.
    fn headers(&self, _: &Identity) -> LimitHeaders {
        LimitHeaders::new()
    }

    /// Takes one of the token counts that a key may cause in a minute. It is not given back, whatever
    /// happens to the request. `false`: none is left. The default allows every count.
    fn take_count(&self, _: &Identity, _a_minute: NonZeroU32) -> bool {
        true
    }
}

/// What a request takes of its key's limits; corrected when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// A request that a model answers.
    Generation {
        /// Input tokens.
        input: u64,
        /// Output tokens: as many as the request is expected to have.
        output: u64,
        /// Whether the request itself says how many it may have. Where it does not, `output` is a
        /// guess, which a smaller limit takes as a whole window.
        is_limited: bool,
    },
    /// A count of tokens, of which so many are allowed in a minute.
    Count {
        /// Requests a minute.
        limit: NonZeroU32,
    },
}

/// The state of a key's limits, as headers of an answer.
pub type LimitHeaders = Vec<(HeaderName, HeaderValue)>;

/// A request that is within its key's limits.
pub struct Admission {
    /// Gives back what the request took when it is dropped. `None` if nothing is counted.
    pub guard: Option<Box<dyn AdmissionGuard>>,
    /// The state of the limits with this request counted.
    pub headers: LimitHeaders,
}

/// Why a request is not admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotAdmitted {
    /// It exceeds a limit.
    Limited {
        /// Which limit, and when a retry can succeed.
        limited: Limited,
        /// The state of the limits.
        headers: LimitHeaders,
    },
    /// The plan of its key is not in the configuration that is served.
    UnknownPlan,
}

/// Reserves what requests can cost.
pub trait Balances: Send + Sync {
    /// Reserves tokens of the key's balance for a request that has a route.
    fn reserve(&self, request: &RequestContext, bound: UpperBound) -> MaybeReady<Reserved>;

    /// Whether the rest of the balance could pay for a useful answer within this bound. Reserves
    /// nothing, so that the answer can be different a moment later.
    fn affords(&self, request: &RequestContext, bound: UpperBound) -> bool;

    /// Waits until other processes may have given back tokens of the key, after a refusal with
    /// [`Shortage::Busy`]. `None`: no process was asked.
    fn more(&self, _: &RequestContext) -> Option<Pin<Box<dyn Future<Output = ()> + Send>>> {
        None
    }
}

/// Tokens that are reserved, or why they are not.
pub type Reserved = Result<Box<dyn ReservationGuard>, Shortage>;

/// Counts the input tokens of requests.
pub trait Counting: Send + Sync {
    /// Counts the input of a request that was routed. Only where it matters: it takes
    /// milliseconds for a large body, on a thread of its own.
    ///
    /// `None`: it cannot be counted, or not in time.
    fn count(&self, request: &RequestContext) -> MaybeReady<Option<InputCount>>;
}
