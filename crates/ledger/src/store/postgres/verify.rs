//! Proving that grants, charges and balances add up.

use super::connection::Session;
use crate::store::{
    rows::StoredRow,
    statements::memory,
    verification::{MAX_FAULTS, RULES, SUMS, Verification},
};

pub(super) fn verify(snapshot: &mut Session) -> Result<Verification, postgres::Error> {
    // Reading all rows takes its time. No week of the history may be dropped between the snapshot and its use.
    snapshot.batch("SET LOCAL statement_timeout = 0; LOCK TABLE usage IN ACCESS SHARE MODE")?;
    let row = snapshot.query_one(
        "SELECT (SELECT count(*) FROM grants), (SELECT count(*) FROM usage)",
        &[],
    )?;
    let mut found = Verification {
        grants: row.amount(0)?,
        requests: row.amount(1)?,
        ..Verification::default()
    };
    for row in snapshot.query(SUMS, &[])? {
        found.read_sums(row.unit(0)?, |column| row.amount(column))?;
    }
    for (words, query) in RULES {
        let rows = snapshot.query(&format!("{query} LIMIT {MAX_FAULTS}"), &[])?;
        let rows = rows
            .iter()
            .map(|row| Ok((row.try_get(0)?, row.try_get(1)?)));
        let broken = rows.collect::<Result<Vec<_>, postgres::Error>>()?;
        found.add_faults(words, &broken);
    }
    found.add_damaged(memory::count_damaged(snapshot)?);
    Ok(found)
}
