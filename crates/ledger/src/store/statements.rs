//! Statements that both databases understand, each in the transaction that its caller has begun.
//!
//! Parameters are written `?1`. A statement that one database needs in another form is in the
//! module of that database.

mod extensions;
pub(super) mod grants;
pub(super) mod keys;
pub(super) mod memory;
mod orders;
pub(super) mod quarantine;
pub(super) mod usage;

use super::rows::StoredRow;
use std::borrow::Cow;

/// A value that both databases take.
pub(super) trait Parameter: rusqlite::ToSql + postgres::types::ToSql {}

impl<T: rusqlite::ToSql + postgres::types::ToSql> Parameter for T {}

/// Values of a statement.
pub(super) type Values<'a> = [&'a (dyn Parameter + Sync)];

/// A connection, and the SQL in which its database differs.
pub(super) trait Statements {
    type Fault;
    type Row<'r>: StoredRow<Fault = Self::Fault>;

    /// The suffix of a `SELECT` that locks the row until the transaction ends.
    const FOR_CHANGE: &'static str;
    /// The function that returns the smaller of two numbers, and the one that returns the larger.
    const LEAST: &'static str;
    const GREATEST: &'static str;
    /// The function that finds a text in another one: 0 if it is not there.
    const POSITION: &'static str;

    /// The expression for the number of a new row of the table `{thing}s`.
    fn new_number(thing: &str) -> String;

    /// Text as the database can keep it.
    fn text(text: &str) -> Cow<'_, str>;

    /// Serializes the transactions of one order. `id` is derived from the name of the order.
    fn lock_order(&mut self, id: &str) -> Result<(), Self::Fault>;

    /// Reads every row.
    fn all<T>(
        &mut self,
        sql: &str,
        values: &Values<'_>,
        read: impl FnMut(&Self::Row<'_>) -> Result<T, Self::Fault>,
    ) -> Result<Vec<T>, Self::Fault>;

    /// Reads the first row, if there is one.
    fn first<T>(
        &mut self,
        sql: &str,
        values: &Values<'_>,
        read: impl FnMut(&Self::Row<'_>) -> Result<T, Self::Fault>,
    ) -> Result<Option<T>, Self::Fault> {
        Ok(self.all(sql, values, read)?.into_iter().next())
    }

    /// Reads the only row of a query that always returns one.
    fn one<T>(
        &mut self,
        sql: &str,
        values: &Values<'_>,
        read: impl FnMut(&Self::Row<'_>) -> Result<T, Self::Fault>,
    ) -> Result<T, Self::Fault>;

    /// Changes rows. Returns how many.
    fn run(&mut self, sql: &str, values: &Values<'_>) -> Result<u64, Self::Fault>;
}
