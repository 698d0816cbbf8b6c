//! The rows of shares of limits. What the shares are is decided in `limits::allotment`.

use super::connection::Session;
use crate::limits::allotment::{Allotment, Claim, Division, Lease, WHOLE};
use postgres::Error;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// The name of no process, for what none has.
const FREE: &str = "";

/// A row, in JSON: a whole batch is one value then.
#[derive(Deserialize, Serialize)]
struct ShareRow {
    key: String,
    node: String,
    #[serde(flatten)]
    allotment: Allotment,
}

/// Applies claims of different keys.
pub(super) fn claim(
    session: &mut Session,
    node: &str,
    claims: &[Claim],
) -> Result<Vec<Lease>, Error> {
    let keys: Vec<&str> = claims.iter().map(|it| it.key.as_str()).collect();
    let (mut divisions, now_ms) = read(session, node, &keys)?;
    let (mut leases, mut rows, mut gone) = (Vec::new(), Vec::new(), (Vec::new(), Vec::new()));
    for claim in claims {
        let key = claim.key.as_str().to_owned();
        let mut division = divisions.remove(&key).unwrap_or_default();
        let (lease, mut ended) = division.apply(claim, now_ms);
        leases.push(lease);
        let Division { free, own, .. } = division;
        let is_over = claim.is_last && free.parts == WHOLE && free.debts == [0; 3];
        for (name, allotment, is_over) in [(node, own, claim.is_last), (FREE, free, is_over)] {
            match is_over {
                true => ended.push(name.to_owned()),
                false => rows.push(ShareRow {
                    key: key.clone(),
                    node: name.to_owned(),
                    allotment,
                }),
            }
        }
        gone.0.extend(ended.iter().map(|_| key.clone()));
        gone.1.append(&mut ended);
    }
    session.execute(
        "INSERT INTO limit_shares
         SELECT * FROM json_populate_recordset(NULL::limit_shares, $1::text::json)
         ON CONFLICT (key, node) DO UPDATE SET
             (parts, debts, demand, is_refused, running, at_ms) =
             (excluded.parts, excluded.debts, excluded.demand, excluded.is_refused,
              excluded.running, excluded.at_ms)",
        &[&serde_json::to_string(&rows).unwrap_or_default()],
    )?;
    if !gone.0.is_empty() {
        session.execute(
            "DELETE FROM limit_shares USING unnest($1::text[], $2::text[]) AS gone (key, node)
             WHERE limit_shares.key = gone.key AND limit_shares.node = gone.node",
            &[&gone.0, &gone.1],
        )?;
    }
    Ok(leases)
}

/// Locks the keys, in one order for all processes. Returns their shares and the time of the database.
fn read(
    session: &mut Session,
    node: &str,
    keys: &[&str],
) -> Result<(HashMap<String, Division>, u64), Error> {
    session.execute(
        "INSERT INTO limit_shares AS free
         SELECT key, '', $2, '{0,0,0}', 0, FALSE, 0, 0
         FROM (SELECT unnest($1::text[]) COLLATE \"C\" AS key) AS claimed ORDER BY key
         ON CONFLICT (key, node) DO UPDATE SET parts = free.parts",
        &[&keys, &i64::from(WHOLE)],
    )?;
    let found = session.query_one(
        "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint,
                coalesce(json_agg(limit_shares), '[]')::text
         FROM limit_shares WHERE key = ANY($1)",
        &[&keys],
    )?;
    // The checks of the table leave no other rows.
    let rows: Vec<ShareRow> = serde_json::from_str(found.try_get(1)?).unwrap_or_default();
    let mut divisions: HashMap<String, Division> = HashMap::new();
    for row in rows {
        let division = divisions.entry(row.key).or_default();
        match row.node.as_str() {
            FREE => division.free = row.allotment,
            own if own == node => division.own = row.allotment,
            _ => division.others.push((row.node, row.allotment)),
        }
    }
    Ok((divisions, super::unsigned(&found, 0)?))
}

/// Deletes the shares of keys that were not claimed for so long that no debt is left.
pub(super) fn purge(session: &mut Session) -> Result<u64, Error> {
    session.execute(
        "DELETE FROM limit_shares WHERE key IN (
             SELECT key FROM limit_shares
             WHERE node = '' AND at_ms < extract(epoch FROM now()) * 1000 - 900000
             FOR UPDATE SKIP LOCKED)",
        &[],
    )
}
