//! Sums of rows, which detect rows that differ from what was committed.
//!
//! SQLite checks the structure of its pages, not the values in them. Therefore the ledger keeps a
//! sum of row checksums for each table. A transaction updates the sums of the tables that it changes
//! and commits them together with the rows. `verify` computes the sums again and compares.
//!
//! Temporary triggers of the connection, which no other program sees, report the rows that change.
//! The exception is the entry of request records, which the writer reports itself
//! ([`RowSums::add_usage`]): a trigger would double the cost of the insert.

use rusqlite::{Connection, functions::FunctionFlags, types::ValueRef};
use smallvec::SmallVec;
use std::{
    array,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// What has a sum: the tables, and their definitions. The order is that of the sums in the file; a
/// later version appends, because an older process keeps the sums that it does not know.
/// `quarantine` has no sum: `verify` reports its rows anyway, and operators delete them. Neither has
/// `memory`: a lost answer is no lost money, its rows are long, and each has checksums of its own.
const TABLES: [&str; 13] = [
    "settings",
    "keys",
    "changes",
    "grants",
    "processes",
    "leases",
    "lease_requests",
    "usage",
    "charges",
    "totals",
    "owned",
    "extensions",
    DEFINITIONS,
];
/// The index of the table of requests.
const USAGE: usize = 7;
/// The table of definitions, which has no triggers: its sum changes in migrations alone.
const DEFINITIONS: &str = "sqlite_schema";
const COUNT: usize = TABLES.len();

/// A sum for each table. Sums wrap around.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums(pub(super) [u64; COUNT]);

impl Sums {
    pub(super) fn from_fn(mut next: impl FnMut() -> Option<u64>) -> Option<Self> {
        let mut sums = Self::default();
        for sum in &mut sums.0 {
            *sum = next()?;
        }
        Some(sums)
    }

    pub(super) fn plus(&self, more: &Self) -> Self {
        let mut both = self.0.into_iter().zip(more.0);
        Self(array::from_fn(|_| {
            both.next().map_or(0, |(sum, more)| sum.wrapping_add(more))
        }))
    }

    pub(super) fn minus(&self, less: &Self) -> Self {
        self.plus(&Self(less.0.map(u64::wrapping_neg)))
    }

    /// The tables whose sums differ from those of `others`.
    pub(super) fn different(&self, others: &Self) -> Vec<&'static str> {
        let pairs = TABLES.into_iter().zip(self.0.into_iter().zip(others.0));
        pairs
            .filter(|(_, (one, other))| one != other)
            .map(|(name, _)| name)
            .collect()
    }
}

/// By how much the rows that a connection has written in the current transaction change the sums.
#[derive(Debug)]
pub(super) struct RowSums([AtomicU64; COUNT]);

impl RowSums {
    /// Creates the triggers of the connection.
    pub(super) fn watch(connection: &Connection) -> rusqlite::Result<Arc<Self>> {
        let sums = Arc::new(Self(array::from_fn(|_| AtomicU64::new(0))));
        let watching = Arc::clone(&sums);
        connection.create_scalar_function(
            "toll_row",
            -1,
            FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_INNOCUOUS,
            move |call| {
                let is_added: bool = call.get(0)?;
                let table: u8 = call.get(1)?;
                let sum = row_sum((2..call.len()).map(|place| call.get_raw(place)));
                watching.add(
                    table.into(),
                    if is_added { sum } else { sum.wrapping_neg() },
                );
                Ok(None::<bool>)
            },
        )?;
        connection.pragma_update(None, "temp_store", "memory")?;
        let watched = TABLES.into_iter().enumerate();
        for (number, table) in watched.filter(|(_, table)| *table != DEFINITIONS) {
            connection.execute_batch(&triggers(number, table, &columns(connection, table)?))?;
        }
        Ok(sums)
    }

    fn add(&self, table: usize, sum: u64) {
        if let Some(total) = self.0.get(table) {
            // `fetch_add` wraps around.
            total.fetch_add(sum, Ordering::Relaxed);
        }
    }

    /// Adds a record of a request. `values` are those of the columns after `number`, in their order.
    pub(super) fn add_usage<'a>(&self, values: impl Iterator<Item = ValueRef<'a>>) {
        self.add(USAGE, row_sum(values));
    }

    pub(super) fn get(&self) -> Sums {
        let mut sums = self.0.iter().map(|sum| sum.load(Ordering::Relaxed));
        Sums(array::from_fn(|_| sums.next().unwrap_or(0)))
    }

    pub(super) fn set(&self, sums: &Sums) {
        for (sum, value) in self.0.iter().zip(sums.0) {
            sum.store(value, Ordering::Relaxed);
        }
    }
}

