//! The rows of leases: what a process may spend, and what it requests of others.

use super::{storable, storable_time};
use crate::{
    balance::{MAX_PIECES, Piece},
    clock::Timestamp,
    store::{
        database::{Lease, LeaseMode, ProcessNumber, Share},
        rows::{self, StoredRow},
    },
};
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use std::collections::HashSet;
use tollgate_types::{KeyId, PerUnit};

/// The most grants of one key and unit that a process looks at; those that can be spent come
/// first.
const MAX_GRANTS: usize = MAX_PIECES;

/// Leases what there is of a key, or looks at it. `None`: there is no such key.
pub(super) fn lease(
    transaction: &Transaction<'_>,
    process: ProcessNumber,
    lease: &Lease,
    now: Timestamp,
) -> rusqlite::Result<Option<Share>> {
    let Some(mut share) = share_of(transaction, process, &lease.key, now)? else {
        return Ok(None);
    };
    if lease.mode == LeaseMode::Look {
        // What is free is for others.
        share.leave_free();
        return Ok(Some(share));
    }
    share.lease_at_most(&lease.most);
    take(transaction, process, &share)?;
    if !share.is_elsewhere(&lease.most) {
        withdraw(transaction, process, share.key)?;
    } else if lease.mode == LeaseMode::Need {
        request(transaction, process, share.key)?;
    }
    Ok(Some(share))
}

/// Leases what is free of each grant.
fn take(file: &Connection, process: ProcessNumber, share: &Share) -> rusqlite::Result<()> {
    let mut take = file.prepare_cached(
        "INSERT INTO leases (grant_number, process, tokens) VALUES (?1, ?2, ?3)
         ON CONFLICT DO UPDATE SET tokens = tokens + excluded.tokens",
    )?;
    for grant in share.grants.iter().filter(|grant| grant.free > 0) {
        take.execute(params![grant.number.0, process.0, storable(grant.free)])?;
    }
    Ok(())
}

/// What is free of a key's valid grants, and what others lease. `None`: there is no such key.
fn share_of(
    file: &Connection,
    process: ProcessNumber,
    key: &KeyId,
    now: Timestamp,
) -> rusqlite::Result<Option<Share>> {
    let number: Option<i64> = file
        .prepare_cached("SELECT number FROM keys WHERE id = ?1")?
        .query_row([key.as_str()], |row| row.get(0))
        .optional()?;
    let read = |number| read_share(file, process, number, now);
    number.map(read).transpose()
}

/// The key's grants, those that can be spent before those that cannot, with what is
/// free of each.
fn read_share(
    file: &Connection,
    process: ProcessNumber,
    key: i64,
    now: Timestamp,
) -> rusqlite::Result<Share> {
    let most = i64::try_from(MAX_GRANTS).unwrap_or(i64::MAX);
    let mut grants = file.prepare_cached(
        "SELECT number, validity_ms, expires_at, tokens - spent - coalesce(held, 0),
                coalesce(others, 0), tokens - spent, unit
         FROM (
             SELECT *, row_number() OVER (
                 PARTITION BY unit
                 ORDER BY coalesce(expires_at <= ?3, FALSE), tokens = spent,
                          expires_at IS NULL, expires_at, validity_ms, number
             ) AS place
             FROM grants WHERE key = ?1
         ) LEFT JOIN (
             SELECT grant_number, sum(tokens) AS held,
                    sum(tokens) FILTER (WHERE process <> ?2) AS others
             FROM leases
             WHERE grant_number IN (SELECT number FROM grants WHERE key = ?1)
             GROUP BY grant_number
         ) ON grant_number = number
         WHERE place <= ?4 ORDER BY unit, place",
    )?;
    let grants = grants.query_map(params![key, process.0, storable_time(now), most], |row| {
        rows::leased_grant(row)
    })?;
    let mut share = Share::of(key, grants, now)?;
    if share.grants.len() >= MAX_GRANTS {
        share.add_beyond(&left_of(file, key, now)?);
    }
    Ok(share)
}

