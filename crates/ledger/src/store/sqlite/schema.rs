//! The tables and their versions.
//!
//! `user_version` counts the steps that a file has been through, `application_id` marks the file as a
//! ledger. A released step is never edited; a later version adds one. A step that changes a table
//! must also say what processes of the version before, which run on during a hand-over, do to the
//! sums of rows (`sums`).

use super::{commits, error::Described, open::open_reader, write::WriteConnection};
use crate::{
    key::{KeyHash, KeyHasher},
    store::StoreError,
};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior};
use std::path::Path;

/// "TOLL" in ASCII.
const APPLICATION_ID: i64 = 0x544F_4C4C;

/// The steps from an empty file to the present format.
const STEPS: &[&str] = &[include_str!("schema/0001_ledger.sql")];

/// The newest format of this program.
pub(super) fn supported() -> i64 {
    i64::try_from(STEPS.len()).unwrap_or(i64::MAX)
}

/// Refuses a file that is not ours or newer than this program. Writes nothing. Returns the format.
pub(super) fn check(connection: &Connection, path: &Path) -> Result<i64, StoreError> {
    // One snapshot for all three: another process may be making the file right now.
    let snapshot = connection.unchecked_transaction().described(path)?;
    let version = version(&snapshot).described(path)?;
    let application: i64 = pragma(&snapshot, "application_id").described(path)?;
    let tables: i64 = snapshot
        .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
        .described(path)?;
    let empty = tables == 0 && version == 0 && application == 0;
    if !empty && application != APPLICATION_ID {
        return Err(StoreError::NotALedger {
            path: path.to_owned(),
        });
    }
    if !empty && version == 0 {
        return Err(commits::damaged()).described(path);
    }
    refuse_newer(version, path)?;
    Ok(version)
}

/// Takes the steps that are missing, all or none.
pub(super) fn migrate(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    if version(connection).described(path)? == supported() {
        return Ok(());
    }
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .described(path)?;
    // Again, now that no other process can write: another one may have been faster.
    let version = version(&transaction).described(path)?;
    refuse_newer(version, path)?;
    let run = || {
        let done = usize::try_from(version).unwrap_or(0);
        for step in STEPS.iter().skip(done) {
            transaction.execute_batch(step)?;
        }
        commits::migrate(&transaction, version)?;
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        transaction.pragma_update(None, "user_version", supported())?;
        transaction.commit()
    };
    run().described(path)
}

fn refuse_newer(found: i64, path: &Path) -> Result<(), StoreError> {
    if found <= supported() {
        return Ok(());
    }
    Err(StoreError::Newer {
        path: path.to_owned(),
        found,
        supported: supported(),
    })
}

fn version(connection: &Connection) -> rusqlite::Result<i64> {
    pragma(connection, "user_version")
}

fn pragma(connection: &Connection, name: &str) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, name, |row| row.get(0))
}

const PEPPER: &str = "SELECT value FROM settings WHERE name = 'pepper'";

/// Checks that a file was made under the pepper of `hasher`. Only reads it, and makes none.
///
/// # Errors
/// It was made under another pepper, there is no file, it is no ledger or a newer one, or it cannot be
/// read.
pub fn check_pepper(path: &Path, hasher: &KeyHasher) -> Result<(), StoreError> {
    let file = open_reader(path)?;
    if check(&file, path)? == 0 {
        // The first opening makes the tables.
        return Ok(());
    }
    let read = || -> rusqlite::Result<Option<Vec<u8>>> {
        file.query_row(PEPPER, [], |row| row.get(0)).optional()
    };
    match read().described(path)? {
        Some(known) if known != hasher.fingerprint().as_bytes() => Err(StoreError::WrongPepper),
        _ => Ok(()),
    }
}

/// Notes the fingerprint of the pepper in a new file, and compares it in an old one.
pub(super) fn bind_pepper(
    file: &WriteConnection,
    fingerprint: &KeyHash,
) -> rusqlite::Result<Result<(), StoreError>> {
    let known: Option<Vec<u8>> = file.query_row(PEPPER, [], |row| row.get(0)).optional()?;
    let known = match known {
        Some(known) => known,
        None => file.change(|transaction| {
            // If two processes make one file, the first to write decides.
            transaction.execute(
                "INSERT INTO settings (name, value) VALUES ('pepper', ?1) ON CONFLICT DO NOTHING",
                [fingerprint.as_bytes()],
            )?;
            transaction.query_row(PEPPER, [], |row| row.get(0))
        })?,
    };
    Ok(if known == fingerprint.as_bytes() {
        Ok(())
    } else {
        Err(StoreError::WrongPepper)
    })
}

#[cfg(test)]
mod tests;
