//! Deletes old records, a few at a time: no transaction holds its locks for long, and what the records
//! proved stays provable (`grants.purged`).

use super::{
    connection::{Connection, Session},
    process::lock_keys,
    storable_time,
};
use crate::{
    clock::Timestamp,
    store::{
        StoreError,
        database::{Retention, purged_before},
    },
};
use std::time::{Duration, Instant};

/// How many rows go in one transaction.
const AT_ONCE: usize = 500;
/// How many transactions in a round, and how long at most: settlements wait meanwhile.
const MOST_TIMES: usize = 20;
const MOST_TIME: Duration = Duration::from_millis(100);

/// Deletes old records of requests, and old owners of stored things. Returns how many records of
/// requests.
pub(super) fn purge(
    connection: &mut Connection,
    retention: &Retention,
    now: Timestamp,
) -> Result<usize, StoreError> {
    let records = match retention.history {
        Some(age) => {
            let before = storable_time(purged_before(age, now));
            in_batches(|| connection.change(|session| usage(session, before)))?
        }
        None => 0,
    };
    let before = storable_time(now.minus(retention.stored));
    let most = i64::try_from(retention.most_stored).unwrap_or(i64::MAX);
    in_batches(|| connection.run(|session| owned(session, before, most)))?;
    Ok(records)
}

/// Repeats a deletion until it has less to do than it can, or time is up. Returns how many rows went.
fn in_batches(mut delete: impl FnMut() -> Result<usize, StoreError>) -> Result<usize, StoreError> {
    let (begun, mut all) = (Instant::now(), 0_usize);
    for _ in 0..MOST_TIMES {
        let gone = delete()?;
        all = all.saturating_add(gone);
        if gone < AT_ONCE || begun.elapsed() > MOST_TIME {
            break;
        }
    }
    Ok(all)
}

fn usage(session: &mut Session, before: i64) -> Result<usize, postgres::Error> {
    let oldest = "SELECT number, key FROM usage WHERE at < $1 ORDER BY at LIMIT $2";
    let rows = session.query(oldest, &[&before, &at_once()])?;
    if rows.is_empty() {
        return Ok(0);
    }
    let (mut numbers, mut keys) = (Vec::<i64>::new(), Vec::<i64>::new());
    for row in &rows {
        numbers.push(row.try_get(0)?);
        keys.push(row.try_get(1)?);
    }
    lock_keys(session, &[], &keys, &[])?;
    // Another node may have deleted some of them before this one had the locks.
    session.execute(
        "UPDATE grants SET purged = purged + gone
         FROM (SELECT grant_number, sum(tokens)::bigint AS gone FROM (
                 SELECT paid_by AS grant_number, charged - overdraft AS tokens FROM usage
                 WHERE number = ANY($1) AND paid_by IS NOT NULL
                 UNION ALL
                 SELECT grant_number, tokens FROM charges WHERE usage = ANY($1)
             ) AS paid GROUP BY grant_number) AS purged_of
         WHERE grant_number = number",
        &[&numbers],
    )?;
    session.execute("DELETE FROM charges WHERE usage = ANY($1)", &[&numbers])?;
    let gone = session.execute("DELETE FROM usage WHERE number = ANY($1)", &[&numbers])?;
    Ok(count(gone))
}

/// The oldest from before `before`, and the oldest beyond `most`.
fn owned(session: &mut Session, before: i64, most: i64) -> Result<usize, postgres::Error> {
    let gone = session.execute(
        "DELETE FROM owned WHERE number IN (
             (SELECT number FROM owned WHERE at < $1 ORDER BY at LIMIT $3)
             UNION
             (SELECT number FROM owned WHERE number <= (SELECT max(number) FROM owned) - $2
              ORDER BY number LIMIT $3)
         )",
        &[&before, &most, &at_once()],
    )?;
    Ok(count(gone))
}

fn at_once() -> i64 {
    i64::try_from(AT_ONCE).unwrap_or(i64::MAX)
}

fn count(rows: u64) -> usize {
    usize::try_from(rows).unwrap_or(usize::MAX)
}
