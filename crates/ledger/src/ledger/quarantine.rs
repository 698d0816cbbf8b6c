//! What could not be entered, by why: counted for metrics. The records themselves are kept by
//! `books`, and looked at by a person.

use rusqlite::{Connection, params};

/// How the cause of what was no whole record begins.
pub(super) const TORN: &str = "torn in the settlement file";
/// The cause of what is whole, and no record that this program knows. Every other cause is the
/// file's word for refusing a record.
pub(super) const UNREADABLE: &str = "not readable";

/// How many records there are of each sort.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Quarantined {
    pub(super) torn: u64,
    pub(super) unreadable: u64,
    pub(super) refused: u64,
}

impl Quarantined {
    /// Counts them: no more than the thousand oldest, since it is done every second.
    pub(super) fn count(file: &Connection) -> rusqlite::Result<Self> {
        const MOST: u32 = 1000;
        file.prepare_cached(
            "SELECT count(*) FILTER (WHERE cause GLOB ?1 || '*'),
                    count(*) FILTER (WHERE cause = ?2), count(*)
             FROM (SELECT cause FROM quarantine ORDER BY number LIMIT ?3)",
        )?
        .query_row(params![TORN, UNREADABLE, MOST], |row| {
            let number = |column| row.get::<_, i64>(column).map(i64::unsigned_abs);
            let (torn, unreadable) = (number(0)?, number(1)?);
            Ok(Self {
                torn,
                unreadable,
                refused: number(2)?.saturating_sub(torn.saturating_add(unreadable)),
            })
        })
    }
}
