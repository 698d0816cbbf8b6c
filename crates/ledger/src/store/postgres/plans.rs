//! Finds the plans of keys that a configuration lacks.

use super::{connection::Session, storable_time};
use crate::{
    clock::Timestamp,
    store::{
        PlanInUse,
        rows::{self, GRANTED_UNTIL},
    },
};

/// The plans of active keys, except the `known` ones. The query jumps from plan to plan in their index, as in
/// SQLite.
pub(super) fn select(
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
