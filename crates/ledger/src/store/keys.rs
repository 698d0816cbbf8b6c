//! Making, finding and revoking keys.

use super::{
    OrderName, Store,
    error::{StoreError, storable_time, stored_time},
    grants::NewGrant,
    once::{ID_CHARS, Made},
};
use crate::{
    clock::Timestamp,
    key::{self, ApiKey, KeyHash},
    record::{InvalidKey, KeyRecord, KeyState, NewKey, allowance},
};
use rusqlite::{Row, ToSql, Transaction, params};
use std::{num::NonZeroU32, sync::Arc};
use tollgate_types::{Allowance, Identity, KeyId, KeyShares, Limits};

/// The columns that stand in the row of a key; [`read_key`] reads them in this order, and then
/// [`GRANTED_UNTIL`].
const COLUMNS: &str = "id, prefix, name, plan, model_groups, endpoints, \
     created_at, expires_at, revoked_at, requests_per_minute, input_tokens_per_minute, \
     output_tokens_per_minute, concurrent_requests";

/// When the last of a key's grants is over; NULL where it has none, or one that has not begun.
pub(super) const GRANTED_UNTIL: &str = "(SELECT iif(count(*) = count(grants.expires_at), max(grants.expires_at), NULL) \
     FROM grants WHERE grants.key = keys.number)";

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
    /// The key cannot be made as asked, or the file cannot be written.
    pub fn create_key(&self, new: &NewKey) -> Result<CreatedKey, StoreError> {
        let mut id = Made::Key.mark().to_owned();
        key::push_random(&mut id, ID_CHARS)?;
        self.create(new, id, None)
    }

    /// As [`Store::create_key`], however often the order is sent.
    ///
    /// # Errors
    /// As [`Store::create_key`]; or an order of this name has made a key before, whose text
    /// cannot be shown again ([`StoreError::KeyMade`], although the order could not be carried
    /// out any more: its expiry may have passed), or it was another order
    /// ([`StoreError::OtherOrder`]).
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

    /// What the sender of an order is told whose name has made this key before.
    fn made_before(&self, record: &KeyRecord, new: &NewKey) -> StoreError {
        let id = record.id().to_string();
        // What never changes of a key and is in every order as it was sent.
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
        let grant = new.grant.as_ref().map(NewGrant::new).transpose()?;
        // Two orders of one name may come at once: the file alone knows which was first.
        let mut otherwise = None;
        let is_new = self.write(|transaction| {
            if let Some(order) = order {
                otherwise = order.made_otherwise(transaction, Made::Key)?;
            }
            if otherwise.is_some() {
                return Ok(false);
            }
            let is_new = insert(transaction, &record, &hash)?;
            if let Some(grant) = grant.filter(|_| is_new) {
                grant.insert(transaction, record.id(), now)?;
            }
            Ok(is_new)
        })?;
        if let Some(id) = otherwise {
            Err(StoreError::OtherOrder { id })
        } else if is_new {
            Ok(CreatedKey { key, record })
        } else {
            let first = self.find_key(&KeySelector::Id(record.id().clone()))?;
            Err(self.made_before(&first, new))
        }
    }

    /// Up to `limit` keys in the order in which they were made, those after `after`.
    ///
    /// # Errors
    /// `after` does not exist, or the file cannot be read.
    pub fn list_keys(
        &self,
        after: Option<&KeyId>,
        limit: u32,
    ) -> Result<Vec<KeyRecord>, StoreError> {
        self.filter_keys(&KeyFilter::default(), after, limit)
    }

    /// As [`Store::list_keys`], of those that `filter` admits. Reads as many rows as it has
    /// to.
    ///
    /// # Errors
    /// As [`Store::list_keys`].
    pub fn filter_keys(
        &self,
        filter: &KeyFilter,
        after: Option<&KeyId>,
        limit: u32,
    ) -> Result<Vec<KeyRecord>, StoreError> {
        if let Some(id) = after {
            self.find_key(&KeySelector::Id(id.clone()))?;
        }
        // The state as in `KeyRecord::state`; last, for it alone looks at the grants.
        let rest = format!(
            "WHERE number > coalesce((SELECT number FROM keys WHERE id = ?1), 0)
                AND (?5 IS NULL OR plan = ?5)
                AND (?6 IS NULL OR instr(name, ?6) > 0)
                AND (?3 IS NULL OR ?3 = CASE WHEN revoked_at IS NOT NULL THEN 'revoked'
                    WHEN expires_at <= ?4 THEN 'expired'
                    WHEN {GRANTED_UNTIL} <= ?4 THEN 'expired' ELSE 'active' END)
            ORDER BY number LIMIT ?2"
        );
        self.select(
            &rest,
            &[
                &after.map(KeyId::as_str),
                &limit,
                &filter.state.map(KeyState::as_str),
                &storable_time(self.clock.now()),
                &filter.plan,
                &filter.name,
            ],
        )
    }

    /// The one key that `selector` names.
    ///
    /// # Errors
    /// There is none, or there are several; or the file cannot be read.
    pub fn find_key(&self, selector: &KeySelector) -> Result<KeyRecord, StoreError> {
        let mut found = match selector {
            KeySelector::Id(id) => self.select("WHERE id = ?1", &[&id.as_str()])?,
            KeySelector::Key(key) => self.find_by_hash(&self.hasher.hash(key))?,
            KeySelector::Prefix(prefix) => self.find_by_prefix(prefix)?,
        };
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

    fn find_by_hash(&self, hash: &KeyHash) -> Result<Vec<KeyRecord>, StoreError> {
        self.select("WHERE hash = ?1", &[hash.as_bytes()])
    }

    /// By range instead of `LIKE`: it uses the index, tells `a` from `A`, and knows no
    /// wildcards.
    fn find_by_prefix(&self, prefix: &str) -> Result<Vec<KeyRecord>, StoreError> {
        let end = format!("{prefix}{}", char::MAX);
        let rest = "WHERE prefix >= ?1 AND prefix < ?2 ORDER BY number LIMIT ?3";
        self.select(rest, &[&prefix, &end, &CANDIDATES])
    }

    fn select(&self, rest: &str, values: &[&dyn ToSql]) -> Result<Vec<KeyRecord>, StoreError> {
        let sql = format!("SELECT {COLUMNS}, {GRANTED_UNTIL} FROM keys {rest}");
        let rows = self.read(|connection| {
            connection
                .prepare_cached(&sql)?
                .query_map(values, |row| read_key(row, 0))?
                .collect::<rusqlite::Result<Vec<_>>>()
        })?;
        rows.into_iter().collect()
    }

    /// Revokes the key that `selector` names. Running gateways refuse it within a
    /// second. Revoking again changes nothing.
    ///
    /// # Errors
    /// As [`Store::find_key`]; or the file cannot be written.
    pub fn revoke_key(&self, selector: &KeySelector) -> Result<Revocation, StoreError> {
        let id = self.find_key(selector)?.id().clone();
        let now = storable_time(self.clock.now());
        let changed = self.write(|transaction| {
            transaction.execute(
                "UPDATE keys SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL",
                params![id.as_str(), now],
            )
        })?;
        Ok(Revocation {
            record: self.find_key(&KeySelector::Id(id))?,
            already_revoked: changed == 0,
        })
    }
}

