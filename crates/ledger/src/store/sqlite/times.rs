//! The latest time of a record, which the file keeps.

use super::storable;
use crate::{clock::Timestamp, store::times};
use rusqlite::{Connection, OptionalExtension};

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
        let floor_ms = if times::is_wrong(floor_ms, now_ms) {
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
        let at = times::of_record(settled_ms, self.now_ms, self.floor_ms);
        // As the file has it.
        let at = storable(at).unsigned_abs();
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
