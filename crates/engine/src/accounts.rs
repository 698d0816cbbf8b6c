//! The ledger as the gateway uses it: opened once, lent to the filters of each configuration.
//!
//! `tollgate_ledger` decides what a key may do and what a request costs. This file implements the
//! traits of filters on its types.

use crate::catalog::IndexedCatalog;
use crate::counts::{CatalogCounts, CountingPool};
use crate::endpoints::{PlanLimits, Usage, UsageSource};
use crate::keys::{self, OpenError};
use crate::owned::Owned;
use http::{HeaderName, HeaderValue};
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};
use tollgate_config::{Config, MemorySettings};
use tollgate_filter::{
    Admission, AdmissionResult, Balances, Catalog, Counting, KeyDirectory, KeyLookup, LimitHeaders,
    Limiter, Load, NotAdmitted, RequestContext, ReservationResult, Services, StoredItem,
    StoredItems,
};
use tollgate_ledger::{
    Clock, Ledger, LedgerSettings, Memory, MemoryLimits, RequestInfo, Reserve, SharedLimits,
    Standing, Store,
};
use tollgate_routing::Conversations;
use tollgate_settings::TokenCount;
use tollgate_types::{
    Claim, Format, Identity, InputCount, KeyId, Limited, Limits, MaybeReady, NamedItem,
    OwnerFailure, PerUnit, Shortage, Tariff, Unavailable, Unit, UpperBound,
};

/// The state that outlives a configuration: keys, balances and the rates of keys.
pub struct Accounts {
    store: Arc<Store>,
    directory: Arc<keys::Directory>,
    ledger: Ledger,
    owned: Arc<Owned>,
    /// The remembered answers.
    memory: Arc<Memory>,
    usage: Arc<UsageSource>,
    limiters: RateLimiters,
    /// Where bodies are counted.
    counting_pool: Arc<CountingPool>,
    /// Which models have answered which conversations.
    conversations: Arc<Conversations>,
}

/// Where answers are remembered under a configuration.
pub struct Remembering {
    /// The store of answers.
    pub memory: Arc<Memory>,
    /// Bytes of the largest request whose answer is remembered.
    pub most: u64,
}

impl Remembering {
    /// In `memory`, within these limits.
    fn new(memory: Arc<Memory>, limits: &MemoryLimits) -> Self {
        /// A request that an answer is remembered with.
        const MOST: u64 = 8 << 20;
        let most = MOST.min(limits.bytes_per_key).min(limits.bytes);
        Self { memory, most }
    }
}

/// The rate limiters of keys. Cheap to clone.
#[derive(Clone)]
struct RateLimiters {
    generation: tollgate_ledger::Limiter,
    /// Limits `count_tokens` requests.
    counting: tollgate_ledger::Limiter,
    /// Limits the counts of the `context` filter. If it shared a meter with `counting`, two limits
    /// would apply in turn, and each would change the debt.
    filter_counts: tollgate_ledger::Limiter,
}

impl RateLimiters {
    fn new(clock: &Clock) -> Self {
        let limiter = || tollgate_ledger::Limiter::new(LIMITED_KEYS, clock.clone());
        Self {
            generation: limiter(),
            counting: limiter(),
            filter_counts: limiter(),
        }
    }
}

/// The most keys whose rates are kept. Beyond that, the least used start again.
const LIMITED_KEYS: usize = 100_000;

impl Accounts {
    /// Opens the ledger that a configuration names, and enters this process into it.
    ///
    /// # Errors
    ///
    /// The pepper or the store cannot be used.
    pub fn open(config: &Config) -> Result<Self, OpenError> {
        let store = keys::open_store(config)?;
        let directory = keys::Directory::open(&store, config.failed_keys_per_minute)?;
        let settings = LedgerSettings {
            keep_history: Some(config.store.history.get()),
            ..LedgerSettings::default()
        };
        let ledger = Ledger::open(&store, settings)?;
        let mut limiters = RateLimiters::new(store.clock());
        if !config.limits.per_node {
            let shared = match keys::limit_server(config)? {
                Some((server, timeout)) => Some(SharedLimits::start(server, timeout)?),
                None => None,
            };
            let limiter = limiters.generation;
            limiters.generation =
                limiter.shared_by(ledger.nodes(), shared.as_ref(), Some(&store))?;
        }
        let usage = UsageSource::new(&store, ledger.clone(), limiters.generation.clone());
        Ok(Self {
            directory: Arc::new(directory),
            owned: Arc::new(Owned::new(&store, ledger.clone())),
            memory: Arc::new(Memory::open(&store, memory_limits(config))?),
            usage: Arc::new(usage),
            limiters,
            counting_pool: Arc::default(),
            conversations: Arc::default(),
            ledger,
            store: Arc::new(store),
        })
    }

