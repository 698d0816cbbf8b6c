//! The transactions that change remembered answers.

use super::storable_time;
use crate::{
    clock::Timestamp,
    memory::MemoryLimits,
    store::{
        database::{AnswerChange, AnswersChanged},
        statements::memory,
    },
};
use rusqlite::{Connection, TransactionBehavior, params};
use std::time::{Duration, Instant};

/// Carries out changes in one transaction, until `most` bytes were written or overwritten.
pub(super) fn change(
    file: &mut Connection,
    changes: &[AnswerChange<'_>],
    limits: Option<MemoryLimits>,
    most: u64,
    now: Timestamp,
) -> rusqlite::Result<AnswersChanged> {
    if changes.is_empty() {
        return memory::change(&mut &*file, changes, limits, most, now);
    }
    let transaction = file.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let changed = memory::change(&mut &*transaction, changes, limits, most, now)?;
    transaction.commit()?;
    Ok(changed)
}

/// Removes the rows that were made before `before`, the oldest first, and the oldest beyond so many
/// bytes: as many as fit a tenth of a second. Returns the bytes that are left.
pub(super) fn expire(file: &mut Connection, before: Timestamp, most: u64) -> rusqlite::Result<u64> {
    const AT_ONCE: u32 = 64;
    const MOST_TIME: Duration = Duration::from_millis(100);
    let begun = Instant::now();
    while begun.elapsed() < MOST_TIME {
        let transaction = file.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let gone = transaction
            .prepare_cached(
                "DELETE FROM memory WHERE number IN (
                     SELECT number FROM memory WHERE at < ?1 ORDER BY at LIMIT ?2
                 )",
            )?
            .execute(params![storable_time(before), AT_ONCE])?;
        let beyond = memory::keep_within(&mut &*transaction, memory::ALL, most)?;
        transaction.commit()?;
        if gone == 0 && beyond == 0 {
            break;
        }
    }
    memory::bytes_of(&mut &*file, memory::ALL)
}
