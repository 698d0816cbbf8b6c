//! The rows of grants: giving, listing, and what is left of them.

use super::{new_number, orders, storable_time};
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
use rusqlite::{Connection, OptionalExtension, ToSql, Transaction, params};
use tollgate_types::{KeyId, Unit};

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
        let sql = format!(
            "INSERT INTO grants (number, id, key, plan, unit, tokens, validity_ms, created_at)
             SELECT ({new}), ?1, number, ?3, ?4, ?5, ?6, ?7 FROM keys WHERE id = ?2",
            new = new_number("grants")
        );
        transaction.execute(
            &sql,
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
        .query_map(params![storable_time(now), limit], |row| rows::key_use(row))?
        .collect()
}

fn select(
    file: &Connection,
    which: &str,
    values: &[&dyn ToSql],
) -> rusqlite::Result<Vec<GrantView>> {
    let sql =
        format!("SELECT {GRANT} FROM grants JOIN keys ON keys.number = grants.key WHERE {which}");
    file.prepare_cached(&sql)?
        .query_map(values, |row| rows::grant(row))?
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