    /// The store, for administration.
    pub const fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// The ledger, for its metrics.
    pub const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The remembered answers, for their metrics.
    pub const fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// The rate limiter of generations.
    pub const fn rate_limiter(&self) -> &tollgate_ledger::Limiter {
        &self.limiters.generation
    }

    /// Where bodies are counted.
    pub const fn counting_pool(&self) -> &Arc<CountingPool> {
        &self.counting_pool
    }

    /// Commits what has been settled, and gives everything back. Blocks.
    pub fn close(&self) {
        const PATIENCE: Duration = Duration::from_secs(10);
        // Before the ledger, which moves the log of the file into it.
        if !self.memory.close(PATIENCE) {
            log::warn!("not all answers could be remembered in time");
        }
        if !self.ledger.clone().close(PATIENCE) {
            log::warn!("the ledger could not be closed in time; the next start finishes the work");
        }
    }

    /// The store of translated answers. Applies the limits of this configuration to it.
    pub fn remembering(&self, config: &Config) -> Option<Remembering> {
        let limits = memory_limits(config);
        self.memory.set_limits(limits);
        limits.map(|limits| Remembering::new(Arc::clone(&self.memory), &limits))
    }

    /// The owners of items that providers store.
    pub fn owned(&self) -> Arc<Owned> {
        Arc::clone(&self.owned)
    }

    /// Which models have answered which conversations.
    pub fn conversations(&self) -> Arc<Conversations> {
        Arc::clone(&self.conversations)
    }

    /// The data that callers can read about their own keys under a configuration.
    pub fn usage(&self, config: &Config) -> Usage {
        let plans = Arc::new(limits_of_plans(config));
        Usage::new(Arc::clone(&self.usage), plans)
    }

    /// The services for the filters of a configuration.
    pub fn services(
        &self,
        config: &Config,
        catalog: &Arc<IndexedCatalog>,
        counts: &Arc<CatalogCounts>,
    ) -> Services {
        Services {
            keys: Arc::clone(&self.directory) as _,
            catalog: Arc::clone(catalog) as _,
            limits: Arc::new(PlannedLimits {
                limiters: self.limiters.clone(),
                clock: self.store.clock().clone(),
                plans: limits_of_plans(config),
                reported: AtomicBool::new(false),
            }),
            balances: Arc::new(PricedBalances {
                ledger: self.ledger.clone(),
                catalog: Arc::clone(catalog),
            }),
            stored: Arc::clone(&self.owned) as _,
            counting: Arc::clone(counts) as _,
            plans: config.plans.keys().cloned().collect(),
        }
    }
}

fn memory_limits(config: &Config) -> Option<MemoryLimits> {
    config.memory.as_ref().map(MemorySettings::limits)
}

/// The current time, for the states of keys.
pub fn now() -> tollgate_ledger::Timestamp {
    Clock::system().now()
}

/// The limits that the plans of a configuration give, by the names of the plans.
pub fn limits_of_plans(config: &Config) -> PlanLimits {
    let plans = config.plans.iter();
    let limits = plans.map(|(name, plan)| (name.clone(), limits(&plan.limits)));
    PlanLimits(limits.collect())
}

fn limits(plan: &tollgate_config::PlanLimits) -> Limits {
    let tokens = |count: Option<TokenCount>| count.and_then(TokenCount::a_minute);
    Limits {
        requests: plan.requests_per_minute.and_then(NonZeroU32::new),
        input_tokens: tokens(plan.input_tokens_per_minute),
        output_tokens: tokens(plan.output_tokens_per_minute),
        concurrent: plan.concurrent_requests.and_then(NonZeroU32::new),
    }
}

