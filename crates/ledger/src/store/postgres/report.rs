//! Sums over the records of all keys.

use super::{connection::Session, storable_time};
use crate::{
    report::{GroupBy, ReportQuery, ReportRow},
    store::rows::StoredRow,
};

const fn expressions(by: GroupBy) -> &'static [&'static str] {
    match by {
        GroupBy::Key => &["keys.id COLLATE \"C\"", "keys.name COLLATE \"C\""],
        GroupBy::Plan => &["keys.plan COLLATE \"C\""],
        GroupBy::Model => &["model_served COLLATE \"C\""],
        GroupBy::Day => &["to_char(to_timestamp(at / 1000) AT TIME ZONE 'UTC', 'YYYY-MM-DD')"],
        GroupBy::Month => &["to_char(to_timestamp(at / 1000) AT TIME ZONE 'UTC', 'YYYY-MM')"],
    }
}

/// The text consists of constants alone. `sum` of whole numbers is exact; the cast fails if the sum has
/// no room.
fn statement(by: &[GroupBy]) -> String {
    let group: Vec<_> = by.iter().flat_map(|by| expressions(*by)).copied().collect();
    let places: Vec<_> = (1..=group.len()).map(|place| place.to_string()).collect();
    let (group, order) = (group.join(", "), places.join(" NULLS FIRST, "));
    let (comma, clauses) = match by.is_empty() {
        true => ("", String::new()),
        false => {
            let places = places.join(", ");
            let clauses = format!("GROUP BY {places} ORDER BY {order} NULLS FIRST");
            (", ", clauses)
        }
    };
    let sums = ReportRow::SUMS.iter().skip(1);
    let sums = sums.map(|column| (*column).to_owned());
    let costs = ReportRow::COSTS.iter();
    let costs = costs
        .flat_map(|column| ["/", "%"].map(|part| format!("{column} {part} {}", ReportRow::NANOS)));
    let sums: Vec<_> = sums
        .chain(costs)
        .map(|column| format!("coalesce(sum({column}), 0)::bigint"))
        .collect();
    let sums = sums.join(", ");
    format!(
        "SELECT {group}{comma} count(*), {sums}
         FROM usage JOIN keys ON usage.key = keys.number
         WHERE at >= $1 AND at < $2 {clauses}"
    )
}

pub(super) fn report(
    snapshot: &mut Session,
    query: &ReportQuery,
    each: &mut dyn FnMut(ReportRow) -> bool,
) -> Result<(), postgres::Error> {
    // Reading all records takes its time.
    snapshot.batch("SET LOCAL statement_timeout = 0")?;
    let columns: usize = query.by.iter().map(|by| by.columns().len()).sum();
    let (from, to) = (storable_time(query.from), storable_time(query.to));
    snapshot.for_each(&statement(&query.by), &[&from, &to], |row| {
        let group = (0..columns).map(|place| row.try_get(place));
        let group = group.collect::<Result<_, postgres::Error>>()?;
        let row = ReportRow::read(group, |place| row.amount(place))?;
        Ok(each(row))
    })
}