/// The columns that the sum of a table covers, in their order. `usage.number` is left out: it is
/// not known when records are entered in groups, and SQLite's check of the indexes covers it.
fn columns(file: &Connection, table: &str) -> rusqlite::Result<Vec<String>> {
    file.prepare_cached(
        "SELECT name FROM pragma_table_info(?1)
         WHERE NOT (?1 = 'usage' AND name = 'number') ORDER BY cid",
    )?
    .query_map([table], |row| row.get(0))?
    .collect()
}

fn triggers(number: usize, table: &str, columns: &[String]) -> String {
    // No sum covers the row that contains the sums.
    let when = |row: &str| match table {
        "settings" => format!("WHEN {row}.name <> 'commits'"),
        _ => String::new(),
    };
    let report = |is_added: u8, row: &str| {
        let values = columns.iter().map(|column| format!(", {row}.{column}"));
        let values: String = values.collect();
        format!("SELECT toll_row({is_added}, {number}{values});")
    };
    let (added, gone) = (report(1, "NEW"), report(0, "OLD"));
    let (when_new, when_old) = (when("NEW"), when("OLD"));
    let on_insert = match table {
        "usage" => String::new(),
        _ => format!(
            "CREATE TEMP TRIGGER {table}_row_added AFTER INSERT ON main.{table} {when_new}
                 BEGIN {added} END;"
        ),
    };
    format!(
        "{on_insert}
         CREATE TEMP TRIGGER {table}_row_changed AFTER UPDATE ON main.{table} {when_new}
             BEGIN {gone} {added} END;
         CREATE TEMP TRIGGER {table}_row_gone AFTER DELETE ON main.{table} {when_old}
             BEGIN {gone} END;"
    )
}

/// Computes the sums of all rows. Reads the whole file.
pub(super) fn of_all_rows(file: &Connection) -> rusqlite::Result<Sums> {
    let mut sums = Sums::default();
    for (sum, table) in sums.0.iter_mut().zip(TABLES) {
        *sum = sum_of(file, &rows_of(file, table)?)?;
    }
    Ok(sums)
}

/// The query for the rows of a table that its sum covers.
fn rows_of(file: &Connection, table: &str) -> rusqlite::Result<String> {
    if table == DEFINITIONS {
        return Ok(format!("SELECT type, name, tbl_name, sql FROM {table}"));
    }
    let columns = columns(file, table)?.join(", ");
    let rows = match table {
        "settings" => "WHERE name <> 'commits'",
        _ => "",
    };
    Ok(format!("SELECT {columns} FROM {table} NOT INDEXED {rows}"))
}

fn sum_of(file: &Connection, query: &str) -> rusqlite::Result<u64> {
    let mut query = file.prepare(query)?;
    let columns = query.column_count();
    let mut rows = query.query([])?;
    let mut sum: u64 = 0;
    while let Some(row) = rows.next()? {
        let values: SmallVec<[ValueRef<'_>; 32]> = (0..columns)
            .map(|column| row.get_ref(column))
            .collect::<Result<_, _>>()?;
        sum = sum.wrapping_add(row_sum(values.into_iter()));
    }
    Ok(sum)
}

/// The CRC-32 of a row. Bit 32 is set, so that the sum counts the rows as well.
fn row_sum<'a>(values: impl Iterator<Item = ValueRef<'a>>) -> u64 {
    let mut bytes = SmallVec::<[u8; 512]>::new();
    for value in values {
        let (kind, value) = match &value {
            ValueRef::Null => (0, &[][..]),
            ValueRef::Integer(number) => (1, &number.to_le_bytes()[..]),
            ValueRef::Real(number) => (2, &number.to_le_bytes()[..]),
            ValueRef::Text(text) => (3, *text),
            ValueRef::Blob(blob) => (4, *blob),
        };
        bytes.push(kind);
        bytes.extend_from_slice(&value.len().to_le_bytes());
        bytes.extend_from_slice(value);
    }
    u64::from(crc32fast::hash(&bytes)) | 1 << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_of_the_table_of_requests_is_right() {
        assert_eq!(TABLES[USAGE], "usage");
    }
}