/// The output tokens that are taken in advance from a key's limit. If the request has no limit of
/// its own, the expectation is a guess: it takes at most the whole limit, so that the request is not
/// refused forever, and any excess becomes a debt. A request with a limit of its own is not capped.
pub fn output_in_advance(expected: u64, is_limited: bool, limits: &Limits) -> u64 {
    let limit = limits.output_tokens.map(|limit| u64::from(limit.get()));
    let limit = limit.filter(|_| !is_limited);
    limit.map_or(expected, |limit| expected.min(limit))
}

/// The limits of keys under the plans of one configuration.
struct PlannedLimits {
    limiters: RateLimiters,
    clock: Clock,
    plans: PlanLimits,
    /// An unknown plan was logged already.
    reported: AtomicBool,
}

impl PlannedLimits {
    /// The limits of a key. `None` if its plan is unknown, for example because the process that
    /// made the key has a newer configuration.
    fn of(&self, identity: &Identity) -> Option<Limits> {
        let limits = self.plans.of(identity);
        if limits.is_none() && !self.reported.swap(true, Ordering::Relaxed) {
            log::error!(
                "the plan {:?} of key {} is not in the served configuration; requests with keys of \
                 this plan get 503 until it is",
                identity.plan.as_deref().unwrap_or_default(),
                identity.key
            );
        }
        limits
    }
}

impl Limiter for PlannedLimits {
    fn admit(&self, load: Load, identity: &Identity) -> MaybeReady<AdmissionResult> {
        let (limiter, limits, input, output) = match load {
            Load::Generation {
                input,
                output,
                is_limited,
            } => {
                let Some(limits) = self.of(identity) else {
                    return MaybeReady::ready(Err(NotAdmitted::UnknownPlan));
                };
                let output = output_in_advance(output, is_limited, &limits);
                (&self.limiters.generation, limits, input, output)
            }
            Load::Count { limit } => {
                let requests = Some(limit);
                let limits = Limits {
                    requests,
                    ..Limits::default()
                };
                (&self.limiters.counting, limits, 0, 0)
            }
        };
        match limiter.admit_shared(&identity.key, &limits, input, output) {
            MaybeReady::Ready(admitted) => {
                let admitted = admitted.into_inner();
                let key = &identity.key;
                MaybeReady::ready(with_headers(admitted, limiter, key, &limits, &self.clock))
            }
            pending @ MaybeReady::Pending(_) => {
                let (limiter, clock) = (limiter.clone(), self.clock.clone());
                let key = identity.key.clone();
                MaybeReady::pending(async move {
                    with_headers(pending.await, &limiter, &key, &limits, &clock)
                })
            }
        }
    }

    fn headers(&self, identity: &Identity) -> LimitHeaders {
        let limits = self.of(identity).unwrap_or(identity.limits);
        let standing = self.limiters.generation.standing(&identity.key, &limits);
        headers(&standing, &self.clock)
    }

    fn take_count(&self, identity: &Identity, a_minute: NonZeroU32) -> bool {
        let limits = Limits {
            requests: Some(a_minute),
            ..Limits::default()
        };
        let admitted = self
            .limiters
            .filter_counts
            .admit(&identity.key, &limits, 0, 0);
        admitted.map(|it| it.finish(0, 0)).is_ok()
    }
}

/// An admission or a refusal with the state of the limits.
fn with_headers(
    admitted: Result<tollgate_ledger::Admission, Limited>,
    limiter: &tollgate_ledger::Limiter,
    key: &KeyId,
    limits: &Limits,
    clock: &Clock,
) -> AdmissionResult {
    match admitted {
        Ok(admission) => Ok(Admission {
            headers: headers(&admission.standing(), clock),
            guard: Some(Box::new(admission)),
        }),
        Err(limited) => Err(NotAdmitted::Limited {
            limited,
            headers: headers(&limiter.standing(key, limits), clock),
        }),
    }
}

