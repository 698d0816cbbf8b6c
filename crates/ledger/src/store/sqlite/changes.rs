//! The rows of changes, by which running gateways notice that a key or its grants changed.

use crate::{
    key::KeyHash,
    store::{database::KeyChanges, rows::StoredRow},
};
use rusqlite::{Connection, Transaction};
use tollgate_types::KeyId;

/// The keys that changed after `seen`, in one snapshot.
pub(super) fn since(file: &Connection, seen: Option<i64>) -> rusqlite::Result<KeyChanges> {
    let snapshot = file.unchecked_transaction()?;
    let seen = seen.unwrap_or(-1);
    let Numbers { newest, is_missed } = Numbers::read(&snapshot, seen)?;
    if is_missed {
        return Ok(KeyChanges {
            newest,
            hashes: None,
        });
    }
    let hashes = snapshot
        .prepare_cached("SELECT hash FROM changes WHERE seq > ?1")?
        .query_map([seen], |row| {
            let hash: Vec<u8> = row.get(0)?;
            // `None`: it is unreadable, so that any key may be meant.
            Ok(KeyHash::from_slice(&hash))
        })?
        .collect::<rusqlite::Result<_>>()?;
    Ok(KeyChanges { newest, hashes })
}

/// The newest change, and the ids of the keys that changed after `seen`; `None` if any key may have
/// changed.
pub(super) fn keys_since(
    snapshot: &Transaction<'_>,
    seen: i64,
) -> rusqlite::Result<(i64, Option<Vec<KeyId>>)> {
    let Numbers { newest, is_missed } = Numbers::read(snapshot, seen)?;
    if is_missed {
        return Ok((newest, None));
    }
    let keys = snapshot
        .prepare_cached(
            "SELECT DISTINCT id FROM changes JOIN keys ON keys.hash = changes.hash WHERE seq > ?1",
        )?
        .query_map([seen], |row| row.key_id(0))?
        .collect::<rusqlite::Result<_>>()?;
    Ok((newest, Some(keys)))
}

struct Numbers {
    newest: i64,
    /// Rows after `seen` were deleted, or another file is in the place of this one.
    is_missed: bool,
}

impl Numbers {
    fn read(snapshot: &Transaction<'_>, seen: i64) -> rusqlite::Result<Self> {
        let (oldest, newest): (i64, i64) = snapshot
            // Two look-ups: both aggregates in one query would read the whole table.
            .prepare_cached(
                "SELECT coalesce((SELECT min(seq) FROM changes), 0),
                        coalesce((SELECT max(seq) FROM changes), 0)",
            )?
            .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(Self {
            newest,
            is_missed: oldest > seen.saturating_add(1) || newest < seen,
        })
    }
}
