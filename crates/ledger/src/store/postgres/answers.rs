//! The rows of remembered answers.

use super::{storable_time, stored_time};
use crate::{
    clock::Timestamp,
    memory::{MemoryLimits, Remembered},
    store::database::{AnswerChange, AnswersChanged},
};
use bytes::Bytes;
use postgres::{Row, Transaction};
use tollgate_types::{KeyId, RequestId};

/// Carries out changes in one transaction, until `most` bytes were written or overwritten.
pub(super) fn change(
    transaction: &mut Transaction<'_>,
    changes: &[AnswerChange<'_>],
    limits: Option<MemoryLimits>,
    most: u64,
    now: Timestamp,
) -> Result<AnswersChanged, postgres::Error> {
    let mut changed = AnswersChanged::default();
    if changes.is_empty() {
        changed.bytes = bytes_of(transaction, ALL)?;
        return Ok(changed);
    }
    let mut written = 0_u64;
    for change in changes {
        let bytes = carry_out(transaction, change, limits, now)?;
        changed.done.push(bytes > 0);
        written = written.saturating_add(bytes);
        if written >= most {
            break;
        }
    }
    changed.bytes = bytes_of(transaction, ALL)?;
    Ok(changed)
}

/// Carries out one change. Returns the bytes of the row that was made or removed, or 0 if none was.
fn carry_out(
    transaction: &mut Transaction<'_>,
    change: &AnswerChange<'_>,
    limits: Option<MemoryLimits>,
    now: Timestamp,
) -> Result<u64, postgres::Error> {
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

/// The response that answered a request of this key, if it was made after `since`.
pub(super) fn response(
    file: &mut Transaction<'_>,
    key: &KeyId,
    id: RequestId,
    since: Timestamp,
) -> Result<Option<Bytes>, postgres::Error> {
    let find = "SELECT at, response_checksum, response FROM memory WHERE id = $1 AND key = $2";
    let row = file.query_opt(find, &[&id.as_str(), &key.as_str()])?;
    let found = row
        .as_ref()
        .map(|row| {
            let is_there = is_since(row, since)?;
            let response = checked(row.try_get(2)?, row.try_get(1)?, key, id);
            Ok::<_, postgres::Error>(response.filter(|_| is_there))
        })
        .transpose()?;
    Ok(found.flatten())
}

/// The same, with what it answered.
pub(super) fn answer(
    file: &mut Transaction<'_>,
    key: &KeyId,
    id: RequestId,
    since: Timestamp,
) -> Result<Option<Remembered>, postgres::Error> {
    let find = "SELECT at, response_checksum, response, input_checksum, input, previous
                FROM memory WHERE id = $1 AND key = $2";
    let row = file.query_opt(find, &[&id.as_str(), &key.as_str()])?;
    let found = row
        .as_ref()
        .map(|row| {
            let is_there = is_since(row, since)?;
            let response = checked(row.try_get(2)?, row.try_get(1)?, key, id);
            let input = checked(row.try_get(4)?, row.try_get(3)?, key, id);
            let previous: Option<String> = row.try_get(5)?;
            let both = response.zip(input).filter(|_| is_there);
            Ok::<_, postgres::Error>(both.map(|(response, input)| Remembered {
                id,
                key: key.clone(),
                previous: previous.and_then(|id| RequestId::from_text(&id)),
                input,
                response,
            }))
        })
        .transpose()?;
    Ok(found.flatten())
}

/// Removes the oldest rows that were made before `before`, and the oldest beyond so many bytes. Returns
/// the bytes that are left.
pub(super) fn expire(
    transaction: &mut Transaction<'_>,
    before: Timestamp,
    most: u64,
) -> Result<u64, postgres::Error> {
    transaction.execute(
        "DELETE FROM memory WHERE number IN (
             SELECT number FROM (SELECT number, at FROM memory ORDER BY number LIMIT 1000) AS oldest
             WHERE at < $1)",
        &[&storable_time(before)],
    )?;
    keep_within(transaction, ALL, most)?;
    bytes_of(transaction, ALL)
}

/// The name under which the bytes of all keys stand. No key has it.
const ALL: &str = "";

fn insert(
    file: &mut Transaction<'_>,
    answer: &Remembered,
    now: Timestamp,
) -> Result<bool, postgres::Error> {
    let Remembered { id, key, .. } = answer;
    let made = file.execute(
        "INSERT INTO memory (id, key, at, bytes, previous, response_checksum, input_checksum,
                             response, input)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (id) DO NOTHING",
        &[
            &id.as_str(),
            &key.as_str(),
            &storable_time(now),
            &i64::try_from(answer.bytes()).unwrap_or(i64::MAX),
            &answer.previous.as_ref().map(RequestId::as_str),
            &checksum(&answer.response, key, *id),
            &checksum(&answer.input, key, *id),
            &&*answer.response,
            &&*answer.input,
        ],
    )?;
    Ok(made > 0)
}

/// Removes a row. Returns its bytes, which are overwritten, or 0 if there is none.
fn remove(file: &mut Transaction<'_>, key: &KeyId, id: RequestId) -> Result<u64, postgres::Error> {
    let gone = "DELETE FROM memory WHERE id = $1 AND key = $2 RETURNING bytes";
    let row = file.query_opt(gone, &[&id.as_str(), &key.as_str()])?;
    let bytes: Option<i64> = row.map(|row| row.try_get(0)).transpose()?;
    Ok(bytes.map_or(0, |bytes| bytes.unsigned_abs().max(1)))
}

/// Removes the oldest rows of a key, or of all, until no more than `most` bytes are left.
fn keep_within(file: &mut Transaction<'_>, key: &str, most: u64) -> Result<(), postgres::Error> {
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    file.execute(
        "DELETE FROM memory WHERE number IN (
             SELECT number FROM (
                 SELECT number, sum(bytes) OVER (ORDER BY number DESC) AS newer
                 FROM memory WHERE $1 = '' OR key = $1) AS summed
             WHERE newer > $2::bigint)",
        &[&key, &most],
    )?;
    Ok(())
}

fn bytes_of(file: &mut Transaction<'_>, key: &str) -> Result<u64, postgres::Error> {
    let sum = "SELECT coalesce(sum(bytes), 0)::bigint FROM memory WHERE $1 = '' OR key = $1";
    let bytes: i64 = file.query_one(sum, &[&key])?.try_get(0)?;
    Ok(u64::try_from(bytes).unwrap_or(0))
}

fn is_since(row: &Row, since: Timestamp) -> Result<bool, postgres::Error> {
    Ok(stored_time(row.try_get(0)?).is_some_and(|at| at >= since))
}

fn checked(bytes: Vec<u8>, sum: i64, key: &KeyId, id: RequestId) -> Option<Bytes> {
    (checksum(&bytes, key, id) == sum).then(|| bytes.into())
}

/// Of the contents, and of whose they are.
fn checksum(bytes: &[u8], key: &KeyId, id: RequestId) -> i64 {
    let mut hash = crc32fast::Hasher::new();
    hash.update(key.as_str().as_bytes());
    hash.update(id.as_str().as_bytes());
    hash.update(bytes);
    hash.finalize().into()
}
