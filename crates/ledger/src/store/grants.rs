//! Giving tokens and money to keys, and what is left of what was given.

use super::{
    KeySelector, OrderName, Store, StoreError,
    database::GrantsAdded,
    order::{ID_CHARS, Made},
};
use crate::{clock::Timestamp, key};
use schemars::JsonSchema;
use serde::Serialize;
use std::time::Duration;
use tollgate_types::{KeyId, Money, PerUnit, Unit};

/// What is given: tokens, money, or both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GrantTerms {
    /// The plan that it comes from, by name.
    pub plan: Option<String>,
    /// How many tokens; 0: none.
    pub tokens: u64,
    /// How much money; 0: none.
    pub money: Money,
    /// How long it is valid from the first use.
    pub validity: Duration,
}

/// A grant as people and programs are shown it. It is of tokens or of money; the other amounts are 0.
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
    /// How much money was given.
    pub money: Money,
    /// How much of it has been charged.
    pub money_used: Money,
    /// How long it is valid from the first use, in seconds.
    pub validity_seconds: u64,
    /// When the grant was made.
    pub created_at: Timestamp,
    /// When the first of it was charged.
    pub valid_from: Option<Timestamp>,
    /// When it is over.
    pub valid_until: Option<Timestamp>,
}

impl GrantView {
    /// Sets how much was given, and how much of that was charged.
    pub(crate) fn with_amounts(self, unit: Unit, given: u64, used: u64) -> Self {
        match unit {
            Unit::Tokens => Self {
                tokens: given,
                used,
                ..self
            },
            Unit::Money => Self {
                money: Money::from_nanos(given),
                money_used: Money::from_nanos(used),
                ..self
            },
        }
    }

    /// What it is counted in.
    pub fn unit(&self) -> Unit {
        match self.money {
            Money::ZERO => Unit::Tokens,
            _ => Unit::Money,
        }
    }
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
    /// Money of its valid grants.
    pub money: Money,
    /// How much of it has been charged.
    pub money_used: Money,
}

impl GrantTerms {
    /// The most tokens that a grant can have.
    pub const MAX_TOKENS: u64 = 1 << 52;
    /// The most money: 4.5 million units.
    pub const MAX_MONEY: Money = Money::from_nanos(Self::MAX_TOKENS);
    /// The least time for which it can be valid.
    pub const MIN_VALIDITY: Duration = Duration::from_secs(1);
    /// The longest: a hundred years.
    pub const MAX_VALIDITY: Duration = Duration::from_secs(100 * 366 * 86_400);

    fn check(&self) -> Result<(), StoreError> {
        let is_given = self.tokens > 0 || self.money > Money::ZERO;
        let has_room = self.tokens <= Self::MAX_TOKENS && self.money <= Self::MAX_MONEY;
        let validity = (Self::MIN_VALIDITY..=Self::MAX_VALIDITY).contains(&self.validity);
        if is_given && has_room && validity {
            Ok(())
        } else {
            Err(StoreError::InvalidGrant)
        }
    }

    /// The units of which something is given, and how much.
    fn amounts(&self) -> impl Iterator<Item = (Unit, u64)> + use<> {
        let amounts = [
            (Unit::Tokens, self.tokens),
            (Unit::Money, self.money.nanos()),
        ];
        amounts.into_iter().filter(|(_, amount)| *amount > 0)
    }
}

/// Grants that are about to be made together.
pub(crate) struct NewGrants<'a> {
    pub(crate) terms: &'a GrantTerms,
    pub(crate) order: Option<&'a OrderName>,
    /// One for each unit that is given.
    pub(crate) grants: Vec<NewGrant>,
}

/// A grant that is about to be made.
pub(crate) struct NewGrant {
    pub(crate) id: String,
    pub(crate) unit: Unit,
    pub(crate) amount: u64,
}

impl<'a> NewGrants<'a> {
    pub(super) fn new(terms: &'a GrantTerms) -> Result<Self, StoreError> {
        Self::with_ids(terms, None, |unit| {
            let mut id = Made::Grant(unit).mark().to_owned();
            key::push_random(&mut id, ID_CHARS)?;
            Ok(id)
        })
    }

    /// The grants that an order of this name makes, once.
    fn of_order(terms: &'a GrantTerms, order: &'a OrderName) -> Result<Self, StoreError> {
        Self::with_ids(terms, Some(order), |unit| Ok(order.id(Made::Grant(unit))))
    }

