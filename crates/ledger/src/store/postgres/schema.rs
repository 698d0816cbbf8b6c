//! The tables and their version. A released step is never edited; a later version adds one.
//!
//! Each row of `schema_version` is a step that was taken, with the oldest version of the program that
//! can use the tables after it. A step that only adds something lets the program of the version before
//! run on, so that nodes are upgraded one after the other.

use super::{
    connection::{Connection, Session},
    error,
    server::Server,
};
use crate::{key::KeyHash, store::StoreError};
use std::path::Path;

/// The steps from an empty database to the present version, each with the oldest version of the
/// program that can use the tables after it.
const STEPS: &[(&str, i64)] = &[(include_str!("0001_ledger.sql"), 1)];

#[cfg(test)]
thread_local! {
    /// One more step, of a later version of the program.
    pub(super) static NEXT: std::cell::Cell<Option<(&'static str, i64)>> =
        const { std::cell::Cell::new(None) };
}

/// The steps of this program.
fn steps() -> Vec<(&'static str, i64)> {
    #[cfg(not(test))]
    let next = None;
    #[cfg(test)]
    let next = NEXT.get();
    STEPS.iter().copied().chain(next).collect()
}

/// The version that this program needs.
pub(super) fn supported() -> i64 {
    i64::try_from(steps().len()).unwrap_or(i64::MAX)
}

/// Takes the steps that are missing, all or none. Returns how many.
pub(super) fn migrate(connection: &mut Connection, place: &Path) -> Result<usize, StoreError> {
    let found = connection.change(|session| {
        // One program at a time makes the tables.
        session.batch(
            "SELECT pg_advisory_xact_lock(hashtext('tollgate.schema'));
             CREATE TABLE IF NOT EXISTS schema_version (
                 version bigint PRIMARY KEY, usable_from bigint NOT NULL
             )",
        )?;
        let found = found(session)?;
        let done = usize::try_from(found.version).unwrap_or(0);
        for (number, (step, usable_from)) in (1_i64..).zip(steps()).skip(done) {
            session.batch(step)?;
            session.execute(
                "INSERT INTO schema_version (version, usable_from) VALUES ($1, $2)",
                &[&number, &usable_from],
            )?;
        }
        Ok(found)
    })?;
    refuse_newer(found, place)?;
    let done = usize::try_from(found.version).unwrap_or(0);
    Ok(steps().len().saturating_sub(done))
}

/// Refuses a database whose tables this program cannot use.
pub(super) fn check(connection: &mut Connection, place: &Path) -> Result<(), StoreError> {
    let found = connection.read(|session| {
        let is_there = "SELECT to_regclass('schema_version') IS NOT NULL";
        match session.query_one(is_there, &[])?.try_get(0)? {
            true => found(session),
            false => Ok(Found::default()),
        }
    })?;
    refuse_newer(found, place)?;
    if found.version < supported() {
        return Err(StoreError::Older {
            path: place.to_owned(),
            found: found.version,
            supported: supported(),
        });
    }
    Ok(())
}

/// Refuses a role that may not read and write all rows: it would show only when a request needs it.
pub(super) fn check_permissions(
    connection: &mut Connection,
    server: &Server,
) -> Result<(), StoreError> {
    let missing = connection.run(|session| {
        // Other owners can have tables of other programs here. The owner's functions handle the weeks of the history.
        let row = session.query_opt(
            "SELECT relname::text FROM pg_class
             WHERE (relnamespace, relowner) = (SELECT relnamespace, relowner FROM pg_class
                     WHERE oid = 'schema_version'::regclass)
                 AND oid <> 'schema_version'::regclass AND NOT relispartition
                 AND NOT CASE
                     WHEN relkind = 'S' THEN has_sequence_privilege(oid, 'USAGE')
                     WHEN relkind IN ('r', 'p') THEN has_table_privilege(oid, 'SELECT')
                         AND has_table_privilege(oid, 'INSERT')
                         AND has_table_privilege(oid, 'UPDATE')
                         AND has_table_privilege(oid, 'DELETE')
                     ELSE TRUE END
             ORDER BY relname LIMIT 1",
            &[],
        )?;
        row.map(|row| row.try_get::<_, String>(0)).transpose()
    })?;
    let refused = |name| error::lacks_permission(server, &format!("permission denied for {name}"));
    missing.map_or(Ok(()), |name| Err(refused(name)))
}

#[derive(Clone, Copy, Default)]
struct Found {
    version: i64,
    /// The oldest version of the program that can use the tables.
    usable_from: i64,
}

fn found(session: &mut Session) -> Result<Found, postgres::Error> {
    let row = session.query_one(
        "SELECT coalesce(max(version), 0), coalesce(max(usable_from), 0) FROM schema_version",
        &[],
    )?;
    Ok(Found {
        version: row.try_get(0)?,
        usable_from: row.try_get(1)?,
    })
}

fn refuse_newer(found: Found, place: &Path) -> Result<(), StoreError> {
    if found.usable_from <= supported() {
        return Ok(());
    }
    Err(StoreError::Newer {
        path: place.to_owned(),
        found: found.version,
        supported: supported(),
    })
}

/// The fingerprint of the pepper under which the database was made.
const PEPPER: &str = "SELECT value FROM settings WHERE name = 'pepper'";

/// Notes the fingerprint of the pepper in a new database, and compares it in an old one.
pub(super) fn bind_pepper(
    connection: &mut Connection,
    fingerprint: &KeyHash,
) -> Result<(), StoreError> {
    check_pepper(connection, fingerprint)?;
    connection.run(|session| {
        // Of two programs that come together, the first to write decides.
        session.execute(
            "INSERT INTO settings (name, value) VALUES ('pepper', $1) ON CONFLICT DO NOTHING",
            &[&&fingerprint.as_bytes()[..]],
        )
    })?;
    check_pepper(connection, fingerprint)
}

/// Refuses a database that was made under another pepper. Changes nothing.
pub(super) fn check_pepper(
    connection: &mut Connection,
    fingerprint: &KeyHash,
) -> Result<(), StoreError> {
    let known = connection.run(|session| {
        let row = session.query_opt(PEPPER, &[])?;
        row.map(|row| row.try_get::<_, Vec<u8>>(0)).transpose()
    })?;
    match known {
        Some(known) if known != fingerprint.as_bytes() => Err(StoreError::WrongPepper),
        _ => Ok(()),
    }
}
