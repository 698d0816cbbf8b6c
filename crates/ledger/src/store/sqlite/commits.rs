//! The row of the database that every transaction changes: the number of the commit, and the sums
//! of the rows of each table as they were committed.
//!
//! The row is a list of 64-bit numbers (number, sums) and its CRC-32. A later version may add
//! sums at the end. This version then writes them back unchanged, so that a process of it can
//! commit until a hot upgrade is over.

use super::sums::{self, Sums};
use rusqlite::{Connection, OptionalExtension, ffi};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Commits {
    /// How many commits there were.
    pub(super) number: u64,
    pub(super) sums: Sums,
    /// The sums that a later version has added.
    later: Vec<u8>,
}

impl Commits {
    fn to_bytes(&self) -> Vec<u8> {
        let numbers = std::iter::once(self.number).chain(self.sums.0);
        let mut bytes: Vec<u8> = numbers.flat_map(u64::to_le_bytes).collect();
        bytes.extend(&self.later);
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (mut rest, crc) = bytes.split_last_chunk()?;
        if crc32fast::hash(rest) != u32::from_le_bytes(*crc) {
            return None;
        }
        let mut next = || {
            let (number, after) = rest.split_first_chunk()?;
            rest = after;
            Some(u64::from_le_bytes(*number))
        };
        Some(Self {
            number: next()?,
            sums: Sums::from_fn(&mut next)?,
            later: rest.to_vec(),
        })
    }
}

/// Reads the row.
pub(super) fn read(file: &Connection) -> rusqlite::Result<Commits> {
    let found: Option<Vec<u8>> = file
        .prepare_cached("SELECT value FROM settings WHERE name = 'commits'")?
        .query_row([], |row| row.get(0))
        .optional()?;
    let commits = found.and_then(|bytes| Commits::from_bytes(&bytes));
    commits.ok_or_else(damaged)
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
        // The file has no tables yet.
        0 => Ok(0),
        _ => Ok(read(file)?.number),
    }
}

/// Writes the row in the transaction that brings a file to the present format.
pub(super) fn migrate(file: &Connection, version: i64) -> rusqlite::Result<()> {
    let migrated = Commits {
        number: held(file, version)?,
        sums: sums::of_all_rows(file)?,
        ..Commits::default()
    };
    write(file, &migrated)
}

pub(super) fn damaged() -> rusqlite::Error {
    let fault = ffi::Error::new(ffi::SQLITE_CORRUPT);
    let cause = "the number of its commits or the number of its format is wrong".to_owned();
    rusqlite::Error::SqliteFailure(fault, Some(cause))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_that_a_later_version_added_are_written_back_unchanged() {
        let known = Commits {
            number: 7,
            later: [1, 2].into_iter().flat_map(u64::to_le_bytes).collect(),
            ..Commits::default()
        };
        let mut read = Commits::from_bytes(&known.to_bytes()).unwrap();
        assert_eq!(read, known);
        read.number += 1;
        let written = read.to_bytes();
        assert_eq!(written.len(), known.to_bytes().len());
        assert_eq!(Commits::from_bytes(&written).unwrap().later, known.later);
    }

    #[test]
    fn a_row_that_is_cut_or_damaged_is_refused() {
        let whole = Commits::default().to_bytes();
        assert!(Commits::from_bytes(&whole).is_some());
        for len in 0..whole.len() {
            assert_eq!(Commits::from_bytes(&whole[..len]), None, "{len}");
        }
        for bit in 0..8 * whole.len() {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Commits::from_bytes(&bytes), None, "{bit}");
        }
    }
}
