//! Proving that grants, charges and balances add up.

use super::{
    Sqlite, answers,
    commits::{self, Commits},
    error::Described,
    grants,
    open::open_reader,
    sequence::{Known, Sequence},
    sums,
};
use crate::store::{StoreError, Verification};
use rusqlite::Connection;

/// What to do about a file beside the database that does not have the number of the last commit.
const MENDS: &str = "If the database is the right one, the next start of a gateway or \
     `tollgate ledger accept-loss` writes the file anew";

/// The most faults of a rule that are reported one by one.
const MAX_FAULTS: u32 = 100;

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
                 ) GROUP BY grant_number
             ) ON grant_number = number
         ) WHERE charged + purged <> spent",
    ),
    (
        "a grant is leased beyond what is left of it",
        "SELECT id, held || ' leased, ' || (tokens - spent) || ' left'
         FROM grants JOIN (
             SELECT grant_number, sum(tokens) AS held FROM leases GROUP BY grant_number
         ) ON grant_number = number
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
         ) ON charged_usage = number
         WHERE charged < overdraft
             OR charged <> overdraft + coalesce(paid, 0)
                 + iif(paid_by IS NULL, 0, charged - overdraft)",
    ),
    (
        "what a request is charged in money does not add up",
        "SELECT request, coalesce(cost, 0) || ' cost, ' || coalesce(cost_overdraft, 0)
                || ' overdraft, ' || coalesce(paid, 0) || ' paid by several'
         FROM usage LEFT JOIN (
             SELECT usage AS charged_usage, sum(charges.tokens) AS paid
             FROM charges JOIN grants ON grants.number = grant_number AND unit = 'money'
             GROUP BY usage
         ) ON charged_usage = number
         WHERE coalesce(cost, 0) < coalesce(cost_overdraft, 0)
             OR coalesce(paid, 0) + iif(cost_paid_by IS NULL, 0, cost - cost_overdraft)
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
                   UNION ALL SELECT key, 0, 0, 0 FROM grants)
             GROUP BY key
         ) ON charged_key = number
         LEFT JOIN (
             SELECT key AS spent_key, sum(spent) FILTER (WHERE unit = 'tokens') AS tokens_spent,
                    sum(spent) FILTER (WHERE unit = 'money') AS money_spent
             FROM grants GROUP BY key
         ) ON spent_key = number
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
         ) ON of_key = totals.key AND of_model = model
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
         ) ON stored_key = key
         WHERE bytes <> coalesce(stored, 0)",
    ),
    (
        "a record could not be entered",
        "SELECT number, cause FROM quarantine",
    ),
];

impl Sqlite {
    /// Reads the whole file, over a connection of its own, so that it blocks no writer.
    pub(super) fn verify_file(&self) -> Result<Verification, StoreError> {
        // Read before the snapshot, which then has every commit that this number counts.
        let sequence = Sequence::beside(&self.path);
        let known = sequence.read()?;
        let file = open_reader(&self.path)?;
        let mut found = verify(&file, known).described(&self.path)?;
        match known {
            Known::Commits(_) => {}
            Known::Damaged => found.faults.push(format!(
                "{} is damaged: lost commits cannot be detected. {MENDS}",
                sequence.path().display()
            )),
            Known::Nothing => found.warnings.push(format!(
                "{} is missing: lost commits cannot be detected. {MENDS}",
                sequence.path().display()
            )),
        }
        Ok(found)
    }

    /// Takes the rows that are in the file for the committed ones.
    pub(super) fn accept_rows(&self) -> Result<(), StoreError> {
        let difference = self.read(|file| {
            let snapshot = file.unchecked_transaction()?;
            let sums = sums::of_all_rows(&snapshot)?;
            Ok(sums.minus(&commits::read(&snapshot)?.sums))
        })?;
        let writer = self.writer.lock();
        writer.correct_sums(&difference).described(&self.path)
    }
}

