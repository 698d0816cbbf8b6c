//! How many records could not be entered.

use crate::store::{
    database::Quarantined,
    rows,
    statements::quarantine::{TORN, UNREADABLE},
};
use rusqlite::{Connection, params};

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
