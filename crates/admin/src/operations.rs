//! The operations on keys: one implementation for `tollgate keys` and the admin API.
//!
//! Decides what an order means by the configuration (plans, model groups, endpoints) and
//! gives it to the store. How orders come in, and how results are shown, is left to the
//! command line and to HTTP. Everything here blocks on the disk.

use super::control::Control;
use arc_swap::ArcSwap;
use indexmap::IndexMap;
use once_cell::sync::OnceCell;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;
use std::sync::Arc;
use tollgate_config::{ALL_GROUPS, Config, PlanSettings};
use tollgate_explain::ExplainError;
use tollgate_filter::Endpoint;
use tollgate_ledger::{
    CreatedKey, GrantTerms, GrantView, KeyFilter, KeyRecord, KeySelector, KeyState, KeyView,
    NewKey, OrderName, Store, StoreError, Timestamp, allowance,
};
use tollgate_settings::{Duration, TokenCount, unknown_name};
use tollgate_types::{Allowance, Limits, Money};

/// The plans and model groups of a configuration, from which keys are made.
pub struct Offer {
    plans: IndexMap<String, PlanSettings>,
    groups: Vec<Arc<str>>,
}

impl Offer {
    /// That of `config`.
    pub fn of(config: &Config) -> Self {
        Self {
            plans: config.plans.clone(),
            groups: config.catalog.groups().to_vec(),
        }
    }

    fn plan(&self, name: &str) -> Result<&PlanSettings, Refusal> {
        self.plans.get(name).ok_or_else(|| {
            let known = self.plans.keys().map(String::as_str);
            Refusal::Order(unknown_name("plan", name, known))
        })
    }

    fn terms(&self, name: &str) -> Result<GrantTerms, Refusal> {
        let plan = self.plan(name)?;
        Ok(GrantTerms {
            plan: Some(name.to_owned()),
            tokens: plan.tokens.map_or(0, TokenCount::get),
            money: plan.money.unwrap_or_default(),
            validity: plan.validity.get(),
        })
    }

    /// The models that a list of model groups allows. A group that is not configured is a mistake.
    fn groups(&self, names: &[String]) -> Result<Allowance, Refusal> {
        let known = || self.groups.iter().map(AsRef::as_ref);
        let unknown =
            |name: &&String| *name != ALL_GROUPS && !known().any(|known| known == name.as_str());
        if let Some(name) = names.iter().find(unknown) {
            return Err(Refusal::Order(unknown_name("model group", name, known())));
        }
        if names.iter().any(|name| name == ALL_GROUPS) {
            return Ok(Allowance::All);
        }
        Ok(listed(names))
    }
}

/// The first grant of a new key: that of its plan, or the money of the order.
fn first_grant(offer: &Offer, order: &CreateKey) -> Result<Option<GrantTerms>, Refusal> {
    let of_plan = order.plan.as_deref().map(|name| offer.terms(name));
    let of_plan = of_plan.transpose()?;
    let Some(money) = order.money else {
        return Ok(of_plan);
    };
    let alone = || GrantTerms {
        plan: None,
        tokens: 0,
        money,
        validity: order
            .expires_after
            .map_or(GrantTerms::MAX_VALIDITY, Duration::get),
    };
    Ok(Some(of_plan.map_or_else(alone, |of_plan| GrantTerms {
        money,
        ..of_plan
    })))
}

/// The endpoints that a list allows.
fn endpoints(paths: &[String]) -> Result<Allowance, Refusal> {
    let known = || Endpoint::TABLE.iter().map(|row| row.path);
    match paths.iter().find(|path| !known().any(|it| it == *path)) {
        Some(path) => Err(Refusal::Order(unknown_name("endpoint", path, known()))),
        None => Ok(listed(paths)),
    }
}

/// A list that is there and empty allows nothing, and is refused by the store.
fn listed(names: &[String]) -> Allowance {
    if names.is_empty() {
        Allowance::Only(Vec::new())
    } else {
        allowance(names.iter().cloned())
    }
}

/// A key to be made.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateKey {
    /// A label for people: 1 to 128 characters.
    pub name: String,
    /// The plan that it is made with: it is given the plan's tokens and money.
    #[serde(default)]
    pub plan: Option<String>,
    /// The model groups that it may use. Default: those of its plan, else all, those of
    /// tomorrow included.
    #[serde(default)]
    pub groups: Option<Vec<String>>,
    /// The endpoints that it may use, by path as in the table of endpoints. Default: all.
    #[serde(default)]
    pub endpoints: Option<Vec<String>>,
    /// Limits of its own. Where one is absent, its plan's holds.
    #[serde(default)]
    pub limits: KeyLimits,
    /// How long it works. Default: until it is revoked.
    #[serde(default)]
    pub expires_after: Option<Duration>,
    /// Money that it is given, instead of its plan's, in the currency of the prices. Without a plan it
    /// is valid as long as the key.
    #[serde(default)]
    pub money: Option<Money>,
}

