//! The rows of grants: giving, listing, and what is left of them.

use super::{
    connection::{Session, Values},
    keys, plain, storable_time, stored_time,
};
use crate::{
    balance::MAX_PIECES,
    clock::Timestamp,
    store::{GrantView, KeyUse, NewGrants, database::GrantsAdded, order::Made},
};
use postgres::Row;
use tollgate_types::{KeyId, Money, PerUnit, Unit};

/// Adds grants to a key.
pub(super) fn add(
    transaction: &mut Session,
    key: &KeyId,
    grants: &NewGrants<'_>,
    now: Timestamp,
) -> Result<GrantsAdded, postgres::Error> {
    if let Some(made) = made_before(transaction, key, grants)? {
        return Ok(made);
    }
    // The lock keeps the count of grants right until these are in.
    let works = transaction.query_opt(
        "SELECT revoked_at IS NULL FROM keys WHERE id = $1 FOR NO KEY UPDATE",
        &[&key.as_str()],
    )?;
    let works: Option<bool> = works.map(|row| row.try_get(0)).transpose()?;
    if works == Some(false) {
        return Ok(GrantsAdded::Revoked);
    }
    let others = spendable(transaction, key, now)?;
    if others.saturating_add(grants.grants.len()) > MAX_PIECES {
        return Ok(GrantsAdded::TooMany);
    }
    insert(transaction, key, grants, now)?;
    Ok(GrantsAdded::New)
}

/// What an order of this name has made before.
fn made_before(
    transaction: &mut Session,
    key: &KeyId,
    grants: &NewGrants<'_>,
) -> Result<Option<GrantsAdded>, postgres::Error> {
    let (Some(order), Some([tokens, money])) = (grants.order, grants.ids_of_order()) else {
        return Ok(None);
    };
    if let Some(id) = keys::made_otherwise(transaction, order, Made::Grant(Unit::Tokens))? {
        return Ok(Some(GrantsAdded::OtherOrder(id)));
    }
    let known = "keys.id = $1 AND grants.id IN ($2, $3)";
    let known = select(transaction, known, &[&key.as_str(), &tokens, &money])?;
    if !known.is_empty() {
        return Ok(Some(GrantsAdded::Known(known)));
    }
    // Of another key.
    let other = "SELECT id FROM grants WHERE id IN ($1, $2) LIMIT 1";
    let other = transaction.query_opt(other, &[&tokens, &money])?;
    let other = other.map(|row| row.try_get(0)).transpose()?;
    Ok(other.map(GrantsAdded::OtherOrder))
}

/// The keys that have used the largest shares of their valid grants in either unit.
pub(super) fn most_used(
    session: &mut Session,
    now: Timestamp,
    limit: u32,
) -> Result<Vec<KeyUse>, postgres::Error> {
    let rows = session.query(
        "SELECT id, name, tokens, used, money, money_used FROM (
             SELECT keys.number, keys.id, keys.name,
                 coalesce(sum(grants.tokens) FILTER (WHERE unit = 'tokens'), 0)::bigint AS tokens,
                 coalesce(sum(spent) FILTER (WHERE unit = 'tokens'), 0)::bigint AS used,
                 coalesce(sum(grants.tokens) FILTER (WHERE unit = 'money'), 0)::bigint AS money,
                 coalesce(sum(spent) FILTER (WHERE unit = 'money'), 0)::bigint AS money_used
             FROM grants JOIN keys ON keys.number = grants.key
             WHERE keys.revoked_at IS NULL AND coalesce(keys.expires_at > $1, TRUE)
                 AND coalesce(grants.expires_at > $1, TRUE)
             GROUP BY keys.number HAVING sum(spent) > 0
         ) AS used_of
         ORDER BY greatest(used::float8 / greatest(tokens, 1),
                           money_used::float8 / greatest(money, 1)) DESC, number
         LIMIT $2",
        &[&storable_time(now), &i64::from(limit)],
    )?;
    let read = |row: &Row| {
        let amount = |place: usize| row.try_get::<_, i64>(place).map(i64::unsigned_abs);
        Ok(KeyUse {
            id: KeyId::new(row.try_get::<_, String>(0)?),
            name: row.try_get(1)?,
            tokens: amount(2)?,
            used: amount(3)?,
            money: Money::from_nanos(amount(4)?),
            money_used: Money::from_nanos(amount(5)?),
        })
    };
    rows.iter().map(read).collect()
}

