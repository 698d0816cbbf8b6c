//! The rows of leases: what a process may spend, and what it requests of others. The caller has
//! locked the keys.

use super::{amount, storable, storable_time, stored_time};
use crate::{
    balance::{Grant, GrantNumber, MAX_PIECES, Piece},
    clock::Timestamp,
    store::database::{Lease, LeaseMode, ProcessNumber, Share},
};
use postgres::Transaction;
use std::time::Duration;

/// Leases what there is of a key, or looks at it. `None`: there is no such key.
pub(super) fn lease(
    transaction: &mut Transaction<'_>,
    process: ProcessNumber,
    lease: &Lease,
    now: Timestamp,
) -> Result<Option<Share>, postgres::Error> {
    let find = "SELECT number FROM keys WHERE id = $1";
    let Some(row) = transaction.query_opt(find, &[&lease.key.as_str()])? else {
        return Ok(None);
    };
    let mut share = read_share(transaction, process, row.try_get(0)?, now)?;
    if lease.mode == LeaseMode::Look {
        // What is free is for others.
        let free = share
            .grants
            .iter_mut()
            .map(|grant| std::mem::take(&mut grant.free));
        share.elsewhere = free.fold(share.elsewhere, u64::saturating_add);
        return Ok(Some(share));
    }
    for grant in share.grants.iter().filter(|grant| grant.free > 0) {
        transaction.execute(
            "INSERT INTO leases AS held (grant_number, process, tokens) VALUES ($1, $2, $3)
             ON CONFLICT (grant_number, process)
             DO UPDATE SET tokens = held.tokens + excluded.tokens",
            &[&grant.number.0, &process.0, &storable(grant.free)],
        )?;
    }
    let requests_more = share.elsewhere > 0 && !share.has_leased();
    if !requests_more {
        transaction.execute(
            "DELETE FROM lease_requests WHERE key = $1 AND process = $2",
            &[&share.key, &process.0],
        )?;
    } else if lease.mode == LeaseMode::Need {
        transaction.execute(
            "INSERT INTO lease_requests (key, process) VALUES ($1, $2)
             ON CONFLICT (key, process) DO UPDATE SET seq = excluded.seq",
            &[&share.key, &process.0],
        )?;
    }
    Ok(Some(share))
}

/// The key's grants, those that can be spent before those that cannot, with what is free of each.
fn read_share(
    file: &mut Transaction<'_>,
    process: ProcessNumber,
    key: i64,
    now: Timestamp,
) -> Result<Share, postgres::Error> {
    let (mut elsewhere, mut seen): (u64, u64) = (0, 0);
    let most = i64::try_from(MAX_PIECES).unwrap_or(i64::MAX);
    let rows = file.query(
        "SELECT number, validity_ms, expires_at, tokens - spent - coalesce(held, 0),
                coalesce(others, 0), tokens - spent
         FROM grants LEFT JOIN (
             SELECT grant_number, sum(tokens)::bigint AS held,
                    (sum(tokens) FILTER (WHERE process <> $2))::bigint AS others
             FROM leases WHERE grant_number IN (SELECT number FROM grants WHERE key = $1)
             GROUP BY grant_number
         ) AS leased ON grant_number = number
         WHERE key = $1
         ORDER BY coalesce(expires_at <= $3, FALSE), tokens = spent, expires_at IS NULL,
                  expires_at, validity_ms, number
         LIMIT $4",
        &[&key, &process.0, &storable_time(now), &most],
    )?;
    let mut grants = Vec::with_capacity(rows.len());
    for row in rows {
        let validity_ms: i64 = row.try_get(1)?;
        let expires_at: Option<i64> = row.try_get(2)?;
        let mut grant = Grant {
            number: GrantNumber(row.try_get(0)?),
            validity: Duration::from_millis(validity_ms.unsigned_abs()),
            expires_at: expires_at.and_then(stored_time),
            free: amount(row.try_get(3)?),
            reserved: 0,
        };
        if grant.expires_at.is_none_or(|end| now < end) {
            elsewhere = elsewhere.saturating_add(amount(row.try_get(4)?));
            seen = seen.saturating_add(amount(row.try_get(5)?));
        } else {
            grant.free = 0;
        }
        grants.push(grant);
    }
    let beyond = if grants.len() < MAX_PIECES {
        0
    } else {
        let left = file.query_one(
            "SELECT coalesce(sum(tokens - spent), 0)::bigint FROM grants
             WHERE key = $1 AND spent < tokens AND coalesce(expires_at > $2, TRUE)",
            &[&key, &storable_time(now)],
        )?;
        amount(left.try_get(0)?).saturating_sub(seen)
    };
    Ok(Share {
        key,
        grants,
        elsewhere: elsewhere.saturating_add(beyond),
        left: seen.saturating_add(beyond),
        has_more: beyond > 0,
    })
}

/// Gives leased tokens back, never more than are leased: a fenced process has nothing to give.
pub(super) fn give_back(
    file: &mut Transaction<'_>,
    process: ProcessNumber,
    pieces: &[Piece],
) -> Result<(), postgres::Error> {
    for piece in pieces {
        spend(file, process, *piece)?;
        file.execute(
            "DELETE FROM leases WHERE grant_number = $1 AND process = $2 AND tokens = 0",
            &[&piece.grant.0, &process.0],
        )?;
    }
    Ok(())
}

/// Takes a piece from the process's lease; `false` if the lease has less.
pub(super) fn spend(
    file: &mut Transaction<'_>,
    process: ProcessNumber,
    piece: Piece,
) -> Result<bool, postgres::Error> {
    let rows = file.execute(
        "UPDATE leases SET tokens = tokens - $3
         WHERE grant_number = $1 AND process = $2 AND tokens >= $3",
        &[&piece.grant.0, &process.0, &storable(piece.tokens)],
    )?;
    Ok(rows == 1)
}
