//! The rows of what providers store: their owners, and whether they are paid for.

use super::{storable_time, stored_time, unsigned};
use crate::{
    charge::{BillingState, CountSource},
    clock::Timestamp,
    ownership::{Charged, PaymentRecord, Shown, Stored, Unpaid},
};
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::sync::Arc;
use tollgate_types::{KeyId, RequestId, Usage};

/// Those of these stored items that are known.
pub(super) fn find(file: &Connection, ids: &[&str]) -> rusqlite::Result<Vec<Stored>> {
    let find = "SELECT id, key, provider, credential, tokens, request FROM owned WHERE id = ?1";
    let mut find = file.prepare_cached(find)?;
    let mut found = Vec::new();
    for id in ids {
        found.extend(find.query_row([id], read).optional()?);
    }
    Ok(found)
}

fn read(row: &Row<'_>) -> rusqlite::Result<Stored> {
    let text = |column| row.get::<_, String>(column);
    Ok(Stored {
        id: text(0)?.into(),
        key: KeyId::new(text(1)?),
        provider: text(2)?.into(),
        credential: text(3)?.into(),
        tokens: row.get::<_, Option<i64>>(4)?.map(i64::unsigned_abs),
        request: row
            .get::<_, Option<String>>(5)?
            .and_then(|text| RequestId::from_text(&text)),
    })
}

/// Writes a row, unless another key owns the id; of an own one a size that has grown.
pub(super) fn insert(file: &Connection, stored: &Stored, now: Timestamp) -> rusqlite::Result<()> {
    file.prepare_cached(
        "INSERT INTO owned (id, key, provider, credential, at, tokens, request)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
         ON CONFLICT (id) DO UPDATE SET tokens = excluded.tokens
         WHERE owned.key = excluded.key AND excluded.tokens > ifnull(owned.tokens, -1)",
    )?
    .execute(params![
        stored.id,
        stored.key.as_str(),
        stored.provider,
        stored.credential,
        storable_time(now),
        stored
            .tokens
            .map(|tokens| i64::try_from(tokens).unwrap_or(i64::MAX)),
        stored.request.as_ref().map(RequestId::as_str),
    ])?;
    Ok(())
}

/// The records of a response's request and of its second charge.
pub(super) fn payment(
    file: &Connection,
    response: &str,
    request: &RequestId,
    second: &RequestId,
) -> rusqlite::Result<PaymentRecord> {
    let mut record = file.prepare_cached(
        "SELECT model_asked, model_served, input, cache_read, cache_write, output, reasoning,
                state, source FROM usage WHERE request = ?1",
    )?;
    let first = record.query_row([request.as_str()], charged).optional()?;
    let made: Option<i64> = file
        .prepare_cached("SELECT at FROM owned WHERE id = ?1")?
        .query_row([response], |row| row.get(0))
        .optional()?;
    Ok(PaymentRecord {
        first,
        is_charged_again: record.exists([second.as_str()])?,
        made: made.and_then(stored_time),
    })
}

fn charged(row: &Row<'_>) -> rusqlite::Result<Charged> {
    let (state, source): (String, String) = (row.get(7)?, row.get(8)?);
    Ok(Charged {
        asked: row.get::<_, String>(0)?.into(),
        served: row.get::<_, String>(1)?.into(),
        usage: Usage {
            input: unsigned(row, 2)?,
            cache_read: unsigned(row, 3)?,
            cache_write: unsigned(row, 4)?,
            output: unsigned(row, 5)?,
            reasoning: unsigned(row, 6)?,
        },
        state: BillingState::from_name(&state),
        is_reported: source == CountSource::Reported.as_str(),
    })
}

/// The rows that say what the input of a response shows.
pub(super) fn shown_by(file: &Connection, response: &str) -> rusqlite::Result<Vec<Shown>> {
    let rows = "SELECT id, request FROM owned WHERE id > ?1 || '<' AND id < ?1 || '='";
    let mut rows = file.prepare_cached(rows)?;
    let rows = rows.query_map([response], |row| {
        let (id, request): (String, Option<String>) = (row.get(0)?, row.get(1)?);
        Ok((id, request))
    })?;
    let mut all = Vec::new();
    for row in rows {
        let (row, request) = row?;
        let request = request.and_then(|text| RequestId::from_text(&text));
        let shown = row.split_once('<').map(|(_, shown)| Arc::from(shown));
        if let Some((id, request)) = shown.zip(request) {
            let unpaid = Unpaid { id, request };
            all.push(Shown { row, unpaid });
        }
    }
    Ok(all)
}
