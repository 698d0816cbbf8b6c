//! The rows of grants: giving, listing, and what is left of them.

use super::{orders, storable_time, stored_time};
use crate::{
    balance::MAX_PIECES,
    clock::Timestamp,
    store::{GrantView, KeyUse, NewGrant, database::GrantAdded, order::Made},
};
use rusqlite::{Connection, OptionalExtension, Row, ToSql, Transaction, params};
use tollgate_types::KeyId;

/// Adds a grant to a key.
pub(super) fn add(
    transaction: &Transaction<'_>,
    key: &KeyId,
    grant: &NewGrant<'_>,
    now: Timestamp,
) -> rusqlite::Result<GrantAdded> {
    if let Some(order) = grant.order
        && let Some(id) = orders::made_otherwise(transaction, order, Made::Grant)?
    {
        return Ok(GrantAdded::OtherOrder(id));
    }
    let known = "keys.id = ?1 AND grants.id = ?2 LIMIT 1";
    let known = select(transaction, known, &[&key.as_str(), &grant.id])?;
    if let Some(known) = known.into_iter().next() {
        return Ok(GrantAdded::Known(known));
    }
    let works: Option<bool> = transaction
        .query_row(
            "SELECT revoked_at IS NULL FROM keys WHERE id = ?1",
            [key.as_str()],
            |row| row.get(0),
        )
        .optional()?;
    if works == Some(false) {
        return Ok(GrantAdded::Revoked);
    }
    if spendable(transaction, key, now)? >= MAX_PIECES {
        return Ok(GrantAdded::TooMany);
    }
    match insert(transaction, key, grant, now)? {
        true => Ok(GrantAdded::New),
        // Another key has a grant of this id.
        false => Ok(GrantAdded::OtherOrder(grant.id.clone())),
    }
}

/// Whether the grant was made: one of this id may exist.
pub(super) fn insert(
    transaction: &Transaction<'_>,
    key: &KeyId,
    grant: &NewGrant<'_>,
    now: Timestamp,
) -> rusqlite::Result<bool> {
    let stored = |number: u128| i64::try_from(number).unwrap_or(i64::MAX);
    let made = transaction.execute(
        "INSERT INTO grants (id, key, plan, tokens, validity_ms, created_at)
         SELECT ?1, number, ?3, ?4, ?5, ?6 FROM keys WHERE id = ?2
         ON CONFLICT (id) DO NOTHING",
        params![
            grant.id,
            key.as_str(),
            grant.terms.plan,
            stored(grant.terms.tokens.into()),
            stored(grant.terms.validity.as_millis()),
            storable_time(now),
        ],
    )?;
    Ok(made > 0)
}

/// The grants of a key, oldest first; of more than a thousand the newest.
pub(super) fn of_key(file: &Connection, key: &KeyId) -> rusqlite::Result<Vec<GrantView>> {
    let newest = "keys.id = ?1 ORDER BY grants.number DESC LIMIT 1000";
    let mut newest = select(file, newest, &[&key.as_str()])?;
    newest.reverse();
    Ok(newest)
}

/// Tokens of valid grants that are neither charged nor leased.
pub(super) fn unleased(file: &Connection, key: &KeyId, now: Timestamp) -> rusqlite::Result<u64> {
    let mut sum = file.prepare_cached(
        "SELECT coalesce(sum(max(0, grants.tokens - grants.spent - coalesce(
             (SELECT sum(leases.tokens) FROM leases
              WHERE leases.grant_number = grants.number), 0))), 0)
         FROM grants JOIN keys ON keys.number = grants.key
         WHERE keys.id = ?1 AND coalesce(grants.expires_at > ?2, TRUE)",
    )?;
    let values = params![key.as_str(), storable_time(now)];
    let tokens: i64 = sum.query_row(values, |row| row.get(0))?;
    Ok(tokens.unsigned_abs())
}

/// The keys that work and have used the largest shares of their valid grants. Reads all grants.
pub(super) fn most_used(
    file: &Connection,
    now: Timestamp,
    limit: u32,
) -> rusqlite::Result<Vec<KeyUse>> {
    let sql = "SELECT keys.id, keys.name, sum(grants.tokens) AS given, sum(grants.spent) AS used
         FROM grants JOIN keys ON keys.number = grants.key
         WHERE keys.revoked_at IS NULL AND coalesce(keys.expires_at > ?1, TRUE)
             AND coalesce(grants.expires_at > ?1, TRUE)
         GROUP BY keys.number HAVING used > 0
         ORDER BY CAST(used AS REAL) / given DESC, keys.number LIMIT ?2";
    file.prepare_cached(sql)?
        .query_map(params![storable_time(now), limit], |row| {
            Ok(KeyUse {
                id: KeyId::new(row.get::<_, String>(0)?),
                name: row.get(1)?,
                tokens: row.get::<_, i64>(2)?.unsigned_abs(),
                used: row.get::<_, i64>(3)?.unsigned_abs(),
            })
        })?
        .collect()
}

fn select(
    file: &Connection,
    which: &str,
    values: &[&dyn ToSql],
) -> rusqlite::Result<Vec<GrantView>> {
    let sql = format!(
        "SELECT grants.id, grants.plan, tokens, spent, validity_ms,
                grants.created_at, first_used_at, grants.expires_at
         FROM grants JOIN keys ON keys.number = grants.key WHERE {which}"
    );
    file.prepare_cached(&sql)?
        .query_map(values, read_grant)?
        .collect()
}

/// How many grants of a key have something left and are not over.
fn spendable(
    transaction: &Transaction<'_>,
    key: &KeyId,
    now: Timestamp,
) -> rusqlite::Result<usize> {
    transaction
        .query_row(
            "SELECT count(*) FROM grants WHERE key = (SELECT number FROM keys WHERE id = ?1)
             AND spent < tokens AND coalesce(expires_at > ?2, TRUE)",
            params![key.as_str(), storable_time(now)],
            |row| row.get(0),
        )
        .map(|count: i64| usize::try_from(count).unwrap_or(usize::MAX))
}

fn read_grant(row: &Row<'_>) -> rusqlite::Result<GrantView> {
    let time = |ms: Option<i64>| ms.and_then(stored_time);
    let validity_ms: i64 = row.get(4)?;
    let created_at: i64 = row.get(5)?;
    Ok(GrantView {
        id: row.get(0)?,
        plan: row.get(1)?,
        tokens: row.get::<_, i64>(2)?.unsigned_abs(),
        used: row.get::<_, i64>(3)?.unsigned_abs(),
        validity_seconds: validity_ms.unsigned_abs() / 1000,
        created_at: stored_time(created_at).unwrap_or_default(),
        valid_from: time(row.get(6)?),
        valid_until: time(row.get(7)?),
    })
}
