//! Extends keys and their grants, once for each named order.

use super::{Statements, orders};
use crate::{
    clock::Timestamp,
    store::{
        OrderName, database::Outcome, order::Made, rows::StoredRow, stored_values::storable_time,
    },
};
use std::time::Duration;
use tollgate_types::KeyId;

/// Extends the validity of a key and its grants.
pub(crate) fn extend<S: Statements>(
    transaction: &mut S,
    key: &KeyId,
    span: Duration,
    order: Option<&OrderName>,
    now: Timestamp,
) -> Result<Outcome, S::Fault> {
    let latest = storable_time(Timestamp::MAX);
    let more = i64::try_from(span.as_millis());
    let more = more.unwrap_or(i64::MAX).min(latest);
    if let Some(order) = order
        && let Some(known) = known_order(transaction, key, more, order)?
    {
        return Ok(known);
    }
    if !lengthen(transaction, key, more, latest)? {
        return Ok(Outcome::Revoked);
    }
    if let Some(order) = order {
        note(transaction, key, more, order, now)?;
    }
    Ok(Outcome::Done)
}

/// The outcome of an earlier order of this name.
fn known_order<S: Statements>(
    transaction: &mut S,
    key: &KeyId,
    span_ms: i64,
    order: &OrderName,
) -> Result<Option<Outcome>, S::Fault> {
    if let Some(other) = orders::made_otherwise(transaction, order, Made::Extension)? {
        return Ok(Some(Outcome::OtherOrder(other)));
    }
    let id = order.id(Made::Extension);
    let is_same: Option<Option<bool>> = transaction.first(
        "SELECT span_ms = ?2 AND key = (SELECT number FROM keys WHERE id = ?3)
         FROM extensions WHERE id = ?1",
        &[&id, &span_ms, &key.as_str()],
        |row| row.read(0),
    )?;
    Ok(is_same.map(|is_same| match is_same {
        Some(true) => Outcome::DoneBefore,
        _ => Outcome::OtherOrder(id),
    }))
}

/// Extends a key that is not revoked. Returns whether there is one.
fn lengthen<S: Statements>(
    transaction: &mut S,
    key: &KeyId,
    more: i64,
    latest: i64,
) -> Result<bool, S::Fault> {
    let least = S::LEAST;
    // Only one of the databases returns NULL if one of the numbers is NULL.
    let expires_at =
        format!("CASE WHEN expires_at IS NOT NULL THEN {least}(expires_at + ?2, ?3) END");
    let keys = transaction.run(
        &format!("UPDATE keys SET expires_at = {expires_at} WHERE id = ?1 AND revoked_at IS NULL"),
        &[&key.as_str(), &more, &latest],
    )?;
    if keys == 0 {
        return Ok(false);
    }
    transaction.run(
        &format!(
            "UPDATE grants SET validity_ms = {least}(validity_ms + ?2, ?3), expires_at = {expires_at}
             WHERE key = (SELECT number FROM keys WHERE id = ?1)"
        ),
        &[&key.as_str(), &more, &latest],
    )?;
    Ok(true)
}

fn note<S: Statements>(
    transaction: &mut S,
    key: &KeyId,
    span_ms: i64,
    order: &OrderName,
    now: Timestamp,
) -> Result<(), S::Fault> {
    transaction.run(
        "INSERT INTO extensions (id, key, span_ms, at)
         SELECT ?1, number, ?3, ?4 FROM keys WHERE id = ?2",
        &[
            &order.id(Made::Extension),
            &key.as_str(),
            &span_ms,
            &storable_time(now),
        ],
    )?;
    Ok(())
}
