//! The statement that enters the records of requests.
//!
//! Most of the cost of a row is the beginning and the end of its statement, and the binding of its
//! values. So a statement enters many rows, and a value that is the same as in the statement before
//! stays bound.

use super::{storable, write::WriteTransaction};
use crate::{balance::GrantNumber, entry::Entry};
use rusqlite::{
    CachedStatement,
    types::{ToSqlOutput, ValueRef},
};
use std::sync::LazyLock;
use tollgate_types::{Format, Money, PerUnit};

/// The numbers of rows for which there is a statement, largest first. A settlement takes a tenth more of the
/// writer's time with 20 rows than with 50, and a third more with one.
const ROWS: [usize; 3] = [50, 10, 1];

/// The statement for each of [`ROWS`].
static STATEMENTS: LazyLock<[String; ROWS.len()]> = LazyLock::new(|| {
    ROWS.map(|rows| {
        let columns = COLUMNS.join(", ");
        let row = format!("({})", ["?"; COLUMNS.len()].join(", "));
        let values = vec![row.as_str(); rows].join(", ");
        // A failure in the middle of many rows rolls the whole transaction back. Without `OR FAIL` SQLite
        // would keep a copy of every page that the statement changes.
        let or = if rows == 1 { "" } else { "OR FAIL" };
        format!(
            "INSERT {or} INTO usage ({columns}) VALUES {values} ON CONFLICT (request) DO NOTHING"
        )
    })
});

/// In the order of [`values`].
const COLUMNS: [&str; 26] = [
    "request",
    "key",
    "at",
    "model_asked",
    "model_served",
    "format",
    "streamed",
    "status",
    "error",
    "state",
    "input",
    "cache_read",
    "cache_write",
    "output",
    "reasoning",
    "charged",
    "overdraft",
    "cost",
    "source",
    "clamped",
    "first_byte_ms",
    "duration_ms",
    "paid_by",
    "route_reason",
    "cost_overdraft",
    "cost_paid_by",
];

/// A request that has ended.
pub(super) struct Record<'a> {
    pub(super) entry: &'a Entry,
    /// Its time, milliseconds since 1970.
    pub(super) at: u64,
    /// The grant of each unit that has paid all of it but the overdraft; `None` if several paid, or none.
    pub(super) paid_by: PerUnit<Option<GrantNumber>>,
}

/// Enters one record. `false`: its request has one already.
pub(super) fn insert(file: &WriteTransaction<'_>, record: &Record<'_>) -> rusqlite::Result<bool> {
    insert_all(file, std::slice::from_ref(record), || ())
}

/// Enters records, and calls `pause` after every statement of many. `false`: a request has one
/// already; if there are several records, what was written must be rolled back.
pub(super) fn insert_all(
    file: &WriteTransaction<'_>,
    records: &[Record<'_>],
    pause: impl Fn(),
) -> rusqlite::Result<bool> {
    let mut are_new = true;
    let mut rest = records;
    for (rows, sql) in ROWS.into_iter().zip(STATEMENTS.iter()) {
        let groups = rest.chunks_exact(rows);
        rest = groups.remainder();
        if groups.len() == 0 {
            continue;
        }
        let mut statement = Statement::of(file, sql, rows)?;
        for group in groups {
            are_new &= statement.insert(group)?;
            if rows > 1 {
                pause();
            }
        }
    }
    Ok(are_new)
}

/// The statement for so many rows, and what it was given last.
struct Statement<'file, 'entry> {
    file: &'file WriteTransaction<'file>,
    sql: CachedStatement<'file>,
    given: Vec<ValueRef<'entry>>,
}

impl<'file, 'entry> Statement<'file, 'entry> {
    fn of(file: &'file WriteTransaction<'_>, sql: &str, rows: usize) -> rusqlite::Result<Self> {
        Ok(Self {
            file,
            sql: file.prepare_cached(sql)?,
            // As a statement out of the cache has it.
            given: vec![ValueRef::Null; COLUMNS.len().saturating_mul(rows)],
        })
    }

    /// Enters as many records as the statement has rows; whether all are new.
    fn insert(&mut self, records: &[Record<'entry>]) -> rusqlite::Result<bool> {
        let values = records.iter().flat_map(values);
        for (place, (given, value)) in self.given.iter_mut().zip(values).enumerate() {
            if *given != value {
                let number = place.saturating_add(1);
                self.sql
                    .raw_bind_parameter(number, ToSqlOutput::Borrowed(value))?;
                *given = value;
            }
        }
        let are_new = self.sql.raw_execute()? == records.len();
        if are_new {
            // Otherwise all of them are rolled back, or it is the only one.
            for row in self.given.chunks(COLUMNS.len()) {
                self.file.entered_usage(row.iter().copied());
            }
        }
        Ok(are_new)
    }
}

/// The values of a row, in the order of [`COLUMNS`].
fn values<'a>(record: &Record<'a>) -> [ValueRef<'a>; COLUMNS.len()] {
    let Record { entry, at, paid_by } = record;
    let number = |value: u64| ValueRef::Integer(storable(value));
    let flag = |value: bool| ValueRef::Integer(value.into());
    let grant =
        |grant: Option<GrantNumber>| grant.map_or(ValueRef::Null, |it| ValueRef::Integer(it.0));
    let money = |it: Option<Money>| it.map_or(ValueRef::Null, |it| number(it.nanos()));
    [
        text(entry.request.as_str()),
        ValueRef::Integer(entry.key),
        number(*at),
        text(&entry.asked),
        text(&entry.served),
        text(Format::name_of(entry.format)),
        flag(entry.streamed),
        ValueRef::Integer(entry.status.into()),
        entry
            .error
            .map_or(ValueRef::Null, |code| text(code.as_str())),
        text(entry.state.as_str()),
        number(entry.usage.input),
        number(entry.usage.cache_read),
        number(entry.usage.cache_write),
        number(entry.usage.output),
        number(entry.usage.reasoning),
        number(entry.charged()),
        number(entry.overdraft),
        money(entry.cost),
        text(entry.source.as_str()),
        flag(entry.clamped),
        entry
            .first_byte_ms
            .map_or(ValueRef::Null, |ms| ValueRef::Integer(ms.into())),
        ValueRef::Integer(entry.duration_ms.into()),
        grant(paid_by.tokens),
        entry.reason.as_deref().map_or(ValueRef::Null, text),
        money(entry.cost_overdraft),
        grant(paid_by.money),
    ]
}

fn text(value: &str) -> ValueRef<'_> {
    ValueRef::Text(value.as_bytes())
}

#[cfg(test)]
mod tests;
