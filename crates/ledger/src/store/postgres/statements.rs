//! How a server runs the statements that both databases understand.

use super::{connection::Session, plain};
use crate::store::statements::{Statements, Values};
use postgres::{Error, Row, types::ToSql};
use std::borrow::Cow;

impl Statements for Session {
    type Fault = Error;
    type Row<'r> = Row;

    const FOR_CHANGE: &'static str = "FOR NO KEY UPDATE";
    const LEAST: &'static str = "least";
    const GREATEST: &'static str = "greatest";
    const POSITION: &'static str = "strpos";

    fn new_number(thing: &str) -> String {
        format!("new_number('{thing}_numbers')")
    }

    fn text(text: &str) -> Cow<'_, str> {
        plain(text)
    }

    fn lock_order(&mut self, id: &str) -> Result<(), Error> {
        let lock = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))::text";
        self.query_one(lock, &[&id]).map(drop)
    }

    fn all<T>(
        &mut self,
        sql: &str,
        values: &Values<'_>,
        read: impl FnMut(&Row) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        let rows = self.query(&numbered(sql), &own(values))?;
        rows.iter().map(read).collect()
    }

    fn one<T>(
        &mut self,
        sql: &str,
        values: &Values<'_>,
        mut read: impl FnMut(&Row) -> Result<T, Error>,
    ) -> Result<T, Error> {
        read(&self.query_one(&numbered(sql), &own(values))?)
    }

    fn run(&mut self, sql: &str, values: &Values<'_>) -> Result<u64, Error> {
        self.execute(&numbered(sql), &own(values))
    }
}

/// The statement with parameters as the server knows them.
fn numbered(sql: &str) -> String {
    sql.replace('?', "$")
}

fn own<'a>(values: &Values<'a>) -> Vec<&'a (dyn ToSql + Sync)> {
    values.iter().map(|value| *value as _).collect()
}
