//! The services of filters for an explanation: they answer as usual and take nothing.

use super::{
    AnewShown, BalanceShown, BoundShown, ConversationShown, Ground, LimitShown, MoneyShown,
};
use parking_lot::Mutex;
use std::net::IpAddr;
use std::sync::Arc;
use tollgate_engine::accounts::{self, NoAccounts};
use tollgate_engine::catalog::IndexedCatalog;
use tollgate_engine::choose;
use tollgate_engine::counts::CatalogCounts;
use tollgate_engine::endpoints::PlanLimits;
use tollgate_filter::{
    Admission, AdmissionResult, AutoRequest, Balances, Catalog, Chosen, Counting, DryReservation,
    KeyDirectory, KeyLookup, LimitHeaders, Limiter, Load, ModelHandle, ModelView, NotAdmitted,
    RequestContext, ReservationResult, Services, StoredItems,
};
use tollgate_ledger::{GrantView, Holdings, KeyRecord, KeyState, Ledger, Store};
use tollgate_types::{
    AskedTier, Denied, Dimension, Identity, Limited, Limits, MaybeReady, Money, PerUnit, Shortage,
    Tariff, Unit, UpperBound,
};

/// All of it, for one request of one key.
pub(super) struct Dry {
    book: Arc<Book>,
    catalog: Arc<Looker>,
    stored: Arc<dyn StoredItems>,
    counting: Arc<dyn Counting>,
    plans: Arc<[String]>,
}

/// The known facts of the key, and the questions that filters asked about it.
struct Book {
    record: KeyRecord,
    grants: Vec<GrantView>,
    /// The amounts that this process can spend; `None` unless it serves requests.
    here: Option<PerUnit<Holdings>>,
    /// `None`: its plan is not in the configuration.
    limits: Option<Limits>,
    limiter: Option<tollgate_ledger::Limiter>,
    catalog: Arc<IndexedCatalog>,
    seen: Mutex<Seen>,
}

/// The questions of filters, with their answers.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) bound: Option<BoundShown>,
    pub(super) balance: Option<BalanceShown>,
    pub(super) limits: Vec<LimitShown>,
    pub(super) conversation: Option<ConversationShown>,
}

impl Dry {
    pub(super) fn new(
        ground: &Ground<'_>,
        record: &KeyRecord,
        catalog: &Arc<IndexedCatalog>,
    ) -> Self {
        let plans: PlanLimits = accounts::limits_of_plans(ground.config);
        let ledger = ground.accounts.map(accounts::Accounts::ledger);
        Self {
            book: Arc::new(Book {
                grants: grants(ground.store, record),
                here: ledger.map(|ledger| here(ledger, ground.store, record)),
                limits: plans.of(&record.identity),
                record: record.clone(),
                limiter: ground
                    .accounts
                    .map(|accounts| accounts.rate_limiter().clone()),
                catalog: Arc::clone(catalog),
                seen: Mutex::default(),
            }),
            catalog: Arc::new(Looker {
                catalog: Arc::clone(catalog),
                knows_conversations: ground.accounts.is_some(),
                conversation: Mutex::default(),
            }),
            stored: match ground.accounts {
                Some(accounts) => accounts.owned(),
                None => Arc::new(NoAccounts),
            },
            counting: match ground.accounts {
                Some(accounts) => Arc::new(CatalogCounts::new(accounts.counting_pool(), catalog)),
                None => Arc::new(NoAccounts),
            },
            plans: ground.config.plans.keys().cloned().collect(),
        }
    }

    pub(super) fn services(&self) -> Services {
        Services {
            keys: Arc::clone(&self.book) as _,
            catalog: Arc::clone(&self.catalog) as Arc<dyn Catalog>,
            limits: Arc::clone(&self.book) as _,
            balances: Arc::clone(&self.book) as _,
            stored: Arc::clone(&self.stored),
            counting: Arc::clone(&self.counting),
            plans: Arc::clone(&self.plans),
        }
    }

    pub(super) fn into_seen(self) -> Seen {
        Seen {
            conversation: self.catalog.conversation.lock().take(),
            ..std::mem::take(&mut *self.book.seen.lock())
        }
    }
}

/// The catalog, which remembers no choice, but what a conversation had to do with it.
struct Looker {
    catalog: Arc<IndexedCatalog>,
    /// Whether it is the running gateway that asks.
    knows_conversations: bool,
    conversation: Mutex<Option<ConversationShown>>,
}