/// Limits of a key's own; where one is absent or null, its plan's holds.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct KeyLimits {
    /// Requests a minute.
    pub requests: Option<NonZeroU32>,
    /// Input tokens a minute: at most 4294967295.
    pub input_tokens: Option<TokenCount>,
    /// Output tokens a minute: at most 4294967295.
    pub output_tokens: Option<TokenCount>,
    /// Requests at once.
    pub concurrent: Option<NonZeroU32>,
}

impl KeyLimits {
    fn meant(&self) -> Done<Limits> {
        let tokens = |name: &str, count: Option<TokenCount>| {
            let limit = count.map(|count| {
                let message = || format!("'{name}' must be from 1 to {}", NonZeroU32::MAX);
                count.a_minute().ok_or_else(|| Refusal::Order(message()))
            });
            limit.transpose()
        };
        Ok(Limits {
            requests: self.requests,
            input_tokens: tokens("input_tokens", self.input_tokens)?,
            output_tokens: tokens("output_tokens", self.output_tokens)?,
            concurrent: self.concurrent,
        })
    }
}

/// Tokens for a key: those of `plan`, or as many as `tokens` says, for `validity`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TopUp {
    /// The plan whose tokens, money and validity are given.
    #[serde(default)]
    pub plan: Option<String>,
    /// How many tokens.
    #[serde(default)]
    pub tokens: Option<TokenCount>,
    /// How much money, in the currency of the prices. With `tokens`, both are given.
    #[serde(default)]
    pub money: Option<Money>,
    /// How long they are valid, from the first use.
    #[serde(default)]
    pub validity: Option<Duration>,
}

/// A longer life for a key and for what it was given.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Extension {
    /// By how much.
    pub by: Duration,
}

/// Which keys to list.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct KeyQuery {
    /// How many at most. Default: 100.
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<u32>,
    /// Those made after the key of this id: the `last_id` of the page before.
    pub after: Option<String>,
    /// In this state.
    pub state: Option<KeyState>,
    /// Made with this plan.
    pub plan: Option<String>,
    /// With this text in their names.
    pub name: Option<String>,
}

impl KeyQuery {
    /// The longest page.
    pub const MAX_LIMIT: u32 = 1000;
    const DEFAULT_LIMIT: u32 = 100;
}

/// Keys in the order in which they were made.
pub struct KeyPage {
    /// The keys.
    pub records: Vec<KeyRecord>,
    /// Whether there are more behind them.
    pub has_more: bool,
}

