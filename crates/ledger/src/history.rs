//! What a key has used: its records, page by page, and its totals.
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
    store::{Store, StoreError, open_reader, storable_time, stored_time},
};
use cursor::Place;
use parking_lot::Mutex;
use rusqlite::{Connection, Row, ToSql};
use serde::Serialize;
use std::{
    path::PathBuf,
    time::{Duration, Instant},
};
use tollgate_types::{KeyId, Usage};

/// How many records one page looks at, where the filters let little through: what a page costs
/// is bounded, and as few pages as possible are short.
struct Effort {
    /// However long it takes.
    least: usize,
    /// As long as there is time.
    most: usize,
    time: Duration,
}

/// Looking at a record takes 0.3 µs where those of a key lie together, and several where each
/// comes from a page of its own.
const EFFORT: Effort = Effort {
    least: 5000,
    most: 50_000,
    time: Duration::from_millis(8),
};

impl Effort {
    fn is_over(&self, examined: usize, begun: Instant) -> bool {
        // A look at the clock costs a tenth of one at a record.
        let is_late = || examined.is_multiple_of(64) && begun.elapsed() >= self.time;
        examined >= self.most || (examined >= self.least && is_late())
    }
}

/// Which records.
#[derive(Clone, Debug, Default)]
pub struct HistoryQuery {
    /// How many at most: 1 to [`HistoryQuery::MAX_LIMIT`], else the nearest of them; 0 is
    /// [`HistoryQuery::DEFAULT_LIMIT`].
    pub limit: u32,
    /// Records older than the one of this cursor.
    pub after: Option<String>,
    /// Records newer than the one of this cursor.
    pub before: Option<String>,
    /// Of this served model.
    pub model: Option<String>,
    /// That ended so.
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
    /// When it came on record, mostly the moment at which it was settled: never before a time
    /// that was on record already.
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
    /// Those of the charged tokens that nothing was left for.
    pub overdraft: u64,
    /// Where the count comes from: `reported` or `estimated`; `None` where nothing was used.
    pub source: Option<String>,
    /// The provider's report could not be believed: it was cut down, replaced, or chosen from
    /// several that contradict each other.
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

/// What a key has and has used. Tokens are those of grants that are valid now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct UsageSummary {
    /// Since when the grant that is being spent is valid.
    pub valid_from: Option<Timestamp>,
    /// Until when the last grant that has begun is valid.
    pub valid_until: Option<Timestamp>,
    /// Tokens given.
    pub granted: u64,
    /// Tokens charged.
    pub used: u64,
    /// The time of every grant that it was ever given is over: so is the key's.
    pub is_over: bool,
    /// What was used by model, over all time, purged records included.
    pub models: Vec<ModelTotal>,
}

/// What was used of one model.
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
}

/// A history that cannot be given.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// A cursor that is not one: the caller's fault.
    #[error(transparent)]
    Cursor(#[from] InvalidCursor),
    /// `after` and `before` together: the caller's fault.
    #[error("give after or before, not both")]
    BothCursors,
    /// The file cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Reads histories from a ledger file, over connections of its own.
pub struct History {
    path: PathBuf,
    hasher: KeyHasher,
    idle: Mutex<Vec<Connection>>,
}

/// Connections that are kept open.
const KEPT_CONNECTIONS: usize = 4;

impl History {
    /// Over the file of `store`.
    pub fn new(store: &Store) -> Self {
        Self {
            path: store.path().to_owned(),
            hasher: store.hasher().clone(),
            idle: Mutex::default(),
        }
    }

    /// A page of the records of `key`.
    ///
    /// # Errors
    /// A cursor is wrong, or the file cannot be read.
    pub fn page(&self, key: &KeyId, query: &HistoryQuery) -> Result<HistoryPage, HistoryError> {
        let place = |cursor: &Option<String>| {
            let cursor = cursor.as_deref();
            cursor
                .map(|text| Place::from_cursor(text, key, &self.hasher))
                .transpose()
        };
        let direction = match (place(&query.after)?, place(&query.before)?) {
            (Some(_), Some(_)) => return Err(HistoryError::BothCursors),
            (after, None) => Direction::Older(after),
            (None, Some(before)) => Direction::Newer(before),
        };
        let limit = match query.limit {
            0 => HistoryQuery::DEFAULT_LIMIT,
            limit => limit.min(HistoryQuery::MAX_LIMIT),
        };
        let limit = usize::try_from(limit).unwrap_or(1);
        let found = self.with(|file| find(file, key, query, direction, limit, &EFFORT))?;
        Ok(self.to_page(key, found, direction))
    }

    fn to_page(&self, key: &KeyId, found: Found, direction: Direction) -> HistoryPage {
        let cursor = |place: Option<Place>| place.map(|p| p.to_cursor(key, &self.hasher));
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

    /// What `key` has and has used, at `now`.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn summary(&self, key: &KeyId, now: Timestamp) -> Result<UsageSummary, StoreError> {
        self.with(|file| {
            let mut summary = read_grants(file, key, now)?;
            summary.models = read_totals(file, key)?;
            Ok(summary)
        })
    }

    /// Whether the time of every grant that a key was ever given is over at `now`.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn is_over(&self, key: &KeyId, now: Timestamp) -> Result<bool, StoreError> {
        self.with(|file| read_grants(file, key, now).map(|summary| summary.is_over))
    }

    fn with<T>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        let kept = self.idle.lock().pop();
        let file = match kept {
            Some(file) => file,
            None => open_reader(&self.path)?,
        };
        let result = read(&file).map_err(|fault| StoreError::from_sqlite(&fault, &self.path))?;
        let mut idle = self.idle.lock();
        if idle.len() < KEPT_CONNECTIONS {
            idle.push(file);
        }
        Ok(result)
    }
}

