//! The rows of keys: adding, finding and changing them.

use super::{
    connection::{Session, Values},
    grants, plain, storable_time,
};
use crate::{
    clock::Timestamp,
    key::KeyHash,
    record::{KeyRecord, KeyState},
    store::{
        KeyFilter, NewGrants, OrderName, PlanInUse, StoreError,
        database::{KeyChange, KeyLookup, KeyQuery, Outcome},
        order::Made,
        rows::{self, GRANTED_UNTIL, KEY_COLUMNS, PAYS_MONEY},
        stored_values::names_to_json,
    },
};
use postgres::types::ToSql;
use tollgate_types::{KeyId, Limits, Unit};

/// The id of what an order of this name has made, if that is something else than `made`. The lock lets
/// orders of one name come one after the other.
pub(super) fn made_otherwise(
    transaction: &mut Session,
    order: &OrderName,
    made: Made,
) -> Result<Option<String>, postgres::Error> {
    let lock = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))::text";
    transaction.query_one(lock, &[&order.id(Made::Key)])?;
    let id = |other: Made| (!other.is_like(made)).then(|| order.id(other));
    let [tokens, money] = Unit::ALL.map(|unit| id(Made::Grant(unit)));
    let found = transaction.query_opt(
        "SELECT id FROM keys WHERE id = $1
         UNION ALL SELECT id FROM grants WHERE id IN ($2, $3)
         UNION ALL SELECT id FROM extensions WHERE id = $4 LIMIT 1",
        &[&id(Made::Key), &tokens, &money, &id(Made::Extension)],
    )?;
    found.map(|row| row.try_get(0)).transpose()
}