/// A key that was just made, as JSON: the one time that its text is shown.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CreatedKey")]
pub struct CreatedView<'a> {
    /// The text of the key, for its owner. It is stored nowhere.
    pub key: &'a str,
    /// The key as it is from now on.
    pub record: KeyView<'a>,
}

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The order refers to something that does not exist, or contradicts itself.
    #[error("{0}")]
    Order(String),
    /// The store refuses it, or cannot.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The state of the gateway does not allow it.
    #[error("{0}")]
    Conflict(&'static str),
    /// Not at the moment.
    #[error("{0}")]
    Busy(&'static str),
}

impl From<ExplainError> for Refusal {
    fn from(fault: ExplainError) -> Self {
        match fault {
            ExplainError::Order(message) => Self::Order(message),
            ExplainError::Store(fault) => Self::Store(fault),
        }
    }
}

type Done<T> = Result<T, Refusal>;

/// The operations on one ledger.
pub struct Operations {
    store: Arc<Store>,
    offer: ArcSwap<Offer>,
    control: OnceCell<Control>,
}

impl Operations {
    /// On `store`, with what `offer` has.
    pub fn new(store: Arc<Store>, offer: Offer) -> Self {
        Self {
            store,
            offer: ArcSwap::from_pointee(offer),
            control: OnceCell::new(),
        }
    }

    /// Gives it the way to the gateway that runs, once.
    pub fn set_control(&self, control: Control) {
        // A second one would be another gateway's: there is one to a process.
        let _ = self.control.set(control);
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The running gateway.
    ///
    /// # Errors
    ///
    /// The gateway is still starting.
    pub(super) fn control(&self) -> Done<&Control> {
        let control = self.control.get();
        control.ok_or(Refusal::Busy("the gateway is still starting"))
    }

    /// From now on with what another configuration has.
    pub fn set_offer(&self, offer: Offer) {
        self.offer.store(Arc::new(offer));
    }

    /// The time for which states are shown.
    pub fn now(&self) -> Timestamp {
        self.store.clock().now()
    }

    /// Makes a key; under a name once.
    ///
    /// # Errors
    ///
    /// A plan, group or endpoint that there is not; or as [`Store::create_key_once`].
    pub fn create(&self, order: &CreateKey, name: Option<&OrderName>) -> Done<CreatedKey> {
        let offer = self.offer.load();
        let plan = order.plan.as_deref();
        let of_plan = plan.map(|name| offer.plan(name)).transpose()?;
        let groups = order.groups.as_ref().or(of_plan.map(|plan| &plan.groups));
        let groups = groups.map(|names| offer.groups(names)).transpose()?;
        let endpoints = order.endpoints.as_deref().map(endpoints).transpose()?;
        let new = NewKey {
            plan: order.plan.clone(),
            groups: groups.unwrap_or(Allowance::All),
            endpoints: endpoints.unwrap_or(Allowance::All),
            limits: order.limits.meant()?,
            expires_at: order.expires_after.map(|span| self.now().plus(span.get())),
            grant: first_grant(&offer, order)?,
            name: order.name.clone(),
        };
        Ok(match name {
            Some(name) => self.store.create_key_once(&new, name)?,
            None => self.store.create_key(&new)?,
        })
    }

    /// A page of keys.
    ///
    /// # Errors
    ///
    /// A limit or a place that there is not, or the file cannot be read.
    pub fn list(&self, query: &KeyQuery) -> Done<KeyPage> {
        let limit = query.limit.unwrap_or(KeyQuery::DEFAULT_LIMIT);
        if !(1..=KeyQuery::MAX_LIMIT).contains(&limit) {
            let most = KeyQuery::MAX_LIMIT;
            let message = format!("'limit' must be a whole number from 1 to {most}");
            return Err(Refusal::Order(message));
        }
        let after = match query.after.as_deref().map(KeySelector::parse) {
            None => None,
            Some(Ok(KeySelector::Id(id))) => Some(id),
            Some(_) => return Err(Refusal::Order("'after' must be the id of a key".into())),
        };
        let filter = KeyFilter {
            state: query.state,
            plan: query.plan.clone(),
            name: query.name.clone(),
        };
        let one_more = limit.saturating_add(1);
        let mut records = self.store.filter_keys(&filter, after.as_ref(), one_more)?;
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let has_more = records.len() > limit;
        records.truncate(limit);
        Ok(KeyPage { records, has_more })
    }

    /// Extends the validity of a key and its grants. With a name, once.
    ///
    /// # Errors
    ///
    /// As [`Store::extend_key`].
    pub fn extend(
        &self,
        key: &KeySelector,
        extension: &Extension,
        name: Option<&OrderName>,
    ) -> Done<KeyRecord> {
        Ok(self.store.extend_key(key, extension.by.get(), name)?)
    }

    /// Gives tokens and money to a key; under a name once.
    ///
    /// # Errors
    ///
    /// The order says nothing or two things; or as [`Store::top_up_once`].
    pub fn top_up(
        &self,
        key: &KeySelector,
        order: &TopUp,
        name: Option<&OrderName>,
    ) -> Done<Vec<GrantView>> {
        let is_given = order.tokens.is_some() || order.money.is_some();
        let terms = match (&order.plan, is_given, order.validity) {
            (Some(plan), false, None) => self.offer.load().terms(plan)?,
            (None, true, Some(validity)) => GrantTerms {
                plan: None,
                tokens: order.tokens.map_or(0, TokenCount::get),
                money: order.money.unwrap_or_default(),
                validity: validity.get(),
            },
            _ => {
                let message = "give either 'plan', or 'tokens' or 'money' or both, and 'validity'";
                return Err(Refusal::Order(message.into()));
            }
        };
        Ok(match name {
            Some(name) => self.store.top_up_once(key, &terms, name)?,
            None => self.store.top_up(key, &terms)?,
        })
    }

    /// The grants of a key and its use of them.
    ///
    /// # Errors
    ///
    /// As [`Store::find_key`].
    pub fn grants(&self, key: &KeySelector) -> Done<Vec<GrantView>> {
        let record = self.store.find_key(key)?;
        Ok(self.store.grants(record.id())?)
    }

    /// Gives a key limits of its own; those that are absent are its plan's again.
    ///
    /// # Errors
    ///
    /// More than a limit has room for; or as [`Store::set_limits`].
    pub fn set_limits(&self, key: &KeySelector, limits: &KeyLimits) -> Done<KeyRecord> {
        Ok(self.store.set_limits(key, &limits.meant()?)?)
    }
}
