//! The rows of remembered answers: everything that is done to them in the store.

use super::{Change, MemoryLimits, Remembered};
use crate::{
    clock::Timestamp,
    store::{storable_time, stored_time},
};
use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, Row, Transaction, TransactionBehavior, params};
use std::time::{Duration, Instant};
use tollgate_types::{KeyId, RequestId};

/// Carries out changes in one transaction. For each, whether a row was made or removed.
pub(super) fn apply(
    file: &mut Connection,
    changes: &[Change],
    limits: Option<MemoryLimits>,
    now: Timestamp,
) -> rusqlite::Result<Vec<bool>> {
    let transaction = file.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut done = Vec::with_capacity(changes.len());
    for change in changes {
        done.push(match (change, limits) {
            (Change::Remember(answer), Some(limits)) => {
                let is_new = insert(&transaction, answer, now)?;
                keep_within(&transaction, answer.key.as_str(), limits.bytes_per_key)?;
                keep_within(&transaction, ALL, limits.bytes)?;
                is_new
            }
            (Change::Remember(_), None) => false,
            (Change::Forget { key, id, .. }, _) => remove(&transaction, key, *id)?,
        });
    }
    transaction.commit()?;
    Ok(done)
}

/// The response that answered a request of this key, if it was made after `since`.
pub(super) fn response(
    file: &Connection,
    key: &KeyId,
    id: RequestId,
    since: Timestamp,
) -> rusqlite::Result<Option<Bytes>> {
    let find = "SELECT at, response_checksum, response FROM memory WHERE id = ?1 AND key = ?2";
    let found = file
        .prepare_cached(find)?
        .query_row([id.as_str(), key.as_str()], |row| {
            let is_there = is_since(row, since)?;
            let response = checked(row.get(2)?, row.get(1)?, key, id);
            Ok(response.filter(|_| is_there))
        })
        .optional()?;
    Ok(found.flatten())
}

/// The same, with what it answered.
pub(super) fn answer(
    file: &Connection,
    key: &KeyId,
    id: RequestId,
    since: Timestamp,
) -> rusqlite::Result<Option<Remembered>> {
    let find = "SELECT at, response_checksum, response, input_checksum, input, previous
                FROM memory WHERE id = ?1 AND key = ?2";
    let found = file
        .prepare_cached(find)?
        .query_row([id.as_str(), key.as_str()], |row| {
            let is_there = is_since(row, since)?;
            let response = checked(row.get(2)?, row.get(1)?, key, id);
            let input = checked(row.get(4)?, row.get(3)?, key, id);
            let previous: Option<String> = row.get(5)?;
            let both = response.zip(input).filter(|_| is_there);
            Ok(both.map(|(response, input)| Remembered {
                id,
                key: key.clone(),
                previous: previous.and_then(|id| RequestId::from_text(&id)),
                input,
                response,
            }))
        })
        .optional()?;
    Ok(found.flatten())
}

/// Removes the rows that were made before `before`, the oldest first, and the oldest beyond so many
/// bytes: as many as fit a tenth of a second.
pub(super) fn expire(file: &mut Connection, before: Timestamp, most: u64) -> rusqlite::Result<()> {
    const AT_ONCE: u32 = 64;
    const MOST_TIME: Duration = Duration::from_millis(100);
    let begun = Instant::now();
    while begun.elapsed() < MOST_TIME {
        let transaction = file.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let gone = transaction
            .prepare_cached(
                "DELETE FROM memory WHERE number IN (
                     SELECT number FROM (SELECT number, at FROM memory ORDER BY number LIMIT ?2)
                     WHERE at < ?1
                 )",
            )?
            .execute(params![storable_time(before), AT_ONCE])?;
        let beyond = keep_within(&transaction, ALL, most)?;
        transaction.commit()?;
        if gone == 0 && beyond == 0 {
            break;
        }
    }
    Ok(())
}

/// Bytes of all rows.
pub(super) fn bytes(file: &Connection) -> rusqlite::Result<u64> {
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
            checksum(&answer.response, key, *id),
            checksum(&answer.input, key, *id),
            &*answer.response,
            &*answer.input,
        ])?;
    Ok(made > 0)
}

fn remove(file: &Transaction<'_>, key: &KeyId, id: RequestId) -> rusqlite::Result<bool> {
    let gone = file
        .prepare_cached("DELETE FROM memory WHERE id = ?1 AND key = ?2")?
        .execute([id.as_str(), key.as_str()])?;
    Ok(gone > 0)
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

fn is_since(row: &Row<'_>, since: Timestamp) -> rusqlite::Result<bool> {
    Ok(stored_time(row.get(0)?).is_some_and(|at| at >= since))
}

fn checked(bytes: Vec<u8>, sum: u32, key: &KeyId, id: RequestId) -> Option<Bytes> {
    (checksum(&bytes, key, id) == sum).then(|| bytes.into())
}

/// Of the contents, and of whose they are.
fn checksum(bytes: &[u8], key: &KeyId, id: RequestId) -> u32 {
    let mut hash = crc32fast::Hasher::new();
    hash.update(key.as_str().as_bytes());
    hash.update(id.as_str().as_bytes());
    hash.update(bytes);
    hash.finalize()
}
