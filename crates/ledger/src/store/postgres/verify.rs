//! Proving that grants, charges and balances add up.

use super::{answers, connection::Session, grants, unsigned};
use crate::store::Verification;

/// The most faults of a rule that are reported one by one.
const MAX_FAULTS: usize = 100;

/// The rules: words, and a query for the ids and amounts that break the rule.
const RULES: &[(&str, &str)] = &[
    (
        "a grant is spent beyond what was given, or below zero",
        "SELECT id, spent || ' of ' || tokens FROM grants
         WHERE spent NOT BETWEEN 0 AND tokens",
    ),
    (
        "a grant's charges do not add up to what is spent of it",
        "SELECT id, (charged + purged) || ' charged, ' || spent || ' spent' FROM (
             SELECT id, spent, purged, coalesce(charged, 0) AS charged
             FROM grants LEFT JOIN (
                 SELECT grant_number, sum(tokens) AS charged FROM (
                     SELECT paid_by AS grant_number, charged - overdraft AS tokens FROM usage
                     WHERE paid_by IS NOT NULL
                     UNION ALL
                     SELECT cost_paid_by, cost - cost_overdraft FROM usage
                     WHERE cost_paid_by IS NOT NULL
                     UNION ALL
                     SELECT grant_number, tokens FROM charges
                 ) AS paid GROUP BY grant_number
             ) AS charges_of ON grant_number = number
         ) AS sums WHERE charged + purged <> spent",
    ),
    (
        "a grant is leased beyond what is left of it",
        "SELECT id, held || ' leased, ' || (tokens - spent) || ' left'
         FROM grants JOIN (
             SELECT grant_number, sum(tokens) AS held FROM leases GROUP BY grant_number
         ) AS leased ON grant_number = number
         WHERE held > tokens - spent",
    ),
    (
        "a process that has ended holds a lease",
        "SELECT settlements, leases.tokens || ' leased'
         FROM leases JOIN processes ON processes.number = process
         WHERE ended_at IS NOT NULL AND leases.tokens > 0",
    ),
    (
        "a request's charges do not add up",
        "SELECT request, charged || ' charged, ' || overdraft || ' overdraft, '
                || coalesce(paid, 0) || ' paid by several'
         FROM usage LEFT JOIN (
             SELECT usage AS charged_usage, sum(charges.tokens) AS paid
             FROM charges JOIN grants ON grants.number = grant_number AND unit = 'tokens'
             GROUP BY usage
         ) AS parts ON charged_usage = number
         WHERE charged < overdraft
             OR charged <> overdraft + coalesce(paid, 0)
                 + CASE WHEN paid_by IS NULL THEN 0 ELSE charged - overdraft END",
    ),
    (
        "what a request is charged in money does not add up",
        "SELECT request, coalesce(cost, 0) || ' cost, ' || coalesce(cost_overdraft, 0)
                || ' overdraft, ' || coalesce(paid, 0) || ' paid by several'
         FROM usage LEFT JOIN (
             SELECT usage AS charged_usage, sum(charges.tokens) AS paid
             FROM charges JOIN grants ON grants.number = grant_number AND unit = 'money'
             GROUP BY usage
         ) AS parts ON charged_usage = number
         WHERE coalesce(cost, 0) < coalesce(cost_overdraft, 0)
             OR coalesce(paid, 0) + CASE WHEN cost_paid_by IS NULL THEN 0 ELSE cost - cost_overdraft END
                 <> coalesce(cost - cost_overdraft, 0)",
    ),
    (
        "what a key's totals by model say it was charged is not what is spent of its grants",
        "SELECT id, (charged - overdraft) || ' tokens and ' || cost_paid || ' of money by model, '
                || coalesce(tokens_spent, 0) || ' and ' || coalesce(money_spent, 0) || ' spent'
         FROM keys
         JOIN (
             SELECT key AS charged_key, sum(charged) AS charged, sum(overdraft) AS overdraft,
                    sum(cost_paid) AS cost_paid
             FROM (SELECT key, charged, overdraft, cost_paid FROM totals
                   UNION ALL SELECT key, 0, 0, 0 FROM grants) AS both_of
             GROUP BY key
         ) AS by_model ON charged_key = number
         LEFT JOIN (
             SELECT key AS spent_key, sum(spent) FILTER (WHERE unit = 'tokens') AS tokens_spent,
                    sum(spent) FILTER (WHERE unit = 'money') AS money_spent
             FROM grants GROUP BY key
         ) AS by_grant ON spent_key = number
         WHERE charged - overdraft <> coalesce(tokens_spent, 0)
             OR cost_paid <> coalesce(money_spent, 0)",
    ),
    (
        "the costs in a key's records exceed its total of the model",
        "SELECT id, model || ': ' || costs || ' in records, ' || cost || ' in total'
         FROM totals
         JOIN keys ON number = totals.key
         JOIN (
             SELECT key AS of_key, model_served AS of_model, sum(cost) AS costs
             FROM usage GROUP BY key, model_served
         ) AS recorded ON of_key = totals.key AND of_model = model
         WHERE costs > cost",
    ),
    (
        "a grant's time is set without its first use, or the other way round",
        "SELECT id, coalesce(first_used_at, 0) || ' to ' || coalesce(expires_at, 0) FROM grants
         WHERE (first_used_at IS NULL) <> (expires_at IS NULL)",
    ),
    (
        "the bytes of a key's remembered answers (of all keys, if none is named) do not add up",
        "SELECT key, bytes || ' counted, ' || coalesce(stored, 0) || ' stored'
         FROM memory_bytes LEFT JOIN (
             SELECT key AS stored_key, sum(bytes) AS stored FROM memory GROUP BY key
             UNION ALL SELECT '', sum(bytes) FROM memory
         ) AS stored_by_key ON stored_key = key
         WHERE bytes <> coalesce(stored, 0)",
    ),
    (
        "a record could not be entered",
        "SELECT number::text, cause FROM quarantine",
    ),
];

