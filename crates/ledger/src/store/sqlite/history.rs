//! The records of a key, page by page. Every query reads and returns a bounded number of rows, whatever its
//! filters are.

use super::storable_time;
use crate::{
    charge::BillingState,
    history::{Direction, Found, HistoryQuery, Position, UsageRecord},
    store::rows::{self, RECORD},
};
use rusqlite::{Connection, Row, ToSql, types::Value};
use std::time::{Duration, Instant};
use tollgate_types::KeyId;

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
    let border = |at| Position {
        at,
        number: i64::MIN,
    };
    // One bound on each side, so that the index is entered where the page begins.
    let (bounds, order, position, end) = match direction {
        Direction::Older(position) => {
            let position = position.map_or(border(to), |position| position.min(border(to)));
            (
                "(at, number) < (?2, ?3) AND at >= ?4",
                "DESC",
                position,
                from,
            )
        }
        Direction::Newer(position) => {
            let position = position.max(border(from));
            ("(at, number) > (?2, ?3) AND at < ?4", "ASC", position, to)
        }
    };
    let sql = format!(
        "SELECT number, at, state, status, model_served FROM usage INDEXED BY {index}
         WHERE key = (SELECT number FROM keys WHERE id = ?1) {filter} AND {bounds}
         ORDER BY at {order}, number {order}"
    );
    (sql, value, [position.at, position.number, end])
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
        let position = Position {
            number: row.get(0)?,
            at: row.get(1)?,
        };
        found.first.get_or_insert(position);
        found.last = Some(position);
        if is_wanted(row, query)? {
            found.records.push(record(&snapshot, position.number)?);
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

/// A record by its number.
fn record(file: &Connection, number: i64) -> rusqlite::Result<UsageRecord> {
    let sql = format!("SELECT {RECORD} FROM usage WHERE number = ?1");
    file.prepare_cached(&sql)?
        .query_row([number], |row| rows::record(row))
}

#[cfg(test)]
mod tests;
