//! Giving tokens to keys, and what is left of what was given.

use super::{
    KeySelector, OrderName, Store,
    error::{StoreError, storable_time, stored_time},
    once::{ID_CHARS, Made},
};
use crate::{balance::MAX_PIECES, clock::Timestamp, key};
use rusqlite::{Row, ToSql, Transaction, params};
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
pub(super) struct NewGrant<'a> {
    id: String,
    terms: &'a GrantTerms,
    order: Option<&'a OrderName>,
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

    /// Whether it was made now: one of this id may be there.
    pub(super) fn insert(
        &self,
        transaction: &Transaction<'_>,
        key: &KeyId,
        now: Timestamp,
    ) -> rusqlite::Result<bool> {
        let stored = |number: u128| i64::try_from(number).unwrap_or(i64::MAX);
        let made = transaction.execute(
            "INSERT INTO grants (id, key, plan, tokens, validity_ms, created_at)
             SELECT ?1, number, ?3, ?4, ?5, ?6 FROM keys WHERE id = ?2
             ON CONFLICT (id) DO NOTHING",
            params![
                self.id,
                key.as_str(),
                self.terms.plan,
                stored(self.terms.tokens.into()),
                stored(self.terms.validity.as_millis()),
                storable_time(now),
            ],
        )?;
        Ok(made > 0)
    }
}

impl Store {
    /// Gives tokens to the key that `selector` names. Running gateways spend them within a
    /// second.
    ///
    /// # Errors
    /// As [`Store::find_key`]; the terms cannot be meant; the key has as many grants with
    /// something left as one request can be paid from; or the file cannot be written.
    pub fn top_up(
        &self,
        selector: &KeySelector,
        terms: &GrantTerms,
    ) -> Result<GrantView, StoreError> {
        self.give(selector, &NewGrant::new(terms)?)
    }

    /// As [`Store::top_up`], however often the order is sent: the second time the grant is
    /// shown as it is then.
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
        let now = self.clock().now();
        let works = key.revoked_at.is_none();
        let mut has_room = true;
        let mut otherwise = None;
        let is_new = self.write(|transaction| {
            if let Some(order) = grant.order {
                otherwise = order.made_otherwise(transaction, Made::Grant)?;
            }
            if otherwise.is_some() {
                return Ok(false);
            }
            has_room = spendable(transaction, key.id(), now)? < MAX_PIECES;
            Ok(works && has_room && grant.insert(transaction, key.id(), now)?)
        })?;
        if is_new {
            return Ok(GrantView {
                id: grant.id.clone(),
                plan: terms.plan.clone(),
                tokens: terms.tokens,
                used: 0,
                validity_seconds: terms.validity.as_secs(),
                created_at: now,
                valid_from: None,
                valid_until: None,
            });
        }
        if let Some(id) = otherwise {
            return Err(StoreError::OtherOrder { id });
        }
        let known = self.select_grants(
            "keys.id = ?1 AND grants.id = ?2 LIMIT 1",
            &[&key.id().as_str(), &grant.id],
        )?;
        // The key may have been extended since, and its grants with it.
        let is_same = |it: &GrantView| {
            it.plan == terms.plan
                && it.tokens == terms.tokens
                && it.validity_seconds >= terms.validity.as_secs()
        };
        match known.into_iter().next() {
            Some(known) if is_same(&known) => Ok(known),
            None if !works => Err(StoreError::KeyRevoked {
                id: key.id().to_string(),
            }),
            None if !has_room => Err(StoreError::TooManyGrants),
            _ => Err(StoreError::OtherOrder {
                id: grant.id.clone(),
            }),
        }
    }

    /// Tokens of a key's grants that are valid at `now` which nothing has used and no process has
    /// leased.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn unleased(&self, key: &KeyId, now: Timestamp) -> Result<u64, StoreError> {
        let now = storable_time(now);
        self.read(|connection| {
            let mut sum = connection.prepare_cached(
                "SELECT coalesce(sum(max(0, grants.tokens - grants.spent - coalesce(
                     (SELECT sum(leases.tokens) FROM leases
                      WHERE leases.grant_number = grants.number), 0))), 0)
                 FROM grants JOIN keys ON keys.number = grants.key
                 WHERE keys.id = ?1 AND coalesce(grants.expires_at > ?2, TRUE)",
            )?;
            let tokens: i64 = sum.query_row(params![key.as_str(), now], |row| row.get(0))?;
            Ok(tokens.unsigned_abs())
        })
    }

    /// The grants of a key, oldest first; of more than a thousand the newest.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn grants(&self, key: &KeyId) -> Result<Vec<GrantView>, StoreError> {
        let mut newest = self.select_grants(
            "keys.id = ?1 ORDER BY grants.number DESC LIMIT 1000",
            &[&key.as_str()],
        )?;
        newest.reverse();
        Ok(newest)
    }

    fn select_grants(
        &self,
        which: &str,
        values: &[&dyn ToSql],
    ) -> Result<Vec<GrantView>, StoreError> {
        let sql = format!(
            "SELECT grants.id, grants.plan, tokens, spent, validity_ms,
                    grants.created_at, first_used_at, grants.expires_at
             FROM grants JOIN keys ON keys.number = grants.key WHERE {which}"
        );
        self.read(|connection| {
            connection
                .prepare_cached(&sql)?
                .query_map(values, read_grant)?
                .collect()
        })
    }
}

/// How many grants of a key have something left and are not over.
fn spendable(
    transaction: &Transaction<'_>,
    key: &KeyId,
    now: Timestamp,
) -> rusqlite::Result<usize> {
    transaction
        .query_row(
            "SELECT count(*) FROM grants WHERE key = (SELECT number FROM keys WHERE id = ?1)
             AND spent < tokens AND coalesce(expires_at > ?2, TRUE)",
            params![key.as_str(), storable_time(now)],
            |row| row.get(0),
        )
        .map(|count: i64| usize::try_from(count).unwrap_or(usize::MAX))
}

fn read_grant(row: &Row<'_>) -> rusqlite::Result<GrantView> {
    let time = |ms: Option<i64>| ms.and_then(stored_time);
    let validity_ms: i64 = row.get(4)?;
    let created_at: i64 = row.get(5)?;
    Ok(GrantView {
        id: row.get(0)?,
        plan: row.get(1)?,
        tokens: row.get::<_, i64>(2)?.unsigned_abs(),
        used: row.get::<_, i64>(3)?.unsigned_abs(),
        validity_seconds: validity_ms.unsigned_abs() / 1000,
        created_at: stored_time(created_at).unwrap_or_default(),
        valid_from: time(row.get(6)?),
        valid_until: time(row.get(7)?),
    })
}
