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

/// The newest change, and whether rows after `seen` were deleted or are of another database.
fn numbers(snapshot: &mut Session, seen: i64) -> Result<(i64, bool), postgres::Error> {
    let find = "SELECT coalesce(min(seq), 0), coalesce(max(seq), 0) FROM changes";
    let row = snapshot.query_one(find, &[])?;
    let (oldest, newest): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
    Ok((newest, oldest > seen.saturating_add(1) || newest < seen))
}
