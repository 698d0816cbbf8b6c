//! `GET /v1/usage` and `GET /v1/usage/history`: what a key has, how fast it may go, and what
//! it has used, request by request.
//!
//! Both answer keys that have nothing left. The ledger decides what counts, and
//! `query` how a query is read. Reading takes a blocking thread, of which there are few: if
//! all are taken, a request waits, and if too many wait, above all of its own key, it is
//! refused.

mod query;

use serde::Serialize;
use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::spawn_blocking;
use tollgate_ledger::{
    Clock, History, HistoryError, HistoryPage, Ledger, Level, Limiter, ModelTotal, Store,
    StoreError, Timestamp, UsageSummary,
};
use tollgate_types::{
    ErrorCode, Identity, Limits, Money, PerUnit, PublicError, Resource, Share, Unit,
};

/// Reads at once, over all keys.
const READERS: usize = 8;
/// Most clients at once, reading or waiting to read.
const CALLERS: usize = 256;
/// Of them those of one key.
const CALLERS_OF_A_KEY: u64 = 64;
/// How long a request waits until the charges of the key's last requests are committed. After that,
/// the answer lacks them.
const CATCH_UP: Duration = Duration::from_millis(500);
/// The longest wait for a reader's permit.
const WAIT: Duration = Duration::from_secs(2);

/// Where usage is read; it outlives a configuration.
pub struct UsageSource {
    history: History,
    ledger: Ledger,
    limiter: Limiter,
    clock: Clock,
    callers: Semaphore,
    readers: Arc<Semaphore>,
}

impl UsageSource {
    /// Over the file of `store`, the balances in memory and the limiter of keys.
    pub fn new(store: &Store, ledger: Ledger, limiter: Limiter) -> Self {
        Self {
            history: History::new(store),
            ledger,
            limiter,
            clock: store.clock().clone(),
            callers: Semaphore::new(CALLERS),
            readers: Arc::new(Semaphore::new(READERS)),
        }
    }
}

/// The limits of plans, by the names of the plans.
#[derive(Default)]
pub struct PlanLimits(pub HashMap<String, Limits, foldhash::fast::RandomState>);

impl PlanLimits {
    /// A key's own limits, and its plan's where it has none; `None`: its plan is unknown.
    pub fn of(&self, identity: &Identity) -> Option<Limits> {
        match &identity.plan {
            Some(plan) => self.0.get(plan).map(|plan| identity.limits.or(plan)),
            None => Some(identity.limits),
        }
    }
}

/// The two endpoints under the plans of one configuration.
pub struct Usage {
    source: Arc<UsageSource>,
    plans: Arc<PlanLimits>,
}

impl Usage {
    /// Reads from `source` under `plans`.
    pub const fn new(source: Arc<UsageSource>, plans: Arc<PlanLimits>) -> Self {
        Self { source, plans }
    }

    /// The body of `GET /v1/usage` for a key.
    ///
    /// # Errors
    ///
    /// 401 if all grants have expired; 503 if too many queries are in progress; 500 if the ledger
    /// cannot be read.
    pub async fn summary(&self, identity: &Arc<Identity>) -> Result<Vec<u8>, PublicError> {
        let _permit = self.enter(identity).await?;
        // Read before the file: a charge that is committed in between is shown as reserved and as
        // used, never as remaining.
        let holdings = self.source.ledger.holdings(&identity.key);
        let reserved = |unit| {
            let holdings = holdings.as_ref().and_then(|it| *it.get(unit));
            holdings.map_or(0, |it| it.reserved)
        };
        let reserved = PerUnit::from_fn(reserved);
        let key = identity.key.clone();
        let summary = self
            .read(move |source| source.history.summary(&key, source.clock.now()))
            .await?;
        let summary = summary.map_err(|fault| unreadable(&fault))?;
        if summary.is_over {
            return Err(PublicError::invalid_api_key());
        }
        let limits = self.limits(identity);
        let answer = Summary::new(identity, &summary, &reserved, limits);
        Ok(serde_json::to_vec(&answer).unwrap_or_default())
    }

