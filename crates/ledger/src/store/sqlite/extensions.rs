//! Letting keys and their grants live longer, once for each named order.

use super::{orders, storable_time};
use crate::{
    clock::Timestamp,
    store::{OrderName, database::Outcome, order::Made},
};
use rusqlite::{OptionalExtension, Transaction, params};
use std::time::Duration;
use tollgate_types::KeyId;

/// Lets a key and its grants live longer.
pub(super) fn extend(
    transaction: &Transaction<'_>,
    key: &KeyId,
    span: Duration,
    order: Option<&OrderName>,
    now: Timestamp,
) -> rusqlite::Result<Outcome> {
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

/// What came of an order of this name before.
fn known_order(
    transaction: &Transaction<'_>,
    key: &KeyId,
    span_ms: i64,
    order: &OrderName,
) -> rusqlite::Result<Option<Outcome>> {
    if let Some(other) = orders::made_otherwise(transaction, order, Made::Extension)? {
        return Ok(Some(Outcome::OtherOrder(other)));
    }
    let id = order.id(Made::Extension);
    let is_same: Option<bool> = transaction
        .query_row(
            "SELECT span_ms = ?2 AND key = (SELECT number FROM keys WHERE id = ?3)
             FROM extensions WHERE id = ?1",
            params![id, span_ms, key.as_str()],
            |row| row.get(0),
        )
        .optional()?;
    Ok(is_same.map(|is_same| match is_same {
        true => Outcome::DoneBefore,
        false => Outcome::OtherOrder(id),
    }))
}

/// Whether the key exists and works.
fn lengthen(
    transaction: &Transaction<'_>,
    key: &KeyId,
    more: i64,
    latest: i64,
) -> rusqlite::Result<bool> {
    let keys = transaction.execute(
        "UPDATE keys SET expires_at = min(expires_at + ?2, ?3)
         WHERE id = ?1 AND revoked_at IS NULL",
        params![key.as_str(), more, latest],
    )?;
    if keys == 0 {
        return Ok(false);
    }
    transaction.execute(
        "UPDATE grants SET
             validity_ms = min(validity_ms + ?2, ?3),
             expires_at = min(expires_at + ?2, ?3)
         WHERE key = (SELECT number FROM keys WHERE id = ?1)",
        params![key.as_str(), more, latest],
    )?;
    Ok(true)
}

fn note(
    transaction: &Transaction<'_>,
    key: &KeyId,
    span_ms: i64,
    order: &OrderName,
    now: Timestamp,
) -> rusqlite::Result<()> {
    transaction.execute(
        "INSERT INTO extensions (id, key, span_ms, at)
         SELECT ?1, number, ?3, ?4 FROM keys WHERE id = ?2",
        params![
            order.id(Made::Extension),
            key.as_str(),
            span_ms,
            storable_time(now),
        ],
    )?;
    Ok(())
}
