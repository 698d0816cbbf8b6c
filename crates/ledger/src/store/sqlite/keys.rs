//! The rows of keys: adding, finding and changing them.

use super::{extensions, grants, orders, storable_time, stored_time};
use crate::{
    clock::Timestamp,
    key::KeyHash,
    record::{KeyRecord, KeyState, allowance},
    store::{
        KeyFilter, NewGrant, OrderName, StoreError,
        database::{KeyChange, KeyLookup, KeyQuery, Outcome},
        order::Made,
    },
};
use rusqlite::{Connection, Row, ToSql, Transaction, params};
use std::{num::NonZeroU32, sync::Arc};
use tollgate_types::{Allowance, Identity, KeyId, KeyShares, Limits};

/// The columns that stand in the row of a key; [`read_key`] reads them in this order, and then
/// [`GRANTED_UNTIL`].
const COLUMNS: &str = "id, prefix, name, plan, model_groups, endpoints, \
     created_at, expires_at, revoked_at, requests_per_minute, input_tokens_per_minute, \
     output_tokens_per_minute, concurrent_requests";

/// When the last of a key's grants is over; NULL where it has none, or one that has not begun.
pub(super) const GRANTED_UNTIL: &str = "(SELECT iif(count(*) = count(grants.expires_at), max(grants.expires_at), NULL) \
     FROM grants WHERE grants.key = keys.number)";

/// Adds a key and its first grant.
pub(super) fn add(
    transaction: &Transaction<'_>,
    key: &KeyRecord,
    hash: &KeyHash,
    grant: Option<&NewGrant<'_>>,
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
    if let Some(grant) = grant {
        grants::insert(transaction, key.id(), grant, key.created_at)?;
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
        KeyQuery::Hash(hash) => select(file, "WHERE hash = ?1", &[hash.as_bytes()]),
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
    let sql = format!("SELECT {COLUMNS}, {GRANTED_UNTIL} FROM keys {rest}");
    let mut statement = file.prepare_cached(&sql)?;
    let rows = statement.query_map(values, |row| read_key(row, 0))?;
    let rows = rows.collect::<rusqlite::Result<Vec<_>>>()?;
    Ok(rows.into_iter().collect())
}

/// Looks a key up by its hash. One row always: the newest change of the snapshot, then the key.
pub(super) fn look_up(
    file: &Connection,
    hash: &KeyHash,
) -> rusqlite::Result<Result<KeyLookup, StoreError>> {
    let sql = format!(
        "SELECT (SELECT coalesce(max(seq), 0) FROM changes), {COLUMNS}, {GRANTED_UNTIL}
         FROM (SELECT ?1 AS wanted) LEFT JOIN keys ON keys.hash = wanted"
    );
    let mut statement = file.prepare_cached(&sql)?;
    statement.query_row([hash.as_bytes()], |row| {
        let change = row.get(0)?;
        let id: Option<String> = row.get(1)?;
        let record = id.map(|_| read_key(row, 1)).transpose()?.transpose();
        Ok(record.map(|record| KeyLookup { change, record }))
    })
}

/// Whether the key was made: one of this id may exist.
fn insert(
    transaction: &Transaction<'_>,
    record: &KeyRecord,
    hash: &KeyHash,
) -> rusqlite::Result<bool> {
    let sql = format!(
        "INSERT INTO keys ({COLUMNS}, hash) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)
         ON CONFLICT (id) DO NOTHING"
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

/// Reads [`COLUMNS`] and [`GRANTED_UNTIL`] from column `first` on. The inner error is a row that SQLite
/// gave and that makes no sense.
fn read_key(row: &Row<'_>, first: usize) -> rusqlite::Result<Result<KeyRecord, StoreError>> {
    let at = |offset: usize| first.saturating_add(offset);
    let id: String = row.get(at(0))?;
    let prefix: Box<str> = row.get(at(1))?;
    let name: String = row.get(at(2))?;
    let plan: Option<String> = row.get(at(3))?;
    let groups: Option<String> = row.get(at(4))?;
    let endpoints: Option<String> = row.get(at(5))?;
    let created_at: i64 = row.get(at(6))?;
    let expires_at: Option<i64> = row.get(at(7))?;
    let revoked_at: Option<i64> = row.get(at(8))?;
    // A number that no limit can have lets next to nothing through rather than everything.
    let limit = |offset| -> rusqlite::Result<Option<NonZeroU32>> {
        let stored: Option<i64> = row.get(at(offset))?;
        Ok(stored
            .map(|n| NonZeroU32::new(u32::try_from(n).unwrap_or(0)).unwrap_or(NonZeroU32::MIN)))
    };
    let limits = Limits {
        requests: limit(9)?,
        input_tokens: limit(10)?,
        output_tokens: limit(11)?,
        concurrent: limit(12)?,
    };
    let granted_until: Option<i64> = row.get(at(13))?;

    let bad = |what| StoreError::BadRecord {
        id: id.clone(),
        what,
    };
    let read = || {
        let identity = Identity {
            key: KeyId::new(id.as_str()),
            name,
            plan,
            groups: names_from_json(groups.as_deref()).ok_or_else(|| bad("its groups"))?,
            endpoints: names_from_json(endpoints.as_deref()).ok_or_else(|| bad("its endpoints"))?,
            limits,
            shares: KeyShares::default(),
        };
        Ok(KeyRecord {
            identity: Arc::new(identity),
            prefix,
            created_at: stored_time(created_at).ok_or_else(|| bad("its creation time"))?,
            expires_at: optional_time(expires_at).ok_or_else(|| bad("its expiry"))?,
            revoked_at: optional_time(revoked_at).ok_or_else(|| bad("its revocation time"))?,
            granted_until: optional_time(granted_until).ok_or_else(|| bad("a grant's end"))?,
        })
    };
    Ok(read())
}

#[expect(
    clippy::option_option,
    reason = "outside: readable at all; inside: a time is set"
)]
fn optional_time(ms: Option<i64>) -> Option<Option<Timestamp>> {
    match ms {
        None => Some(None),
        Some(ms) => stored_time(ms).map(Some),
    }
}

fn names_to_json(allowance: &Allowance) -> Option<String> {
    match allowance {
        Allowance::All => None,
        Allowance::Only(names) => Some(serde_json::Value::from(names.as_slice()).to_string()),
    }
}

/// An empty list is refused: it allows nothing, and would come out as all.
fn names_from_json(json: Option<&str>) -> Option<Allowance> {
    let Some(json) = json else {
        return Some(Allowance::All);
    };
    let names: Vec<String> = serde_json::from_str(json).ok()?;
    (!names.is_empty()).then(|| allowance(names))
}
