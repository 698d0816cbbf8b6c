//! The rows of keys: adding, finding and changing them.

use super::{extensions, grants, new_number, orders, storable_time};
use crate::{
    clock::Timestamp,
    key::KeyHash,
    record::{KeyRecord, KeyState},
    store::{
        KeyFilter, NewGrants, OrderName, StoreError,
        database::{KeyChange, KeyLookup, KeyQuery, Outcome},
        order::Made,
        rows::{self, GRANTED_UNTIL, KEY_COLUMNS, PAYS_MONEY},
        stored_values::names_to_json,
    },
};
use rusqlite::{Connection, ToSql, Transaction, params};
use tollgate_types::KeyId;

/// Adds a key and its first grants.
pub(super) fn add(
    transaction: &Transaction<'_>,
    key: &KeyRecord,
    hash: &KeyHash,
    first: Option<&NewGrants<'_>>,
    order: Option<&OrderName>,
) -> rusqlite::Result<Outcome> {
    if let Some(order) = order
        && let Some(id) = orders::made_otherwise(transaction, order, Made::Key)?
    {
        return Ok(Outcome::OtherOrder(id));
    }
    if !insert(transaction, key, hash)? {
        return Ok(Outcome::DoneBefore);
    }
    if let Some(first) = first {
        grants::insert(transaction, key.id(), first, key.created_at)?;
    }
    Ok(Outcome::Done)
}

/// Changes a key.
pub(super) fn change(
    transaction: &Transaction<'_>,
    key: &KeyId,
    change: &KeyChange<'_>,
    now: Timestamp,
) -> rusqlite::Result<Outcome> {
    match change {
        KeyChange::Revoke => {
            let changed = transaction.execute(
                "UPDATE keys SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL",
                params![key.as_str(), storable_time(now)],
            )?;
            Ok(match changed {
                0 => Outcome::DoneBefore,
                _ => Outcome::Done,
            })
        }
        KeyChange::Limits(limits) => {
            transaction.execute(
                "UPDATE keys SET requests_per_minute = ?2, input_tokens_per_minute = ?3,
                     output_tokens_per_minute = ?4, concurrent_requests = ?5
                 WHERE id = ?1",
                params![
                    key.as_str(),
                    limits.requests,
                    limits.input_tokens,
                    limits.output_tokens,
                    limits.concurrent,
                ],
            )?;
            Ok(Outcome::Done)
        }
        KeyChange::Extend { span, order } => {
            extensions::extend(transaction, key, *span, *order, now)
        }
    }
}

/// The keys of a query.
pub(super) fn find(
    file: &Connection,
    query: &KeyQuery<'_>,
) -> rusqlite::Result<Result<Vec<KeyRecord>, StoreError>> {
    match query {
        KeyQuery::Id(id) => select(file, "WHERE id = ?1", &[&id.as_str()]),
        // By range instead of `LIKE`: it uses the index, is case-sensitive, and knows no wildcards.
        KeyQuery::Prefix(prefix, most) => {
            let end = format!("{prefix}{}", char::MAX);
            let rest = "WHERE prefix >= ?1 AND prefix < ?2 ORDER BY number LIMIT ?3";
            select(file, rest, &[prefix, &end, most])
        }
        KeyQuery::Page {
            filter,
            after,
            limit,
            now,
        } => page(file, filter, *after, *limit, *now),
    }
}

fn page(
    file: &Connection,
    filter: &KeyFilter,
    after: Option<&KeyId>,
    limit: u32,
    now: Timestamp,
) -> rusqlite::Result<Result<Vec<KeyRecord>, StoreError>> {
    // The state as in `KeyRecord::state`; last, because it alone looks at the grants.
    let rest = format!(
        "WHERE number > coalesce((SELECT number FROM keys WHERE id = ?1), 0)
            AND (?5 IS NULL OR plan = ?5)
            AND (?6 IS NULL OR instr(name, ?6) > 0)
            AND (?3 IS NULL OR ?3 = CASE WHEN revoked_at IS NOT NULL THEN 'revoked'
                WHEN expires_at <= ?4 THEN 'expired'
                WHEN {GRANTED_UNTIL} <= ?4 THEN 'expired' ELSE 'active' END)
        ORDER BY number LIMIT ?2"
    );
    let values: [&dyn ToSql; 6] = [
        &after.map(KeyId::as_str),
        &limit,
        &filter.state.map(KeyState::as_str),
        &storable_time(now),
        &filter.plan,
        &filter.name,
    ];
    select(file, &rest, &values)
}

fn select(
    file: &Connection,
    rest: &str,
    values: &[&dyn ToSql],
) -> rusqlite::Result<Result<Vec<KeyRecord>, StoreError>> {
    let sql = format!("SELECT {KEY_COLUMNS}, {GRANTED_UNTIL}, {PAYS_MONEY} FROM keys {rest}");
    let mut statement = file.prepare_cached(&sql)?;
    let rows = statement.query_map(values, |row| rows::key(row, 0))?;
    let rows = rows.collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(rows.into_iter().collect())
}

/// Looks a key up by its hash. One row always: the newest change of the snapshot, then the key.
pub(super) fn look_up(
    file: &Connection,
    hash: &KeyHash,
) -> rusqlite::Result<Result<KeyLookup, StoreError>> {
    let sql = format!(
        "SELECT (SELECT coalesce(max(seq), 0) FROM changes), {KEY_COLUMNS}, {GRANTED_UNTIL}, {PAYS_MONEY}
         FROM (SELECT ?1 AS wanted) LEFT JOIN keys ON keys.hash = wanted"
    );
    let mut statement = file.prepare_cached(&sql)?;
    statement.query_row([hash.as_bytes()], |row| rows::key_lookup(row))
}

/// Whether the key was made: one of this id may exist.
fn insert(
    transaction: &Transaction<'_>,
    record: &KeyRecord,
    hash: &KeyHash,
) -> rusqlite::Result<bool> {
    let sql = format!(
        "INSERT INTO keys (number, {KEY_COLUMNS}, hash)
         VALUES (({new}),?,?,?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT (id) DO NOTHING",
        new = new_number("keys")
    );
    let identity = &record.identity;
    let made = transaction.execute(
        &sql,
        params![
            identity.key.as_str(),
            record.prefix,
            identity.name,
            identity.plan,
            names_to_json(&identity.groups),
            names_to_json(&identity.endpoints),
            storable_time(record.created_at),
            record.expires_at.map(storable_time),
            record.revoked_at.map(storable_time),
            identity.limits.requests,
            identity.limits.input_tokens,
            identity.limits.output_tokens,
            identity.limits.concurrent,
            hash.as_bytes(),
        ],
    )?;
    Ok(made > 0)
}
