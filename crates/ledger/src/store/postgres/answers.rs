//! The transactions that change remembered answers.

use super::{
    connection::{Connection, Session},
    milliseconds, storable_time,
};
use crate::{
    clock::Timestamp,
    memory::MemoryLimits,
    store::{
        StoreError,
        database::{AnswerChange, AnswersChanged},
        statements::memory,
    },
};
use std::time::{Duration, Instant};

/// Carries out changes in one transaction, until `most` bytes were written or overwritten.
pub(super) fn change(
    transaction: &mut Session,
    changes: &[AnswerChange<'_>],
    limits: Option<MemoryLimits>,
    most: u64,
    now: Timestamp,
) -> Result<AnswersChanged, postgres::Error> {
    if !changes.is_empty() {
        begin(transaction)?;
    }
    memory::change(transaction, changes, limits, most, now)
}

/// Removes the rows that are older than `age`, the oldest first, and the oldest beyond so many
/// bytes: as many as fit a tenth of a second. Returns the bytes that are left.
pub(super) fn expire(
    connection: &mut Connection,
    now: Timestamp,
    age: Duration,
    most: u64,
) -> Result<u64, StoreError> {
    const AT_ONCE: i64 = 64;
    const MOST_TIME: Duration = Duration::from_millis(100);
    let begun = Instant::now();
    while begun.elapsed() < MOST_TIME {
        let gone = connection.change(|session| {
            begin(session)?;
            let gone = session.execute(
                "DELETE FROM memory WHERE number IN (
                     SELECT number FROM memory WHERE at < least($1, now_ms()) - $3
                     ORDER BY at LIMIT $2)",
                &[&storable_time(now), &AT_ONCE, &milliseconds(age)],
            )?;
            let beyond = memory::keep_within(session, memory::ALL, most)?;
            Ok(gone.saturating_add(beyond))
        })?;
        if gone == 0 {
            break;
        }
    }
    connection.run(|session| memory::bytes_of(session, memory::ALL))
}

/// Lets transactions that change answers come one after the other, so that the sums of their bytes do
/// not deadlock. Their commits need not survive the server.
fn begin(session: &mut Session) -> Result<(), postgres::Error> {
    session.batch(
        "SET LOCAL synchronous_commit = off;
         SELECT bytes FROM memory_bytes WHERE key = '' FOR NO KEY UPDATE",
    )
}
