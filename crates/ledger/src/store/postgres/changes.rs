//! The rows of changes, by which running gateways notice that a key or its grants changed.

use super::connection::Session;
use crate::{
    key::KeyHash,
    store::{database::KeyChanges, rows::StoredRow},
};
use tollgate_types::KeyId;

/// The keys that changed after `seen`.
pub(super) fn since(
    snapshot: &mut Session,
    seen: Option<i64>,
) -> Result<KeyChanges, postgres::Error> {
    let seen = seen.unwrap_or(-1);
    let (newest, is_missed) = numbers(snapshot, seen)?;
    if is_missed {
        return Ok(KeyChanges {
            newest,
            hashes: None,
        });
    }
    let find = "SELECT hash FROM changes WHERE seq > $1 AND seq <= $2";
    let rows = snapshot.query(find, &[&seen, &newest])?;
    let hashes = rows
        .iter()
        .map(|row| row.try_get(0).map(KeyHash::from_slice));
    Ok(KeyChanges {
        newest,
        hashes: hashes.collect::<Result<_, _>>()?,
    })
}

/// The newest change, and the ids of the keys that changed after `seen`; `None` if any key may have
/// changed.
pub(super) fn keys_since(
    snapshot: &mut Session,
    seen: i64,
) -> Result<(i64, Option<Vec<KeyId>>), postgres::Error> {
    let (newest, is_missed) = numbers(snapshot, seen)?;
    if is_missed {
        return Ok((newest, None));
    }
    let rows = snapshot.query(
        "SELECT DISTINCT id FROM changes JOIN keys ON keys.hash = changes.hash
         WHERE seq > $1 AND seq <= $2",
        &[&seen, &newest],
    )?;
    let keys = rows.iter().map(|row| row.key_id(0));
    Ok((newest, Some(keys.collect::<Result<_, _>>()?)))
}

/// The newest change, and whether the row of `seen` is gone: rows after it may have been deleted, or the database
/// is another one or lacks the last changes.
fn numbers(snapshot: &mut Session, seen: i64) -> Result<(i64, bool), postgres::Error> {
    let row = snapshot.query_one(
        "SELECT newest, newest <> $1 AND NOT EXISTS (SELECT FROM changes WHERE seq = $1)
         FROM (SELECT coalesce(max(seq), 0) AS newest FROM changes) AS newest",
        &[&seen],
    )?;
    Ok((row.try_get(0)?, row.try_get(1)?))
}