    /// The body of `GET /v1/usage/history` for a key.
    ///
    /// # Errors
    ///
    /// 400 for a parameter that is not understood; 401 if all grants have expired; 503 if too many
    /// queries are in progress; 500 if the ledger cannot be read.
    pub async fn history(&self, identity: &Identity, query: &str) -> Result<Vec<u8>, PublicError> {
        let query = query::read(query)?;
        let cursor = if query.before.is_some() {
            "before"
        } else {
            "after"
        };
        let _permit = self.enter(identity).await?;
        let key = identity.key.clone();
        let page = self
            .read(move |source| {
                let is_over = source.history.is_over(&key, source.clock.now())?;
                let page = || source.history.page(&key, &query);
                (!is_over).then(page).transpose()
            })
            .await?;
        let page = page.map_err(|fault| match fault {
            HistoryError::Store(fault) => unreadable(&fault),
            HistoryError::Cursor(_) => PublicError::invalid_request(format!(
                "'{cursor}' is not a cursor of this key's history: it is the first_cursor or \
                 last_cursor of a page"
            )),
        })?;
        let page = page.ok_or_else(PublicError::invalid_api_key)?;
        let page = Page {
            object: "list",
            page,
        };
        Ok(serde_json::to_vec(&page).unwrap_or_default())
    }

    /// Counts the caller, and waits until the charges of its last requests are committed.
    async fn enter(
        &self,
        identity: &Identity,
    ) -> Result<(SemaphorePermit<'_>, Share), PublicError> {
        let share = identity.shares.take_one(Resource::UsageReads);
        if share.of_others() >= CALLERS_OF_A_KEY {
            return Err(busy());
        }
        let permit = self.source.callers.try_acquire().map_err(|_| busy())?;
        // If the file cannot be written, the answer has what is in the file.
        let _ = self.source.ledger.caught_up(CATCH_UP).await;
        Ok((permit, share))
    }

    /// Reads on a blocking thread.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&UsageSource) -> T + Send + 'static,
    ) -> Result<T, PublicError> {
        let readers = Arc::clone(&self.source.readers);
        let permit = tokio::time::timeout(WAIT, readers.acquire_owned()).await;
        let Ok(Ok(permit)) = permit else {
            return Err(busy());
        };
        let source = Arc::clone(&self.source);
        let read = move || {
            let _permit = permit;
            read(&source)
        };
        let found = spawn_blocking(read).await;
        found.map_err(|fault| {
            log::error!("usage cannot be read: {fault}");
            unavailable()
        })
    }

    fn limits(&self, identity: &Identity) -> LimitsView {
        let limits = self.plans.of(identity).unwrap_or(identity.limits);
        let standing = self.source.limiter.standing(&identity.key, &limits);
        let running = self.source.limiter.running(&identity.key);
        LimitsView {
            requests_per_minute: standing.requests.map(LimitView::from),
            input_tokens_per_minute: standing.input_tokens.map(LimitView::from),
            output_tokens_per_minute: standing.output_tokens.map(LimitView::from),
            concurrent_requests: limits.concurrent.map(|limit| ConcurrencyView {
                limit,
                remaining: limit.get().saturating_sub(running),
            }),
        }
    }
}

fn busy() -> PublicError {
    PublicError::new(
        ErrorCode::ServiceUnavailable,
        "too many usage queries are in progress; retry in a few seconds",
    )
}

fn unavailable() -> PublicError {
    PublicError::new(
        ErrorCode::ServiceUnavailable,
        "usage cannot be read now; retry in a few seconds",
    )
}

fn unreadable(fault: &StoreError) -> PublicError {
    log::error!("usage cannot be read: {fault}");
    unavailable()
}

