//! Drops old weeks of the history, and deletes old owners of stored items and old shares of limits. What
//! dropped records charged stays in `purged`.

use super::{
    connection::{Connection, Session},
    limits, milliseconds, settle, storable_time,
};
use crate::{
    clock::Timestamp,
    store::{StoreError, database::Retention},
};
use std::{
    sync::mpsc::{Receiver, RecvTimeoutError, sync_channel},
    thread,
    time::{Duration, Instant},
};

/// How many owners go in one transaction.
const AT_ONCE: usize = 500;
/// How many transactions in a round, and how long at most: settlements wait meanwhile.
const MOST_TIMES: usize = 20;
const MOST_TIME: Duration = Duration::from_millis(100);
/// Younger records are never deleted: the id of a recent request makes its second record nothing.
const SHORTEST_HISTORY: Duration = Duration::from_secs(3600);
/// How often shares of limits are looked for, all of which are read.
const LIMITS_EVERY: Duration = Duration::from_secs(60);

/// The purging of a process.
#[derive(Default)]
pub(super) struct Purge {
    /// The thread that drops weeks, over a connection of its own: settlements must not wait while the server
    /// adds up what the records charged.
    dropping: Option<Receiver<Result<usize, StoreError>>>,
    limits_at: Option<Instant>,
}

impl Purge {
    /// Deletes old records of requests, and old owners of stored items. Returns how many records of
    /// requests are known to be gone since the last time.
    pub(super) fn run(
        &mut self,
        connection: &mut Connection,
        retention: &Retention,
        now: Timestamp,
    ) -> Result<usize, StoreError> {
        let most = i64::try_from(retention.most_stored).unwrap_or(i64::MAX);
        in_batches(|| connection.run(|session| owned(session, now, retention.stored, most)))?;
        if self.limits_at.is_none_or(|at| at.elapsed() >= LIMITS_EVERY) {
            connection.run(limits::purge)?;
            self.limits_at = Some(Instant::now());
        }
        match retention.history {
            Some(age) => self.drop_weeks(connection, now, age.max(SHORTEST_HISTORY)),
            None => Ok(0),
        }
    }

    /// Drops the weeks that ended so long ago.
    fn drop_weeks(
        &mut self,
        connection: &mut Connection,
        now: Timestamp,
        age: Duration,
    ) -> Result<usize, StoreError> {
        if self.dropping.is_none()
            && let Some(before) = connection.run(|session| kept_from(session, now, age))?
        {
            let mut other = connection.another();
            let (done, dropping) = sync_channel(1);
            let work = move || {
                // It fails if the process has ended.
                let _ = done.send(drop_older(&mut other, before));
            };
            if thread::Builder::new().spawn(work).is_ok() {
                self.dropping = Some(dropping);
            }
        }
        let Some(dropping) = &self.dropping else {
            return Ok(0);
        };
        match dropping.recv_timeout(MOST_TIME) {
            Ok(gone) => {
                self.dropping = None;
                gone
            }
            Err(RecvTimeoutError::Timeout) => Ok(0),
            Err(RecvTimeoutError::Disconnected) => {
                self.dropping = None;
                Ok(0)
            }
        }
    }
}

/// The first week that is kept, if the history has one before it.
fn kept_from(
    session: &mut Session,
    now: Timestamp,
    age: Duration,
) -> Result<Option<i64>, postgres::Error> {
    let before = "SELECT least($1, now_ms()) - $2, oldest_history_part()";
    let row = session.query_one(before, &[&storable_time(now), &milliseconds(age)])?;
    let first = settle::week(row.try_get(0)?);
    let oldest: Option<i64> = row.try_get(1)?;
    Ok(oldest.is_some_and(|oldest| oldest < first).then_some(first))
}

/// Drops the weeks before this one. Returns how many records they had.
fn drop_older(connection: &mut Connection, before: i64) -> Result<usize, StoreError> {
    let mut records: usize = 0;
    loop {
        let gone = connection.change(|session| {
            // The server waits for running reports, and later statements queue behind it. If that takes
            // long, the next round tries again.
            session.batch("SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = '100ms'")?;
            let dropped = session.query_one("SELECT drop_history_part($1)", &[&before])?;
            dropped.try_get::<_, Option<i64>>(0)
        })?;
        let Some(gone) = gone else {
            return Ok(records);
        };
        records = records.saturating_add(count(gone.unsigned_abs()));
    }
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

/// The oldest that are older than `age`, and the oldest beyond `most`.
fn owned(
    session: &mut Session,
    now: Timestamp,
    age: Duration,
    most: i64,
) -> Result<usize, postgres::Error> {
    let gone = session.execute(
        "DELETE FROM owned WHERE number IN (
             (SELECT number FROM owned WHERE at < least($1, now_ms()) - $4 ORDER BY at LIMIT $3)
             UNION
             (SELECT number FROM owned WHERE number <= (SELECT max(number) FROM owned) - $2
              ORDER BY number LIMIT $3)
         )",
        &[&storable_time(now), &most, &at_once(), &milliseconds(age)],
    )?;
    Ok(count(gone))
}

fn at_once() -> i64 {
    i64::try_from(AT_ONCE).unwrap_or(i64::MAX)
}

fn count(rows: u64) -> usize {
    usize::try_from(rows).unwrap_or(usize::MAX)
}