impl std::fmt::Debug for History {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("History")
    }
}

#[derive(Clone, Copy)]
enum Direction {
    /// From the newest on, or from behind this place.
    Older(Option<Place>),
    /// From before this place on, backwards.
    Newer(Place),
}

/// Records in the direction of the search.
struct Found {
    records: Vec<UsageRecord>,
    /// The places of the first and the last record that was looked at.
    first: Option<Place>,
    last: Option<Place>,
    has_more: bool,
}

/// The statement that finds the records for a query, and the numbers that it takes. The text consists of
/// constants alone. The index is named: left to itself, SQLite may prefer one that reads
/// every record of a busy key.
fn statement(query: &HistoryQuery, direction: Direction) -> (String, [i64; 3]) {
    let (index, filter) = match (&query.model, query.state) {
        // One goes by the index; the others, the HTTP status always, are checked row by row
        // in `find`, where the rows are counted.
        (Some(_), _) => ("usage_by_model", "AND model_served = ?5"),
        // Spelled out, since the index holds no others and SQLite must see that.
        (None, Some(state)) if state != BillingState::Completed => {
            ("usage_by_state", "AND state = ?5 AND state <> 'completed'")
        }
        (None, _) => ("usage_by_time", "AND ?5 IS NULL"),
    };
    let from = query.from.map_or(0, storable_time);
    let to = query.to.map_or(i64::MAX, storable_time);
    let border = |at| Place {
        at,
        number: i64::MIN,
    };
    // One bound on each side, so that the index is entered where the page begins.
    let (bounds, order, place, end) = match direction {
        Direction::Older(place) => {
            let place = place.map_or(border(to), |place| place.min(border(to)));
            ("(at, number) < (?2, ?3) AND at >= ?4", "DESC", place, from)
        }
        Direction::Newer(place) => {
            let place = place.max(border(from));
            ("(at, number) > (?2, ?3) AND at < ?4", "ASC", place, to)
        }
    };
    let sql = format!(
        "SELECT number, at, state, status FROM usage INDEXED BY {index}
         WHERE key = (SELECT number FROM keys WHERE id = ?1) {filter} AND {bounds}
         ORDER BY at {order}, number {order}"
    );
    (sql, [place.at, place.number, end])
}

fn find(
    file: &Connection,
    key: &KeyId,
    query: &HistoryQuery,
    direction: Direction,
    limit: usize,
    effort: &Effort,
) -> rusqlite::Result<Found> {
    let (sql, numbers) = statement(query, direction);
    let state = query.state.map(BillingState::as_str);
    let by_index = state.filter(|state| *state != BillingState::Completed.as_str());
    let filter = query.model.as_deref().or(by_index);
    let id = key.as_str();
    let mut values: Vec<&dyn ToSql> = vec![&id];
    values.extend(numbers.iter().map(|number| number as &dyn ToSql));
    values.push(&filter);

    // Of one moment, although the records that are wanted are read one by one.
    let moment = file.unchecked_transaction()?;
    let mut statement = moment.prepare_cached(&sql)?;
    let mut whole = moment.prepare_cached(RECORD)?;
    let mut rows = statement.query(values.as_slice())?;
    let mut found = Found {
        records: Vec::new(),
        first: None,
        last: None,
        has_more: false,
    };
    let begun = Instant::now();
    let mut examined = 0_usize;
    while let Some(row) = rows.next()? {
        if found.records.len() == limit || effort.is_over(examined, begun) {
            found.has_more = true;
            break;
        }
        examined = examined.saturating_add(1);
        let place = Place {
            number: row.get(0)?,
            at: row.get(1)?,
        };
        found.first.get_or_insert(place);
        found.last = Some(place);
        if is_wanted(row, state, query.status)? {
            let record = whole.query_row([place.number], read_record)?;
            found.records.push(record);
        }
    }
    Ok(found)
}

