//! The usage of a key: its records, page by page, and its totals.
//!
//! Every query is bounded in rows read and rows given, whatever the filters; a page may
//! therefore be short, and says that there is more and from where on. Calls block on the disk: from
//! a request they belong on a blocking thread (`tokio::task::spawn_blocking`).

mod cursor;

pub use cursor::InvalidCursor;

use crate::{
    charge::BillingState,
    clock::Timestamp,
    key::KeyHasher,
    store::{Store, StoreError, database::Database},
};
pub(crate) use cursor::Position;
use serde::Serialize;
use std::sync::Arc;
use tollgate_types::{KeyId, Money, PerUnit, Usage};

/// Selects records.
#[derive(Clone, Debug, Default)]
pub struct HistoryQuery {
    /// How many at most: 1 to [`HistoryQuery::MAX_LIMIT`], else the nearest of them; 0 is
    /// [`HistoryQuery::DEFAULT_LIMIT`].
    pub limit: u32,
    /// Records older than the one of this cursor.
    pub after: Option<String>,
    /// Records newer than the one of this cursor. Then `after` has no effect.
    pub before: Option<String>,
    /// Of this served model.
    pub model: Option<String>,
    /// With this billing state.
    pub state: Option<BillingState>,
    /// That were answered with this HTTP status.
    pub status: Option<u16>,
    /// Of this time or later.
    pub from: Option<Timestamp>,
    /// Of a time before this.
    pub to: Option<Timestamp>,
}

impl HistoryQuery {
    /// The longest page.
    pub const MAX_LIMIT: u32 = 500;
    /// The length of a page where none is asked for.
    pub const DEFAULT_LIMIT: u32 = 50;
}

/// One request on record, as its caller sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UsageRecord {
    /// The request id.
    pub id: String,
    /// When it was recorded, usually when it was settled. Never earlier than an older record.
    pub time: Timestamp,
    /// The model asked for.
    pub model_asked: String,
    /// The model that served.
    pub model_served: String,
    /// Why the service chose that model, where the request left the choice to it.
    pub route_reason: Option<String>,
    /// The caller's wire format.
    pub format: String,
    /// Whether the answer was streamed.
    pub streamed: bool,
    /// The HTTP status; 0 where none was sent.
    pub status: u16,
    /// The error code, where there was an error.
    pub error: Option<String>,
    /// How it ended.
    pub state: String,
    /// The tokens by kind.
    pub usage: Usage,
    /// Tokens charged.
    pub charged: u64,
    /// The charged tokens that the balance did not cover.
    pub overdraft: u64,
    /// The cost in money at the prices of its time; `None` if they are unknown.
    pub cost: Option<Money>,
    /// The part of the cost that the balance did not cover; `None` if the key did not pay in money.
    pub cost_overdraft: Option<Money>,
    /// Where the count comes from: `reported` or `estimated`; `None` if nothing was used.
    pub source: Option<String>,
    /// The provider's report was implausible or contradicted another one, and was corrected.
    pub clamped: bool,
    /// Milliseconds to the first byte.
    pub first_byte_ms: Option<u32>,
    /// Milliseconds to the end.
    pub duration_ms: u32,
}

/// A page of records, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HistoryPage {
    /// The records.
    pub data: Vec<UsageRecord>,
    /// Whether there are more in the direction asked for.
    pub has_more: bool,
    /// For `before`: what is newer than this page.
    pub first_cursor: Option<String>,
    /// For `after`: what is older than this page.
    pub last_cursor: Option<String>,
}

/// The balance and the usage of a key. Amounts are those of grants that are valid now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UsageSummary {
    /// Since when the grant that is being spent is valid.
    pub valid_from: Option<Timestamp>,
    /// Until when the last grant that has begun is valid.
    pub valid_until: Option<Timestamp>,
    /// The granted and used amounts of each unit; `None` if the key never had a grant in it.
    pub given: PerUnit<Option<Given>>,
    /// All grants of the key have expired, and so has the key.
    pub is_over: bool,
    /// The usage by model, over all time, purged records included.
    pub models: Vec<ModelTotal>,
}

