//! Finds the rows that an order has made.

use super::Statements;
use crate::store::{
    order::{Made, OrderName},
    rows::StoredRow,
};
use tollgate_types::Unit;

/// The id of the row that an order of this name has made, if its kind differs from `made`.
pub(crate) fn made_otherwise<S: Statements>(
    transaction: &mut S,
    order: &OrderName,
    made: Made,
) -> Result<Option<String>, S::Fault> {
    transaction.lock_order(&order.id(Made::Key))?;
    let id = |other: Made| (!other.is_like(made)).then(|| order.id(other));
    let [tokens, money] = Unit::ALL.map(|unit| id(Made::Grant(unit)));
    transaction.first(
        "SELECT id FROM keys WHERE id = ?1
         UNION ALL SELECT id FROM grants WHERE id IN (?2, ?3)
         UNION ALL SELECT id FROM extensions WHERE id = ?4
         LIMIT 1",
        &[&id(Made::Key), &tokens, &money, &id(Made::Extension)],
        |row| row.read(0),
    )
}
