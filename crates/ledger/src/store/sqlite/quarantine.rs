//! Records that could not be entered, with the cause. A person looks at them.

use super::storable_time;
use crate::{
    clock::Timestamp,
    store::{database::Quarantined, rows},
};
use rusqlite::{Connection, params};

/// How the cause of a slot without a whole record begins.
pub(super) const TORN: &str = "torn in the settlement file";
/// The cause of a whole record that this program cannot read. Every other cause is the words with
/// which the database refused a record.
pub(super) const UNREADABLE: &str = "not readable";

/// Puts a record in quarantine. Returns whether it was not there for this cause.
pub(super) fn add(
    file: &Connection,
    record: &[u8],
    cause: &str,
    now: Timestamp,
) -> rusqlite::Result<bool> {
    let added = file.execute(
        "INSERT INTO quarantine (at, record, cause) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
        params![storable_time(now), record, cause],
    )?;
    Ok(added > 0)
}

/// Counts the records by cause: the thousand oldest, because this is done every second.
pub(super) fn count(file: &Connection) -> rusqlite::Result<Quarantined> {
    const MOST: u32 = 1000;
    file.prepare_cached(
        "SELECT count(*) FILTER (WHERE cause GLOB ?1 || '*'),
                count(*) FILTER (WHERE cause = ?2), count(*)
         FROM (SELECT cause FROM quarantine ORDER BY number LIMIT ?3)",
    )?
    .query_row(params![TORN, UNREADABLE, MOST], |row| {
        rows::quarantined(row)
    })
}
