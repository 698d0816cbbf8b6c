//! The rows of grants: giving, listing, and what is left of them.

use super::{
    connection::{Session, Values},
    keys, plain, storable_time, stored_time,
};
use crate::{
    balance::MAX_PIECES,
    clock::Timestamp,
    store::{GrantView, KeyUse, NewGrant, database::GrantAdded, order::Made},
};
use postgres::Row;
use tollgate_types::KeyId;

/// Adds a grant to a key.
pub(super) fn add(
    transaction: &mut Session,
    key: &KeyId,
    grant: &NewGrant<'_>,
    now: Timestamp,
) -> Result<GrantAdded, postgres::Error> {
    if let Some(order) = grant.order
        && let Some(id) = keys::made_otherwise(transaction, order, Made::Grant)?
    {
        return Ok(GrantAdded::OtherOrder(id));
    }
    let known = "keys.id = $1 AND grants.id = $2 LIMIT 1";
    let known = select(transaction, known, &[&key.as_str(), &grant.id])?;
    if let Some(known) = known.into_iter().next() {
        return Ok(GrantAdded::Known(known));
    }
    // The lock keeps the count of grants right until this one is in.
    let works = transaction.query_opt(
        "SELECT revoked_at IS NULL FROM keys WHERE id = $1 FOR NO KEY UPDATE",
        &[&key.as_str()],
    )?;
    let works: Option<bool> = works.map(|row| row.try_get(0)).transpose()?;
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

/// The keys whose valid grants are used up most.
pub(super) fn most_used(
    session: &mut Session,
    now: Timestamp,
    limit: u32,
) -> Result<Vec<KeyUse>, postgres::Error> {
    let rows = session.query(
        "SELECT keys.id, keys.name, sum(grants.tokens)::bigint, sum(grants.spent)::bigint
         FROM grants JOIN keys ON keys.number = grants.key
         WHERE keys.revoked_at IS NULL AND coalesce(keys.expires_at > $1, TRUE)
             AND coalesce(grants.expires_at > $1, TRUE)
         GROUP BY keys.number HAVING sum(grants.spent) > 0
         ORDER BY sum(grants.spent)::float8 / sum(grants.tokens) DESC, keys.number LIMIT $2",
        &[&storable_time(now), &i64::from(limit)],
    )?;
    let read = |row: &Row| {
        Ok(KeyUse {
            id: KeyId::new(row.try_get::<_, String>(0)?),
            name: row.try_get(1)?,
            tokens: row.try_get::<_, i64>(2)?.unsigned_abs(),
            used: row.try_get::<_, i64>(3)?.unsigned_abs(),
        })
    };
    rows.iter().map(read).collect()
}

/// Whether the grant was made: one of this id may exist.
pub(super) fn insert(
    transaction: &mut Session,
    key: &KeyId,
    grant: &NewGrant<'_>,
    now: Timestamp,
) -> Result<bool, postgres::Error> {
    let stored = |number: u128| i64::try_from(number).unwrap_or(i64::MAX);
    let made = transaction.execute(
        "INSERT INTO grants (id, key, plan, tokens, validity_ms, created_at)
         SELECT $1, number, $3::text, $4::bigint, $5::bigint, $6::bigint FROM keys WHERE id = $2
         ON CONFLICT (id) DO NOTHING",
        &[
            &grant.id,
            &key.as_str(),
            &grant.terms.plan.as_deref().map(plain),
            &stored(grant.terms.tokens.into()),
            &stored(grant.terms.validity.as_millis()),
            &storable_time(now),
        ],
    )?;
    Ok(made > 0)
}

/// The grants of a key, oldest first; of more than a thousand the newest.
pub(super) fn of_key(file: &mut Session, key: &KeyId) -> Result<Vec<GrantView>, postgres::Error> {
    let newest = "keys.id = $1 ORDER BY grants.number DESC LIMIT 1000";
    let mut newest = select(file, newest, &[&key.as_str()])?;
    newest.reverse();
    Ok(newest)
}

/// Tokens of valid grants that are neither charged nor leased.
pub(super) fn unleased(
    file: &mut Session,
    key: &KeyId,
    now: Timestamp,
) -> Result<u64, postgres::Error> {
    let row = file.query_one(
        "SELECT coalesce(sum(greatest(0, grants.tokens - grants.spent - coalesce(
             (SELECT sum(leases.tokens) FROM leases
              WHERE leases.grant_number = grants.number), 0))), 0)::bigint
         FROM grants JOIN keys ON keys.number = grants.key
         WHERE keys.id = $1 AND coalesce(grants.expires_at > $2, TRUE)",
        &[&key.as_str(), &storable_time(now)],
    )?;
    let tokens: i64 = row.try_get(0)?;
    Ok(tokens.unsigned_abs())
}

fn select(
    file: &mut Session,
    which: &str,
    values: &Values<'_>,
) -> Result<Vec<GrantView>, postgres::Error> {
    let sql = format!(
        "SELECT grants.id, grants.plan, tokens, spent, validity_ms,
                grants.created_at, first_used_at, grants.expires_at
         FROM grants JOIN keys ON keys.number = grants.key WHERE {which}"
    );
    file.query(&sql, values)?.iter().map(read_grant).collect()
}

/// How many grants of a key have something left and are not over.
fn spendable(
    transaction: &mut Session,
    key: &KeyId,
    now: Timestamp,
) -> Result<usize, postgres::Error> {
    let row = transaction.query_one(
        "SELECT count(*) FROM grants WHERE key = (SELECT number FROM keys WHERE id = $1)
         AND spent < tokens AND coalesce(expires_at > $2, TRUE)",
        &[&key.as_str(), &storable_time(now)],
    )?;
    let count: i64 = row.try_get(0)?;
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
}

fn read_grant(row: &Row) -> Result<GrantView, postgres::Error> {
    let time = |ms: Option<i64>| ms.and_then(stored_time);
    let validity_ms: i64 = row.try_get(4)?;
    let created_at: i64 = row.try_get(5)?;
    Ok(GrantView {
        id: row.try_get(0)?,
        plan: row.try_get(1)?,
        tokens: row.try_get::<_, i64>(2)?.unsigned_abs(),
        used: row.try_get::<_, i64>(3)?.unsigned_abs(),
        validity_seconds: validity_ms.unsigned_abs() / 1000,
        created_at: stored_time(created_at).unwrap_or_default(),
        valid_from: time(row.try_get(6)?),
        valid_until: time(row.try_get(7)?),
    })
}
