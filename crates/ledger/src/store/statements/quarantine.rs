//! Records that could not be entered, with the cause, for an operator to examine.

use super::Statements;
use crate::{clock::Timestamp, store::stored_values::storable_time};

/// How the cause of a slot without a whole record begins.
pub(crate) const TORN: &str = "torn in the settlement file";
/// The cause of a whole record that this program cannot read. Every other cause is the words with
/// which the database refused a record.
pub(crate) const UNREADABLE: &str = "not readable";

/// Puts a record in quarantine. Returns `false` if it is already there for this cause.
pub(crate) fn add<S: Statements>(
    transaction: &mut S,
    record: &[u8],
    cause: &str,
    now: Timestamp,
) -> Result<bool, S::Fault> {
    let added = transaction.run(
        "INSERT INTO quarantine (at, record, cause) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
        &[&storable_time(now), &record, &cause],
    )?;
    Ok(added > 0)
}
