//! The row of the database that every transaction changes: the number of the commit, and the sums
//! of the rows of each table as this program has committed them.

use super::sums::{self, Sums};
use rusqlite::{Connection, OptionalExtension, ffi};

/// The first format of the file that has the row.
pub(super) const SINCE_VERSION: i64 = 9;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Commits {
    /// How many commits there were.
    pub(super) number: u64,
    /// 0: the sums are those of all rows. Else they count from a migration on, and programs that
    /// keep no sums may write until the processes numbered below this have ended.
    pub(super) unsealed: u64,
    pub(super) sums: Sums,
}

impl Commits {
    fn to_bytes(&self) -> Vec<u8> {
        let numbers = [self.number, self.unsealed].into_iter().chain(self.sums.0);
        let mut bytes: Vec<u8> = numbers.flat_map(u64::to_le_bytes).collect();
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (rest, crc) = bytes.split_last_chunk()?;
        if crc32fast::hash(rest) != u32::from_le_bytes(*crc) {
            return None;
        }
        let (numbers, rest) = rest.as_chunks();
        let mut numbers = numbers.iter().map(|bytes| u64::from_le_bytes(*bytes));
        let found = Self {
            number: numbers.next()?,
            unsealed: numbers.next()?,
            sums: Sums::from_fn(|| numbers.next())?,
        };
        (rest.is_empty() && numbers.next().is_none()).then_some(found)
    }
}

/// Reads the row. `None`: there is none, as in files of older programs.
pub(super) fn read(file: &Connection) -> rusqlite::Result<Option<Commits>> {
    let found: Option<Vec<u8>> = file
        .prepare_cached("SELECT value FROM settings WHERE name = 'commits'")?
        .query_row([], |row| row.get(0))
        .optional()?;
    let parse = |bytes: Vec<u8>| Commits::from_bytes(&bytes).ok_or_else(damaged);
    found.map(parse).transpose()
}

/// Reads the row where it must be.
pub(super) fn expect(file: &Connection) -> rusqlite::Result<Commits> {
    read(file)?.ok_or_else(damaged)
}

pub(super) fn write(file: &Connection, commits: &Commits) -> rusqlite::Result<()> {
    file.prepare_cached(
        "INSERT INTO settings (name, value) VALUES ('commits', ?1)
         ON CONFLICT DO UPDATE SET value = excluded.value",
    )?
    .execute([commits.to_bytes()])?;
    Ok(())
}

/// How many commits a file of this format holds.
pub(super) fn held(file: &Connection, version: i64) -> rusqlite::Result<u64> {
    match version {
        // It has no tables yet.
        0 => Ok(0),
        SINCE_VERSION.. => Ok(expect(file)?.number),
        _ => Ok(read(file)?.unwrap_or_default().number),
    }
}

/// Makes the row, or begins the sums anew, in a transaction that has brought a file of `version`
/// to the present format. Processes of the older program that still run keep no sums.
pub(super) fn migrate(file: &Connection, version: i64) -> rusqlite::Result<()> {
    let known = read(file)?.unwrap_or_default();
    let migrated = if version == 0 {
        Commits {
            sums: sums::of_all_rows(file)?,
            ..known
        }
    } else {
        let last: i64 = file.query_row(
            "SELECT coalesce(max(number), 0) FROM processes",
            [],
            |row| row.get(0),
        )?;
        Commits {
            number: known.number,
            unsealed: last.unsigned_abs().saturating_add(1),
            sums: Sums::default(),
        }
    };
    write(file, &migrated)
}

fn damaged() -> rusqlite::Error {
    let fault = ffi::Error::new(ffi::SQLITE_CORRUPT);
    let cause = "the number of its commits cannot be read".to_owned();
    rusqlite::Error::SqliteFailure(fault, Some(cause))
}
