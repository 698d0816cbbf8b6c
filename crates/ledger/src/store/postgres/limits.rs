//! Shares of the limits of keys, which `lease_limits` in the schema computes.

use super::connection::Session;
use crate::{
    limits::{LimitClaim, LimitLease, Part},
    store::rows::StoredRow,
};
use postgres::{Error, Row};

/// Claims as the database reads them.
pub(super) struct Report {
    buckets: Vec<i32>,
    claims: String,
}

impl Report {
    pub(super) fn of(claims: &[LimitClaim]) -> Result<Self, serde_json::Error> {
        Ok(Self {
            buckets: claims.iter().map(LimitClaim::bucket).collect(),
            claims: serde_json::to_string(claims)?,
        })
    }
}

/// Returns one answer for each claim, in their order.
pub(super) fn lease(
    session: &mut Session,
    node: &str,
    expected: u32,
    report: &Report,
) -> Result<Vec<LimitLease>, Error> {
    let leased = session.query(
        "SELECT part, debt, leased FROM lease_limits($1, $2, $3, $4::text::json)",
        &[&node, &i64::from(expected), &report.buckets, &report.claims],
    )?;
    let lease = |row: &Row| {
        Ok(LimitLease {
            part: Part::billionths(row.amount(0)?),
            debt: row.amount(1)?,
            leased: row.amount(2)?,
        })
    };
    leased.iter().map(lease).collect()
}

/// Deletes what was not reported for so long that nothing is owed.
pub(super) fn purge(session: &mut Session) -> Result<u64, Error> {
    session.execute(
        "WITH old AS (
             SELECT extract(epoch FROM now()) * 1000 - 900000 AS ms
         ), debts AS (
             DELETE FROM limit_debts WHERE ctid IN (
                 SELECT limit_debts.ctid FROM limit_debts, old WHERE at_ms < ms
                 FOR UPDATE OF limit_debts SKIP LOCKED)
         )
         DELETE FROM limit_leases WHERE ctid IN (
             SELECT limit_leases.ctid FROM limit_leases, old WHERE at_ms < ms
             FOR UPDATE OF limit_leases SKIP LOCKED)",
        &[],
    )
}
