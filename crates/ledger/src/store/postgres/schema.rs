//! The tables and their version. A released step is never edited; a later version adds one.

use super::connection::Connection;
use crate::{key::KeyHash, store::StoreError};

/// The steps from an empty database to the present version.
const STEPS: &[&str] = &[include_str!("0001_ledger.sql")];

/// Takes the steps that are missing, refuses a newer database and one under another pepper.
pub(super) fn open(connection: &mut Connection, pepper: &KeyHash) -> Result<(), StoreError> {
    let supported = i64::try_from(STEPS.len()).unwrap_or(i64::MAX);
    let (found, known) = connection.change(|transaction| {
        // One node at a time makes the tables.
        transaction.batch_execute("SELECT pg_advisory_xact_lock(hashtext('tollgate.schema'))")?;
        transaction
            .batch_execute("CREATE TABLE IF NOT EXISTS schema_version (version bigint NOT NULL)")?;
        let row =
            transaction.query_one("SELECT coalesce(max(version), 0) FROM schema_version", &[])?;
        let found: i64 = row.try_get(0)?;
        if found > supported {
            return Ok((found, Vec::new()));
        }
        for step in STEPS.iter().skip(usize::try_from(found).unwrap_or(0)) {
            transaction.batch_execute(step)?;
        }
        if found < supported {
            transaction.execute("INSERT INTO schema_version VALUES ($1)", &[&supported])?;
        }
        transaction.execute(
            "INSERT INTO settings (name, value) VALUES ('pepper', $1) ON CONFLICT DO NOTHING",
            &[&&pepper.as_bytes()[..]],
        )?;
        let row = transaction.query_one("SELECT value FROM settings WHERE name = 'pepper'", &[])?;
        Ok((found, row.try_get::<_, Vec<u8>>(0)?))
    })?;
    if found > supported {
        return Err(StoreError::Newer {
            path: connection.place().into(),
            found,
            supported,
        });
    }
    if known != pepper.as_bytes() {
        return Err(StoreError::WrongPepper);
    }
    Ok(())
}
