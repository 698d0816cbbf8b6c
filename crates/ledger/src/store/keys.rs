//! Making, finding and changing keys.

use super::{
    OrderName, Store, StoreError,
    database::{KeyChange, KeyQuery, Outcome},
    grants::NewGrants,
    order::{ID_CHARS, Made},
};
use crate::{
    key::{self, ApiKey},
    record::{InvalidKey, KeyRecord, KeyState, NewKey},
};
use std::{sync::Arc, time::Duration};
use tollgate_types::{Identity, KeyId, KeyShares, Limits, Money};

/// How many of the keys that share a beginning are named.
const CANDIDATES: u32 = 10;

/// A key that was just made. The only moment at which the key itself is known.
#[derive(Clone, Debug)]
pub struct CreatedKey {
    /// The key, for its owner.
    pub key: ApiKey,
    /// What was stored.
    pub record: KeyRecord,
}

/// What a revocation found.
#[derive(Clone, Debug)]
pub struct Revocation {
    /// The key as it is now.
    pub record: KeyRecord,
    /// It had been revoked before; its first revocation stands.
    pub already_revoked: bool,
}

/// Which keys; what is `None` admits all.
#[derive(Clone, Debug, Default)]
pub struct KeyFilter {
    /// In this state, now.
    pub state: Option<KeyState>,
    /// Made with this plan.
    pub plan: Option<String>,
    /// With this text in their names, letter by letter: it knows no wildcards.
    pub name: Option<String>,
}

/// A plan that keys have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanInUse {
    /// Its name.
    pub plan: String,
    /// How many keys have it that work.
    pub keys: u32,
}

/// How a person names a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySelector {
    /// By its public identifier.
    Id(KeyId),
    /// By its beginning: `sk-` and one to eight characters.
    Prefix(String),
    /// By the whole key, which is only hashed.
    Key(ApiKey),
}

impl KeySelector {
    /// Reads what a person typed. Only letters, digits and `_` get through, so that no
    /// wildcard or quote ever reaches a query.
    ///
    /// # Errors
    /// It is neither an id, nor a beginning, nor a whole key. The error does not repeat
    /// it: it may be a key with a typo.
    pub fn parse(text: &str) -> Result<Self, StoreError> {
        let plain = |rest: &str| rest.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if let Some(rest) = text.strip_prefix(Made::Key.mark()) {
            let fits = rest.len() == ID_CHARS && plain(rest);
            return if fits {
                Ok(Self::Id(KeyId::new(text)))
            } else {
                Err(StoreError::Selector)
            };
        }
        if let Ok(key) = ApiKey::parse(text) {
            return Ok(Self::Key(key));
        }
        match text.strip_prefix("sk-") {
            // `sk-` alone is every key, and where there is one key it would be that one.
            Some(rest) if !rest.is_empty() && text.len() <= ApiKey::PREFIX_LEN && plain(rest) => {
                Ok(Self::Prefix(text.to_owned()))
            }
            _ => Err(StoreError::Selector),
        }
    }
}

impl Store {
    /// Makes a key.
    ///
    /// # Errors
    /// The key cannot be made as asked, or the database cannot be written.
    pub fn create_key(&self, new: &NewKey) -> Result<CreatedKey, StoreError> {
        let mut id = Made::Key.mark().to_owned();
        key::push_random(&mut id, ID_CHARS)?;
        self.create(new, id, None)
    }

    /// As [`Store::create_key`], however often the order is sent.
    ///
    /// # Errors
    /// As [`Store::create_key`]; an order of this name has made the key before, whose text cannot be
    /// shown again ([`StoreError::KeyMade`], even if the expiry has passed since); or it was another
    /// order ([`StoreError::OtherOrder`]).
    pub fn create_key_once(
        &self,
        new: &NewKey,
        order: &OrderName,
    ) -> Result<CreatedKey, StoreError> {
        let id = order.id(Made::Key);
        match self.create(new, id.clone(), Some(order)) {
            Err(StoreError::InvalidKey(InvalidKey::ExpiryPassed(end))) => {
                match self.find_key(&KeySelector::Id(KeyId::new(id))) {
                    Ok(record) => Err(self.made_before(&record, new)),
                    Err(StoreError::NoSuchKey) => Err(InvalidKey::ExpiryPassed(end).into()),
                    Err(fault) => Err(fault),
                }
            }
            outcome => outcome,
        }
    }

    /// The answer to an order whose name has made this key before.
    fn made_before(&self, record: &KeyRecord, new: &NewKey) -> StoreError {
        let id = record.id().to_string();
        // These never change, and are in every order as it was sent.
        let is_same = record.identity.name == new.name && record.identity.plan == new.plan;
        if is_same {
            let state = record.state(self.clock.now());
            StoreError::KeyMade { id, state }
        } else {
            StoreError::OtherOrder { id }
        }
    }