/// Whether a row of [`statement`] passes the filters that no index answers.
fn is_wanted(row: &Row<'_>, state: Option<&str>, status: Option<u16>) -> rusqlite::Result<bool> {
    let of_state = match state {
        Some(state) => row.get_ref(2)?.as_str()? == state,
        None => true,
    };
    let of_status = match status {
        Some(status) => row.get::<_, u16>(3)? == status,
        None => true,
    };
    Ok(of_state && of_status)
}

/// In the order of [`read_record`].
const RECORD: &str = "SELECT at, request, model_asked, model_served, format, streamed, status,
        error, state, input, cache_read, cache_write, output, reasoning, charged, overdraft,
        source, first_byte_ms, duration_ms, route_reason, clamped
    FROM usage WHERE number = ?1";

fn read_record(row: &Row<'_>) -> rusqlite::Result<UsageRecord> {
    let at: i64 = row.get(0)?;
    let usage = Usage {
        input: unsigned(row, 9)?,
        cache_read: unsigned(row, 10)?,
        cache_write: unsigned(row, 11)?,
        output: unsigned(row, 12)?,
        reasoning: unsigned(row, 13)?,
    };
    let source: String = row.get(16)?;
    Ok(UsageRecord {
        id: row.get(1)?,
        time: stored_time(at).unwrap_or_default(),
        model_asked: row.get(2)?,
        model_served: row.get(3)?,
        format: row.get(4)?,
        streamed: row.get(5)?,
        status: row.get(6)?,
        error: row.get(7)?,
        state: row.get(8)?,
        usage,
        charged: unsigned(row, 14)?,
        overdraft: unsigned(row, 15)?,
        source: (usage.total() > 0).then_some(source),
        first_byte_ms: row.get(17)?,
        duration_ms: row.get(18)?,
        route_reason: row.get(19)?,
        clamped: row.get(20)?,
    })
}

fn unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let stored: i64 = row.get(column)?;
    Ok(u64::try_from(stored).unwrap_or(0))
}

fn read_grants(file: &Connection, key: &KeyId, now: Timestamp) -> rusqlite::Result<UsageSummary> {
    file.prepare_cached(
        "SELECT min(first_used_at) FILTER (WHERE lasts), max(expires_at) FILTER (WHERE lasts),
                coalesce(sum(tokens) FILTER (WHERE lasts), 0),
                coalesce(sum(spent) FILTER (WHERE lasts), 0),
                count(*) > 0 AND count(*) FILTER (WHERE lasts) = 0
         FROM (SELECT first_used_at, expires_at, tokens, spent,
                      coalesce(expires_at > ?2, TRUE) AS lasts
               FROM grants WHERE key = (SELECT number FROM keys WHERE id = ?1))",
    )?
    .query_row(rusqlite::params![key.as_str(), storable_time(now)], |row| {
        let time = |ms: Option<i64>| ms.and_then(stored_time);
        Ok(UsageSummary {
            valid_from: time(row.get(0)?),
            valid_until: time(row.get(1)?),
            granted: unsigned(row, 2)?,
            used: unsigned(row, 3)?,
            is_over: row.get(4)?,
            models: Vec::new(),
        })
    })
}

fn read_totals(file: &Connection, key: &KeyId) -> rusqlite::Result<Vec<ModelTotal>> {
    file.prepare_cached(
        "SELECT model, requests, input, cache_read, cache_write, output, charged
         FROM totals WHERE key = (SELECT number FROM keys WHERE id = ?1)
         ORDER BY model LIMIT 1000",
    )?
    .query_map([key.as_str()], |row| {
        Ok(ModelTotal {
            model: row.get(0)?,
            requests: unsigned(row, 1)?,
            input: unsigned(row, 2)?,
            cache_read: unsigned(row, 3)?,
            cache_write: unsigned(row, 4)?,
            output: unsigned(row, 5)?,
            charged: unsigned(row, 6)?,
        })
    })?
    .collect()
}

#[cfg(test)]
mod tests;
