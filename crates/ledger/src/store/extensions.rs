//! Letting keys and what they were given live longer, by a named order once.

use super::{
    KeySelector, OrderName, Store,
    error::{StoreError, storable_time},
    once::Made,
};
use crate::{clock::Timestamp, record::KeyRecord};
use rusqlite::{OptionalExtension, Transaction, params};
use std::time::Duration;
use tollgate_types::KeyId;

/// What has become of an order.
enum Outcome {
    Done,
    /// It was carried out when it came first.
    DoneBefore,
    /// Another order of its name has made this.
    Other(String),
    /// The key works no more.
    Revoked,
}

impl Store {
    /// Lets the key and its grants live longer by `span`, those that are over included: what
    /// is left of them can be spent again.
    ///
    /// # Errors
    /// As [`Store::find_key`]; it is revoked; or the file cannot be written.
    pub fn extend_key(
        &self,
        selector: &KeySelector,
        span: Duration,
    ) -> Result<KeyRecord, StoreError> {
        self.extend(selector, span, None)
    }

    /// As [`Store::extend_key`], however often the order is sent: the second time the key is shown
    /// as it is then.
    ///
    /// # Errors
    /// As [`Store::extend_key`]; or an order of this name extended another key or by another span,
    /// or made something else.
    pub fn extend_key_once(
        &self,
        selector: &KeySelector,
        span: Duration,
        order: &OrderName,
    ) -> Result<KeyRecord, StoreError> {
        self.extend(selector, span, Some(order))
    }

    fn extend(
        &self,
        selector: &KeySelector,
        span: Duration,
        order: Option<&OrderName>,
    ) -> Result<KeyRecord, StoreError> {
        let id = self.find_key(selector)?.id().clone();
        let longest = storable_time(Timestamp::MAX);
        let more = i64::try_from(span.as_millis());
        let more = more.unwrap_or(i64::MAX).min(longest);
        let now = self.clock().now();
        // The file alone knows which of two orders that come at once was first.
        let outcome = self.write(|transaction| {
            if let Some(order) = order
                && let Some(known) = known(transaction, &id, more, order)?
            {
                return Ok(known);
            }
            if !lengthen(transaction, &id, more, longest)? {
                return Ok(Outcome::Revoked);
            }
            if let Some(order) = order {
                note(transaction, &id, more, order, now)?;
            }
            Ok(Outcome::Done)
        })?;
        match outcome {
            Outcome::Done | Outcome::DoneBefore => self.find_key(&KeySelector::Id(id)),
            Outcome::Other(id) => Err(StoreError::OtherOrder { id }),
            Outcome::Revoked => Err(StoreError::KeyRevoked { id: id.to_string() }),
        }
    }
}

/// What is known of an order of this name.
fn known(
    transaction: &Transaction<'_>,
    key: &KeyId,
    span_ms: i64,
    order: &OrderName,
) -> rusqlite::Result<Option<Outcome>> {
    if let Some(other) = order.made_otherwise(transaction, Made::Extension)? {
        return Ok(Some(Outcome::Other(other)));
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
        false => Outcome::Other(id),
    }))
}

/// Whether the key was there and works.
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
