//! What the gateway lends to filters: small traits over the key store, the catalog and the
//! ledger.

use crate::{RequestContext, holds::Holds};
use http::{HeaderMap, HeaderName, HeaderValue};
use std::{net::IpAddr, pin::Pin, sync::Arc, time::Duration};
use tollgate_types::{
    Format, Identity, InputCount, KeyId, MaybeReady, NamedItem, ReasoningMode, RequestFacts,
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

/// Knows whose is what providers have stored on callers' behalf.
pub trait StoredThings: Send + Sync {
    /// Whether the thing was made with this key, and where it is.
    fn find(&self, key: &KeyId, id: &str) -> MaybeReady<Stored>;

    /// Whether a key may send items of these names. What was made with another key is never its
    /// own; what nobody is known to have made is where the item has contents of its own.
    fn check(&self, key: &KeyId, items: Vec<NamedItem>) -> MaybeReady<Checked>;
}

/// What is known of several items.
pub enum Checked {
    /// None of them is another key's.
    Fine,
    /// This one is, or has to be somebody's and is not known.
    NotYours(String),
    /// Nobody can say at the moment.
    Unavailable,
}

/// What is known of a stored thing.
pub enum Stored {
    /// The key made it.
    Yours {
        /// Where it is.
        at: StoredAt,
        /// The input that it makes at most, in tokens; `None`: it is not known.
        tokens: Option<u64>,
    },
    /// Another key made it, or nobody that is known: the same answer either way.
    NotYours,
    /// Nobody can say at the moment.
    Unavailable,
}

/// Where a thing is stored: nobody else has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredAt {
    /// The provider, by name.
    pub provider: Arc<str>,
    /// The credential under which it was made, by name.
    pub credential: Arc<str>,
}

/// Keeps keys within their limits.
pub trait Limiter: Send + Sync {
    /// Takes a request of about so many tokens out of its key's limits, or nothing of any
    /// of them. What is taken is held with the request.
    ///
    /// # Errors
    ///
    /// The first limit that it runs into, or that nobody knows its limits.
    fn admit(
        &self,
        load: Load,
        identity: &Identity,
        holds: &mut Holds,
    ) -> Result<Standing, NotAdmitted>;

    /// How a key stands with its limits now: for a request that is admitted no more, once
    /// what it held has gone back. A limiter that tells nothing says nothing here either.
    fn standing(&self, _: &Identity) -> Standing {
        Standing::new()
    }

    /// Takes one of the counts of tokens that a key may cause in a minute, for good: the work is
    /// done whatever becomes of the request. `false`: it has none left. A limiter that keeps no
    /// rate of counts lets all be made.
    fn take_count(&self, _: &Identity, _a_minute: std::num::NonZeroU32) -> bool {
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
        limit: std::num::NonZeroU32,
    },
}

/// How a key stands with its limits, as headers of an answer.
pub type Standing = Vec<(HeaderName, HeaderValue)>;

/// Why a request is not let through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotAdmitted {
    /// It ran into a limit.
    Limited(Limited),
    /// The plan of its key is not in the configuration that serves it.
    UnknownPlan,
}

/// A limit that a request ran into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limited {
    /// The limit, in words (`requests a minute`).
    pub limit: &'static str,
    /// After how long trying again helps; `None`: never, it is more than the limit itself.
    pub retry_after: Option<Duration>,
    /// How the key stands.
    pub standing: Standing,
}

/// Holds what requests can cost.
pub trait Balances: Send + Sync {
    /// Reserves tokens of the key's balance for a request that was routed.
    fn reserve(
        &self,
        request: &RequestContext,
        bound: Bound,
    ) -> MaybeReady<Result<Reserved, Shortage>>;

    /// Whether what is left could pay for a useful answer under this bound. Holds nothing, so
    /// that it can be otherwise a moment later.
    fn affords(&self, request: &RequestContext, bound: Bound) -> bool;

    /// What may still come of the key's tokens that others on the same ledger hold, where a
    /// request was refused as [`Shortage::Busy`]: when this is over, ask again. `None`: nothing.
    fn more(&self, _: &RequestContext) -> Option<Pin<Box<dyn Future<Output = ()> + Send>>> {
        None
    }
}

/// Counts the input tokens of requests.
pub trait Counting: Send + Sync {
    /// Counts the input of a request that was routed. Only where it matters: it takes
    /// milliseconds for a large body, on a thread of its own.
    ///
    /// `None`: it cannot be counted, or not in time.
    fn count(&self, request: &RequestContext) -> MaybeReady<Option<InputCount>>;
}

/// The most that a request can use, in tokens as the model counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Input tokens that its body does not exceed.
    pub input: u64,
    /// Input tokens beyond them that its body does not show: what its provider has stored, or
    /// finds with tools of its own. Of them as many are held as the balance has.
    pub hidden_input: u64,
    /// Output tokens over all answers asked for.
    pub output: u64,
    /// The smallest output for which sending the request is worth anything.
    pub useful_output: u64,
    /// The most input that the model can process for it: what is reported beyond is wrong.
    pub believed_input: u64,
    /// The same of output.
    pub believed_output: u64,
}

/// Tokens that are reserved.
pub struct Reserved {
    /// What stands for them.
    pub hold: Box<dyn std::any::Any + Send + Sync>,
    /// The output tokens that they are enough for, if they are not enough for all.
    pub output_limit: Option<u64>,
}

/// Why no tokens are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// Too few are left.
    Exhausted,
    /// The validity of everything that the key was given has passed.
    Expired,
    /// Too few are left only because other requests hold the rest.
    Busy,
    /// The ledger cannot take more at the moment.
    Unavailable,
}