/// The body of `GET /v1/usage`.
#[derive(Serialize)]
struct Summary<'a> {
    object: &'static str,
    plan: Option<&'a str>,
    valid_from: Option<Timestamp>,
    valid_until: Option<Timestamp>,
    /// Null where the key was given money alone.
    tokens: Option<Amounts<u64>>,
    /// Null where the key was given no money.
    money: Option<Amounts<Money>>,
    limits: LimitsView,
    models: &'a [ModelTotal],
}

/// `granted` is the sum of the other three. Grants that have expired are in none of them.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Amounts<T> {
    granted: T,
    used: T,
    reserved: T,
    remaining: T,
}

impl Amounts<u64> {
    fn new(granted: u64, used: u64, reserved: u64) -> Self {
        let left = granted.saturating_sub(used);
        // What a request holds of a grant that has expired meanwhile is not this balance's.
        let reserved = reserved.min(left);
        Self {
            granted,
            used,
            reserved,
            remaining: left.saturating_sub(reserved),
        }
    }

    fn of_money(self) -> Amounts<Money> {
        Amounts {
            granted: Money::from_nanos(self.granted),
            used: Money::from_nanos(self.used),
            reserved: Money::from_nanos(self.reserved),
            remaining: Money::from_nanos(self.remaining),
        }
    }
}

/// Null where there is no limit.
#[derive(Serialize)]
struct LimitsView {
    requests_per_minute: Option<LimitView>,
    input_tokens_per_minute: Option<LimitView>,
    output_tokens_per_minute: Option<LimitView>,
    concurrent_requests: Option<ConcurrencyView>,
}

#[derive(Serialize)]
struct LimitView {
    limit: u64,
    remaining: u64,
    /// Milliseconds until the limit is whole again.
    reset_after_ms: u64,
}

impl From<Level> for LimitView {
    fn from(level: Level) -> Self {
        Self {
            limit: level.limit,
            remaining: level.remaining,
            reset_after_ms: u64::try_from(level.reset_after.as_millis()).unwrap_or(u64::MAX),
        }
    }
}

#[derive(Serialize)]
struct ConcurrencyView {
    limit: NonZeroU32,
    remaining: u32,
}

impl<'a> Summary<'a> {
    fn new(
        identity: &'a Identity,
        summary: &'a UsageSummary,
        reserved: &PerUnit<u64>,
        limits: LimitsView,
    ) -> Self {
        let amounts = |unit| {
            let given = (*summary.given.get(unit))?;
            Some(Amounts::new(given.granted, given.used, *reserved.get(unit)))
        };
        let money = amounts(Unit::Money);
        // A key that was given nothing has no tokens.
        let nothing = || money.is_none().then(|| Amounts::new(0, 0, 0));
        Self {
            object: "usage",
            plan: identity.plan.as_deref(),
            valid_from: summary.valid_from,
            valid_until: summary.valid_until,
            tokens: amounts(Unit::Tokens).or_else(nothing),
            money: amounts(Unit::Money).map(Amounts::of_money),
            limits,
            models: &summary.models,
        }
    }
}

/// The body of `GET /v1/usage/history`.
#[derive(Serialize)]
struct Page {
    object: &'static str,
    #[serde(flatten)]
    page: HistoryPage,
}

#[cfg(test)]
mod tests {
    use super::Amounts;

    #[test]
    fn granted_tokens_are_used_reserved_or_remaining() {
        for (granted, used, reserved, wanted) in [
            (100, 30, 20, (30, 20, 50)),
            (100, 100, 0, (100, 0, 0)),
            // Settled between the two readings, or held of a grant that has expired.
            (100, 90, 20, (90, 10, 0)),
            (0, 0, 5, (0, 0, 0)),
        ] {
            let tokens = Amounts::new(granted, used, reserved);
            assert_eq!((tokens.used, tokens.reserved, tokens.remaining), wanted);
            assert_eq!(
                tokens.used + tokens.reserved + tokens.remaining,
                tokens.granted
            );
        }
    }
}
