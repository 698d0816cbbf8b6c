//! The rows of keys: adding, finding and changing them.

use super::{Statements, Values, extensions, grants, orders};
use crate::{
    clock::Timestamp,
    key::KeyHash,
    record::{KeyRecord, KeyState},
    store::{
        KeyFilter, NewGrants, OrderName, StoreError,
        database::{KeyChange, KeyLookup, KeyQuery, Outcome},
        order::Made,
        rows::{self, GRANTED_UNTIL, KEY_COLUMNS, PAYS_MONEY},
        stored_values::{names_to_json, storable_time},
    },
};
use tollgate_types::{KeyId, Limits};

/// Keys, or the fault of an invalid row.
type Keys = Result<Vec<KeyRecord>, StoreError>;

/// Adds a key and its first grants.
pub(crate) fn add<S: Statements>(
    transaction: &mut S,
    key: &KeyRecord,
    hash: &KeyHash,
    first: Option<&NewGrants<'_>>,
    order: Option<&OrderName>,
) -> Result<Outcome, S::Fault> {
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

/// Whether the key was made: one of this id may exist.
fn insert<S: Statements>(
    transaction: &mut S,
    key: &KeyRecord,
    hash: &KeyHash,
) -> Result<bool, S::Fault> {
    let number = S::new_number("key");
    let sql = format!(
        "INSERT INTO keys (number, {KEY_COLUMNS}, hash)
         VALUES ({number}, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
         ON CONFLICT (id) DO NOTHING"
    );
    let identity = &key.identity;
    let [requests, input_tokens, output_tokens, concurrent] = limits(&identity.limits);
    let made = transaction.run(
        &sql,
        &[
            &identity.key.as_str(),
            &&*key.prefix,
            &S::text(&identity.name),
            &identity.plan.as_deref().map(S::text),
            &names_to_json(&identity.groups),
            &names_to_json(&identity.endpoints),
            &storable_time(key.created_at),
            &key.expires_at.map(storable_time),
            &key.revoked_at.map(storable_time),
            &requests,
            &input_tokens,
            &output_tokens,
            &concurrent,
            &&hash.as_bytes()[..],
        ],
    )?;
    Ok(made > 0)
}

fn limits(limits: &Limits) -> [Option<i64>; 4] {
    [
        limits.requests,
        limits.input_tokens,
        limits.output_tokens,
        limits.concurrent,
    ]
    .map(|limit| limit.map(|limit| i64::from(limit.get())))
}

/// Changes a key.
pub(crate) fn change<S: Statements>(
    transaction: &mut S,
    key: &KeyId,
    change: &KeyChange<'_>,
    now: Timestamp,
) -> Result<Outcome, S::Fault> {
    match change {
        KeyChange::Revoke => {
            let changed = transaction.run(
                "UPDATE keys SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL",
                &[&key.as_str(), &storable_time(now)],
            )?;
            Ok(match changed {
                0 => Outcome::DoneBefore,
                _ => Outcome::Done,
            })
        }
        KeyChange::Limits(new) => {
            let [requests, input_tokens, output_tokens, concurrent] = limits(new);
            transaction.run(
                "UPDATE keys SET requests_per_minute = ?2, input_tokens_per_minute = ?3,
                     output_tokens_per_minute = ?4, concurrent_requests = ?5
                 WHERE id = ?1",
                &[
                    &key.as_str(),
                    &requests,
                    &input_tokens,
                    &output_tokens,
                    &concurrent,
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
pub(crate) fn find<S: Statements>(file: &mut S, query: &KeyQuery<'_>) -> Result<Keys, S::Fault> {
    match query {
        KeyQuery::Id(id) => select(file, "WHERE id = ?1", &[&id.as_str()]),
        // By range instead of `LIKE`: it uses the index, is case-sensitive, and knows no wildcards.
        KeyQuery::Prefix(prefix, most) => {
            let end = format!("{prefix}{}", char::MAX);
            let rest = "WHERE prefix >= ?1 AND prefix < ?2 ORDER BY number LIMIT ?3";
            select(file, rest, &[prefix, &end, &i64::from(*most)])
        }
        KeyQuery::Page {
            filter,
            after,
            limit,
            now,
        } => page(file, filter, *after, *limit, *now),
    }
}

fn page<S: Statements>(
    file: &mut S,
    filter: &KeyFilter,
    after: Option<&KeyId>,
    limit: u32,
    now: Timestamp,
) -> Result<Keys, S::Fault> {
    // The state as in `KeyRecord::state`; last, because it alone looks at the grants.
    let rest = format!(
        "WHERE number > coalesce((SELECT number FROM keys WHERE id = ?1), 0)
            AND (CAST(?5 AS text) IS NULL OR plan = ?5)
            AND (CAST(?6 AS text) IS NULL OR {position}(name, ?6) > 0)
            AND (CAST(?3 AS text) IS NULL OR ?3 = CASE WHEN revoked_at IS NOT NULL THEN 'revoked'
                WHEN expires_at <= ?4 THEN 'expired'
                WHEN {GRANTED_UNTIL} <= ?4 THEN 'expired' ELSE 'active' END)
        ORDER BY number LIMIT ?2",
        position = S::POSITION
    );
    let values: &Values<'_> = &[
        &after.map(KeyId::as_str),
        &i64::from(limit),
        &filter.state.map(KeyState::as_str),
        &storable_time(now),
        &filter.plan.as_deref().map(S::text),
        &filter.name.as_deref().map(S::text),
    ];
    select(file, &rest, values)
}

fn select<S: Statements>(file: &mut S, rest: &str, values: &Values<'_>) -> Result<Keys, S::Fault> {
    let sql = format!("SELECT {KEY_COLUMNS}, {GRANTED_UNTIL}, {PAYS_MONEY} FROM keys {rest}");
    let keys = file.all(&sql, values, |row| rows::key(row, 0))?;
    Ok(keys.into_iter().collect())
}

/// Looks a key up by its hash. One row always: the newest change of the snapshot, then the key.
pub(crate) fn look_up<S: Statements>(
    file: &mut S,
    hash: &KeyHash,
) -> Result<Result<KeyLookup, StoreError>, S::Fault> {
    let sql = format!(
        "SELECT (SELECT coalesce(max(seq), 0) FROM changes), {KEY_COLUMNS}, {GRANTED_UNTIL}, {PAYS_MONEY}
         FROM (SELECT 1) AS always LEFT JOIN keys ON hash = ?1"
    );
    file.one(&sql, &[&&hash.as_bytes()[..]], |row| rows::key_lookup(row))
}