/// The state as headers. Without limits there are none, and the clock is not read.
fn headers(standing: &Standing, clock: &Clock) -> LimitHeaders {
    if standing.is_empty() {
        return LimitHeaders::new();
    }
    let headers = standing.headers(clock.now()).into_iter();
    headers
        .filter_map(|(name, value)| {
            let value = HeaderValue::from_maybe_shared(bytes::Bytes::from(value)).ok()?;
            Some((HeaderName::from_static(name), value))
        })
        .collect()
}

/// The balances of keys, with the weights and prices of one catalog.
struct PricedBalances {
    ledger: Ledger,
    catalog: Arc<IndexedCatalog>,
}

impl Balances for PricedBalances {
    fn reserve(
        &self,
        request: &RequestContext,
        bound: UpperBound,
    ) -> MaybeReady<ReservationResult> {
        let (Some(identity), Some(info)) = (&request.identity, request_info(request)) else {
            log::error!("{}: a request without a key or format", request.id);
            return MaybeReady::ready(Err(Unavailable::Closed.into()));
        };
        let (key, tariff) = (&identity.key, tariff(&self.catalog, request, &bound));
        match self.ledger.reserve(key, info.clone(), bound, tariff) {
            Reserve::Reserved(reservation) => MaybeReady::ready(Ok(Box::new(reservation))),
            Reserve::Refused(shortage) => MaybeReady::ready(Err(logged(shortage))),
            Reserve::Wait(pending) => {
                let ledger = self.ledger.clone();
                MaybeReady::pending(async move {
                    match ledger.reserve_after(pending, info, bound, tariff).await {
                        Ok(reservation) => Ok(Box::new(reservation) as _),
                        Err(shortage) => Err(logged(shortage)),
                    }
                })
            }
        }
    }

    fn affords(&self, request: &RequestContext, bound: UpperBound) -> bool {
        let key = request.identity.as_ref().map(|identity| &identity.key);
        let left = key.and_then(|key| self.ledger.holdings(key));
        let tariff = tariff(&self.catalog, request, &bound);
        left.is_some_and(|left| {
            let free = PerUnit::from_fn(|unit| left.get(unit).map(|left| left.free));
            affords(&free, &bound, &tariff)
        })
    }

    fn wait_for_release(
        &self,
        request: &RequestContext,
    ) -> Option<Pin<Box<dyn Future<Output = ()> + Send>>> {
        let identity = request.identity.as_ref()?;
        let coming = self.ledger.wait_for_release(&identity.key)?;
        Some(Box::pin(coming))
    }
}

/// How often a request is expected to call each tool of its provider at most.
const CALLS_PER_TOOL: u64 = 10;

/// The rates at which the tokens of a request with this bound take from the balances of its key.
pub fn tariff(catalog: &IndexedCatalog, request: &RequestContext, bound: &UpperBound) -> Tariff {
    if let Some(fixed) = &request.fixed {
        return fixed.tariff;
    }
    let route = request.route.as_ref();
    let Some(model) = route.and_then(|route| catalog.model(route.model)) else {
        return Tariff::default();
    };
    let at = request.stored_at.as_ref().map(|at| &*at.provider);
    let facts = request.facts_if_read();
    let tool_calls = facts.map_or(0, |facts| match request.format() {
        Some(Format::Rerank) => facts.most_rerank_searches(),
        _ => facts.hosted_tools.saturating_mul(CALLS_PER_TOOL),
    });
    let tiers = facts.map_or(&[][..], |facts| &facts.tiers);
    let prices = model.dearest_prices(at, tiers, SystemTime::now());
    Tariff {
        tool_calls,
        weights: model.weights,
        prices: prices
            .map(|prices| prices.of_input(bound.input.saturating_add(bound.hidden_input))),
    }
}

/// Whether what is free covers a useful answer, in each unit in which it must.
pub fn affords(free: &PerUnit<Option<u64>>, bound: &UpperBound, tariff: &Tariff) -> bool {
    Unit::ALL.into_iter().all(|unit| match free.get(unit) {
        None => true,
        Some(free) => {
            let rates = tariff.rates(unit);
            rates.is_some_and(|rates| *free >= bound.useful_amount(&rates))
        }
    })
}

