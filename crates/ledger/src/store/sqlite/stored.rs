//! The rows of what providers store: their owners, and whether they are paid for.

use super::storable_time;
use crate::{
    clock::Timestamp,
    ownership::{Stored, Unpaid},
    store::rows::{self, STORED, tariff_to_json},
};
use rusqlite::{Connection, OptionalExtension, params};
use tollgate_types::RequestId;

/// Those of these stored items that are known.
pub(super) fn find(file: &Connection, ids: &[&str]) -> rusqlite::Result<Vec<Stored>> {
    let find = format!("SELECT {STORED} FROM owned WHERE id = ?1");
    let mut find = file.prepare_cached(&find)?;
    let mut found = Vec::new();
    for id in ids {
        found.extend(find.query_row([id], |row| rows::stored(row)).optional()?);
    }
    Ok(found)
}

/// Writes a row, unless another key owns the id; of an own one a size that has grown.
pub(super) fn insert(file: &Connection, stored: &Stored, now: Timestamp) -> rusqlite::Result<()> {
    file.prepare_cached(
        "INSERT INTO owned (id, key, provider, credential, at, tokens, request, tariff)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
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
        stored.tariff.as_deref().and_then(tariff_to_json),
    ])?;
    Ok(())
}

/// The rows that say what the input of a response shows.
pub(super) fn shown_by(file: &Connection, response: &str) -> rusqlite::Result<Vec<Unpaid>> {
    let rows = "SELECT id, request FROM owned WHERE id > ?1 || '<' AND id < ?1 || '='";
    let mut rows = file.prepare_cached(rows)?;
    let rows = rows.query_map([response], |row| rows::shown(row))?;
    rows.filter_map(Result::transpose).collect()
}
