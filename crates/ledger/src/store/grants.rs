//! Giving tokens to keys, and what is left of what was given.

use super::{
    KeySelector, OrderName, Store, StoreError,
    database::GrantAdded,
    order::{ID_CHARS, Made},
};
use crate::{clock::Timestamp, key};
use schemars::JsonSchema;
use serde::Serialize;
use std::time::Duration;
use tollgate_types::KeyId;

/// What is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantTerms {
    /// The plan that it comes from, by name.
    pub plan: Option<String>,
    /// How many tokens.
    pub tokens: u64,
    /// How long they are valid from the first use.
    pub validity: Duration,
}

/// A grant as people and programs are shown it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Grant")]
pub struct GrantView {
    /// The public identifier, `grant_…`.
    pub id: String,
    /// The plan that it comes from, by name.
    pub plan: Option<String>,
    /// How many tokens were given.
    pub tokens: u64,
    /// How many of them have been charged.
    pub used: u64,
    /// How long they are valid from the first use, in seconds.
    pub validity_seconds: u64,
    /// When the grant was made.
    pub created_at: Timestamp,
    /// When the first token was charged.
    pub valid_from: Option<Timestamp>,
    /// When it is over.
    pub valid_until: Option<Timestamp>,
}

/// How much a key has used of its valid grants.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KeyUse {
    /// The key.
    pub id: KeyId,
    /// What the owner of the key calls it.
    pub name: String,
    /// Tokens of its valid grants.
    pub tokens: u64,
    /// How many of them have been charged.
    pub used: u64,
}

impl GrantTerms {
    /// The most tokens that a grant can have.
    pub const MAX_TOKENS: u64 = 1 << 52;
    /// The least time for which it can be valid.
    pub const MIN_VALIDITY: Duration = Duration::from_secs(1);
    /// The longest: a hundred years.
    pub const MAX_VALIDITY: Duration = Duration::from_secs(100 * 366 * 86_400);

    fn check(&self) -> Result<(), StoreError> {
        let tokens = (1..=Self::MAX_TOKENS).contains(&self.tokens);
        let validity = (Self::MIN_VALIDITY..=Self::MAX_VALIDITY).contains(&self.validity);
        if tokens && validity {
            Ok(())
        } else {
            Err(StoreError::InvalidGrant)
        }
    }
}

/// A grant that is about to be made.
pub(crate) struct NewGrant<'a> {
    pub(crate) id: String,
    pub(crate) terms: &'a GrantTerms,
    pub(crate) order: Option<&'a OrderName>,
}

impl<'a> NewGrant<'a> {
    pub(super) fn new(terms: &'a GrantTerms) -> Result<Self, StoreError> {
        terms.check()?;
        let mut id = Made::Grant.mark().to_owned();
        key::push_random(&mut id, ID_CHARS)?;
        Ok(Self {
            id,
            terms,
            order: None,
        })
    }

    /// The grant that an order of this name makes, once.
    fn of_order(terms: &'a GrantTerms, order: &'a OrderName) -> Result<Self, StoreError> {
        terms.check()?;
        Ok(Self {
            id: order.id(Made::Grant),
            terms,
            order: Some(order),
        })
    }
}

impl Store {
    /// Gives tokens to the key that `selector` names. Running gateways spend them within a
    /// second.
    ///
    /// # Errors
    /// As [`Store::find_key`]; the terms are out of range; the key has as many grants with
    /// something left as one request can be paid from; or the database cannot be written.
    pub fn top_up(
        &self,
        selector: &KeySelector,
        terms: &GrantTerms,
    ) -> Result<GrantView, StoreError> {
        self.give(selector, &NewGrant::new(terms)?)
    }

    /// As [`Store::top_up`], however often the order is sent: a repetition returns the grant as it is
    /// then.
    ///
    /// # Errors
    /// As [`Store::top_up`]; or an order of this name gave or made something else.
    pub fn top_up_once(
        &self,
        selector: &KeySelector,
        terms: &GrantTerms,
        order: &OrderName,
    ) -> Result<GrantView, StoreError> {
        self.give(selector, &NewGrant::of_order(terms, order)?)
    }

    fn give(&self, selector: &KeySelector, grant: &NewGrant<'_>) -> Result<GrantView, StoreError> {
        let terms = grant.terms;
        let key = self.find_key(selector)?;
        let now = self.clock.now();
        // The key may have been extended since, and its grants with it.
        let is_same = |known: &GrantView| {
            known.plan == terms.plan
                && known.tokens == terms.tokens
                && known.validity_seconds >= terms.validity.as_secs()
        };
        match self.database.add_grant(key.id(), grant, now)? {
            GrantAdded::New => Ok(GrantView {
                id: grant.id.clone(),
                plan: terms.plan.clone(),
                tokens: terms.tokens,
                used: 0,
                validity_seconds: terms.validity.as_secs(),
                created_at: now,
                valid_from: None,
                valid_until: None,
            }),
            GrantAdded::Known(known) if is_same(&known) => Ok(known),
            GrantAdded::Known(known) => Err(StoreError::OtherOrder { id: known.id }),
            GrantAdded::OtherOrder(id) => Err(StoreError::OtherOrder { id }),
            GrantAdded::Revoked => Err(StoreError::KeyRevoked {
                id: key.id().to_string(),
            }),
            GrantAdded::TooMany => Err(StoreError::TooManyGrants),
        }
    }

    /// Tokens of a key's grants that are valid at `now`, and neither charged nor leased by a process.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn unleased(&self, key: &KeyId, now: Timestamp) -> Result<u64, StoreError> {
        self.database.unleased(key, now)
    }

    /// The `limit` keys that work and have used the largest shares of their valid grants, largest first.
    /// Keys that have used nothing are left out. Reads all grants.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn most_used(&self, limit: u32) -> Result<Vec<KeyUse>, StoreError> {
        self.database.most_used(self.clock.now(), limit)
    }

    /// The grants of a key, oldest first; of more than a thousand the newest.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn grants(&self, key: &KeyId) -> Result<Vec<GrantView>, StoreError> {
        self.database.grants(key)
    }
}