impl Catalog for Looker {
    fn resolve(&self, name: &str) -> Option<ModelView<'_>> {
        self.catalog.resolve(name)
    }

    fn model(&self, handle: ModelHandle) -> Option<ModelView<'_>> {
        Catalog::model(&*self.catalog, handle)
    }

    fn is_priced(&self, model: ModelHandle, tiers: &[AskedTier]) -> bool {
        self.catalog.is_priced(model, tiers)
    }

    fn is_auto(&self, name: &str) -> bool {
        self.catalog.is_auto(name)
    }

    fn choose(
        &self,
        asked: &AutoRequest<'_>,
        allowed: &dyn Fn(ModelView<'_>) -> bool,
    ) -> Option<Chosen<'_>> {
        let preview = choose::preview(&self.catalog, asked, allowed)?;
        if self.knows_conversations {
            *self.conversation.lock() = Some(ConversationShown {
                model: preview.before.as_deref().map(str::to_owned),
                anew: preview.anew.map(|anew| AnewShown {
                    model: anew.model.id.to_string(),
                    reason: anew.to_string(),
                }),
            });
        }
        Some(Chosen {
            model: self.catalog.view(&preview.decision.model)?,
            reason: preview.decision.to_string().into(),
        })
    }
}

/// The key's grants; none, where the store cannot say.
fn grants(store: &Store, record: &KeyRecord) -> Vec<GrantView> {
    store.grants(record.id()).unwrap_or_else(|fault| {
        log::warn!("grants cannot be read for an explanation: {fault}");
        Vec::new()
    })
}

/// The amounts of the key's grants that a serving process has, or can lease at once. Only the process
/// knows its settlements that are not in the database yet; leases of other processes do not count.
fn here(ledger: &Ledger, store: &Store, record: &KeyRecord) -> PerUnit<Holdings> {
    // Looked at first: what is leased meanwhile counts as if it were not there, and never twice.
    let holdings = ledger.holdings(record.id()).unwrap_or_default();
    let unleased = store.unleased(record.id(), accounts::now());
    let unleased = unleased.unwrap_or_else(|fault| {
        log::warn!("grants cannot be read for an explanation: {fault}");
        PerUnit::default()
    });
    PerUnit::from_fn(|unit| {
        let holdings = holdings.get(unit).unwrap_or_default();
        Holdings {
            free: holdings.free.saturating_add(*unleased.get(unit)),
            ..holdings
        }
    })
}

impl KeyDirectory for Book {
    fn lookup(&self, _: &str, _: Option<IpAddr>) -> MaybeReady<KeyLookup> {
        MaybeReady::ready(match self.record.state(accounts::now()) {
            KeyState::Active => KeyLookup::Known(Arc::clone(&self.record.identity)),
            KeyState::Revoked => KeyLookup::Refused("the key was revoked"),
            KeyState::Expired => KeyLookup::Refused("the key has expired"),
        })
    }
}

impl Limiter for Book {
    fn admit(&self, load: Load, identity: &Identity) -> MaybeReady<AdmissionResult> {
        MaybeReady::ready(self.look_at_limits(load, identity))
    }
}

impl Book {
    /// Whether the key's limits would admit the request, as far as this process has seen.
    fn look_at_limits(&self, load: Load, identity: &Identity) -> AdmissionResult {
        let admission = || Admission {
            guard: None,
            headers: LimitHeaders::new(),
        };
        let Load::Generation {
            input,
            output,
            is_limited,
        } = load
        else {
            return Ok(admission());
        };
        let limits = self.limits.as_ref().ok_or(NotAdmitted::UnknownPlan)?;
        let output = accounts::output_in_advance(output, is_limited, limits);
        let standing = self.limiter.as_ref();
        let standing = standing.map(|limiter| limiter.standing(&identity.key, limits));
        let wanted = [
            (Dimension::Requests, limits.requests, 1),
            (Dimension::InputTokens, limits.input_tokens, input),
            (Dimension::OutputTokens, limits.output_tokens, output),
        ];
        let levels = standing.map(|it| [it.requests, it.input_tokens, it.output_tokens]);
        let levels = levels.unwrap_or_default();
        let mut refused = None;
        let mut seen = self.seen.lock();
        for ((dimension, limit, needed), level) in wanted.into_iter().zip(levels) {
            let Some(limit) = limit.map(|limit| u64::from(limit.get())) else {
                continue;
            };
            let remaining = level.map(|level| level.remaining);
            if needed > remaining.unwrap_or(limit) {
                let wait = level.filter(|_| needed <= limit);
                let denied = wait.map_or(Denied::NeverFits, |it| Denied::Wait(it.reset_after));
                refused = refused.or(Some(NotAdmitted::Limited {
                    limited: Limited { dimension, denied },
                    headers: LimitHeaders::new(),
                }));
            }
            seen.limits.push(LimitShown {
                name: dimension.in_words().to_owned(),
                limit,
                remaining,
                needed,
            });
        }
        refused.map_or_else(|| Ok(admission()), Err)
    }
}

