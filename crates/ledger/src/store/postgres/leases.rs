//! The rows of leases: what a process may spend, and what it requests of others. The caller has
//! locked the keys.

use super::{connection::Session, storable, storable_time};
use crate::{
    balance::{GrantNumber, MAX_PIECES, Piece},
    clock::Timestamp,
    store::{
        database::{Lease, LeaseMode, ProcessNumber, Share},
        rows::{self, StoredRow},
    },
};
use std::collections::BTreeMap;
use tollgate_types::{KeyId, PerUnit, Unit};

/// The most grants of a key and unit that are looked at: as many as pay one request.
#[expect(clippy::cast_possible_wrap, reason = "it is small")]
const MOST_GRANTS: i64 = MAX_PIECES as i64;

/// Leases what there is of a key, or looks at it. `None`: there is no such key.
pub(super) fn lease(
    transaction: &mut Session,
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
        share.leave_free();
        return Ok(Some(share));
    }
    share.lease_at_most(&lease.most);
    for grant in share.grants.iter().filter(|grant| grant.free > 0) {
        transaction.execute(
            "INSERT INTO leases AS held (grant_number, process, tokens) VALUES ($1, $2, $3)
             ON CONFLICT (grant_number, process)
             DO UPDATE SET tokens = held.tokens + excluded.tokens",
            &[&grant.number.0, &process.0, &storable(grant.free)],
        )?;
    }
    if !share.is_elsewhere(&lease.most) {
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
    file: &mut Session,
    process: ProcessNumber,
    key: i64,
    now: Timestamp,
) -> Result<Share, postgres::Error> {
    let rows = file.query(
        "SELECT number, validity_ms, expires_at, tokens - spent - coalesce(held, 0),
                coalesce(others, 0), tokens - spent, unit
         FROM (
             SELECT *, row_number() OVER (
                 PARTITION BY unit
                 ORDER BY coalesce(expires_at <= $3, FALSE), tokens = spent, expires_at IS NULL,
                          expires_at, validity_ms, number
             ) AS place
             FROM grants WHERE key = $1
         ) AS placed LEFT JOIN (
             SELECT grant_number, sum(tokens)::bigint AS held,
                    (sum(tokens) FILTER (WHERE process <> $2))::bigint AS others
             FROM leases WHERE grant_number IN (SELECT number FROM grants WHERE key = $1)
             GROUP BY grant_number
         ) AS leased ON grant_number = number
         WHERE place <= $4 ORDER BY unit, place",
        &[&key, &process.0, &storable_time(now), &MOST_GRANTS],
    )?;
    let mut share = Share::of(key, rows.iter().map(rows::leased_grant), now)?;
    if share.grants.len() >= MAX_PIECES {
        let rows = file.query(
            "SELECT unit, sum(tokens - spent)::bigint FROM grants
             WHERE key = $1 AND spent < tokens AND coalesce(expires_at > $2, TRUE) GROUP BY unit",
            &[&key, &storable_time(now)],
        )?;
        let mut left = PerUnit::default();
        for row in rows {
            *left.get_mut(row.unit(0)?) = row.amount(1)?;
        }
        share.add_beyond(&left);
    }
    Ok(share)
}

/// What is free of a key's valid grants in a unit, in the order in which they are spent.
pub(super) fn free(
    session: &mut Session,
    key: i64,
    unit: Unit,
    now: Timestamp,
) -> Result<Vec<(GrantNumber, u64)>, postgres::Error> {
    let rows = session.query(
        "SELECT number, tokens - spent - coalesce(
             (SELECT sum(tokens) FROM leases WHERE grant_number = number), 0)::bigint
         FROM grants
         WHERE key = $1 AND unit = $2 AND spent < tokens AND coalesce(expires_at > $3, TRUE)
         ORDER BY expires_at IS NULL, expires_at, validity_ms, number LIMIT $4",
        &[&key, &unit.as_str(), &storable_time(now), &MOST_GRANTS],
    )?;
    let rows = rows.iter();
    rows.map(|row| Ok((GrantNumber(row.read(0)?), row.amount(1)?)))
        .collect()
}

