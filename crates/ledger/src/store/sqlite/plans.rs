//! Which plans the keys of a file have that a configuration does not know.

use super::{error::Described, open::open_reader, storable_time};
use crate::{
    Timestamp,
    store::{
        PlanInUse, StoreError,
        rows::{self, GRANTED_UNTIL},
    },
};
use rusqlite::Connection;
use std::path::Path;

/// As [`crate::Store::plans_beyond`], of a file. Makes no file and brings none up to date.
///
/// # Errors
/// There is no file, or it cannot be read.
pub fn plans_beyond(
    path: &Path,
    known: &[&str],
    most: u32,
    now: Timestamp,
) -> Result<Vec<PlanInUse>, StoreError> {
    let file = open_reader(path)?;
    select(&file, known, most, now).described(path)
}

/// The plans of keys that work at `now`, apart from those that are `known`.
pub(super) fn select(
    file: &Connection,
    known: &[&str],
    most: u32,
    now: Timestamp,
) -> rusqlite::Result<Vec<PlanInUse>> {
    let known = serde_json::Value::from(known).to_string();
    let mut query = file.prepare(&statement())?;
    query
        .query_map((known, most, storable_time(now)), |row| rows::plan(row))?
        .collect()
}

/// From one plan to the next by their index: there may be a million keys, and each start asks.
fn statement() -> String {
    // Keys that work as in `KeyRecord::state`; the grants last, for they are looked up by key.
    format!(
        "WITH RECURSIVE plans (known) AS (
             SELECT min(plan) FROM keys
             UNION ALL
             SELECT (SELECT min(plan) FROM keys WHERE plan > known) FROM plans
             WHERE known IS NOT NULL)
         SELECT plan, count(*) AS keys FROM plans CROSS JOIN keys ON plan = known
         WHERE known NOT IN (SELECT value FROM json_each(?1)) AND revoked_at IS NULL
             AND coalesce(expires_at > ?3, TRUE) AND coalesce({GRANTED_UNTIL} > ?3, TRUE)
         GROUP BY plan ORDER BY keys DESC, plan LIMIT ?2"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Clock, KeyHasher, NewKey, Store};
    use tempfile::TempDir;

    #[test]
    fn the_plans_of_a_file_are_read_and_no_file_is_made() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("ledger.db");
        let now = Clock::system().now();
        assert!(plans_beyond(&path, &[], 9, now).is_err());
        assert!(!path.exists());
        let hasher = KeyHasher::new(b"a pepper for tests").unwrap();
        let store = Store::open(&path, hasher, Clock::system()).unwrap();
        let new = NewKey {
            plan: Some("a".to_owned()),
            ..NewKey::named("x")
        };
        store.create_key(&new).unwrap();
        assert_eq!(plans_beyond(&path, &[], 9, now).unwrap()[0].plan, "a");
        assert_eq!(plans_beyond(&path, &["a"], 9, now).unwrap(), []);
    }

    #[test]
    fn the_keys_of_known_plans_are_not_read() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("ledger.db");
        let hasher = KeyHasher::new(b"a pepper for tests").unwrap();
        let _store = Store::open(&path, hasher, Clock::system()).unwrap();
        let file = open_reader(&path).unwrap();
        let plan: Vec<String> = file
            .prepare(&format!("EXPLAIN QUERY PLAN {}", statement()))
            .unwrap()
            .query_map(("[]", 9, 1), |row| row.get(3))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        let of_keys: Vec<&String> = plan.iter().filter(|step| step.contains(" keys")).collect();
        let by_plan = |step: &&String| step.contains("INDEX keys_by_plan");
        assert!(
            of_keys.len() == 3
                && of_keys.iter().all(by_plan)
                && !plan.concat().contains("SCAN keys"),
            "{plan:#?}"
        );
    }
}
