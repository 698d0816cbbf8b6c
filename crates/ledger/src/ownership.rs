//! The owners of items that providers store for clients: responses, conversations, files.
//!
//! Keys share provider credentials, so that a provider cannot distinguish them. An id of another key
//! and an unknown id get the same answer.
//!
//! A new id is in memory at once, and committed within 20 ms. If the process crashes in between, the
//! id is unknown, also to its owner.
//!
//! An id that is not in memory is looked up in the database. That comes before the limits of the key,
//! so that look-ups are bounded for each key, and unknown ids are cached for one second.

mod inputs;
mod misses;
mod payment;

pub use inputs::{InputDue, Unpaid};
pub use payment::{Due, Payable, Paying};

use crate::{
    bounded_cache::{BoundedCache, bounded_cache},
    clock::Timestamp,
    directory::Unavailable,
    ledger::Ledger,
    lookups::Lookups,
    store::{Store, StoreError, database::Database},
};
use misses::Misses;
use payment::Paid;
use std::{collections::HashMap, sync::Arc};
pub use tollgate_types::{Claim, OwnerFailure};
use tollgate_types::{KeyId, MaybeReady, NamedItem, RequestId, Tariff};

/// An item that a provider stores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The provider's id for it.
    pub id: Arc<str>,
    /// The key that created it.
    pub key: KeyId,
    /// The provider that stores it, by name.
    pub provider: Arc<str>,
    /// The name of the credential under which it is stored.
    pub credential: Arc<str>,
    /// The most input tokens that it adds to a later request, once known.
    pub tokens: Option<u64>,
    /// The request that made it, for a response or an item of one.
    pub request: Option<RequestId>,
    /// The weights and prices of that request, for a response.
    pub tariff: Option<Arc<Tariff>>,
}

/// Longest id that is remembered or looked up, in bytes.
const MAX_ID_LEN: usize = 256;

/// Notes and finds owners. Cheap to clone.
#[derive(Clone)]
pub struct Ownership(Arc<Inner>);

struct Inner {
    ledger: Ledger,
    database: Arc<dyn Database>,
    known: Known<Arc<Stored>>,
    /// Ids that were looked up within a second and not found.
    misses: Misses,
    lookups: Lookups,
    /// Responses that have been paid for.
    paid: Paid,
    /// Responses and items that are paid for, and whose inputs show nothing else.
    all_paid: Known<()>,
}

/// Values by ids.
type Known<T> = BoundedCache<Arc<str>, T>;

/// The room of a cache of ids at the start.
const AT_START: usize = 256;

impl Inner {
    /// An item in memory.
    fn known(&self, id: &str) -> Option<Arc<Stored>> {
        self.known.get(id).filter(|stored| self.is_kept(stored))
    }

    /// The known ones of these items, by the database.
    fn stored(&self, ids: &[&str]) -> Result<Vec<Stored>, StoreError> {
        let mut found = self.database.stored(ids)?;
        found.retain(|stored| self.is_kept(stored));
        Ok(found)
    }

    /// Whether the record is kept that shows what is due for an item.
    fn is_kept(&self, stored: &Stored) -> bool {
        let since = |request| Timestamp::of_request(request) >= self.ledger.owned_since();
        stored.request.as_ref().is_none_or(since)
    }

    /// Notes an unknown id. One that was stored since the look-up is known by now.
    fn note_miss(&self, id: &str) {
        self.misses.note(id);
        if self.known(id).is_some() {
            self.misses.forget(id);
        }
    }
}

impl Ownership {
    /// Over the database of `store`, committing through `ledger`; at most `known` owners are kept in
    /// memory.
    pub fn new(store: &Store, ledger: Ledger, known: usize) -> Self {
        Self(Arc::new(Inner {
            ledger,
            database: Arc::clone(store.database()),
            known: bounded_cache(known, AT_START),
            misses: Misses::default(),
            lookups: Lookups::default(),
            paid: Paid::new(known),
            all_paid: bounded_cache(known, AT_START),
        }))
    }

    /// Notes an item that was just stored, or has grown. A size only grows. The first key of an id stays its
    /// owner.
    pub fn remember(&self, stored: Stored) {
        if stored.id.len() > MAX_ID_LEN || stored.id.is_empty() {
            log::warn!("an id of {} bytes is not remembered", stored.id.len());
            return;
        }
        let stored = Arc::new(stored);
        let mine = || Ok::<_, std::convert::Infallible>(Arc::clone(&stored));
        let Ok(known) = self.0.known.get_or_insert_with(&stored.id, mine);
        if known.key == stored.key && known.tokens < stored.tokens {
            let grown = Stored {
                tokens: stored.tokens,
                ..Stored::clone(&known)
            };
            let id = Arc::clone(&stored.id);
            self.0.known.insert(id, Arc::new(grown));
        }
        // After it is known: see `note_miss`.
        self.0.misses.forget(&stored.id);
        self.0.ledger.remember(stored);
    }

