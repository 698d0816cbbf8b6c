//! The time of a record in the history.
//!
//! Pages of a history follow the time of records. A record that is entered later must have a later
//! time: then a cursor stays right, and a period that was read gets no new records. A record has the
//! time at which its request was settled, with two exceptions. If requests that were settled later
//! were entered before it, it has their time. If it was entered long afterwards (its process had
//! crashed, or the database could not be written), it has the time at which it was entered.

use super::storable;
use crate::clock::Timestamp;
use rusqlite::{Connection, OptionalExtension};

/// How much later a record may be entered and still have the time of its settlement, in
/// milliseconds. Settlements gather for a tenth of that.
pub(super) const LATE_MS: u64 = 2_000;
/// How far behind the latest record the clock may be, in milliseconds: as far as the clocks of two
/// processes may differ. A time further ahead is that of a clock that was wrong.
const WRONG_MS: u64 = 60_000;

/// The times of the records that one step enters.
pub(super) struct Times {
    now_ms: u64,
    /// The latest time that a record had before.
    floor_ms: u64,
    /// The latest time that one has now.
    latest_ms: u64,
}

impl Times {
    /// Of records that are entered at `now`.
    pub(super) fn read(file: &Connection, now: Timestamp) -> rusqlite::Result<Self> {
        let known: Option<Vec<u8>> = file
            .prepare_cached("SELECT value FROM settings WHERE name = 'latest_record'")?
            .query_row([], |row| row.get(0))
            .optional()?;
        let known = known.and_then(|bytes| bytes.try_into().ok());
        // A new file has none.
        let floor_ms = known.map_or(0, u64::from_le_bytes);
        let now_ms = now.unix_ms();
        let floor_ms = if floor_ms > now_ms.saturating_add(WRONG_MS) {
            log::warn!("a record has a time that has not come yet: new ones stand before it");
            0
        } else {
            floor_ms
        };
        Ok(Self {
            now_ms,
            floor_ms,
            latest_ms: floor_ms,
        })
    }

    /// The time of a record whose request was settled at `settled_ms`.
    pub(super) fn of(&mut self, settled_ms: u64) -> u64 {
        let in_time = self.now_ms.saturating_sub(LATE_MS)..=self.now_ms;
        let at = if in_time.contains(&settled_ms) {
            settled_ms
        } else {
            self.now_ms
        };
        // As the file has it.
        let at = storable(at.max(self.floor_ms)).unsigned_abs();
        self.latest_ms = self.latest_ms.max(at);
        at
    }

    /// Remembers the latest of them.
    pub(super) fn write(&self, file: &Connection) -> rusqlite::Result<()> {
        match self.latest_ms > self.floor_ms {
            true => note(file, self.latest_ms),
            false => Ok(()),
        }
    }
}

/// Remembers the latest time of a record.
pub(super) fn note(file: &Connection, at_ms: u64) -> rusqlite::Result<()> {
    file.prepare_cached(
        "INSERT INTO settings (name, value) VALUES ('latest_record', ?1)
         ON CONFLICT DO UPDATE SET value = excluded.value",
    )?
    .execute([at_ms.to_le_bytes()])?;
    Ok(())
}
