//! Taking old records away, a little at a time: no transaction is held for long, and
//! what the records proved stays provable (`grants.purged`).

use crate::{clock::Timestamp, store::storable_time};
use rusqlite::{Connection, TransactionBehavior, params};

/// How many rows go in one transaction.
const AT_ONCE: u32 = 500;

/// Takes away the oldest records of requests that were settled before `before`. How many.
pub(super) fn usage(file: &mut Connection, before: Timestamp) -> rusqlite::Result<usize> {
    let Some(last) = last_to_go(file, before)? else {
        return Ok(0);
    };
    let transaction = file.transaction_with_behavior(TransactionBehavior::Immediate)?;
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
fn last_to_go(file: &Connection, before: Timestamp) -> rusqlite::Result<Option<i64>> {
    let mut oldest =
        file.prepare_cached("SELECT number, at FROM usage ORDER BY number LIMIT ?1")?;
    let mut rows = oldest.query([AT_ONCE])?;
    let mut last = None;
    while let Some(row) = rows.next()? {
        let at: i64 = row.get(1)?;
        if at >= storable_time(before) {
            break;
        }
        last = Some(row.get(0)?);
    }
    Ok(last)
}

/// Takes away what is known of stored things: the oldest that were made before `before`,
/// and the oldest beyond `most`. How many.
pub(super) fn owned(file: &Connection, before: Timestamp, most: u64) -> rusqlite::Result<usize> {
    file.prepare_cached(
        "DELETE FROM owned WHERE number IN (
             SELECT number FROM owned
             WHERE at < ?1 OR number <= (SELECT max(number) FROM owned) - ?2
             ORDER BY number LIMIT ?3
         )",
    )?
    .execute(params![
        storable_time(before),
        i64::try_from(most).unwrap_or(i64::MAX),
        AT_ONCE
    ])
}
