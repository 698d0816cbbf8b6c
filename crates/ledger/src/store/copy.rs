//! Copies of a ledger between a file and a server.
//!
//! The history comes first, in steps, while gateways may still use the file. An interrupted copy continues
//! after its last step. Gateways pause only while the rest is copied.

use super::{Store, StoreError, Verification};
use rusqlite::types::Value;
use std::path::Path;

/// The tables that are copied after the history, each after those to which it refers. The other tables are
/// about processes, or follow from these.
pub(super) const REST: [&str; 8] = [
    "keys",
    "grants",
    "purged",
    "extensions",
    "totals",
    "owned",
    "memory",
    "quarantine",
];

/// How many records of requests one step copies.
const STEP: i64 = 10_000;

/// Takes a row of a table, its values in the order of the columns on a server.
pub(crate) type Sink<'a> = dyn FnMut(&'static str, Vec<Value>) -> Result<(), StoreError> + 'a;

/// Gives rows to a sink.
pub(crate) type Source<'a> = dyn FnMut(&mut Sink<'_>) -> Result<(), StoreError> + 'a;

/// Which rows are copied.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rows {
    /// The records of requests with numbers above the first, up to the second, and what several grants paid
    /// of them.
    History(i64, i64),
    /// All others.
    Rest,
}

/// What a copy finds in a database.
#[derive(Clone, Debug, Default)]
pub(crate) struct Contents {
    pub(crate) keys: i64,
    /// The numbers of the first and of the last record of a request; zero if there is none.
    pub(crate) first: i64,
    pub(crate) last: i64,
    /// The settlement file of a process that has not ended.
    pub(crate) used_by: Option<String>,
}

/// The query for [`Contents`], for both databases.
pub(super) const CONTENTS: &str = "SELECT (SELECT count(*) FROM keys),
    (SELECT coalesce(min(number), 0) FROM usage), (SELECT coalesce(max(number), 0) FROM usage),
    (SELECT settlements FROM processes WHERE ended_at IS NULL LIMIT 1)";

/// What came of a copy.
#[derive(Clone, Debug)]
pub enum Copied {
    /// Everything; both ledgers add up to this.
    All(Verification),
    /// The history up to now, because this gateway uses the ledger, as the name of its settlement file
    /// says. The same copy continues when it has ended.
    History(String),
}

impl Store {
    /// Copies everything into `target`, and verifies both. While gateways use a file, copies its history.
    /// Calls `progress` with the number of copied records and of all records.
    ///
    /// # Errors
    /// `target` has keys, a process or another pepper; a process uses the server that is copied; one of them
    /// cannot be read or written; or something does not add up.
    pub fn copy_to(
        &self,
        target: &Self,
        progress: &dyn Fn(u64, u64),
    ) -> Result<Copied, StoreError> {
        if self.hasher.fingerprint() != target.hasher.fingerprint() {
            return Err(StoreError::WrongPepper);
        }
        let (source, copy) = (&self.database, &target.database);
        let there = copy.contents()?;
        if there.keys > 0 || there.used_by.is_some() {
            return Err(refused(target, "it is in use: copy into an empty ledger"));
        }
        let here = source.contents()?;
        if here.used_by.is_some() && source.lease_term().is_some() {
            return Err(refused(
                self,
                "a gateway has not ended: stop all gateways that use it",
            ));
        }
        let count = |from: i64, to: i64| to.saturating_sub(from).max(0).unsigned_abs();
        let mut copied = there.last;
        while copied < here.last {
            let to = copied
                .max(here.first.saturating_sub(1))
                .saturating_add(STEP);
            let rows = Rows::History(copied, to.min(here.last));
            copy.fill(&mut |sink| source.read_out(rows, sink), None)?;
            copied = to.min(here.last);
            progress(count(here.first, copied), count(here.first, here.last));
        }
        if let Some(gateway) = here.used_by {
            return Ok(Copied::History(gateway));
        }
        copy.fill(
            &mut |sink| source.read_out(Rows::Rest, sink),
            Some(here.first),
        )?;
        let (source, copy) = (self.verify()?, target.verify()?);
        let sums = |found: &Verification| Verification {
            warnings: Vec::new(),
            ..found.clone()
        };
        if !source.holds() || sums(&source) != sums(&copy) {
            let cause = format!(
                "the copy adds up to {copy:?}, not to {source:?}: repeat it into an empty ledger"
            );
            return Err(refused(target, &cause));
        }
        Ok(Copied::All(copy))
    }
}

fn refused(store: &Store, cause: &str) -> StoreError {
    StoreError::Other {
        path: Path::to_owned(store.path()),
        cause: cause.to_owned(),
    }
}
