//! What a verification of the database found.

use schemars::JsonSchema;
use serde::Serialize;
use tollgate_types::{Money, Unit};

/// The most faults of a rule that are reported one by one.
pub(super) const MAX_FAULTS: usize = 100;

/// The rules: words, and a query for the ids and amounts that break the rule. SQLite and PostgreSQL both
/// understand the queries.
pub(super) const RULES: &[(&str, &str)] = &[
    (
        "a grant is spent beyond what was given, or below zero",
        "SELECT id, spent || ' of ' || tokens FROM grants
         WHERE spent NOT BETWEEN 0 AND tokens",
    ),
    (
        "a grant's charges do not add up to what is spent of it",
        "SELECT id, (charged + purged) || ' charged, ' || spent || ' spent' FROM (
             SELECT id, spent, purged, coalesce(charged, 0) AS charged
             FROM spent_grants LEFT JOIN (
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
        "SELECT CAST(number AS text), cause FROM quarantine",
    ),
];

/// What was given, charged and leased, by unit: of each the billions and the rest, because a sum in nano-units
/// may exceed 63 bits.
pub(super) const SUMS: &str =
    "SELECT unit, CAST(sum(tokens / 1000000000) AS bigint), CAST(sum(tokens % 1000000000) AS bigint),
            CAST(sum(spent / 1000000000) AS bigint), CAST(sum(spent % 1000000000) AS bigint),
            CAST(sum(coalesce(held, 0) / 1000000000) AS bigint),
            CAST(sum(coalesce(held, 0) % 1000000000) AS bigint)
     FROM grants LEFT JOIN (
         SELECT grant_number, CAST(sum(tokens) AS bigint) AS held FROM leases GROUP BY grant_number
     ) AS leased ON grant_number = number GROUP BY unit";

/// What a verification found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Verification {
    /// Grants looked at.
    pub grants: u64,
    /// Records of requests looked at.
    pub requests: u64,
    /// Tokens given.
    pub granted: u64,
    /// Tokens charged.
    pub spent: u64,
    /// Tokens leased to processes.
    pub leased: u64,
    /// Money given; sums beyond 18,446,744,073 units are shown as that.
    pub money_granted: Money,
    /// Money charged.
    pub money_spent: Money,
    /// Money leased to processes.
    pub money_leased: Money,
    /// What does not add up, in words; empty if everything does.
    pub faults: Vec<String>,
    /// What verification could not check, in words, with what to do.
    pub warnings: Vec<String>,
}

impl Verification {
    /// Reads what was given, charged and leased in a unit behind the first column of [`SUMS`].
    pub(super) fn read_sums<E>(
        &mut self,
        unit: Unit,
        column: impl Fn(usize) -> Result<u64, E>,
    ) -> Result<(), E> {
        let sum = |place| {
            let billions = column(place)?.saturating_mul(1_000_000_000);
            Ok(billions.saturating_add(column(place + 1)?))
        };
        let [granted, spent, leased] = [sum(1)?, sum(3)?, sum(5)?];
        match unit {
            Unit::Tokens => [self.granted, self.spent, self.leased] = [granted, spent, leased],
            Unit::Money => {
                [self.money_granted, self.money_spent, self.money_leased] =
                    [granted, spent, leased].map(Money::from_nanos);
            }
        }
        Ok(())
    }

    /// Adds what breaks a rule.
    pub(super) fn add_faults(&mut self, words: &str, broken: &[(String, String)]) {
        let faults = broken
            .iter()
            .map(|(id, what)| format!("{words}: {id} ({what})"));
        self.faults.extend(faults);
        if broken.len() == MAX_FAULTS {
            let more = format!("{words}: there may be more than these {MAX_FAULTS}");
            self.faults.push(more);
        }
    }

    /// Warns of remembered answers that are damaged.
    pub(super) fn add_damaged(&mut self, damaged: u64) {
        if damaged > 0 {
            self.warnings.push(format!(
                "{damaged} remembered answers are damaged: requests that refer to them get 404"
            ));
        }
    }

    /// Whether everything adds up.
    pub fn holds(&self) -> bool {
        self.faults.is_empty()
    }
}