    fn create(
        &self,
        new: &NewKey,
        id: String,
        order: Option<&OrderName>,
    ) -> Result<CreatedKey, StoreError> {
        let now = self.clock.now();
        new.validate(now)?;
        let key = ApiKey::generate()?;
        let identity = Identity {
            key: KeyId::new(id),
            name: new.name.clone(),
            plan: new.plan.clone(),
            groups: new.groups.clone(),
            endpoints: new.endpoints.clone(),
            limits: new.limits,
            pays_money: new.grant.as_ref().is_some_and(|it| it.money > Money::ZERO),
            shares: KeyShares::default(),
        };
        let record = KeyRecord {
            identity: Arc::new(identity),
            prefix: key.prefix().into(),
            created_at: now,
            expires_at: new.expires_at,
            revoked_at: None,
            granted_until: None,
        };
        let hash = self.hasher.hash(&key);
        let grant = new.grant.as_ref().map(NewGrants::new).transpose()?;
        let made = self
            .database
            .add_key(&record, &hash, grant.as_ref(), order)?;
        match made {
            Outcome::Done => Ok(CreatedKey { key, record }),
            Outcome::OtherOrder(id) => Err(StoreError::OtherOrder { id }),
            // Two orders of one name may come at once: the database alone knows which was first.
            Outcome::DoneBefore | Outcome::Revoked => {
                let first = self.find_key(&KeySelector::Id(record.id().clone()))?;
                Err(self.made_before(&first, new))
            }
        }
    }

    /// The plans of keys that work (neither revoked nor expired), apart from those that are `known`: the
    /// ones of most keys first, at most `most` of them. Reads every key once and blocks no writer.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn plans_beyond(&self, known: &[&str], most: u32) -> Result<Vec<PlanInUse>, StoreError> {
        self.database.plans_beyond(known, most, self.clock.now())
    }

    /// Up to `limit` of the keys that `filter` admits, in the order in which they were made, those after `after`.
    /// Reads as many rows as it has to.
    ///
    /// # Errors
    /// `after` does not exist, or the database cannot be read.
    pub fn filter_keys(
        &self,
        filter: &KeyFilter,
        after: Option<&KeyId>,
        limit: u32,
    ) -> Result<Vec<KeyRecord>, StoreError> {
        if let Some(id) = after {
            self.find_key(&KeySelector::Id(id.clone()))?;
        }
        self.database.keys(&KeyQuery::Page {
            filter,
            after,
            limit,
            now: self.clock.now(),
        })
    }

    /// The one key that `selector` names.
    ///
    /// # Errors
    /// There is none, or there are several; or the database cannot be read.
    pub fn find_key(&self, selector: &KeySelector) -> Result<KeyRecord, StoreError> {
        let mut found = match selector {
            KeySelector::Id(id) => self.database.keys(&KeyQuery::Id(id)),
            KeySelector::Key(key) => {
                let found = self.database.look_up_key(&self.hasher.hash(key))?;
                Ok(found.record.into_iter().collect())
            }
            KeySelector::Prefix(prefix) => {
                self.database.keys(&KeyQuery::Prefix(prefix, CANDIDATES))
            }
        }?;
        match (found.pop(), found.is_empty()) {
            (None, _) => Err(StoreError::NoSuchKey),
            (Some(record), true) => Ok(record),
            (Some(last), false) => Err(StoreError::Ambiguous {
                prefix: String::from(match selector {
                    KeySelector::Prefix(prefix) => prefix,
                    _ => "",
                }),
                candidates: found
                    .iter()
                    .chain([&last])
                    .map(|record| record.id().to_string())
                    .collect(),
            }),
        }
    }

    /// Revokes the key that `selector` names. Running gateways refuse it within a
    /// second. Revoking again changes nothing.
    ///
    /// # Errors
    /// As [`Store::find_key`]; or the database cannot be written.
    pub fn revoke_key(&self, selector: &KeySelector) -> Result<Revocation, StoreError> {
        let (outcome, record) = self.change_key(selector, &KeyChange::Revoke)?;
        Ok(Revocation {
            record,
            already_revoked: outcome == Outcome::DoneBefore,
        })
    }

    /// Gives the key limits of its own; those that are `None` are its plan's again.
    ///
    /// # Errors
    /// As [`Store::find_key`]; or the database cannot be written.
    pub fn set_limits(
        &self,
        selector: &KeySelector,
        limits: &Limits,
    ) -> Result<KeyRecord, StoreError> {
        let (_, record) = self.change_key(selector, &KeyChange::Limits(limits))?;
        Ok(record)
    }

    /// Extends the validity of the key and its grants by `span`. The rest of expired grants can be spent
    /// again. A named order is carried out once, however often it is sent: a repetition returns the key as it
    /// is then.
    ///
    /// # Errors
    /// - As [`Store::find_key`].
    /// - The key is revoked.
    /// - An order of this name has extended another key, has another span, or has made something else.
    /// - The database cannot be written.
    pub fn extend_key(
        &self,
        selector: &KeySelector,
        span: Duration,
        order: Option<&OrderName>,
    ) -> Result<KeyRecord, StoreError> {
        let (outcome, record) = self.change_key(selector, &KeyChange::Extend { span, order })?;
        match outcome {
            Outcome::Done | Outcome::DoneBefore => Ok(record),
            Outcome::OtherOrder(id) => Err(StoreError::OtherOrder { id }),
            Outcome::Revoked => Err(StoreError::KeyRevoked {
                id: record.id().to_string(),
            }),
        }
    }

    /// What came of a change, and the key after it.
    fn change_key(
        &self,
        selector: &KeySelector,
        change: &KeyChange<'_>,
    ) -> Result<(Outcome, KeyRecord), StoreError> {
        let id = self.find_key(selector)?.id().clone();
        let outcome = self.database.change_key(&id, change, self.clock.now())?;
        Ok((outcome, self.find_key(&KeySelector::Id(id))?))
    }
}