pub(super) fn verify(snapshot: &mut Session) -> Result<Verification, postgres::Error> {
    // Reading all rows takes its time.
    snapshot.batch("SET LOCAL statement_timeout = 0")?;
    let row = snapshot.query_one(
        "SELECT (SELECT count(*) FROM grants), (SELECT count(*) FROM usage)",
        &[],
    )?;
    let mut found = Verification {
        grants: unsigned(&row, 0)?,
        requests: unsigned(&row, 1)?,
        ..Verification::default()
    };
    let sums =
        "SELECT unit, sum(tokens)::bigint, sum(spent)::bigint, sum(coalesce(held, 0))::bigint
         FROM grants LEFT JOIN (
             SELECT grant_number, sum(tokens) AS held FROM leases GROUP BY grant_number
         ) AS leased ON grant_number = number GROUP BY unit";
    for row in snapshot.query(sums, &[])? {
        let sums = [unsigned(&row, 1)?, unsigned(&row, 2)?, unsigned(&row, 3)?];
        found.set_sums(grants::unit(&row, 0)?, sums);
    }
    for (words, query) in RULES {
        let rows = snapshot.query(&format!("{query} LIMIT {MAX_FAULTS}"), &[])?;
        for row in &rows {
            let (id, what): (String, String) = (row.try_get(0)?, row.try_get(1)?);
            found.faults.push(format!("{words}: {id} ({what})"));
        }
        if rows.len() == MAX_FAULTS {
            let more = format!("{words}: there may be more than these {MAX_FAULTS}");
            found.faults.push(more);
        }
    }
    let damaged = answers::count_damaged(snapshot)?;
    if damaged > 0 {
        found.warnings.push(format!(
            "{damaged} remembered answers are damaged: requests that refer to them get 404"
        ));
    }
    Ok(found)
}
