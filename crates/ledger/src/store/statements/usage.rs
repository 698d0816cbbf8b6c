//! What a key was given and has used, and single requests.

use super::Statements;
use crate::{
    clock::Timestamp,
    history::{ModelTotal, UsageSummary},
    report::RequestRecord,
    store::{
        rows::{self, RECORD, StoredRow},
        stored_values::storable_time,
    },
};
use tollgate_types::{KeyId, RequestId};

/// What a key was given and has used.
pub(crate) fn summary<S: Statements>(
    file: &mut S,
    key: &KeyId,
    now: Timestamp,
) -> Result<UsageSummary, S::Fault> {
    let summary = read_grants(file, key, now)?;
    let models = read_totals(file, key)?;
    Ok(UsageSummary { models, ..summary })
}

fn read_grants<S: Statements>(
    file: &mut S,
    key: &KeyId,
    now: Timestamp,
) -> Result<UsageSummary, S::Fault> {
    let [tokens, money] = ["tokens", "money"].map(|unit| {
        let sum = |column: &str| {
            format!(
                "CAST(coalesce(sum({column}) FILTER (WHERE lasts AND unit = '{unit}'), 0) AS bigint)"
            )
        };
        let sums = ["tokens", "spent", "leased"].map(sum).join(", ");
        format!("count(*) FILTER (WHERE unit = '{unit}'), {sums}")
    });
    let sql = format!(
        "SELECT min(first_used_at) FILTER (WHERE lasts), max(expires_at) FILTER (WHERE lasts),
                count(*) > 0 AND count(*) FILTER (WHERE lasts) = 0, {tokens}, {money}
         FROM (SELECT first_used_at, expires_at, unit, tokens, spent,
                      coalesce(expires_at > ?2, TRUE) AS lasts,
                      (SELECT sum(leases.tokens) FROM leases WHERE grant_number = number) AS leased
               FROM grants WHERE key = (SELECT number FROM keys WHERE id = ?1)) AS judged"
    );
    file.one(&sql, &[&key.as_str(), &storable_time(now)], |row| {
        rows::summary(row)
    })
}

fn read_totals<S: Statements>(file: &mut S, key: &KeyId) -> Result<Vec<ModelTotal>, S::Fault> {
    file.all(
        "SELECT model, requests, input, cache_read, cache_write, output, charged, cost
         FROM totals WHERE key = (SELECT number FROM keys WHERE id = ?1)
         ORDER BY model LIMIT 1000",
        &[&key.as_str()],
        |row| rows::model_total(row),
    )
}

/// The record of a request, with its key. Only records from the time `earliest` on are searched.
pub(crate) fn request<S: Statements>(
    file: &mut S,
    id: &RequestId,
    earliest: i64,
) -> Result<Option<RequestRecord>, S::Fault> {
    let sql = format!(
        "SELECT {RECORD}, keys.id, keys.name, keys.plan
         FROM usage JOIN keys ON keys.number = usage.key WHERE request = ?1 AND at >= ?2"
    );
    file.first(&sql, &[&id.as_str(), &earliest], |row| {
        Ok(RequestRecord {
            record: rows::record(row)?,
            key: row.key_id(23)?,
            key_name: row.read(24)?,
            plan: row.read(25)?,
        })
    })
}
