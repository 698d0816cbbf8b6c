//! The services of the gateway for filters: keys, models, limits, balances, stored items, token counts.

use crate::{RequestContext, SettingsFault};
use http::{HeaderMap, HeaderName, HeaderValue};
use std::{net::IpAddr, num::NonZeroU32, pin::Pin, sync::Arc, time::Duration};
use tollgate_types::{
    AdmissionGuard, AskedTier, Claim, Format, Identity, InputCount, KeyId, Limited, MaybeReady,
    NamedItem, OwnerFailure, ReasoningMode, RequestFacts, ReservationGuard, Shortage, StoredAt,
    UpperBound,
};

/// The services of the gateway. A filter clones what it needs when it is built.
#[derive(Clone)]
pub struct Services {
    /// Looks up API keys.
    pub keys: Arc<dyn KeyDirectory>,
    /// Looks up models.
    pub catalog: Arc<dyn Catalog>,
    /// Enforces the limits of keys.
    pub limits: Arc<dyn Limiter>,
    /// Reserves tokens and money on balances.
    pub balances: Arc<dyn Balances>,
    /// Looks up the owners of stored items.
    pub stored: Arc<dyn StoredItems>,
    /// Counts input tokens.
    pub counting: Arc<dyn Counting>,
    /// The names of the plans in the configuration.
    pub plans: Arc<[String]>,
}

impl Services {
    /// Checks plan names in a filter's settings. `path` is the setting, such as `exempt_plans`.
    ///
    /// # Errors
    ///
    /// Each name that is not a plan of the configuration.
    pub fn check_plans(&self, path: &str, names: &[String]) -> Result<(), Vec<SettingsFault>> {
        let unknown = names.iter().zip(0_usize..);
        let unknown = unknown.filter(|(name, _)| !self.plans.contains(name));
        let faults: Vec<_> = unknown
            .map(|(name, at)| SettingsFault {
                path: format!("{path}[{at}]"),
                message: format!(
                    "there is no plan '{name}'; plans: {}",
                    self.plans.join(", ")
                ),
            })
            .collect();
        if faults.is_empty() {
            Ok(())
        } else {
            Err(faults)
        }
    }
}

/// Looks up API keys.
pub trait KeyDirectory: Send + Sync {
    /// Looks up a key that came from this address, in memory if possible, else in the store.
    fn lookup(&self, credential: &str, from: Option<IpAddr>) -> MaybeReady<KeyLookup>;
}

/// The result of looking up a key.
pub enum KeyLookup {
    /// The key is active.
    Known(Arc<Identity>),
    /// The key is malformed, unknown, expired or revoked. The reason is only for the log: all of them
    /// get the same answer.
    Refused(&'static str),
    /// The address has sent too many keys that were refused. It can retry after this time.
    TooManyAttempts(Duration),
    /// The store does not answer now.
    Unavailable,
}

/// The index of a model in one configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ModelHandle(pub u32);

/// A model as filters see it.
#[derive(Clone, Copy)]
pub struct ModelView<'a> {
    /// Its handle.
    pub handle: ModelHandle,
    /// Its id.
    pub id: &'a Arc<str>,
    /// The model group that a key needs to use it.
    pub group: &'a str,
    /// The providers of its deployments, by name.
    pub providers: &'a [Arc<str>],
    /// The client formats in which it is served.
    pub serves: &'a [Format],
    /// The client formats whose requests are translated to `responses` for one of its deployments.
    pub responses_for: &'a [Format],
    /// How it reasons.
    pub reasoning: ReasoningMode,
    /// The most output tokens of an answer, if known.
    pub max_output_tokens: Option<u64>,
    /// The most input tokens, if known.
    pub context_window: Option<u64>,
}

/// Looks up models.
pub trait Catalog: Send + Sync {
    /// The model of this name: an exact id, else an alias, else the dotted form of an id.
    fn resolve(&self, name: &str) -> Option<ModelView<'_>>;

    /// The model of a route.
    fn model(&self, handle: ModelHandle) -> Option<ModelView<'_>>;

    /// Whether the cost of a request to a model is known that asks for these tiers: a key that pays in money
    /// can send it.
    fn is_priced(&self, model: ModelHandle, tiers: &[AskedTier]) -> bool;

    /// Whether `name` leaves the choice to the gateway.
    fn is_auto(&self, name: &str) -> bool;