impl Store {
    /// Gives the key limits of its own; those that are `None` are its plan's again.
    ///
    /// # Errors
    /// As [`Store::find_key`]; or the file cannot be written.
    pub fn set_limits(
        &self,
        selector: &KeySelector,
        limits: &Limits,
    ) -> Result<KeyRecord, StoreError> {
        let id = self.find_key(selector)?.id().clone();
        self.write(|transaction| {
            transaction.execute(
                "UPDATE keys SET requests_per_minute = ?2, input_tokens_per_minute = ?3,
                     output_tokens_per_minute = ?4, concurrent_requests = ?5
                 WHERE id = ?1",
                params![
                    id.as_str(),
                    limits.requests,
                    limits.input_tokens,
                    limits.output_tokens,
                    limits.concurrent,
                ],
            )
        })?;
        self.find_key(&KeySelector::Id(id))
    }
}

/// Whether it was made now: one of this id may be there.
fn insert(
    transaction: &Transaction<'_>,
    record: &KeyRecord,
    hash: &KeyHash,
) -> rusqlite::Result<bool> {
    let sql = format!(
        "INSERT INTO keys ({COLUMNS}, hash) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)
         ON CONFLICT (id) DO NOTHING"
    );
    let identity = &record.identity;
    let made = transaction.execute(
        &sql,
        params![
            identity.key.as_str(),
            record.prefix,
            identity.name,
            identity.plan,
            names_to_json(&identity.groups),
            names_to_json(&identity.endpoints),
            storable_time(record.created_at),
            record.expires_at.map(storable_time),
            record.revoked_at.map(storable_time),
            identity.limits.requests,
            identity.limits.input_tokens,
            identity.limits.output_tokens,
            identity.limits.concurrent,
            hash.as_bytes(),
        ],
    )?;
    Ok(made > 0)
}

