//! Records that could not be entered, with the cause. A person looks at them.

use super::{connection::Session, storable_time};
use crate::clock::Timestamp;

/// How the cause of a slot without a whole record begins.
pub(super) const TORN: &str = "torn in the settlement file";
/// The cause of a whole record that this program cannot read.
pub(super) const UNREADABLE: &str = "not readable";

/// Puts a record in quarantine. Returns whether it was not there for this cause.
pub(super) fn add(
    session: &mut Session,
    record: &[u8],
    cause: &str,
    now: Timestamp,
) -> Result<bool, postgres::Error> {
    let added = session.execute(
        "INSERT INTO quarantine (at, record, cause) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
        &[&storable_time(now), &record, &cause],
    )?;
    Ok(added > 0)
}
