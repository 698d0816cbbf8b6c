//! The rows of remembered answers.

use super::storable_time;
use crate::{
    clock::Timestamp,
    memory::{MemoryLimits, Remembered},
    store::{
        database::{AnswerChange, AnswersChanged},
        rows::{self, ANSWER, answer_checksum},
    },
};
use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};
use std::time::{Duration, Instant};
use tollgate_types::{KeyId, RequestId};

/// Carries out changes in one transaction, until `most` bytes were written or overwritten.
pub(super) fn change(
    file: &mut Connection,
    changes: &[AnswerChange<'_>],
    limits: Option<MemoryLimits>,
    most: u64,
    now: Timestamp,
) -> rusqlite::Result<AnswersChanged> {
    let mut changed = AnswersChanged::default();
    if changes.is_empty() {
        changed.bytes = bytes_of(file, ALL)?;
        return Ok(changed);
    }
    let transaction = file.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut written = 0_u64;
    for change in changes {
        let bytes = carry_out(&transaction, change, limits, now)?;
        changed.done.push(bytes > 0);
        written = written.saturating_add(bytes);
        if written >= most {
            break;
        }
    }
    // Before the commit: a failure after it would have the caller repeat what was done.
    changed.bytes = bytes_of(&transaction, ALL)?;
    transaction.commit()?;
    Ok(changed)
}

/// Carries out one change. Returns the bytes of the row that was made or removed, or 0 if none was.
fn carry_out(
    transaction: &Transaction<'_>,
    change: &AnswerChange<'_>,
    limits: Option<MemoryLimits>,
    now: Timestamp,
) -> rusqlite::Result<u64> {
    match (change, limits) {
        (AnswerChange::Remember(answer), Some(limits)) => {
            let is_new = insert(transaction, answer, now)?;
            keep_within(transaction, answer.key.as_str(), limits.bytes_per_key)?;
            keep_within(transaction, ALL, limits.bytes)?;
            Ok(if is_new { answer.bytes() } else { 0 })
        }
        (AnswerChange::Remember(_), None) => Ok(0),
        (AnswerChange::Forget(key, id), _) => remove(transaction, key, *id),
    }
}

/// The answer to a request of this key, if it was made at `since` or later.
pub(super) fn answer(
    file: &Connection,
    key: &KeyId,
    id: RequestId,
    since: Timestamp,
) -> rusqlite::Result<Option<Remembered>> {
    let find = format!("SELECT {ANSWER} FROM memory WHERE id = ?1 AND key = ?2 AND at >= ?3");
    let found = file.prepare_cached(&find)?.query_row(
        params![id.as_str(), key.as_str(), storable_time(since)],
        |row| rows::answer(row),
    );
    Ok(found.optional()?.flatten())
}

/// Its response alone.
pub(super) fn response(
    file: &Connection,
    key: &KeyId,
    id: RequestId,
    since: Timestamp,
) -> rusqlite::Result<Option<Bytes>> {
    let find = "SELECT response_checksum, response FROM memory
                WHERE id = ?1 AND key = ?2 AND at >= ?3";
    let found = file.prepare_cached(find)?.query_row(
        params![id.as_str(), key.as_str(), storable_time(since)],
        |row| rows::undamaged(row, 0, key, id),
    );
    Ok(found.optional()?.flatten())
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
        let beyond = keep_within(&transaction, ALL, most)?;
        transaction.commit()?;
        if gone == 0 && beyond == 0 {
            break;
        }
    }
    bytes_of(file, ALL)
}

/// The name under which the bytes of all keys stand. No key has it.
const ALL: &str = "";

fn insert(file: &Transaction<'_>, answer: &Remembered, now: Timestamp) -> rusqlite::Result<bool> {
    let Remembered { id, key, .. } = answer;
    let made = file
        .prepare_cached(
            "INSERT INTO memory (id, key, at, bytes, previous, response_checksum, input_checksum,
                                 response, input)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT (id) DO NOTHING",
        )?
        .execute(params![
            id.as_str(),
            key.as_str(),
            storable_time(now),
            i64::try_from(answer.bytes()).unwrap_or(i64::MAX),
            answer.previous.as_ref().map(RequestId::as_str),
            answer_checksum(&answer.response, key, *id),
            answer_checksum(&answer.input, key, *id),
            &*answer.response,
            &*answer.input,
        ])?;
    Ok(made > 0)
}

/// Removes a row. Returns its bytes, which are overwritten, or 0 if there is none.
fn remove(file: &Transaction<'_>, key: &KeyId, id: RequestId) -> rusqlite::Result<u64> {
    let bytes: Option<i64> = file
        .prepare_cached("DELETE FROM memory WHERE id = ?1 AND key = ?2 RETURNING bytes")?
        .query_row([id.as_str(), key.as_str()], |row| row.get(0))
        .optional()?;
    Ok(bytes.map_or(0, |bytes| bytes.unsigned_abs().max(1)))
}

/// Removes the oldest rows of a key, or of all, until no more than `most` bytes are left. How many.
fn keep_within(file: &Transaction<'_>, key: &str, most: u64) -> rusqlite::Result<usize> {
    /// More than one new row takes the place of, and little enough for one transaction.
    const MOST_GONE: usize = 256;
    let oldest = match key {
        ALL => "DELETE FROM memory WHERE number = (SELECT min(number) FROM memory) AND ?1 = ''",
        _ => "DELETE FROM memory WHERE number = (SELECT min(number) FROM memory WHERE key = ?1)",
    };
    let mut gone = 0;
    while gone < MOST_GONE && bytes_of(file, key)? > most {
        if file.prepare_cached(oldest)?.execute([key])? == 0 {
            break;
        }
        gone = gone.saturating_add(1);
    }
    Ok(gone)
}

fn bytes_of(file: &Connection, key: &str) -> rusqlite::Result<u64> {
    let bytes: Option<i64> = file
        .prepare_cached("SELECT bytes FROM memory_bytes WHERE key = ?1")?
        .query_row([key], |row| row.get(0))
        .optional()?;
    Ok(bytes.and_then(|it| u64::try_from(it).ok()).unwrap_or(0))
}

/// How many rows have contents that differ from their checksums. Reads every row.
pub(super) fn count_damaged(file: &Connection) -> rusqlite::Result<u64> {
    let mut rows = file.prepare(&format!("SELECT {ANSWER} FROM memory"))?;
    let mut damaged = 0_u64;
    for answer in rows.query_map([], |row| rows::answer(row))? {
        damaged = damaged.saturating_add(answer?.is_none().into());
    }
    Ok(damaged)
}
