//! Proving that grants, charges and balances add up.

use super::{answers, connection::Session, unsigned};
use crate::store::{
    Verification,
    verification::{MAX_FAULTS, RULES},
};

pub(super) fn verify(snapshot: &mut Session) -> Result<Verification, postgres::Error> {
    // Reading all rows takes its time.
    snapshot.batch("SET LOCAL statement_timeout = 0")?;
    let row = snapshot.query_one(
        "SELECT count(*), (SELECT count(*) FROM usage), coalesce(sum(tokens), 0)::bigint,
                coalesce(sum(spent), 0)::bigint,
                (SELECT coalesce(sum(tokens), 0)::bigint FROM leases)
         FROM grants",
        &[],
    )?;
    let mut found = Verification {
        grants: unsigned(&row, 0)?,
        requests: unsigned(&row, 1)?,
        granted: unsigned(&row, 2)?,
        spent: unsigned(&row, 3)?,
        leased: unsigned(&row, 4)?,
        ..Verification::default()
    };
    for (words, query) in RULES {
        let rows = snapshot.query(&format!("{query} LIMIT {MAX_FAULTS}"), &[])?;
        for row in &rows {
            let (id, what): (String, String) = (row.try_get(0)?, row.try_get(1)?);
            found.faults.push(format!("{words}: {id} ({what})"));
        }
        if rows.len() == MAX_FAULTS {
            let more = format!("{words}: there may be more than these {MAX_FAULTS}");
            found.faults.push(more);
        }
    }
    let damaged = answers::count_damaged(snapshot)?;
    if damaged > 0 {
        found.warnings.push(format!(
            "{damaged} remembered answers are damaged: requests that refer to them get 404"
        ));
    }
    Ok(found)
}
