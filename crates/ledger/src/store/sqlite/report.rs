//! Sums over the records of all keys.

use super::storable_time;
use crate::{
    report::{GroupBy, ReportQuery, ReportRow},
    store::rows::StoredRow,
};
use rusqlite::Connection;

const fn expressions(by: GroupBy) -> &'static [&'static str] {
    match by {
        GroupBy::Key => &["keys.id", "keys.name"],
        GroupBy::Plan => &["keys.plan"],
        GroupBy::Model => &["model_served"],
        GroupBy::Day => &["strftime('%Y-%m-%d', at / 1000, 'unixepoch')"],
        GroupBy::Month => &["strftime('%Y-%m', at / 1000, 'unixepoch')"],
    }
}

/// The text consists of constants alone. Key by key, so that an index leads to the period. `sum` of
/// whole numbers is exact: SQLite fails if it has no room. Groups are sorted in a file if there are
/// many.
fn statement(by: &[GroupBy]) -> String {
    let group: Vec<_> = by.iter().flat_map(|by| expressions(*by)).copied().collect();
    let places: Vec<_> = (1..=group.len()).map(|place| place.to_string()).collect();
    let (group, places) = (group.join(", "), places.join(", "));
    let (comma, clauses) = match by.is_empty() {
        true => ("", String::new()),
        false => (", ", format!("GROUP BY {places} ORDER BY {places}")),
    };
    format!(
        "SELECT {group}{comma} count(*),
             coalesce(sum(input), 0), coalesce(sum(cache_read), 0),
             coalesce(sum(cache_write), 0), coalesce(sum(output), 0),
             coalesce(sum(reasoning), 0), coalesce(sum(charged), 0), coalesce(sum(overdraft), 0),
             coalesce(sum(cost / {nanos}), 0), coalesce(sum(cost % {nanos}), 0),
             coalesce(sum(cost_overdraft / {nanos}), 0), coalesce(sum(cost_overdraft % {nanos}), 0)
         FROM keys CROSS JOIN usage INDEXED BY usage_by_time ON usage.key = keys.number
         WHERE at >= ?1 AND at < ?2 {clauses}",
        nanos = ReportRow::NANOS
    )
}

pub(super) fn report(
    file: &Connection,
    query: &ReportQuery,
    each: &mut dyn FnMut(ReportRow) -> bool,
) -> rusqlite::Result<()> {
    let columns: usize = query.by.iter().map(|by| by.columns().len()).sum();
    let mut statement = file.prepare(&statement(&query.by))?;
    let mut rows = statement.query([storable_time(query.from), storable_time(query.to)])?;
    while let Some(row) = rows.next()? {
        let group = (0..columns).map(|place| row.get(place));
        let group = group.collect::<rusqlite::Result<_>>()?;
        if !each(ReportRow::read(group, |place| row.amount(place))?) {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
