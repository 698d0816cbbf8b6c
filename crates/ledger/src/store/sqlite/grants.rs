//! The rows of grants: giving, listing, and what is left of them.

use super::{orders, storable_time, stored_time};
use crate::{
    balance::MAX_PIECES,
    clock::Timestamp,
    store::{GrantView, KeyUse, NewGrants, database::GrantsAdded, order::Made},
};
use rusqlite::{Connection, OptionalExtension, Row, ToSql, Transaction, params};
use tollgate_types::{KeyId, Money, PerUnit, Unit};

/// Adds grants to a key.
pub(super) fn add(
    transaction: &Transaction<'_>,
    key: &KeyId,
    grants: &NewGrants<'_>,
    now: Timestamp,
) -> rusqlite::Result<GrantsAdded> {
    if let Some(made) = made_before(transaction, key, grants)? {
        return Ok(made);
    }
    let works: Option<bool> = transaction
        .query_row(
            "SELECT revoked_at IS NULL FROM keys WHERE id = ?1",
            [key.as_str()],
            |row| row.get(0),
        )
        .optional()?;
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
    transaction: &Transaction<'_>,
    key: &KeyId,
    grants: &NewGrants<'_>,
) -> rusqlite::Result<Option<GrantsAdded>> {
    let (Some(order), Some([tokens, money])) = (grants.order, grants.ids_of_order()) else {
        return Ok(None);
    };
    if let Some(id) = orders::made_otherwise(transaction, order, Made::Grant(Unit::Tokens))? {
        return Ok(Some(GrantsAdded::OtherOrder(id)));
    }
    let known = "keys.id = ?1 AND grants.id IN (?2, ?3)";
    let known = select(transaction, known, &[&key.as_str(), &tokens, &money])?;
    if !known.is_empty() {
        return Ok(Some(GrantsAdded::Known(known)));
    }
    // Of another key.
    let other = "SELECT id FROM grants WHERE id IN (?1, ?2) LIMIT 1";
    let other = transaction.query_row(other, [&tokens, &money], |row| row.get(0));
    Ok(other.optional()?.map(GrantsAdded::OtherOrder))
}

/// Makes grants, none of which exists.
pub(super) fn insert(
    transaction: &Transaction<'_>,
    key: &KeyId,
    grants: &NewGrants<'_>,
    now: Timestamp,
) -> rusqlite::Result<()> {
    let stored = |number: u128| i64::try_from(number).unwrap_or(i64::MAX);
    for grant in &grants.grants {
        transaction.execute(
            "INSERT INTO grants (id, key, plan, unit, tokens, validity_ms, created_at)
             SELECT ?1, number, ?3, ?4, ?5, ?6, ?7 FROM keys WHERE id = ?2",
            params![
                grant.id,
                key.as_str(),
                grants.terms.plan,
                grant.unit.as_str(),
                stored(grant.amount.into()),
                stored(grants.terms.validity.as_millis()),
                storable_time(now),
            ],
        )?;
    }
    Ok(())
}

/// The grants of a key, oldest first; of more than a thousand the newest.
pub(super) fn of_key(file: &Connection, key: &KeyId) -> rusqlite::Result<Vec<GrantView>> {
    let newest = "keys.id = ?1 ORDER BY grants.number DESC LIMIT 1000";
    let mut newest = select(file, newest, &[&key.as_str()])?;
    newest.reverse();
    Ok(newest)
}

/// What is left of valid grants and not leased.
pub(super) fn unleased(
    file: &Connection,
    key: &KeyId,
    now: Timestamp,
) -> rusqlite::Result<PerUnit<u64>> {
    let mut sums = file.prepare_cached(
        "SELECT unit, sum(max(0, grants.tokens - grants.spent - coalesce(
             (SELECT sum(leases.tokens) FROM leases
              WHERE leases.grant_number = grants.number), 0)))
         FROM grants JOIN keys ON keys.number = grants.key
         WHERE keys.id = ?1 AND coalesce(grants.expires_at > ?2, TRUE)
         GROUP BY unit",
    )?;
    let mut rows = sums.query(params![key.as_str(), storable_time(now)])?;
    let mut unleased = PerUnit::default();
    while let Some(row) = rows.next()? {
        *unleased.get_mut(unit(row, 0)?) = row.get::<_, i64>(1)?.unsigned_abs();
    }
    Ok(unleased)
}

/// The keys that work and have used the largest shares of their valid grants in either unit. Reads all
/// grants.
pub(super) fn most_used(
    file: &Connection,
    now: Timestamp,
    limit: u32,
) -> rusqlite::Result<Vec<KeyUse>> {
    let sql = "SELECT keys.id, keys.name,
             coalesce(sum(grants.tokens) FILTER (WHERE unit = 'tokens'), 0) AS tokens,
             coalesce(sum(spent) FILTER (WHERE unit = 'tokens'), 0) AS used,
             coalesce(sum(grants.tokens) FILTER (WHERE unit = 'money'), 0) AS money,
             coalesce(sum(spent) FILTER (WHERE unit = 'money'), 0) AS money_used
         FROM grants JOIN keys ON keys.number = grants.key
         WHERE keys.revoked_at IS NULL AND coalesce(keys.expires_at > ?1, TRUE)
             AND coalesce(grants.expires_at > ?1, TRUE)
         GROUP BY keys.number HAVING used > 0 OR money_used > 0
         ORDER BY max(CAST(used AS REAL) / max(tokens, 1), CAST(money_used AS REAL) / max(money, 1))
             DESC, keys.number LIMIT ?2";
    file.prepare_cached(sql)?
        .query_map(params![storable_time(now), limit], |row| {
            let amount = |place| row.get::<_, i64>(place).map(i64::unsigned_abs);
            Ok(KeyUse {
                id: KeyId::new(row.get::<_, String>(0)?),
                name: row.get(1)?,
                tokens: amount(2)?,
                used: amount(3)?,
                money: Money::from_nanos(amount(4)?),
                money_used: Money::from_nanos(amount(5)?),
            })
        })?
        .collect()
}

/// A stored unit. The schema admits no other.
pub(super) fn unit(row: &Row<'_>, place: usize) -> rusqlite::Result<Unit> {
    let name = row.get_ref(place)?.as_str()?;
    Ok(Unit::from_name(name).unwrap_or(Unit::Tokens))
}

fn select(
    file: &Connection,
    which: &str,
    values: &[&dyn ToSql],
) -> rusqlite::Result<Vec<GrantView>> {
    let sql = format!(
        "SELECT grants.id, grants.plan, tokens, spent, validity_ms,
                grants.created_at, first_used_at, grants.expires_at, unit
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
    let (given, used): (i64, i64) = (row.get(2)?, row.get(3)?);
    let view = GrantView {
        id: row.get(0)?,
        plan: row.get(1)?,
        tokens: 0,
        used: 0,
        money: Money::ZERO,
        money_used: Money::ZERO,
        validity_seconds: validity_ms.unsigned_abs() / 1000,
        created_at: stored_time(created_at).unwrap_or_default(),
        valid_from: time(row.get(6)?),
        valid_until: time(row.get(7)?),
    };
    Ok(view.with_amounts(unit(row, 8)?, given.unsigned_abs(), used.unsigned_abs()))
}