fn verify(file: &Connection, known: Known) -> rusqlite::Result<Verification> {
    let snapshot = file.unchecked_transaction()?;
    let mut found = totals(&snapshot)?;
    found.faults.extend(structure(&snapshot)?);
    found.faults.extend(broken_rules(&snapshot)?);
    let damaged = answers::count_damaged(&snapshot)?;
    if damaged > 0 {
        found.warnings.push(format!(
            "{damaged} remembered answers are damaged: requests that refer to them get 404"
        ));
    }
    let commits = commits::read(&snapshot)?;
    found.faults.extend(missing(&commits, known));
    let sums = sums::of_all_rows(&snapshot)?;
    let changed = sums.different(&commits.sums).into_iter();
    let words = "is not as it was committed: it is damaged, or was changed by hand";
    found
        .faults
        .extend(changed.map(|table| format!("a row of {table} {words}")));
    Ok(found)
}

fn missing(commits: &Commits, known: Known) -> Option<String> {
    let Known::Commits(known) = known else {
        return None;
    };
    let missing = known.checked_sub(commits.number).filter(|it| *it > 0)?;
    Some(format!(
        "commits are missing: {missing} of {known} are not in the file"
    ))
}

fn broken_rules(snapshot: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut found = Vec::new();
    for (words, query) in RULES {
        let sql = format!("{query} LIMIT {MAX_FAULTS}");
        let mut rows = snapshot.prepare(&sql)?;
        let faults = rows.query_map([], |row| {
            let id: rusqlite::types::Value = row.get(0)?;
            let what: String = row.get(1)?;
            Ok(format!("{words}: {} ({what})", shown(&id)))
        })?;
        let before = found.len();
        for fault in faults {
            found.push(fault?);
        }
        if found.len().saturating_sub(before) == MAX_FAULTS as usize {
            found.push(format!(
                "{words}: there may be more than these {MAX_FAULTS}"
            ));
        }
    }
    Ok(found)
}

fn shown(id: &rusqlite::types::Value) -> String {
    match id {
        rusqlite::types::Value::Text(text) => text.clone(),
        rusqlite::types::Value::Integer(number) => number.to_string(),
        _ => "?".to_owned(),
    }
}

fn totals(file: &Connection) -> rusqlite::Result<Verification> {
    let count = |sql: &str| file.query_row(sql, [], |row| row.get::<_, i64>(0));
    let mut found = Verification {
        grants: count("SELECT count(*) FROM grants")?.unsigned_abs(),
        requests: count("SELECT count(*) FROM usage")?.unsigned_abs(),
        ..Verification::default()
    };
    let mut sums = file.prepare(
        "SELECT unit, sum(tokens), sum(spent), sum(coalesce(held, 0))
         FROM grants LEFT JOIN (
             SELECT grant_number, sum(tokens) AS held FROM leases GROUP BY grant_number
         ) ON grant_number = number GROUP BY unit",
    )?;
    let mut rows = sums.query([])?;
    while let Some(row) = rows.next()? {
        let sum = |place| row.get::<_, i64>(place).map(i64::unsigned_abs);
        found.set_sums(grants::unit(row, 0)?, [sum(1)?, sum(2)?, sum(3)?]);
    }
    Ok(found)
}

/// What SQLite itself finds: damaged pages, indexes and references.
fn structure(file: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut faults = Vec::new();
    let mut check = file.prepare("PRAGMA integrity_check(100)")?;
    let lines = check.query_map([], |row| row.get::<_, String>(0))?;
    for line in lines {
        let line = line?;
        if line != "ok" {
            faults.push(format!("the file is damaged: {line}"));
        }
    }
    let mut references = file.prepare("PRAGMA foreign_key_check")?;
    let broken = references.query_map([], |row| row.get::<_, String>(0))?;
    for table in broken.take(100) {
        faults.push(format!("a reference in {} leads nowhere", table?));
    }
    Ok(faults)
}
