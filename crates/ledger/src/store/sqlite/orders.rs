//! What an order has made.

use crate::store::order::{Made, OrderName};
use rusqlite::{OptionalExtension, Transaction, params};

/// The id of what an order of this name has made, if that is something else than `made`.
pub(super) fn made_otherwise(
    transaction: &Transaction<'_>,
    order: &OrderName,
    made: Made,
) -> rusqlite::Result<Option<String>> {
    let id = |other| (other != made).then(|| order.id(other));
    transaction
        .query_row(
            "SELECT id FROM keys WHERE id = ?1
             UNION ALL SELECT id FROM grants WHERE id = ?2
             UNION ALL SELECT id FROM extensions WHERE id = ?3
             LIMIT 1",
            params![id(Made::Key), id(Made::Grant), id(Made::Extension)],
            |row| row.get(0),
        )
        .optional()
}