/// What is left of a key's valid grants, leased or not.
fn left_of(file: &Connection, key: i64, now: Timestamp) -> rusqlite::Result<PerUnit<u64>> {
    let mut sums = file.prepare_cached(
        "SELECT unit, sum(tokens - spent) FROM grants
         WHERE key = ?1 AND spent < tokens AND coalesce(expires_at > ?2, TRUE) GROUP BY unit",
    )?;
    let mut rows = sums.query(params![key, storable_time(now)])?;
    let mut left = PerUnit::default();
    while let Some(row) = rows.next()? {
        *left.get_mut(row.unit(0)?) = row.amount(1)?;
    }
    Ok(left)
}

/// Requests tokens of a key from the other processes. A repeated request is a change of the file as
/// well, by which they notice it.
fn request(file: &Connection, process: ProcessNumber, key: i64) -> rusqlite::Result<()> {
    file.prepare_cached(
        "INSERT INTO lease_requests (key, process) VALUES (?1, ?2)
         ON CONFLICT DO UPDATE SET key = excluded.key",
    )?
    .execute([key, process.0])?;
    Ok(())
}

fn withdraw(file: &Connection, process: ProcessNumber, key: i64) -> rusqlite::Result<()> {
    file.prepare_cached("DELETE FROM lease_requests WHERE key = ?1 AND process = ?2")?
        .execute([key, process.0])?;
    Ok(())
}

/// The lease requests of a process for other keys than these, by the numbers of the keys.
pub(super) fn requests_beyond(
    file: &Connection,
    process: ProcessNumber,
    keys: &HashSet<KeyId>,
) -> rusqlite::Result<Vec<i64>> {
    let sql = "SELECT key, id FROM lease_requests JOIN keys ON number = key WHERE process = ?1";
    let mut requests = file.prepare_cached(sql)?;
    let requests = requests.query_map([process.0], |row| Ok((row.read(0)?, row.key_id(1)?)))?;
    requests
        .filter(|request| !matches!(request, Ok((_, id)) if keys.contains(id)))
        .map(|request| request.map(|(key, _)| key))
        .collect()
}

/// Withdraws lease requests. Together, because each commit waits for the disk.
pub(super) fn withdraw_all(
    transaction: &Transaction<'_>,
    process: ProcessNumber,
    keys: &[i64],
) -> rusqlite::Result<()> {
    keys.iter()
        .try_for_each(|key| withdraw(transaction, process, *key))
}

/// The keys of which other processes request tokens and this one leases some.
pub(super) fn requested_by_others(
    file: &Connection,
    process: ProcessNumber,
) -> rusqlite::Result<Vec<KeyId>> {
    file.prepare_cached(
        // `CROSS JOIN` keeps the order of the tables: there are few requests, but can be a million keys, and
        // leases of thousands of them.
        "SELECT DISTINCT id FROM lease_requests AS requested CROSS JOIN keys
             ON number = requested.key
         WHERE requested.process <> ?1 AND EXISTS (
             SELECT 1 FROM grants CROSS JOIN leases ON grant_number = grants.number
             WHERE grants.key = requested.key AND leases.process = ?1 AND leases.tokens > 0)
         LIMIT 1000",
    )?
    .query_map([process.0], |row| row.key_id(0))?
    .collect()
}

/// Gives leased tokens back, never more than are leased: a fenced process has nothing to give.
pub(super) fn give_back(
    file: &Connection,
    process: ProcessNumber,
    pieces: &[Piece],
) -> rusqlite::Result<()> {
    let mut less = file.prepare_cached(
        "UPDATE leases SET tokens = tokens - ?3
         WHERE grant_number = ?1 AND process = ?2 AND tokens >= ?3",
    )?;
    let mut gone = file.prepare_cached(
        "DELETE FROM leases WHERE grant_number = ?1 AND process = ?2 AND tokens = 0",
    )?;
    for piece in pieces {
        less.execute(params![piece.grant.0, process.0, storable(piece.amount)])?;
        gone.execute(params![piece.grant.0, process.0])?;
    }
    Ok(())
}

/// Spends a piece of the process's lease; `false` if the lease has less.
pub(super) fn spend(
    file: &Connection,
    process: ProcessNumber,
    piece: Piece,
) -> rusqlite::Result<bool> {
    let rows = file
        .prepare_cached(
            "UPDATE leases SET tokens = tokens - ?3
             WHERE grant_number = ?1 AND process = ?2 AND tokens >= ?3",
        )?
        .execute(params![piece.grant.0, process.0, storable(piece.amount)])?;
    Ok(rows == 1)
}
