//! What the gateway lends to filters: small traits over the key store and the catalog.

use std::{future::Future, pin::Pin, sync::Arc};
use tollgate_types::{Format, Identity, RequestFacts};

/// What a filter may hold on to when it is built.
#[derive(Clone)]
pub struct Services {
    /// Whose key is it?
    pub keys: Arc<dyn KeyDirectory>,
    /// Which models are there?
    pub catalog: Arc<dyn Catalog>,
}

/// Finds the holder of a credential.
pub trait KeyDirectory: Send + Sync {
    /// Looks a credential up, in memory where it can.
    fn lookup(&self, credential: &str) -> KeyLookup;
}

/// What is known of a credential.
pub enum KeyLookup {
    /// It belongs to this active key.
    Known(Arc<Identity>),
    /// It is malformed, unknown, expired or revoked. The reason is for the log alone:
    /// all of them get the same answer.
    Refused(&'static str),
    /// The store cannot say at the moment.
    Unavailable,
    /// It is not in memory; the future asks the store.
    Miss(Pin<Box<dyn Future<Output = KeyLookup> + Send>>),
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
    /// The formats that its deployments speak.
    pub formats: &'a [Format],
    /// Whether a deployment counts tokens for it.
    pub counts_tokens: bool,
}

/// Finds models by name.
pub trait Catalog: Send + Sync {
    /// Resolves a name: exactly, then through the aliases, then in its dotted form.
    fn resolve(&self, name: &str) -> Option<ModelView<'_>>;

    /// Whether `name` lets the service choose.
    fn is_auto(&self, name: &str) -> bool;

    /// Chooses a model for a request among those that `allowed` admits, and says why.
    fn choose(
        &self,
        facts: &RequestFacts,
        format: Format,
        allowed: &dyn Fn(ModelView<'_>) -> bool,
    ) -> Option<(ModelView<'_>, String)>;
}