    fn with_ids(
        terms: &'a GrantTerms,
        order: Option<&'a OrderName>,
        mut id: impl FnMut(Unit) -> Result<String, StoreError>,
    ) -> Result<Self, StoreError> {
        terms.check()?;
        let grant = |(unit, amount)| {
            Ok(NewGrant {
                id: id(unit)?,
                unit,
                amount,
            })
        };
        Ok(Self {
            terms,
            order,
            grants: terms
                .amounts()
                .map(grant)
                .collect::<Result<_, StoreError>>()?,
        })
    }

    /// The ids of all grants that an order of this name can have made.
    pub(super) fn ids_of_order(&self) -> Option<[String; 2]> {
        let order = self.order?;
        Some(Unit::ALL.map(|unit| order.id(Made::Grant(unit))))
    }

    /// As they are after they were made.
    fn made(&self, now: Timestamp) -> Vec<GrantView> {
        let view = |grant: &NewGrant| {
            let view = GrantView {
                id: grant.id.clone(),
                plan: self.terms.plan.clone(),
                tokens: 0,
                used: 0,
                money: Money::ZERO,
                money_used: Money::ZERO,
                validity_seconds: self.terms.validity.as_secs(),
                created_at: now,
                valid_from: None,
                valid_until: None,
            };
            view.with_amounts(grant.unit, grant.amount, 0)
        };
        self.grants.iter().map(view).collect()
    }

    /// Whether these grants are what the order asks for.
    fn are(&self, known: &[GrantView]) -> bool {
        let terms = self.terms;
        let tokens = known.iter().map(|grant| grant.tokens);
        let money = known.iter().map(|grant| grant.money);
        tokens.fold(0, u64::saturating_add) == terms.tokens
            && money.fold(Money::ZERO, Money::plus) == terms.money
            && known.iter().all(|grant| {
                // The key may have been extended since, and its grants with it.
                grant.plan == terms.plan && grant.validity_seconds >= terms.validity.as_secs()
            })
    }
}

impl Store {
    /// Gives tokens and money to the key that `selector` names: a grant of each that is given. Running
    /// gateways spend them within a second.
    ///
    /// # Errors
    /// As [`Store::find_key`]; the terms are out of range; the key is revoked or has expired, or has as many grants with
    /// something left as one request can be paid from; or the database cannot be written.
    pub fn top_up(
        &self,
        selector: &KeySelector,
        terms: &GrantTerms,
    ) -> Result<Vec<GrantView>, StoreError> {
        self.give(selector, &NewGrants::new(terms)?)
    }

    /// As [`Store::top_up`], however often the order is sent: a repetition returns the grants as they are
    /// then.
    ///
    /// # Errors
    /// As [`Store::top_up`]; or an order of this name gave or made something else.
    pub fn top_up_once(
        &self,
        selector: &KeySelector,
        terms: &GrantTerms,
        order: &OrderName,
    ) -> Result<Vec<GrantView>, StoreError> {
        self.give(selector, &NewGrants::of_order(terms, order)?)
    }

    fn give(
        &self,
        selector: &KeySelector,
        grants: &NewGrants<'_>,
    ) -> Result<Vec<GrantView>, StoreError> {
        let key = self.find_key(selector)?;
        let now = self.clock.now();
        match self.database.add_grants(key.id(), grants, now)? {
            GrantsAdded::New => Ok(grants.made(now)),
            GrantsAdded::Known(known) if grants.are(&known) => Ok(known),
            GrantsAdded::Known(known) => Err(StoreError::OtherOrder {
                id: known.into_iter().map(|it| it.id).next().unwrap_or_default(),
            }),
            GrantsAdded::OtherOrder(id) => Err(StoreError::OtherOrder { id }),
            GrantsAdded::Revoked => Err(StoreError::KeyRevoked {
                id: key.id().to_string(),
            }),
            GrantsAdded::Expired => Err(StoreError::KeyExpired {
                id: key.id().to_string(),
            }),
            GrantsAdded::TooMany => Err(StoreError::TooManyGrants),
        }
    }

    /// What is left of a key's grants that are valid at `now`, and not leased by a process.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn unleased(&self, key: &KeyId, now: Timestamp) -> Result<PerUnit<u64>, StoreError> {
        let given = self.database.summary(key, now)?.given;
        Ok(PerUnit::from_fn(|unit| {
            let given = given.get(unit).unwrap_or_default();
            let taken = given.used.saturating_add(given.leased);
            given.granted.saturating_sub(taken)
        }))
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
