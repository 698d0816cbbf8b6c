//! What an order has made.

use crate::store::order::{Made, OrderName};
use rusqlite::{OptionalExtension, Transaction, params};
use tollgate_types::Unit;

/// The id of what an order of this name has made, if that is something else than `made`.
pub(super) fn made_otherwise(
    transaction: &Transaction<'_>,
    order: &OrderName,
    made: Made,
) -> rusqlite::Result<Option<String>> {
    let id = |other: Made| (!other.is_like(made)).then(|| order.id(other));
    let [tokens, money] = Unit::ALL.map(|unit| id(Made::Grant(unit)));
    transaction
        .query_row(
            "SELECT id FROM keys WHERE id = ?1
             UNION ALL SELECT id FROM grants WHERE id IN (?2, ?3)
             UNION ALL SELECT id FROM extensions WHERE id = ?4
             LIMIT 1",
            params![id(Made::Key), tokens, money, id(Made::Extension)],
            |row| row.get(0),
        )
        .optional()
}