/// Gives leased tokens back, never more than are leased: a fenced process has nothing to give.
pub(super) fn give_back(
    session: &mut Session,
    process: ProcessNumber,
    pieces: &[Piece],
) -> Result<(), postgres::Error> {
    let together = summed(pieces.iter().copied());
    if together.is_empty() {
        return Ok(());
    }
    if cover(session, process, &together)? {
        spend_all(session, process, &together)?;
    } else {
        for piece in pieces {
            if cover(session, process, &[*piece])? {
                spend_all(session, process, &[*piece])?;
            }
        }
    }
    let (grants, _) = columns(&together);
    session.execute(
        "DELETE FROM leases WHERE grant_number = ANY($1) AND process = $2 AND tokens = 0",
        &[&grants, &process.0],
    )?;
    // Another process may wait for them.
    session.execute(
        "SELECT pg_notify('tollgate_changes', '') WHERE EXISTS (
             SELECT FROM lease_requests JOIN grants ON grants.key = lease_requests.key
             WHERE grants.number = ANY($1))",
        &[&grants],
    )?;
    Ok(())
}

/// Whether the leases of the process cover these pieces of different grants.
pub(super) fn cover(
    session: &mut Session,
    process: ProcessNumber,
    pieces: &[Piece],
) -> Result<bool, postgres::Error> {
    if pieces.is_empty() {
        return Ok(true);
    }
    let (grants, tokens) = columns(pieces);
    let row = session.query_one(
        "SELECT count(*) FROM unnest($1::bigint[], $2::bigint[]) AS paid (grant_number, tokens)
         JOIN leases ON leases.grant_number = paid.grant_number
             AND leases.process = $3 AND leases.tokens >= paid.tokens",
        &[&grants, &tokens, &process.0],
    )?;
    let covered: i64 = row.try_get(0)?;
    Ok(usize::try_from(covered) == Ok(pieces.len()))
}

/// Takes pieces of different grants, which the leases cover.
pub(super) fn spend_all(
    session: &mut Session,
    process: ProcessNumber,
    pieces: &[Piece],
) -> Result<(), postgres::Error> {
    if pieces.is_empty() {
        return Ok(());
    }
    let (grants, tokens) = columns(pieces);
    session.execute(
        "UPDATE leases SET tokens = leases.tokens - paid.tokens
         FROM unnest($1::bigint[], $2::bigint[]) AS paid (grant_number, tokens)
         WHERE leases.grant_number = paid.grant_number AND process = $3",
        &[&grants, &tokens, &process.0],
    )?;
    Ok(())
}

/// One piece for each grant.
pub(super) fn summed(pieces: impl Iterator<Item = Piece>) -> Vec<Piece> {
    let mut sums: BTreeMap<i64, u64> = BTreeMap::new();
    for piece in pieces {
        let sum = sums.entry(piece.grant.0).or_default();
        *sum = sum.saturating_add(piece.amount);
    }
    let piece = |(grant, amount)| Piece {
        grant: GrantNumber(grant),
        amount,
    };
    sums.into_iter().map(piece).collect()
}

fn columns(pieces: &[Piece]) -> (Vec<i64>, Vec<i64>) {
    let pieces = pieces.iter();
    pieces.map(|it| (it.grant.0, storable(it.amount))).unzip()
}

/// The keys of which other processes request tokens and this one leases some.
pub(super) fn requested_by_others(
    session: &mut Session,
    process: ProcessNumber,
) -> Result<Vec<KeyId>, postgres::Error> {
    // Subqueries, and one that `OFFSET` keeps as it is: there are few requests, which the server overestimates,
    // but can be a million keys, and leases of thousands of them, which a join would read.
    let keys = session.query(
        "SELECT DISTINCT (SELECT id FROM keys WHERE number = requested.key)
         FROM lease_requests AS requested
         WHERE requested.process <> $1 AND EXISTS (
             SELECT 1 FROM grants JOIN leases ON grant_number = grants.number
             WHERE grants.key = requested.key AND leases.process = $1 AND leases.tokens > 0 OFFSET 0)
         LIMIT 1000",
        &[&process.0],
    )?;
    keys.iter().map(|row| row.key_id(0)).collect()
}