fn request_info(request: &RequestContext) -> Option<RequestInfo> {
    if let Some(fixed) = &request.fixed {
        return Some(RequestInfo {
            id: request.id,
            model: Arc::clone(&fixed.name),
            reason: None,
            format: None,
            streamed: false,
        });
    }
    let facts = request.facts_if_read();
    let route = request.route.as_ref()?;
    Some(RequestInfo {
        id: request.id,
        model: match facts.and_then(|facts| facts.model.as_deref()) {
            Some(asked) if *asked != *route.model_id => asked.into(),
            _ => Arc::clone(&route.model_id),
        },
        reason: route.reason.as_deref().map(Into::into),
        format: Some(request.format()?),
        streamed: facts.is_some_and(|facts| facts.stream),
    })
}

/// Logs a shortage if it is a fault of the ledger.
fn logged(shortage: Shortage) -> Shortage {
    if let Shortage::Unavailable(cause) = &shortage {
        log_unavailable(cause);
    }
    shortage
}

/// Logs why balances are unavailable, at most once a second.
fn log_unavailable(cause: &Unavailable) {
    const EVERY_MS: u64 = 1000;
    static LOGGED_MS: AtomicU64 = AtomicU64::new(0);
    if matches!(cause, Unavailable::Stalled(_)) {
        // The ledger logs it.
        return;
    }
    let now = tollgate_telemetry::clock::steady_ms(Instant::now());
    let is_due = |logged: u64| {
        let is_due = logged == 0 || now.saturating_sub(logged) >= EVERY_MS;
        is_due.then_some(now)
    };
    let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
    if LOGGED_MS.fetch_update(set, fetch, is_due).is_ok() {
        log::error!("balances are unavailable: {cause}");
    }
}
/// Accounts without keys, for configurations that are only checked.
pub struct NoAccounts;

impl NoAccounts {
    /// Services without accounts.
    pub fn services(catalog: &Arc<IndexedCatalog>, plans: Arc<[String]>) -> Services {
        Services {
            keys: Arc::new(Self),
            catalog: Arc::clone(catalog) as Arc<dyn Catalog>,
            limits: Arc::new(Self),
            balances: Arc::new(Self),
            stored: Arc::new(Self),
            counting: Arc::new(Self),
            plans,
        }
    }
}

impl KeyDirectory for NoAccounts {
    fn lookup(&self, _: &str, _: Option<IpAddr>) -> MaybeReady<KeyLookup> {
        MaybeReady::ready(KeyLookup::Unavailable)
    }
}

impl Limiter for NoAccounts {
    fn admit(&self, _: Load, _: &Identity) -> MaybeReady<AdmissionResult> {
        MaybeReady::ready(Ok(Admission {
            guard: None,
            headers: LimitHeaders::new(),
        }))
    }
}

impl StoredItems for NoAccounts {
    fn find(&self, _: &KeyId, _: &str) -> MaybeReady<Result<StoredItem, OwnerFailure>> {
        MaybeReady::ready(Err(Unavailable::Closed.into()))
    }

    fn check(&self, _: &KeyId, items: &[NamedItem]) -> MaybeReady<Claim> {
        // Items with contents pass unless another key is known to own one.
        MaybeReady::ready(match items.iter().all(|item| item.has_contents) {
            true => Claim::Allowed,
            false => Claim::Unavailable(Unavailable::Closed),
        })
    }
}

impl Balances for NoAccounts {
    fn reserve(&self, _: &RequestContext, _: UpperBound) -> MaybeReady<ReservationResult> {
        MaybeReady::ready(Err(Unavailable::Closed.into()))
    }

    fn affords(&self, _: &RequestContext, _: UpperBound) -> bool {
        false
    }
}

impl Counting for NoAccounts {
    fn count(&self, _: &RequestContext) -> MaybeReady<Option<InputCount>> {
        MaybeReady::ready(None)
    }
}

#[cfg(test)]
mod tests;
