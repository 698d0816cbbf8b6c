//! The rows of remembered answers.

use super::Statements;
use crate::{
    clock::Timestamp,
    memory::{MemoryLimits, Remembered},
    store::{
        database::{AnswerChange, AnswersChanged},
        rows::{self, ANSWER, StoredRow, answer_checksum},
        stored_values::{amount, storable_time},
    },
};
use bytes::Bytes;
use tollgate_types::{KeyId, RequestId};

/// The name of the row with the bytes of all keys. No key has this name.
pub(crate) const ALL: &str = "";

/// Carries out changes, until `most` bytes were written or overwritten.
pub(crate) fn change<S: Statements>(
    transaction: &mut S,
    changes: &[AnswerChange<'_>],
    limits: Option<MemoryLimits>,
    most: u64,
    now: Timestamp,
) -> Result<AnswersChanged, S::Fault> {
    let mut changed = AnswersChanged::default();
    let mut written = 0_u64;
    for change in changes {
        let bytes = carry_out(transaction, change, limits, now)?;
        changed.done.push(bytes > 0);
        written = written.saturating_add(bytes);
        if written >= most {
            break;
        }
    }
    // Read before the commit: after it, a failure would make the caller repeat the changes.
    changed.bytes = bytes_of(transaction, ALL)?;
    Ok(changed)
}

/// Carries out one change. Returns the bytes of the row that was made or removed, or 0 if none was.
fn carry_out<S: Statements>(
    transaction: &mut S,
    change: &AnswerChange<'_>,
    limits: Option<MemoryLimits>,
    now: Timestamp,
) -> Result<u64, S::Fault> {
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
pub(crate) fn answer<S: Statements>(
    file: &mut S,
    key: &KeyId,
    id: RequestId,
    since: Timestamp,
) -> Result<Option<Remembered>, S::Fault> {
    let answer = file.first(
        &format!("SELECT {ANSWER} FROM memory WHERE id = ?1 AND key = ?2 AND at >= ?3"),
        &[&id.as_str(), &key.as_str(), &storable_time(since)],
        |row| rows::answer(row),
    )?;
    Ok(answer.flatten())
}

/// The response of such an answer.
pub(crate) fn response<S: Statements>(
    file: &mut S,
    key: &KeyId,
    id: RequestId,
    since: Timestamp,
) -> Result<Option<Bytes>, S::Fault> {
    let response = file.first(
        "SELECT response_checksum, response FROM memory WHERE id = ?1 AND key = ?2 AND at >= ?3",
        &[&id.as_str(), &key.as_str(), &storable_time(since)],
        |row| rows::undamaged(row, 0, key, id),
    )?;
    Ok(response.flatten())
}

fn insert<S: Statements>(
    transaction: &mut S,
    answer: &Remembered,
    now: Timestamp,
) -> Result<bool, S::Fault> {
    let Remembered { id, key, .. } = answer;
    let made = transaction.run(
        "INSERT INTO memory (id, key, at, bytes, previous, response_checksum, input_checksum,
                             response, input)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT (id) DO NOTHING",
        &[
            &id.as_str(),
            &key.as_str(),
            &storable_time(now),
            &i64::try_from(answer.bytes()).unwrap_or(i64::MAX),
            &answer.previous.as_ref().map(RequestId::as_str),
            &answer_checksum(&answer.response, key, *id),
            &answer_checksum(&answer.input, key, *id),
            &&*answer.response,
            &&*answer.input,
        ],
    )?;
    Ok(made > 0)
}

/// Removes a row. Returns its bytes, which are overwritten, or 0 if there is none.
fn remove<S: Statements>(transaction: &mut S, key: &KeyId, id: RequestId) -> Result<u64, S::Fault> {
    let bytes: Option<i64> = transaction.first(
        "DELETE FROM memory WHERE id = ?1 AND key = ?2 RETURNING bytes",
        &[&id.as_str(), &key.as_str()],
        |row| row.read(0),
    )?;
    Ok(bytes.map_or(0, |bytes| bytes.unsigned_abs().max(1)))
}

/// Removes the oldest rows of a key, or of all, until at most `most` bytes are left. Returns their number.
pub(crate) fn keep_within<S: Statements>(
    transaction: &mut S,
    key: &str,
    most: u64,
) -> Result<u64, S::Fault> {
    /// More rows than one new row displaces, and few enough for one transaction.
    const MOST_GONE: u64 = 256;
    let oldest = match key {
        ALL => "DELETE FROM memory WHERE number = (SELECT min(number) FROM memory) AND ?1 = ''",
        _ => "DELETE FROM memory WHERE number = (SELECT min(number) FROM memory WHERE key = ?1)",
    };
    let mut gone = 0;
    while gone < MOST_GONE && bytes_of(transaction, key)? > most {
        if transaction.run(oldest, &[&key])? == 0 {
            break;
        }
        gone = gone.saturating_add(1);
    }
    Ok(gone)
}

pub(crate) fn bytes_of<S: Statements>(file: &mut S, key: &str) -> Result<u64, S::Fault> {
    let bytes = "SELECT bytes FROM memory_bytes WHERE key = ?1";
    let bytes: Option<i64> = file.first(bytes, &[&key], |row| row.read(0))?;
    Ok(bytes.map_or(0, amount))
}

/// How many rows have contents that differ from their checksums. Reads every row, few at a time.
pub(crate) fn count_damaged<S: Statements>(file: &mut S) -> Result<u64, S::Fault> {
    const AT_ONCE: i64 = 8;
    let sql =
        format!("SELECT {ANSWER}, number FROM memory WHERE number > ?1 ORDER BY number LIMIT ?2");
    let (mut seen, mut damaged) = (i64::MIN, 0_u64);
    loop {
        let rows = file.all(&sql, &[&seen, &AT_ONCE], |row| {
            Ok((row.read(8)?, rows::answer(row)?.is_none()))
        })?;
        let Some((last, _)) = rows.last() else {
            return Ok(damaged);
        };
        seen = *last;
        for (_, is_damaged) in rows {
            damaged = damaged.saturating_add(is_damaged.into());
        }
    }
}
