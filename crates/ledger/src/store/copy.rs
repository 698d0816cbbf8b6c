//! A copy of a ledger that no gateway uses into an empty database, between a file and a server.

use super::{Store, StoreError, Verification};
use rusqlite::types::Value;
use std::path::Path;

/// What is copied, so that each row comes after those to which it refers. Both databases define the
/// columns in the same order. The rest is of processes, or follows from these.
pub(super) const TABLES: [&str; 9] = [
    "keys",
    "grants",
    "extensions",
    "usage",
    "charges",
    "totals",
    "owned",
    "memory",
    "quarantine",
];

/// Takes a row of a table.
pub(crate) type Sink<'a> = dyn FnMut(&'static str, &[Value]) -> Result<(), StoreError> + 'a;

/// Gives rows to a sink, in the order of [`TABLES`].
pub(crate) type Source<'a> = dyn FnMut(&mut Sink<'_>) -> Result<(), StoreError> + 'a;

/// The process that has not ended, in both databases.
pub(super) const RUNNING: &str = "SELECT settlements FROM processes WHERE ended_at IS NULL LIMIT 1";

impl Store {
    /// Copies everything into `target`, all or nothing, and verifies both. Returns what both add up to.
    ///
    /// # Errors
    /// A gateway uses one of the two or has crashed with it, `target` has keys or another pepper, one of
    /// them cannot be read or written, or something does not add up.
    pub fn copy_to(&self, target: &Self) -> Result<Verification, StoreError> {
        if self.hasher.fingerprint() != target.hasher.fingerprint() {
            return Err(StoreError::WrongPepper);
        }
        target
            .database
            .fill(&mut |sink| self.database.read_out(sink))?;
        let (source, copy) = (self.verify()?, target.verify()?);
        let sums = |found: &Verification| Verification {
            warnings: Vec::new(),
            ..found.clone()
        };
        if !source.holds() || sums(&source) != sums(&copy) {
            return Err(refused(
                target.path(),
                format!("the copy adds up to {copy:?}, and should to {source:?}"),
            ));
        }
        Ok(copy)
    }
}

fn refused(path: &Path, cause: String) -> StoreError {
    StoreError::Other {
        path: path.to_owned(),
        cause,
    }
}

/// Refuses a database that a process uses.
pub(super) fn refuse_running(running: Option<String>, path: &Path) -> Result<(), StoreError> {
    running.map_or(Ok(()), |settlements| {
        let cause = format!(
            "a gateway has not ended: stop it; if it has crashed, start and stop it once more (its \
             settlement file is {settlements})"
        );
        Err(refused(path, cause))
    })
}

/// Refuses a target that has keys.
pub(super) fn refuse_keys(keys: i64, path: &Path) -> Result<(), StoreError> {
    match keys {
        0 => Ok(()),
        _ => Err(refused(
            path,
            format!("it has {keys} keys: copy into an empty ledger"),
        )),
    }
}
