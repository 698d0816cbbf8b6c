//! How a file runs the statements that both databases understand.

use crate::store::statements::{Statements, Values};
use rusqlite::{Connection, Row, ToSql};
use std::borrow::Cow;

impl Statements for &Connection {
    type Fault = rusqlite::Error;
    type Row<'r> = Row<'r>;

    // A transaction that writes has locked the whole file.
    const FOR_CHANGE: &'static str = "";
    const LEAST: &'static str = "min";
    const GREATEST: &'static str = "max";
    const POSITION: &'static str = "instr";

    /// With a random part: after a restore, settlement files have numbers of rows that the file lacks, and no
    /// other row may get them.
    fn new_number(thing: &str) -> String {
        format!("(SELECT coalesce(max(number) + abs(random() % 65536), 0) + 1 FROM {thing}s)")
    }

    fn text(text: &str) -> Cow<'_, str> {
        text.into()
    }

    fn lock_order(&mut self, _: &str) -> rusqlite::Result<()> {
        Ok(())
    }

    fn all<T>(
        &mut self,
        sql: &str,
        values: &Values<'_>,
        read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Vec<T>> {
        self.prepare_cached(sql)?
            .query_map(&*own(values), read)?
            .collect()
    }

    fn one<T>(
        &mut self,
        sql: &str,
        values: &Values<'_>,
        mut read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        self.prepare_cached(sql)?
            .query_row(&*own(values), |row| read(row))
    }

    fn run(&mut self, sql: &str, values: &Values<'_>) -> rusqlite::Result<u64> {
        let rows = self.prepare_cached(sql)?.execute(&*own(values))?;
        Ok(u64::try_from(rows).unwrap_or(u64::MAX))
    }
}

fn own<'a>(values: &Values<'a>) -> Vec<&'a dyn ToSql> {
    values.iter().map(|value| *value as _).collect()
}
