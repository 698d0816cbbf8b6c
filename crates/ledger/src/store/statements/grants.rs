//! The rows of grants: giving, listing, and what is left of them.

use super::{Statements, Values, orders};
use crate::{
    balance::{GrantNumber, MAX_PIECES},
    clock::Timestamp,
    store::{
        GrantView, KeyUse, NewGrants,
        database::GrantsAdded,
        order::Made,
        rows::{self, GRANT, StoredRow},
        stored_values::storable_time,
    },
};
use tollgate_types::{KeyId, Unit};

/// Adds grants to a key.
pub(crate) fn add<S: Statements>(
    transaction: &mut S,
    key: &KeyId,
    grants: &NewGrants<'_>,
    now: Timestamp,
) -> Result<GrantsAdded, S::Fault> {
    if let Some(made) = made_before(transaction, key, grants)? {
        return Ok(made);
    }
    // The lock prevents other grants between the count and the insert.
    let works = format!(
        "SELECT revoked_at IS NULL, expires_at FROM keys WHERE id = ?1 {}",
        S::FOR_CHANGE
    );
    let works = transaction.first(&works, &[&key.as_str()], |row| {
        Ok((row.read::<bool>(0)?, row.time(1)?))
    })?;
    match works {
        Some((false, _)) => return Ok(GrantsAdded::Revoked),
        Some((true, Some(end))) if end <= now => return Ok(GrantsAdded::Expired),
        _ => {}
    }
    let others = spendable(transaction, key, now)?;
    if others.saturating_add(grants.grants.len()) > MAX_PIECES {
        return Ok(GrantsAdded::TooMany);
    }
    insert(transaction, key, grants, now)?;
    Ok(GrantsAdded::New)
}

/// Begins the validity of a grant with a request that it does not pay. `key`: after a restore, the number can be of a
/// grant of another key.
pub(crate) fn begin<S: Statements>(
    transaction: &mut S,
    grant: GrantNumber,
    key: i64,
    at: Timestamp,
) -> Result<(), S::Fault> {
    transaction.run(
        "UPDATE grants SET first_used_at = ?3, expires_at = ?3 + validity_ms
         WHERE number = ?1 AND key = ?2 AND expires_at IS NULL",
        &[&grant.0, &key, &storable_time(at)],
    )?;
    Ok(())
}

/// The grants that an earlier order of this name has made.
fn made_before<S: Statements>(
    transaction: &mut S,
    key: &KeyId,
    grants: &NewGrants<'_>,
) -> Result<Option<GrantsAdded>, S::Fault> {
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
    // The order may have made grants of another key.
    let other = "SELECT id FROM grants WHERE id IN (?1, ?2) LIMIT 1";
    let other = transaction.first(other, &[&tokens, &money], |row| row.read(0))?;
    Ok(other.map(GrantsAdded::OtherOrder))
}

/// Makes grants, none of which exists.
pub(crate) fn insert<S: Statements>(
    transaction: &mut S,
    key: &KeyId,
    grants: &NewGrants<'_>,
    now: Timestamp,
) -> Result<(), S::Fault> {
    let stored = |number: u128| i64::try_from(number).unwrap_or(i64::MAX);
    let sql = format!(
        "INSERT INTO grants (number, id, key, plan, unit, tokens, validity_ms, created_at)
         SELECT {number}, ?1, number, ?3, ?4, ?5, ?6, ?7 FROM keys WHERE id = ?2",
        number = S::new_number("grant")
    );
    for grant in &grants.grants {
        transaction.run(
            &sql,
            &[
                &grant.id,
                &key.as_str(),
                &grants.terms.plan.as_deref().map(S::text),
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
pub(crate) fn of_key<S: Statements>(file: &mut S, key: &KeyId) -> Result<Vec<GrantView>, S::Fault> {
    let newest = "keys.id = ?1 ORDER BY grants.number DESC LIMIT 1000";
    let mut newest = select(file, newest, &[&key.as_str()])?;
    newest.reverse();
    Ok(newest)
}

/// The keys that work and have used the largest shares of their valid grants in either unit. Reads all
/// grants.
pub(crate) fn most_used<S: Statements>(
    file: &mut S,
    now: Timestamp,
    limit: u32,
) -> Result<Vec<KeyUse>, S::Fault> {
    let sum = |column: &str, unit: Unit| {
        let unit = unit.as_str();
        format!("CAST(coalesce(sum({column}) FILTER (WHERE unit = '{unit}'), 0) AS bigint)")
    };
    let sql = format!(
        "SELECT id, name, tokens, used, money, money_used FROM (
             SELECT keys.number, keys.id, keys.name, {tokens} AS tokens, {used} AS used,
                 {money} AS money, {money_used} AS money_used
             FROM grants JOIN keys ON keys.number = grants.key
             WHERE keys.revoked_at IS NULL AND coalesce(keys.expires_at > ?1, TRUE)
                 AND coalesce(grants.expires_at > ?1, TRUE)
             GROUP BY keys.number HAVING sum(spent) > 0
         ) AS used_of
         ORDER BY {greatest}(CAST(used AS double precision) / {greatest}(tokens, 1),
                             CAST(money_used AS double precision) / {greatest}(money, 1)) DESC, number
         LIMIT ?2",
        tokens = sum("grants.tokens", Unit::Tokens),
        used = sum("spent", Unit::Tokens),
        money = sum("grants.tokens", Unit::Money),
        money_used = sum("spent", Unit::Money),
        greatest = S::GREATEST,
    );
    file.all(&sql, &[&storable_time(now), &i64::from(limit)], |row| {
        rows::key_use(row)
    })
}

fn select<S: Statements>(
    file: &mut S,
    which: &str,
    values: &Values<'_>,
) -> Result<Vec<GrantView>, S::Fault> {
    let sql =
        format!("SELECT {GRANT} FROM grants JOIN keys ON keys.number = grants.key WHERE {which}");
    file.all(&sql, values, |row| rows::grant(row))
}

/// The number of valid grants of a key that are not used up.
fn spendable<S: Statements>(
    transaction: &mut S,
    key: &KeyId,
    now: Timestamp,
) -> Result<usize, S::Fault> {
    let count: i64 = transaction.one(
        "SELECT count(*) FROM grants WHERE key = (SELECT number FROM keys WHERE id = ?1)
         AND spent < tokens AND coalesce(expires_at > ?2, TRUE)",
        &[&key.as_str(), &storable_time(now)],
        |row| row.read(0),
    )?;
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
}
