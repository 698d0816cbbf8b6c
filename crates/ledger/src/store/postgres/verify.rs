//! Proving that grants, charges and balances add up.

use super::{answers, connection::Session, grants, unsigned};
use crate::store::verification::{MAX_FAULTS, RULES, SUMS, Verification};

pub(super) fn verify(snapshot: &mut Session) -> Result<Verification, postgres::Error> {
    // Reading all rows takes its time. No week of the history may be dropped between the snapshot and its use.
    snapshot.batch("SET LOCAL statement_timeout = 0; LOCK TABLE usage IN ACCESS SHARE MODE")?;
    let row = snapshot.query_one(
        "SELECT (SELECT count(*) FROM grants), (SELECT count(*) FROM usage)",
        &[],
    )?;
    let mut found = Verification {
        grants: unsigned(&row, 0)?,
        requests: unsigned(&row, 1)?,
        ..Verification::default()
    };
    for row in snapshot.query(SUMS, &[])? {
        found.read_sums(grants::unit(&row, 0)?, |column| unsigned(&row, column))?;
    }
    for (words, query) in RULES {
        let rows = snapshot.query(&format!("{query} LIMIT {MAX_FAULTS}"), &[])?;
        let rows = rows
            .iter()
            .map(|row| Ok((row.try_get(0)?, row.try_get(1)?)));
        let broken = rows.collect::<Result<Vec<_>, postgres::Error>>()?;
        found.add_faults(words, &broken);
    }
    found.add_damaged(answers::count_damaged(snapshot)?);
    Ok(found)
}