    /// The item `id`, if the key owns it. From memory, or by a future that must be awaited on a tokio runtime.
    pub fn owner(&self, key: &KeyId, id: &str) -> MaybeReady<Result<Arc<Stored>, OwnerFailure>> {
        let not_owned = || MaybeReady::ready(Err(OwnerFailure::NotOwned));
        if id.is_empty() || id.len() > MAX_ID_LEN {
            return not_owned();
        }
        match self.0.known(id) {
            Some(stored) if stored.key == *key => MaybeReady::ready(Ok(stored)),
            Some(_) => not_owned(),
            None if self.0.misses.has(id) => not_owned(),
            None => MaybeReady::pending(self.clone().look_up(key.clone(), id.into())),
        }
    }

    /// Whether `items` can be sent with the key: no other key may own one, and an item without an owner
    /// must have contents of its own. From memory, or by one future that must be awaited on a tokio
    /// runtime.
    pub fn check(&self, key: &KeyId, items: &[NamedItem]) -> MaybeReady<Claim> {
        let not_owned = |item: &NamedItem| MaybeReady::ready(Claim::NotOwned(item.id.clone()));
        let mut left = Vec::new();
        for item in items {
            match self.0.known(&item.id) {
                Some(stored) if stored.key == *key => {}
                Some(_) => return not_owned(item),
                None if self.0.misses.has(&item.id) => {
                    if !item.has_contents {
                        return not_owned(item);
                    }
                }
                None => left.push(item.clone()),
            }
        }
        if left.is_empty() {
            return MaybeReady::ready(Claim::Allowed);
        }
        let (this, key) = (self.clone(), key.clone());
        MaybeReady::pending(async move {
            match this.check_in_database(key, left).await {
                Ok(None) => Claim::Allowed,
                Ok(Some(id)) => Claim::NotOwned(id),
                Err(cause) => Claim::Unavailable(cause),
            }
        })
    }

    /// The first of the items that the key may not send.
    async fn check_in_database(
        self,
        key: KeyId,
        items: Vec<NamedItem>,
    ) -> Result<Option<String>, Unavailable> {
        let asking = key.clone();
        self.read(&asking, move |inner| {
            let ids: Vec<&str> = items.iter().map(|item| &*item.id).collect();
            let found = inner.stored(&ids)?;
            let found: HashMap<Arc<str>, Arc<Stored>> = found
                .into_iter()
                .map(|stored| (Arc::clone(&stored.id), Arc::new(stored)))
                .collect();
            let refused = items.into_iter().find(|item| {
                let is_allowed = match found.get(&*item.id) {
                    None => {
                        inner.note_miss(&item.id);
                        item.has_contents
                    }
                    Some(stored) => {
                        let id = Arc::clone(&stored.id);
                        inner.known.insert(id, Arc::clone(stored));
                        stored.key == key
                    }
                };
                !is_allowed
            });
            Ok(refused.map(|item| item.id))
        })
        .await
    }

    async fn look_up(self, key: KeyId, id: Arc<str>) -> Result<Arc<Stored>, OwnerFailure> {
        let found = self.read(&key, move |inner| {
            let found = inner.stored(&[&id])?.pop().map(Arc::new);
            match &found {
                Some(stored) => {
                    let id = Arc::clone(&stored.id);
                    inner.known.insert(id, Arc::clone(stored));
                }
                None => inner.note_miss(&id),
            }
            Ok(found)
        });
        match found.await? {
            Some(stored) if stored.key == key => Ok(stored),
            _ => Err(OwnerFailure::NotOwned),
        }
    }

    /// Reads the database for a key, on a thread that may wait.
    async fn read<T: Send + 'static>(
        &self,
        key: &KeyId,
        read: impl FnOnce(&Inner) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Unavailable> {
        let inner = Arc::clone(&self.0);
        self.0
            .lookups
            .run(key, move || read(&inner))
            .await?
            .map_err(|fault| Unavailable::Store(fault.to_string().into()))
    }
}

#[cfg(test)]
mod tests;
