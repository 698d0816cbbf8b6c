//! Records that could not be entered, with the cause. A person looks at them.

use super::{amount, storable_time};
use crate::{clock::Timestamp, store::database::Quarantined};
use postgres::Transaction;

/// How the cause of a slot without a whole record begins.
pub(super) const TORN: &str = "torn in the settlement file";
/// The cause of a whole record that this program cannot read.
pub(super) const UNREADABLE: &str = "not readable";

/// Puts a record in quarantine.
pub(super) fn add(
    file: &mut Transaction<'_>,
    record: &[u8],
    cause: &str,
    now: Timestamp,
) -> Result<(), postgres::Error> {
    let insert = "INSERT INTO quarantine (at, record, cause) VALUES ($1, $2, $3)";
    file.execute(insert, &[&storable_time(now), &record, &cause])?;
    Ok(())
}

/// Counts the records by cause: the thousand oldest, because this is done every second.
pub(super) fn count(file: &mut Transaction<'_>) -> Result<Quarantined, postgres::Error> {
    let row = file.query_one(
        "SELECT count(*) FILTER (WHERE starts_with(cause, $1)),
                count(*) FILTER (WHERE cause = $2), count(*)
         FROM (SELECT cause FROM quarantine ORDER BY number LIMIT 1000) AS oldest",
        &[&TORN, &UNREADABLE],
    )?;
    let (torn, unreadable) = (amount(row.try_get(0)?), amount(row.try_get(1)?));
    let refused = amount(row.try_get(2)?).saturating_sub(torn.saturating_add(unreadable));
    Ok(Quarantined {
        torn,
        unreadable,
        refused,
    })
}