/// Reads [`COLUMNS`] and [`GRANTED_UNTIL`] from column `first` on. The inner error is a row that SQLite
/// gave and that makes no sense.
pub(crate) fn read_key(
    row: &Row<'_>,
    first: usize,
) -> rusqlite::Result<Result<KeyRecord, StoreError>> {
    let at = |offset: usize| first.saturating_add(offset);
    let id: String = row.get(at(0))?;
    let prefix: Box<str> = row.get(at(1))?;
    let name: String = row.get(at(2))?;
    let plan: Option<String> = row.get(at(3))?;
    let groups: Option<String> = row.get(at(4))?;
    let endpoints: Option<String> = row.get(at(5))?;
    let created_at: i64 = row.get(at(6))?;
    let expires_at: Option<i64> = row.get(at(7))?;
    let revoked_at: Option<i64> = row.get(at(8))?;
    // A number that no limit can have lets next to nothing through rather than everything.
    let limit = |offset| -> rusqlite::Result<Option<NonZeroU32>> {
        let stored: Option<i64> = row.get(at(offset))?;
        Ok(stored
            .map(|n| NonZeroU32::new(u32::try_from(n).unwrap_or(0)).unwrap_or(NonZeroU32::MIN)))
    };
    let limits = Limits {
        requests: limit(9)?,
        input_tokens: limit(10)?,
        output_tokens: limit(11)?,
        concurrent: limit(12)?,
    };
    let granted_until: Option<i64> = row.get(at(13))?;

    let bad = |what| StoreError::BadRecord {
        id: id.clone(),
        what,
    };
    let read = || {
        let identity = Identity {
            key: KeyId::new(id.as_str()),
            name,
            plan,
            groups: names_from_json(groups.as_deref()).ok_or_else(|| bad("its groups"))?,
            endpoints: names_from_json(endpoints.as_deref()).ok_or_else(|| bad("its endpoints"))?,
            limits,
            shares: KeyShares::default(),
        };
        Ok(KeyRecord {
            identity: Arc::new(identity),
            prefix,
            created_at: stored_time(created_at).ok_or_else(|| bad("its creation time"))?,
            expires_at: optional_time(expires_at).ok_or_else(|| bad("its expiry"))?,
            revoked_at: optional_time(revoked_at).ok_or_else(|| bad("its revocation time"))?,
            granted_until: optional_time(granted_until).ok_or_else(|| bad("a grant's end"))?,
        })
    };
    Ok(read())
}

#[expect(
    clippy::option_option,
    reason = "outside: readable at all; inside: a time is set"
)]
fn optional_time(ms: Option<i64>) -> Option<Option<Timestamp>> {
    match ms {
        None => Some(None),
        Some(ms) => stored_time(ms).map(Some),
    }
}

fn names_to_json(allowance: &Allowance) -> Option<String> {
    match allowance {
        Allowance::All => None,
        Allowance::Only(names) => Some(serde_json::Value::from(names.as_slice()).to_string()),
    }
}

/// An empty list would come out as all, but whoever wrote one into the file meant
/// nothing: it is refused.
fn names_from_json(json: Option<&str>) -> Option<Allowance> {
    let Some(json) = json else {
        return Some(Allowance::All);
    };
    let names: Vec<String> = serde_json::from_str(json).ok()?;
    (!names.is_empty()).then(|| allowance(names))
}

/// The statement by which a running gateway looks a key up: one row always, the
/// change sequence of the same snapshot first.
pub(crate) fn lookup_sql() -> String {
    format!(
        "SELECT (SELECT coalesce(max(seq), 0) FROM changes), {COLUMNS}, {GRANTED_UNTIL} \
         FROM (SELECT ?1 AS wanted) LEFT JOIN keys ON keys.hash = wanted"
    )
}
