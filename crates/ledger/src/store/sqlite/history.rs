//! The rows of a key's history: its records page by page, its grants and its totals.
//!
//! Every query reads and returns a bounded number of rows, whatever its filters are.

use super::{amount, storable_time, stored_time, unsigned};
use crate::{
    charge::BillingState,
    clock::Timestamp,
    history::{
        Direction, Found, Given, HistoryQuery, ModelTotal, Place, UsageRecord, UsageSummary,
    },
};
use rusqlite::{Connection, Row, ToSql, types::Value};
use std::time::{Duration, Instant};
use tollgate_types::{KeyId, Money, PerUnit, Usage};

/// How many records a page looks at if the filters let few of them through: what a page costs is
/// bounded, and as few pages as possible are short.
pub(super) struct Effort {
    /// So many in any case.
    least: usize,
    /// So many as long as there is time.
    most: usize,
    time: Duration,
}

/// Looking at a record takes 0.3 µs if those of a key lie together, and several if each comes from a
/// page of its own.
pub(super) const EFFORT: Effort = Effort {
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

/// The statement that finds the records for a query, the value of its filter, and the numbers that it takes.
/// The text consists of constants alone. The index is named: left to itself, SQLite may prefer one that reads
/// every record of a busy key.
fn statement(query: &HistoryQuery, direction: Direction) -> (String, Value, [i64; 3]) {
    // One filter goes by the index; the others are checked row by row in `find`, where the rows are counted.
    // Those of failures are spelled out, since the index holds no others and SQLite must see that.
    let (index, filter, value) = match (query.status, query.state, &query.model) {
        (Some(status), _, _) if status != 200 => (
            "usage_by_status",
            "AND status = ?5 AND status <> 200",
            Value::from(i64::from(status)),
        ),
        (_, Some(state), _) if state != BillingState::Completed => (
            "usage_by_state",
            "AND state = ?5 AND state <> 'completed'",
            Value::from(state.as_str().to_owned()),
        ),
        (_, _, Some(model)) => (
            "usage_by_model",
            "AND model_served = ?5",
            Value::from(model.clone()),
        ),
        _ => ("usage_by_time", "AND ?5 IS NULL", Value::Null),
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
        "SELECT number, at, state, status, model_served FROM usage INDEXED BY {index}
         WHERE key = (SELECT number FROM keys WHERE id = ?1) {filter} AND {bounds}
         ORDER BY at {order}, number {order}"
    );
    (sql, value, [place.at, place.number, end])
}

pub(super) fn find(
    file: &Connection,
    key: &KeyId,
    query: &HistoryQuery,
    direction: Direction,
    limit: usize,
    effort: &Effort,
) -> rusqlite::Result<Found> {
    let (sql, filter, numbers) = statement(query, direction);
    let id = key.as_str();
    let mut values: Vec<&dyn ToSql> = vec![&id];
    values.extend(numbers.iter().map(|number| number as &dyn ToSql));
    values.push(&filter);

    // One snapshot, although the wanted records are read one by one.
    let snapshot = file.unchecked_transaction()?;
    let mut statement = snapshot.prepare_cached(&sql)?;
    let mut whole = snapshot.prepare_cached(RECORD)?;
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
        if is_wanted(row, query)? {
            let record = whole.query_row([place.number], read_record)?;
            found.records.push(record);
        }
    }
    Ok(found)
}

/// Whether a row of [`statement`] passes the filters.
fn is_wanted(row: &Row<'_>, query: &HistoryQuery) -> rusqlite::Result<bool> {
    let of_state = match query.state {
        Some(state) => row.get_ref(2)?.as_str()? == state.as_str(),
        None => true,
    };
    let of_status = match query.status {
        Some(status) => row.get::<_, u16>(3)? == status,
        None => true,
    };
    let of_model = match &query.model {
        Some(model) => row.get_ref(4)?.as_str()? == model,
        None => true,
    };
    Ok(of_state && of_status && of_model)
}

/// In the order of [`read_record`].
const RECORD: &str = "SELECT at, request, model_asked, model_served, format, streamed, status,
        error, state, input, cache_read, cache_write, output, reasoning, charged, overdraft,
        source, first_byte_ms, duration_ms, route_reason, clamped, cost,
        cost_overdraft
    FROM usage WHERE number = ?1";

/// A record by its number.
pub(super) fn record(file: &Connection, number: i64) -> rusqlite::Result<UsageRecord> {
    file.prepare_cached(RECORD)?
        .query_row([number], read_record)
}

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
        cost: money(row, 21)?,
        cost_overdraft: money(row, 22)?,
    })
}

fn money(row: &Row<'_>, place: usize) -> rusqlite::Result<Option<Money>> {
    let nanos: Option<i64> = row.get(place)?;
    Ok(nanos.map(|nanos| Money::from_nanos(amount(nanos))))
}

/// What a key was given and has used.
pub(super) fn summary(
    file: &Connection,
    key: &KeyId,
    now: Timestamp,
) -> rusqlite::Result<UsageSummary> {
    let summary = read_grants(file, key, now)?;
    let models = read_totals(file, key)?;
    Ok(UsageSummary { models, ..summary })
}

fn read_grants(file: &Connection, key: &KeyId, now: Timestamp) -> rusqlite::Result<UsageSummary> {
    file.prepare_cached(
        "SELECT min(first_used_at) FILTER (WHERE lasts), max(expires_at) FILTER (WHERE lasts),
                count(*) > 0 AND count(*) FILTER (WHERE lasts) = 0,
                count(*) FILTER (WHERE unit = 'tokens'),
                coalesce(sum(tokens) FILTER (WHERE lasts AND unit = 'tokens'), 0),
                coalesce(sum(spent) FILTER (WHERE lasts AND unit = 'tokens'), 0),
                count(*) FILTER (WHERE unit = 'money'),
                coalesce(sum(tokens) FILTER (WHERE lasts AND unit = 'money'), 0),
                coalesce(sum(spent) FILTER (WHERE lasts AND unit = 'money'), 0)
         FROM (SELECT first_used_at, expires_at, unit, tokens, spent,
                      coalesce(expires_at > ?2, TRUE) AS lasts
               FROM grants WHERE key = (SELECT number FROM keys WHERE id = ?1))",
    )?
    .query_row(rusqlite::params![key.as_str(), storable_time(now)], |row| {
        let time = |ms: Option<i64>| ms.and_then(stored_time);
        Ok(UsageSummary {
            valid_from: time(row.get(0)?),
            valid_until: time(row.get(1)?),
            is_over: row.get(2)?,
            given: PerUnit {
                tokens: read_given(row, 3)?,
                money: read_given(row, 6)?,
            },
            models: Vec::new(),
        })
    })
}

/// What was given and used in a unit; `None` if nothing was ever given.
fn read_given(row: &Row<'_>, first: usize) -> rusqlite::Result<Option<Given>> {
    let at = |offset: usize| first.saturating_add(offset);
    let grants: i64 = row.get(first)?;
    let given = Given {
        granted: unsigned(row, at(1))?,
        used: unsigned(row, at(2))?,
    };
    Ok((grants > 0).then_some(given))
}

fn read_totals(file: &Connection, key: &KeyId) -> rusqlite::Result<Vec<ModelTotal>> {
    file.prepare_cached(
        "SELECT model, requests, input, cache_read, cache_write, output, charged, cost
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
            cost: Money::from_nanos(unsigned(row, 7)?),
        })
    })?
    .collect()
}

#[cfg(test)]
mod tests;