    /// Chooses a model among those that `allowed` admits.
    fn choose(
        &self,
        asked: &AutoRequest<'_>,
        allowed: &dyn Fn(ModelView<'_>) -> bool,
    ) -> Option<Chosen<'_>>;
}

/// A request that leaves the choice of its model to the gateway.
#[derive(Clone, Copy, Debug)]
pub struct AutoRequest<'a> {
    /// The model name in the request.
    pub name: &'a str,
    /// The settings that the request has.
    pub facts: &'a RequestFacts,
    /// The key of the request.
    pub key: &'a KeyId,
    /// The headers of the request. One of them can name the conversation.
    pub headers: &'a HeaderMap,
    /// Whether the model answers. `false` for a request that only counts tokens.
    pub is_answered: bool,
    /// Whether only deployments with a price can serve the request, because its key pays in money.
    pub needs_price: bool,
}

/// A model that was chosen.
#[derive(Clone)]
pub struct Chosen<'a> {
    /// The model.
    pub model: ModelView<'a>,
    /// Why, for the client.
    pub reason: Arc<str>,
}

/// Looks up which key owns an item that a provider stores.
pub trait StoredItems: Send + Sync {
    /// Finds an item that the key has stored at a provider.
    fn find(&self, key: &KeyId, id: &str) -> MaybeReady<Result<StoredItem, OwnerFailure>>;

    /// Whether a key may send items with these ids. It may not send items of other keys; it may
    /// send items without a known owner only if they have contents.
    fn check(&self, key: &KeyId, items: &[NamedItem]) -> MaybeReady<Claim>;
}

/// An item that a key has stored at a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredItem {
    /// The provider and credential that store it.
    pub at: StoredAt,
    /// The most input tokens that it adds to a request, if known.
    pub tokens: Option<u64>,
}

/// Enforces the limits of keys.
pub trait Limiter: Send + Sync {
    /// Takes what a request needs from each of its key's limits, or nothing from any of them.
    ///
    /// # Errors
    ///
    /// The first limit that the request exceeds, or the limits of the key are unknown.
    fn admit(&self, load: Load, identity: &Identity) -> MaybeReady<AdmissionResult>;

    /// The state of a key's limits now: for a request that is refused after it has given back what it
    /// took.
    fn headers(&self, _: &Identity) -> LimitHeaders {
        LimitHeaders::new()
    }

    /// Takes one of the key's token counts per minute, and never returns it. `false`: none is left.
    /// The default allows every count.
    fn take_count(&self, _: &Identity, _a_minute: NonZeroU32) -> bool {
        true
    }
}

/// The load of a request on its key's limits. Corrected when the request ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// A request that a model answers.
    Generation {
        /// Input tokens.
        input: u64,
        /// Output tokens that the request is expected to have.
        output: u64,
        /// Whether the request has an output limit. If not, `output` is an estimate, and a key whose
        /// limit is smaller is charged its whole limit instead of being refused.
        is_limited: bool,
    },
    /// A request that counts tokens.
    Count {
        /// Such requests that a key may send in a minute.
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

/// A request within its key's limits, or why it is not admitted.
pub type AdmissionResult = Result<Admission, NotAdmitted>;

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
    /// Reserves what a request that has a route can cost, on each balance of its key.
    fn reserve(&self, request: &RequestContext, bound: UpperBound)
    -> MaybeReady<ReservationResult>;

    /// Whether the rest of the balance could pay for a useful answer within this bound. Reserves
    /// nothing, so that the next answer can be different.
    fn affords(&self, request: &RequestContext, bound: UpperBound) -> bool;

    /// Waits until other processes may have given back tokens of the key, after a refusal with
    /// [`Shortage::Busy`]. `None`: there is nothing to wait for.
    fn wait_for_release(
        &self,
        _: &RequestContext,
    ) -> Option<Pin<Box<dyn Future<Output = ()> + Send>>> {
        None
    }
}

/// The reservation, or why there is none.
pub type ReservationResult = Result<Box<dyn ReservationGuard>, Shortage>;

/// Counts the input tokens of requests.
pub trait Counting: Send + Sync {
    /// Counts the input tokens of a request that has a route. A large body takes milliseconds, on a
    /// thread of its own. `None` if the body cannot be counted, or not in time.
    fn count(&self, request: &RequestContext) -> MaybeReady<Option<InputCount>>;
}
