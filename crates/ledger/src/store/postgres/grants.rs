//! The rows of grants: giving, listing, and what is left of them.

use super::{
    connection::{Session, Values},
    keys, plain, storable_time,
};
use crate::{
    balance::MAX_PIECES,
    clock::Timestamp,
    store::{
        GrantView, KeyUse, NewGrants,
        database::GrantsAdded,
        order::Made,
        rows::{self, GRANT},
    },
};
use tollgate_types::{KeyId, Unit};

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
    rows.iter().map(rows::key_use).collect()
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

fn select(
    file: &mut Session,
    which: &str,
    values: &Values<'_>,
) -> Result<Vec<GrantView>, postgres::Error> {
    let sql =
        format!("SELECT {GRANT} FROM grants JOIN keys ON keys.number = grants.key WHERE {which}");
    file.query(&sql, values)?.iter().map(rows::grant).collect()
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