/// Makes grants, none of which exists.
pub(super) fn insert(
    transaction: &mut Session,
    key: &KeyId,
    grants: &NewGrants<'_>,
    now: Timestamp,
) -> Result<(), postgres::Error> {
    let stored = |number: u128| i64::try_from(number).unwrap_or(i64::MAX);
    for grant in &grants.grants {
        transaction.execute(
            "INSERT INTO grants (id, key, plan, unit, tokens, validity_ms, created_at)
             SELECT $1, number, $3::text, $4::text, $5::bigint, $6::bigint, $7::bigint
             FROM keys WHERE id = $2",
            &[
                &grant.id,
                &key.as_str(),
                &grants.terms.plan.as_deref().map(plain),
                &grant.unit.as_str(),
                &stored(grant.amount.into()),
                &stored(grants.terms.validity.as_millis()),
                &storable_time(now),
            ],
        )?;
    }
    Ok(())
}

/// The grants of a key, oldest first; of more than a thousand the newest.
pub(super) fn of_key(file: &mut Session, key: &KeyId) -> Result<Vec<GrantView>, postgres::Error> {
    let newest = "keys.id = $1 ORDER BY grants.number DESC LIMIT 1000";
    let mut newest = select(file, newest, &[&key.as_str()])?;
    newest.reverse();
    Ok(newest)
}

/// What is left of valid grants and not leased.
pub(super) fn unleased(
    file: &mut Session,
    key: &KeyId,
    now: Timestamp,
) -> Result<PerUnit<u64>, postgres::Error> {
    let rows = file.query(
        "SELECT unit, sum(greatest(0, grants.tokens - grants.spent - coalesce(
             (SELECT sum(leases.tokens) FROM leases
              WHERE leases.grant_number = grants.number), 0)))::bigint
         FROM grants JOIN keys ON keys.number = grants.key
         WHERE keys.id = $1 AND coalesce(grants.expires_at > $2, TRUE)
         GROUP BY unit",
        &[&key.as_str(), &storable_time(now)],
    )?;
    let mut unleased = PerUnit::default();
    for row in rows {
        *unleased.get_mut(unit(&row, 0)?) = row.try_get::<_, i64>(1)?.unsigned_abs();
    }
    Ok(unleased)
}

/// A stored unit. The schema admits no other.
pub(super) fn unit(row: &Row, place: usize) -> Result<Unit, postgres::Error> {
    let name: &str = row.try_get(place)?;
    Ok(Unit::from_name(name).unwrap_or(Unit::Tokens))
}

fn select(
    file: &mut Session,
    which: &str,
    values: &Values<'_>,
) -> Result<Vec<GrantView>, postgres::Error> {
    let sql = format!(
        "SELECT grants.id, grants.plan, tokens, spent, validity_ms,
                grants.created_at, first_used_at, grants.expires_at, unit
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
    let (given, used): (i64, i64) = (row.try_get(2)?, row.try_get(3)?);
    let view = GrantView {
        id: row.try_get(0)?,
        plan: row.try_get(1)?,
        tokens: 0,
        used: 0,
        money: Money::ZERO,
        money_used: Money::ZERO,
        validity_seconds: validity_ms.unsigned_abs() / 1000,
        created_at: stored_time(created_at).unwrap_or_default(),
        valid_from: time(row.try_get(6)?),
        valid_until: time(row.try_get(7)?),
    };
    Ok(view.with_amounts(unit(row, 8)?, given.unsigned_abs(), used.unsigned_abs()))
}
