//! Deletes old records, a few at a time: no transaction is held for long, and what the records
//! proved stays provable (`grants.purged`).

use super::{storable_time, write::WriteConnection};
use crate::clock::Timestamp;
use rusqlite::{Connection, params};
use std::time::{Duration, Instant};

/// How many rows go in one transaction.
const AT_ONCE: u32 = 500;
/// How many transactions in a round, and how long at most: settlements wait meanwhile.
const MOST_TIMES: usize = 20;
const MOST_TIME: Duration = Duration::from_millis(100);
/// Younger records are never deleted: the id of a recent request makes its second record nothing.
const SHORTEST_HISTORY: Duration = Duration::from_secs(3600);
/// Deletes records of requests that are older than `age`, in as many transactions as keep up with the
/// busiest hours. Returns how many.
pub(super) fn usage(
    file: &WriteConnection,
    now: Timestamp,
    age: Duration,
) -> rusqlite::Result<usize> {
    let (begun, mut all) = (Instant::now(), 0_usize);
    for _ in 0..MOST_TIMES {
        let gone = oldest(file, now, age)?;
        all = all.saturating_add(gone);
        if gone < AT_ONCE as usize || begun.elapsed() > MOST_TIME {
            break;
        }
    }
    Ok(all)
}

/// Deletes the oldest of them. Returns how many.
fn oldest(file: &WriteConnection, now: Timestamp, age: Duration) -> rusqlite::Result<usize> {
    let before = now.minus(age.max(SHORTEST_HISTORY));
    let Some(last) = last_to_go(file, before, now)? else {
        return Ok(0);
    };
    let transaction = file.begin()?;
    transaction.execute(
        "UPDATE grants SET purged = purged + gone
         FROM (
             SELECT grant_number, sum(tokens) AS gone FROM (
                 SELECT paid_by AS grant_number, charged - overdraft AS tokens FROM usage
                 WHERE number <= ?1 AND paid_by IS NOT NULL
                 UNION ALL
                 SELECT cost_paid_by, cost - cost_overdraft FROM usage
                 WHERE number <= ?1 AND cost_paid_by IS NOT NULL
                 UNION ALL
                 SELECT grant_number, tokens FROM charges WHERE usage <= ?1
             ) GROUP BY grant_number
         ) WHERE grant_number = number",
        [last],
    )?;
    transaction.execute("DELETE FROM charges WHERE usage <= ?1", [last])?;
    let gone = transaction.execute("DELETE FROM usage WHERE number <= ?1", [last])?;
    transaction.commit()?;
    Ok(gone)
}

/// The last record that one transaction deletes: of the oldest [`AT_ONCE`], in the order in which they
/// were entered, those that are old enough. A record that was entered late waits for those before it.
///
/// A record with a time after `now` is of a clock that was wrong, and would hold all others back until
/// then: it goes with an old record after it. [`MOST_TIMES`] × [`AT_ONCE`] such records in a row hold the
/// rest back.
fn last_to_go(
    file: &Connection,
    before: Timestamp,
    now: Timestamp,
) -> rusqlite::Result<Option<i64>> {
    let next = "SELECT number, at FROM usage WHERE number > ?1 ORDER BY number LIMIT ?2";
    let mut next = file.prepare_cached(next)?;
    let (mut seen, mut last_of_first, mut last) = (i64::MIN, None, None);
    for _ in 0..MOST_TIMES {
        let mut rows = next.query(params![seen, AT_ONCE])?;
        let mut read = 0;
        while let Some(row) = rows.next()? {
            let (number, at): (i64, i64) = (row.get(0)?, row.get(1)?);
            (seen, read) = (number, read + 1);
            if at > storable_time(now) {
                continue;
            }
            if at >= storable_time(before) {
                return Ok(last);
            }
            if last_of_first.is_some() {
                return Ok(last_of_first);
            }
            last = Some(number);
        }
        if last.is_some() || read < AT_ONCE {
            return Ok(last);
        }
        // All are of a wrong clock so far.
        last_of_first = last_of_first.or(Some(seen));
    }
    Ok(None)
}

/// Deletes owners of stored items: the oldest from before `before`, and the oldest beyond `most`.
pub(super) fn owned(file: &WriteConnection, before: Timestamp, most: u64) -> rusqlite::Result<()> {
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let begun = Instant::now();
    for _ in 0..MOST_TIMES {
        let gone = file.change(|file| {
            // Two queries, because each is a range of one index.
            file.prepare_cached(
                "DELETE FROM owned WHERE number IN (
                     SELECT number FROM (
                         SELECT number FROM owned WHERE at < ?1 ORDER BY at LIMIT ?3
                     )
                     UNION
                     SELECT number FROM (
                         SELECT number FROM owned
                         WHERE number <= (SELECT max(number) FROM owned) - ?2
                         ORDER BY number LIMIT ?3
                     )
                 )",
            )?
            .execute(params![storable_time(before), most, AT_ONCE])
        })?;
        if gone < AT_ONCE as usize || begun.elapsed() > MOST_TIME {
            break;
        }
    }
    Ok(())
}