/// The grants of a key in one unit: tokens, or money in nano-units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// Given.
    pub granted: u64,
    /// Charged.
    pub used: u64,
    /// Leased by processes.
    pub leased: u64,
}

/// The usage of one model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ModelTotal {
    /// The served model.
    pub model: String,
    /// Requests.
    pub requests: u64,
    /// Uncached input tokens.
    pub input: u64,
    /// Input tokens read from a cache.
    pub cache_read: u64,
    /// Input tokens written to a cache.
    pub cache_write: u64,
    /// Output tokens.
    pub output: u64,
    /// Tokens charged.
    pub charged: u64,
    /// The cost in money of the requests whose prices are known.
    pub cost: Money,
}

/// A history that cannot be given.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// The cursor is not valid: a fault of the client.
    #[error(transparent)]
    Cursor(#[from] InvalidCursor),
    /// The database cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Reads histories.
pub struct History {
    database: Arc<dyn Database>,
    hasher: KeyHasher,
}

impl History {
    /// Over the database of `store`.
    pub fn new(store: &Store) -> Self {
        Self {
            database: Arc::clone(store.database()),
            hasher: store.hasher().clone(),
        }
    }

    /// A page of the records of `key`.
    ///
    /// # Errors
    /// The cursor is not valid, or the database cannot be read.
    pub fn page(&self, key: &KeyId, query: &HistoryQuery) -> Result<HistoryPage, HistoryError> {
        let position = |cursor: &Option<String>| {
            let cursor = cursor.as_deref();
            cursor
                .map(|text| Position::from_cursor(text, key, &self.hasher))
                .transpose()
        };
        let direction = match position(&query.before)? {
            Some(before) => Direction::Newer(before),
            None => Direction::Older(position(&query.after)?),
        };
        let limit = match query.limit {
            0 => HistoryQuery::DEFAULT_LIMIT,
            limit => limit.min(HistoryQuery::MAX_LIMIT),
        };
        let limit = usize::try_from(limit).unwrap_or(1);
        let found = self.database.history(key, query, direction, limit)?;
        Ok(self.to_page(key, found, direction))
    }

    fn to_page(&self, key: &KeyId, found: Found, direction: Direction) -> HistoryPage {
        let cursor = |position: Option<Position>| position.map(|p| p.to_cursor(key, &self.hasher));
        let Found {
            mut records,
            first,
            last,
            has_more,
        } = found;
        let (first, last) = match direction {
            Direction::Older(_) => (first, last),
            Direction::Newer(_) => {
                records.reverse();
                (last, first)
            }
        };
        HistoryPage {
            data: records,
            has_more,
            first_cursor: cursor(first),
            last_cursor: cursor(last),
        }
    }

    /// The balance and the usage of `key` at `now`.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn summary(&self, key: &KeyId, now: Timestamp) -> Result<UsageSummary, StoreError> {
        self.database.summary(key, now)
    }

    /// Whether all grants that a key was ever given are over at `now`.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn is_over(&self, key: &KeyId, now: Timestamp) -> Result<bool, StoreError> {
        Ok(self.summary(key, now)?.is_over)
    }
}

/// Where a page begins.
#[derive(Clone, Copy)]
pub(crate) enum Direction {
    /// From the newest on, or from behind this position.
    Older(Option<Position>),
    /// From before this position on, backwards.
    Newer(Position),
}

/// Records in the direction of the search.
pub(crate) struct Found {
    pub(crate) records: Vec<UsageRecord>,
    /// The positions of the first and the last record that was looked at.
    pub(crate) first: Option<Position>,
    pub(crate) last: Option<Position>,
    pub(crate) has_more: bool,
}