/// Adds a key and its first grants.
pub(super) fn add(
    transaction: &mut Session,
    key: &KeyRecord,
    hash: &KeyHash,
    first: Option<&NewGrants<'_>>,
    order: Option<&OrderName>,
) -> Result<Outcome, postgres::Error> {
    if let Some(order) = order
        && let Some(id) = made_otherwise(transaction, order, Made::Key)?
    {
        return Ok(Outcome::OtherOrder(id));
    }
    let identity = &key.identity;
    let limits = limits(&identity.limits);
    let sql = format!(
        "INSERT INTO keys ({KEY_COLUMNS}, hash)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
         ON CONFLICT (id) DO NOTHING"
    );
    let made = transaction.execute(
        &sql,
        &[
            &identity.key.as_str(),
            &&*key.prefix,
            &plain(&identity.name),
            &identity.plan.as_deref().map(plain),
            &names_to_json(&identity.groups),
            &names_to_json(&identity.endpoints),
            &storable_time(key.created_at),
            &key.expires_at.map(storable_time),
            &key.revoked_at.map(storable_time),
            &limits[0],
            &limits[1],
            &limits[2],
            &limits[3],
            &&hash.as_bytes()[..],
        ],
    )?;
    if made == 0 {
        return Ok(Outcome::DoneBefore);
    }
    if let Some(first) = first {
        grants::insert(transaction, key.id(), first, key.created_at)?;
    }
    Ok(Outcome::Done)
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
pub(super) fn change(
    transaction: &mut Session,
    key: &KeyId,
    change: &KeyChange<'_>,
    now: Timestamp,
) -> Result<Outcome, postgres::Error> {
    match change {
        KeyChange::Revoke => {
            let changed = transaction.execute(
                "UPDATE keys SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL",
                &[&key.as_str(), &storable_time(now)],
            )?;
            Ok(if changed == 0 {
                Outcome::DoneBefore
            } else {
                Outcome::Done
            })
        }
        KeyChange::Limits(new) => {
            let new = limits(new);
            transaction.execute(
                "UPDATE keys SET requests_per_minute = $2, input_tokens_per_minute = $3,
                     output_tokens_per_minute = $4, concurrent_requests = $5 WHERE id = $1",
                &[&key.as_str(), &new[0], &new[1], &new[2], &new[3]],
            )?;
            Ok(Outcome::Done)
        }
        KeyChange::Extend { span, order } => {
            let latest = storable_time(Timestamp::MAX);
            let more = i64::try_from(span.as_millis())
                .unwrap_or(i64::MAX)
                .min(latest);
            extend(transaction, key, more, *order, now)
        }
    }
}

fn extend(
    transaction: &mut Session,
    key: &KeyId,
    more: i64,
    order: Option<&OrderName>,
    now: Timestamp,
) -> Result<Outcome, postgres::Error> {
    let latest = storable_time(Timestamp::MAX);
    if let Some(order) = order {
        if let Some(other) = made_otherwise(transaction, order, Made::Extension)? {
            return Ok(Outcome::OtherOrder(other));
        }
        let id = order.id(Made::Extension);
        let known = transaction.query_opt(
            "SELECT span_ms = $2 AND key = (SELECT number FROM keys WHERE id = $3)
             FROM extensions WHERE id = $1",
            &[&id, &more, &key.as_str()],
        )?;
        if let Some(row) = known {
            let is_same: Option<bool> = row.try_get(0)?;
            return Ok(match is_same {
                Some(true) => Outcome::DoneBefore,
                _ => Outcome::OtherOrder(id),
            });
        }
    }
    let keys = transaction.execute(
        "UPDATE keys SET expires_at = CASE WHEN expires_at IS NOT NULL
             THEN least(expires_at + $2, $3) END
         WHERE id = $1 AND revoked_at IS NULL",
        &[&key.as_str(), &more, &latest],
    )?;
    if keys == 0 {
        return Ok(Outcome::Revoked);
    }
    transaction.execute(
        "UPDATE grants SET validity_ms = least(validity_ms + $2, $3),
             expires_at = CASE WHEN expires_at IS NOT NULL THEN least(expires_at + $2, $3) END
         WHERE key = (SELECT number FROM keys WHERE id = $1)",
        &[&key.as_str(), &more, &latest],
    )?;
    if let Some(order) = order {
        transaction.execute(
            "INSERT INTO extensions (id, key, span_ms, at)
             SELECT $1, number, $3, $4 FROM keys WHERE id = $2",
            &[
                &order.id(Made::Extension),
                &key.as_str(),
                &more,
                &storable_time(now),
            ],
        )?;
    }
    Ok(Outcome::Done)
}

/// The keys of a query. The inner error is an invalid row.
pub(super) fn find(
    file: &mut Session,
    query: &KeyQuery<'_>,
) -> Result<Result<Vec<KeyRecord>, StoreError>, postgres::Error> {
    match query {
        KeyQuery::Id(id) => select(file, "WHERE id = $1", &[&id.as_str()]),
        // By range instead of `LIKE`: it knows no wildcards.
        KeyQuery::Prefix(prefix, most) => {
            let end = format!("{prefix}{}", char::MAX);
            let rest = "WHERE prefix >= $1 AND prefix < $2 ORDER BY number LIMIT $3";
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

fn page(
    file: &mut Session,
    filter: &KeyFilter,
    after: Option<&KeyId>,
    limit: u32,
    now: Timestamp,
) -> Result<Result<Vec<KeyRecord>, StoreError>, postgres::Error> {
    // The state as in `KeyRecord::state`.
    let rest = format!(
        "WHERE number > coalesce((SELECT number FROM keys WHERE id = $1), 0)
            AND ($5::text IS NULL OR plan = $5)
            AND ($6::text IS NULL OR strpos(name, $6) > 0)
            AND ($3::text IS NULL OR $3 = CASE WHEN revoked_at IS NOT NULL THEN 'revoked'
                WHEN expires_at <= $4 THEN 'expired'
                WHEN {GRANTED_UNTIL} <= $4 THEN 'expired' ELSE 'active' END)
        ORDER BY number LIMIT $2"
    );
    let values: [&(dyn ToSql + Sync); 6] = [
        &after.map(KeyId::as_str),
        &i64::from(limit),
        &filter.state.map(KeyState::as_str),
        &storable_time(now),
        &filter.plan.as_deref().map(plain),
        &filter.name.as_deref().map(plain),
    ];
    select(file, &rest, &values)
}

fn select(
    file: &mut Session,
    rest: &str,
    values: &Values<'_>,
) -> Result<Result<Vec<KeyRecord>, StoreError>, postgres::Error> {
    let sql = format!("SELECT {KEY_COLUMNS}, {GRANTED_UNTIL}, {PAYS_MONEY} FROM keys {rest}");
    let rows = file.query(&sql, values)?;
    let rows = rows.iter().map(|row| rows::key(row, 0));
    let rows = rows.collect::<Result<Vec<_>, postgres::Error>>()?;
    Ok(rows.into_iter().collect())
}

/// The plans of keys that work, apart from those that are `known`. From one plan to the next by their
/// index, as in SQLite.
pub(super) fn plans_beyond(
    session: &mut Session,
    known: &[&str],
    most: u32,
    now: Timestamp,
) -> Result<Vec<PlanInUse>, postgres::Error> {
    let sql = format!(
        "WITH RECURSIVE plans (known) AS (
             SELECT min(plan) FROM keys
             UNION ALL
             SELECT (SELECT min(plan) FROM keys WHERE plan > known) FROM plans
             WHERE known IS NOT NULL)
         SELECT known, having_it FROM plans, LATERAL (
             SELECT count(*) AS having_it FROM keys
             WHERE plan = known AND revoked_at IS NULL
                 AND coalesce(expires_at > $2, TRUE) AND coalesce({GRANTED_UNTIL} > $2, TRUE)
         ) AS keys_of_it
         WHERE known <> ALL($1) AND having_it > 0
         ORDER BY having_it DESC, known COLLATE \"C\" LIMIT $3"
    );
    let rows = session.query(&sql, &[&known, &storable_time(now), &i64::from(most)])?;
    rows.iter().map(rows::plan).collect()
}

/// Looks a key up by its hash. One row always: the newest change of the snapshot, then the key.
pub(super) fn look_up(
    file: &mut Session,
    hash: &KeyHash,
) -> Result<Result<KeyLookup, StoreError>, postgres::Error> {
    let sql = format!(
        "SELECT (SELECT coalesce(max(seq), 0) FROM changes), {KEY_COLUMNS}, {GRANTED_UNTIL}, {PAYS_MONEY}
         FROM (SELECT $1::bytea AS wanted) AS asked LEFT JOIN keys ON keys.hash = wanted"
    );
    rows::key_lookup(&file.query_one(&sql, &[&&hash.as_bytes()[..]])?)
}
