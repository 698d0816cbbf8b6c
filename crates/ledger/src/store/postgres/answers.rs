//! The rows of remembered answers.

use super::{
    amount,
    connection::{Connection, Session},
    milliseconds, storable_time,
};
use crate::{
    clock::Timestamp,
    memory::{MemoryLimits, Remembered},
    store::{
        StoreError,
        database::{AnswerChange, AnswersChanged},
        rows::{self, ANSWER, answer_checksum},
    },
};
use bytes::Bytes;
use std::time::{Duration, Instant};
use tollgate_types::{KeyId, RequestId};

/// Carries out changes in one transaction, until `most` bytes were written or overwritten.
pub(super) fn change(
    transaction: &mut Session,
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
    begin(transaction)?;
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
    transaction: &mut Session,
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

/// The answer to a request of this key, if it was made at `since` or later.
pub(super) fn answer(
    file: &mut Session,
    key: &KeyId,
    id: RequestId,
    since: Timestamp,
) -> Result<Option<Remembered>, postgres::Error> {
    let find = format!("SELECT {ANSWER} FROM memory WHERE id = $1 AND key = $2 AND at >= $3");
    let row = file.query_opt(&find, &[&id.as_str(), &key.as_str(), &storable_time(since)])?;
    let answer = row.as_ref().map(rows::answer).transpose()?;
    Ok(answer.flatten())
}

/// Its response alone.
pub(super) fn response(
    file: &mut Session,
    key: &KeyId,
    id: RequestId,
    since: Timestamp,
) -> Result<Option<Bytes>, postgres::Error> {
    let find = "SELECT response_checksum, response FROM memory
                WHERE id = $1 AND key = $2 AND at >= $3";
    let row = file.query_opt(find, &[&id.as_str(), &key.as_str(), &storable_time(since)])?;
    let response = row
        .map(|row| rows::undamaged(&row, 0, key, id))
        .transpose()?;
    Ok(response.flatten())
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
            let beyond = keep_within(session, ALL, most)?;
            Ok(gone.saturating_add(beyond))
        })?;
        if gone == 0 {
            break;
        }
    }
    connection.run(|session| bytes_of(session, ALL))
}

/// Lets transactions that change answers come one after the other, so that the sums of their bytes do
/// not deadlock. Their commits need not survive the server.
fn begin(session: &mut Session) -> Result<(), postgres::Error> {
    session.batch(
        "SET LOCAL synchronous_commit = off;
         SELECT bytes FROM memory_bytes WHERE key = '' FOR NO KEY UPDATE",
    )
}

/// The name under which the bytes of all keys stand. No key has it.
const ALL: &str = "";

fn insert(
    file: &mut Session,
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
            &answer_checksum(&answer.response, key, *id),
            &answer_checksum(&answer.input, key, *id),
            &&*answer.response,
            &&*answer.input,
        ],
    )?;
    Ok(made > 0)
}

/// Removes a row. Returns its bytes, which are overwritten, or 0 if there is none.
fn remove(file: &mut Session, key: &KeyId, id: RequestId) -> Result<u64, postgres::Error> {
    let gone = "DELETE FROM memory WHERE id = $1 AND key = $2 RETURNING bytes";
    let row = file.query_opt(gone, &[&id.as_str(), &key.as_str()])?;
    let bytes: Option<i64> = row.map(|row| row.try_get(0)).transpose()?;
    Ok(bytes.map_or(0, |bytes| bytes.unsigned_abs().max(1)))
}

/// Removes the oldest rows of a key, or of all, until no more than `most` bytes are left. How many.
fn keep_within(file: &mut Session, key: &str, most: u64) -> Result<u64, postgres::Error> {
    /// More than one new row takes the place of, and little enough for one transaction.
    const MOST_GONE: u64 = 256;
    let oldest = match key {
        ALL => "DELETE FROM memory WHERE number = (SELECT min(number) FROM memory) AND $1 = ''",
        _ => "DELETE FROM memory WHERE number = (SELECT min(number) FROM memory WHERE key = $1)",
    };
    let mut gone = 0;
    while gone < MOST_GONE && bytes_of(file, key)? > most {
        if file.execute(oldest, &[&key])? == 0 {
            break;
        }
        gone = gone.saturating_add(1);
    }
    Ok(gone)
}

fn bytes_of(file: &mut Session, key: &str) -> Result<u64, postgres::Error> {
    let row = file.query_opt("SELECT bytes FROM memory_bytes WHERE key = $1", &[&key])?;
    let bytes: Option<i64> = row.map(|row| row.try_get(0)).transpose()?;
    Ok(bytes.map_or(0, amount))
}

/// How many rows have contents that differ from their checksums. Reads every row, few at a time.
pub(super) fn count_damaged(file: &mut Session) -> Result<u64, postgres::Error> {
    const AT_ONCE: i64 = 8;
    let (mut seen, mut damaged) = (i64::MIN, 0_u64);
    loop {
        let sql = format!(
            "SELECT {ANSWER}, number FROM memory WHERE number > $1 ORDER BY number LIMIT $2"
        );
        let rows = file.query(&sql, &[&seen, &AT_ONCE])?;
        for row in &rows {
            seen = row.try_get(8)?;
            if rows::answer(row)?.is_none() {
                damaged = damaged.saturating_add(1);
            }
        }
        if rows.is_empty() {
            return Ok(damaged);
        }
    }
}
