//! Proving that grants, charges and balances add up.

use super::{
    Sqlite,
    commits::{self, Commits},
    error::Described,
    open::open_reader,
    sequence::{Known, Sequence},
    sums,
};
use crate::store::{
    StoreError,
    rows::StoredRow,
    statements::memory,
    verification::{MAX_FAULTS, RULES, SUMS, Verification},
};
use rusqlite::Connection;

/// What to do about a file beside the database that does not have the number of the last commit.
const MENDS: &str = "If the database is the right one, the next start of a gateway or \
     `tollgate ledger accept-loss` writes the file anew";

impl Sqlite {
    /// Reads the whole file, over a connection of its own, so that it blocks no writer.
    pub(super) fn verify_file(&self) -> Result<Verification, StoreError> {
        // Read before the snapshot, which then has every commit that this number counts.
        let sequence = Sequence::beside(&self.path);
        let known = sequence.read()?;
        let file = open_reader(&self.path)?;
        let mut found = verify(&file, known).described(&self.path)?;
        match known {
            Known::Commits(_) => {}
            Known::Damaged => found.faults.push(format!(
                "{} is damaged: lost commits cannot be detected. {MENDS}",
                sequence.path().display()
            )),
            Known::Nothing => found.warnings.push(format!(
                "{} is missing: lost commits cannot be detected. {MENDS}",
                sequence.path().display()
            )),
        }
        Ok(found)
    }

    /// Takes the rows that are in the file for the committed ones.
    pub(super) fn accept_rows(&self) -> Result<(), StoreError> {
        let difference = self.read(|file| {
            let snapshot = file.unchecked_transaction()?;
            let sums = sums::of_all_rows(&snapshot)?;
            Ok(sums.minus(&commits::read(&snapshot)?.sums))
        })?;
        let writer = self.writer.lock();
        writer.correct_sums(&difference).described(&self.path)
    }
}

fn verify(file: &Connection, known: Known) -> rusqlite::Result<Verification> {
    let snapshot = file.unchecked_transaction()?;
    let mut found = totals(&snapshot)?;
    found.faults.extend(structure(&snapshot)?);
    check_rules(&snapshot, &mut found)?;
    found.add_damaged(memory::count_damaged(&mut &*snapshot)?);
    let commits = commits::read(&snapshot)?;
    found.faults.extend(missing(&commits, known));
    let sums = sums::of_all_rows(&snapshot)?;
    let changed = sums.different(&commits.sums).into_iter();
    let words = "is not as it was committed: it is damaged, or was changed by hand";
    found
        .faults
        .extend(changed.map(|table| format!("a row of {table} {words}")));
    Ok(found)
}

fn missing(commits: &Commits, known: Known) -> Option<String> {
    let Known::Commits(known) = known else {
        return None;
    };
    let missing = known.checked_sub(commits.number).filter(|it| *it > 0)?;
    Some(format!(
        "commits are missing: {missing} of {known} are not in the file"
    ))
}

/// Adds what breaks the rules.
fn check_rules(snapshot: &Connection, found: &mut Verification) -> rusqlite::Result<()> {
    for (words, query) in RULES {
        let mut rows = snapshot.prepare(&format!("{query} LIMIT {MAX_FAULTS}"))?;
        let rows = rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let broken = rows.collect::<rusqlite::Result<Vec<_>>>()?;
        found.add_faults(words, &broken);
    }
    Ok(())
}

fn totals(file: &Connection) -> rusqlite::Result<Verification> {
    let count = |sql: &str| file.query_row(sql, [], |row| row.get::<_, i64>(0));
    let mut found = Verification {
        grants: count("SELECT count(*) FROM grants")?.unsigned_abs(),
        requests: count("SELECT count(*) FROM usage")?.unsigned_abs(),
        ..Verification::default()
    };
    let mut sums = file.prepare(SUMS)?;
    let mut rows = sums.query([])?;
    while let Some(row) = rows.next()? {
        found.read_sums(row.unit(0)?, |column| row.amount(column))?;
    }
    Ok(found)
}

/// What SQLite itself finds: damaged pages, indexes and references.
fn structure(file: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut faults = Vec::new();
    let mut check = file.prepare("PRAGMA integrity_check(100)")?;
    let lines = check.query_map([], |row| row.get::<_, String>(0))?;
    for line in lines {
        let line = line?;
        if line != "ok" {
            faults.push(format!("the file is damaged: {line}"));
        }
    }
    let mut references = file.prepare("PRAGMA foreign_key_check")?;
    let broken = references.query_map([], |row| row.get::<_, String>(0))?;
    for table in broken.take(100) {
        faults.push(format!("a reference in {} leads nowhere", table?));
    }
    Ok(faults)
}