impl Book {
    /// The free and the reserved amounts, in each unit of which the key has a grant.
    fn holdings(&self) -> PerUnit<Option<Holdings>> {
        let is_given = |unit| self.grants.iter().any(|grant| grant.unit() == unit);
        PerUnit::from_fn(|unit| {
            let is_required = match unit {
                Unit::Tokens => is_given(unit) || !is_given(Unit::Money),
                Unit::Money => is_given(unit),
            };
            is_required.then(|| match &self.here {
                Some(here) => *here.get(unit),
                None => Holdings {
                    free: self.left_on_record(unit),
                    reserved: 0,
                },
            })
        })
    }

    /// The rest of the valid grants in the store.
    fn left_on_record(&self, unit: Unit) -> u64 {
        self.valid().fold(0_u64, |sum, grant| {
            let left = match unit {
                Unit::Tokens => grant.tokens.saturating_sub(grant.used),
                Unit::Money => grant.money.nanos().saturating_sub(grant.money_used.nanos()),
            };
            sum.saturating_add(left)
        })
    }

    fn valid(&self) -> impl Iterator<Item = &GrantView> {
        let now = accounts::now();
        let grants = self.grants.iter();
        grants.filter(move |grant| grant.valid_until.is_none_or(|end| now < end))
    }

    fn note(&self, bound: &UpperBound, tariff: &Tariff, holdings: &PerUnit<Option<Holdings>>) {
        let amount = |unit| tariff.rates(unit).map(|rates| bound.amount(&rates));
        let useful = |unit| tariff.rates(unit).map(|rates| bound.useful_amount(&rates));
        let tokens = holdings.tokens.unwrap_or_default();
        let mut seen = self.seen.lock();
        seen.bound = Some(BoundShown {
            input: bound.input,
            hidden: bound.hidden_input,
            output: bound.output,
            tokens: amount(Unit::Tokens).unwrap_or(0),
            useful: useful(Unit::Tokens).unwrap_or(0),
            cost: amount(Unit::Money).map(Money::from_nanos),
        });
        seen.balance = Some(BalanceShown {
            left: tokens.free.saturating_add(tokens.reserved),
            held: tokens.reserved,
            money: holdings.money.map(|money| MoneyShown {
                left: Money::from_nanos(money.free.saturating_add(money.reserved)),
                held: Money::from_nanos(money.reserved),
            }),
            output_limit: None,
        });
    }

    /// The reservation that a request would get.
    fn dry(
        &self,
        bound: &UpperBound,
        tariff: &Tariff,
        holdings: &PerUnit<Option<Holdings>>,
    ) -> Result<DryReservation, Shortage> {
        if !self.grants.is_empty() && self.valid().next().is_none() {
            return Err(Shortage::Expired);
        }
        let mut reservation = DryReservation {
            pays_money: holdings.money.is_some(),
            ..DryReservation::default()
        };
        let mut is_busy = false;
        for unit in Unit::ALL {
            let Some(Holdings { free, reserved }) = *holdings.get(unit) else {
                continue;
            };
            let rates = tariff.rates(unit).ok_or(Shortage::Unpriced)?;
            let (amount, needed) = (bound.amount(&rates), bound.useful_amount(&rates).max(1));
            if free.saturating_add(reserved) < needed {
                return Err(Shortage::Exhausted(unit));
            }
            is_busy |= free < needed;
            if unit == Unit::Tokens {
                reservation.tokens = amount;
            }
            let fits = bound.output_that_fits(free.min(amount), &rates);
            let limits = [reservation.output_limit, fits].into_iter().flatten();
            reservation.output_limit = limits.min();
        }
        match is_busy {
            true => Err(Shortage::Busy),
            false => Ok(reservation),
        }
    }
}

impl Balances for Book {
    fn affords(&self, request: &RequestContext, bound: UpperBound) -> bool {
        let holdings = self.holdings();
        let free = PerUnit::from_fn(|unit| holdings.get(unit).map(|it| it.free));
        accounts::affords(
            &free,
            &bound,
            &accounts::tariff(&self.catalog, request, &bound),
        )
    }

    fn reserve(
        &self,
        request: &RequestContext,
        bound: UpperBound,
    ) -> MaybeReady<ReservationResult> {
        let tariff = accounts::tariff(&self.catalog, request, &bound);
        let holdings = self.holdings();
        self.note(&bound, &tariff, &holdings);
        let reservation = self.dry(&bound, &tariff, &holdings);
        MaybeReady::ready(reservation.map(|it| Box::new(it) as _))
    }
}
