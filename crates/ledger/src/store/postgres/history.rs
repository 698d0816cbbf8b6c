//! The records of a key, page by page. Every query reads and returns a bounded number of rows, whatever its
//! filters are.

use super::{connection::Session, plain, storable_time};
use crate::{
    charge::BillingState,
    history::{Direction, Found, HistoryQuery, Position, UsageRecord},
    store::rows::{self, RECORD, StoredRow},
};
use postgres::types::ToSql;
use std::collections::HashMap;
use tollgate_types::KeyId;

/// How many records a page looks at if the filters let few of them through.
const MOST_EXAMINED: i64 = 5_000;

/// The statement that finds the records for a query, and the numbers that it takes. A failure is found by an
/// index that holds failures alone, with all that filters compare; else a model by its index. What remains of
/// the filters is checked row by row. The comparisons of `at` alone let the server leave weeks out.
///
/// Besides the wanted records, the first that was examined is returned, and the last if there are more.
fn statement(query: &HistoryQuery, direction: Direction) -> (String, [i64; 3]) {
    // Spelled out, so that the server sees that the index holds all of them.
    let filter = match (query.status, query.state, &query.model) {
        (Some(status), _, _) if status != 200 => "AND status = $7 AND status <> 200",
        (_, Some(state), _) if state != BillingState::Completed => {
            "AND state = $6 AND state <> 'completed'"
        }
        (_, _, Some(_)) => "AND model_served = $5",
        _ => "",
    };
    let from = query.from.map_or(0, storable_time);
    let to = query.to.map_or(i64::MAX, storable_time);
    let border = |at| Position {
        at,
        number: i64::MIN,
    };
    let (bounds, order, position, end) = match direction {
        Direction::Older(position) => {
            let position = position.map_or(border(to), |position| position.min(border(to)));
            (
                "(at, number) < ($2, $3) AND at <= $2 AND at >= $4",
                "DESC",
                position,
                from,
            )
        }
        Direction::Newer(position) => {
            let position = position.max(border(from));
            (
                "(at, number) > ($2, $3) AND at >= $2 AND at < $4",
                "ASC",
                position,
                to,
            )
        }
    };
    let sql = format!(
        "SELECT number, at, is_wanted, place FROM (
             SELECT number, at, row_number() OVER (ORDER BY at {order}, number {order}) AS place,
                 ($5::text IS NULL OR model_served = $5) AND ($6::text IS NULL OR state = $6)
                     AND ($7::bigint IS NULL OR status = $7) AS is_wanted
             FROM (
                 SELECT number, at, model_served, state, status FROM usage
                 WHERE key = (SELECT number FROM keys WHERE id = $1) {filter} AND {bounds}
                 ORDER BY at {order}, number {order} LIMIT {MOST_EXAMINED} + 1
             ) AS examined
         ) AS judged
         WHERE is_wanted OR place = 1 OR place >= {MOST_EXAMINED}
         ORDER BY at {order}, number {order} LIMIT $8"
    );
    (sql, [position.at, position.number, end])
}

pub(super) fn find(
    file: &mut Session,
    key: &KeyId,
    query: &HistoryQuery,
    direction: Direction,
    limit: usize,
) -> Result<Found, postgres::Error> {
    let (sql, [at, number, end]) = statement(query, direction);
    let model = query.model.as_deref().map(plain);
    let state = query.state.map(BillingState::as_str);
    let status = query.status.map(i64::from);
    // The first one may be in addition.
    let most = i64::try_from(limit.saturating_add(2)).unwrap_or(i64::MAX);
    let id = key.as_str();
    let values: [&(dyn ToSql + Sync); 8] =
        [&id, &at, &number, &end, &model, &state, &status, &most];
    let mut found = Found {
        records: Vec::new(),
        first: None,
        last: None,
        has_more: false,
    };
    let mut wanted: Vec<i64> = Vec::new();
    for row in file.query(&sql, &values)? {
        let (is_wanted, examined): (bool, i64) = (row.try_get(2)?, row.try_get(3)?);
        if wanted.len() == limit || examined > MOST_EXAMINED {
            found.has_more = true;
            break;
        }
        let position = Position {
            number: row.try_get(0)?,
            at: row.try_get(1)?,
        };
        found.first.get_or_insert(position);
        found.last = Some(position);
        if is_wanted {
            wanted.push(position.number);
        }
    }
    let [first, last] = [found.first, found.last].map(|it| it.map_or(0, |position| position.at));
    let (oldest, newest) = (first.min(last), first.max(last));
    let mut records = records(file, &wanted, oldest, newest)?;
    let records = wanted.iter().filter_map(|number| records.remove(number));
    found.records.extend(records);
    Ok(found)
}

/// Records by their numbers and times, each with its number.
fn records(
    snapshot: &mut Session,
    numbers: &[i64],
    oldest: i64,
    newest: i64,
) -> Result<HashMap<i64, UsageRecord>, postgres::Error> {
    let sql = format!(
        "SELECT {RECORD}, number FROM usage WHERE number = ANY($1) AND at BETWEEN $2 AND $3"
    );
    let rows = snapshot.query(&sql, &[&numbers, &oldest, &newest])?;
    let rows = rows.iter();
    rows.map(|row| Ok((row.read(23)?, rows::record(row)?)))
        .collect()
}
