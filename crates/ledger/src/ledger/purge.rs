//! Taking old records away, a little at a time: no transaction is held for long, and
//! what the records proved stays provable (`grants.purged`).
//!
//! How old a record is its time says; where that is of a clock that was wrong, the records that
//! were entered after it.

use crate::{
    clock::Timestamp,
    store::{WriteConnection, storable_time},
};
use rusqlite::{Connection, OptionalExtension, params};
use std::time::{Duration, Instant};

/// How many rows go in one transaction.
const AT_ONCE: u32 = 500;
/// As many transactions in a round, and no longer than this: settlements wait meanwhile.
const MOST_TIMES: usize = 20;
const MOST_TIME: Duration = Duration::from_millis(100);
/// Records younger than this are never taken away: the ids of recent requests are what makes a
/// second record of one nothing.
const SHORTEST_HISTORY: Duration = Duration::from_secs(3600);
/// How many of the records that follow are looked at, to see whether most of them are old.
const SAMPLES: i64 = 32;

/// From when on records stay.
#[derive(Clone, Copy)]
struct Bounds {
    /// What was settled before this goes.
    before: i64,
    /// What was settled after this stays, whatever follows it.
    recent: i64,
    now: i64,
}

impl Bounds {
    const fn is_old(self, at: i64) -> bool {
        at < self.before
    }

    /// Of the last hour. Not what has not come yet: that is of a clock that was wrong.
    const fn is_recent(self, at: i64) -> bool {
        self.recent <= at && at <= self.now
    }
}

/// Takes away records of requests that were settled longer ago than `age`, in as many transactions
/// as keep up with the busiest hours. How many.
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

/// Takes away the oldest of them. How many.
fn oldest(file: &WriteConnection, now: Timestamp, age: Duration) -> rusqlite::Result<usize> {
    let bounds = Bounds {
        before: storable_time(now.minus(age.max(SHORTEST_HISTORY))),
        recent: storable_time(now.minus(SHORTEST_HISTORY)),
        now: storable_time(now),
    };
    let Some(last) = last_to_go(file, bounds)? else {
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

/// The last of the oldest records, in the order in which they were entered, that are all
/// old enough. A record that was entered late waits for those before it.
fn last_to_go(file: &Connection, bounds: Bounds) -> rusqlite::Result<Option<i64>> {
    let mut oldest =
        file.prepare_cached("SELECT number, at FROM usage ORDER BY number LIMIT ?1")?;
    let mut rows = oldest.query([AT_ONCE])?;
    let mut last = None;
    let mut misdated = None;
    while let Some(row) = rows.next()? {
        let (number, at): (i64, i64) = (row.get(0)?, row.get(1)?);
        if !bounds.is_old(at) {
            let misdated = match misdated {
                Some(known) => known,
                None => *misdated.insert(last_misdated(file, number, bounds)?),
            };
            if bounds.is_recent(at) || misdated.is_none_or(|last| number > last) {
                break;
            }
        }
        last = Some(number);
    }
    Ok(last)
}

/// The end of the records from `first` on of which most are old: those among them that seem to
/// be younger are not, for they were entered before others that are old. Their clock was ahead.
///
/// Most: it may as well be the old ones whose clock was behind. Then fewer records go too early
/// than have a wrong time. It is found by looking at few of them, twice as far each time, for a
/// clock may have been ahead for as long as millions of records take; nearly always at one record
/// for each distance alone. At three times as many old ones as young ones it is found for certain.
fn last_misdated(file: &Connection, first: i64, bounds: Bounds) -> rusqlite::Result<Option<i64>> {
    let newest: Option<i64> = file
        .prepare_cached("SELECT max(number) FROM usage")?
        .query_row([], |row| row.get(0))?;
    let room = newest.unwrap_or(first).saturating_sub(first);
    let mut time = file.prepare_cached("SELECT at FROM usage WHERE number = ?1")?;
    let mut is_old = |number: i64| -> rusqlite::Result<bool> {
        let at: Option<i64> = time.query_row([number], |row| row.get(0)).optional()?;
        Ok(at.is_some_and(|at| bounds.is_old(at)))
    };
    let mut found = None;
    for reach in std::iter::successors(Some(1_i64), |reach| reach.checked_mul(2)) {
        if reach > room {
            break;
        }
        let end = first.saturating_add(reach);
        if !is_old(end)? {
            continue;
        }
        // The first one is not old itself.
        let samples = reach.min(SAMPLES);
        let mut old = 0_i64;
        for sample in 1..=samples {
            let step = reach.saturating_mul(sample) / samples;
            old = old.saturating_add(is_old(first.saturating_add(step))?.into());
        }
        if old.saturating_mul(2) > samples.saturating_add(1) {
            found = Some(end);
        }
    }
    Ok(found)
}

/// Takes away what is known of stored things: the oldest that were made before `before`,
/// and the oldest beyond `most`. More of them at a time where more have come.
pub(super) fn owned(file: &WriteConnection, before: Timestamp, most: u64) -> rusqlite::Result<()> {
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    let begun = Instant::now();
    for _ in 0..MOST_TIMES {
        let gone = file.change(|file| {
            // From the oldest on, and no further: there is no index by time.
            file.prepare_cached(
                "DELETE FROM owned WHERE number IN (
                     SELECT number FROM (SELECT number, at FROM owned ORDER BY number LIMIT ?3)
                     WHERE at < ?1 OR number <= (SELECT max(number) FROM owned) - ?2
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
