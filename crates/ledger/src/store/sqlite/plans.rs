//! Which plans the keys of a file have that a configuration does not know.

use super::{error::Described, keys::GRANTED_UNTIL, open::open_reader, storable_time};
use crate::{Timestamp, store::StoreError};
use std::path::Path;

/// A plan that keys have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanInUse {
    /// Its name.
    pub plan: String,
    /// How many keys have it that work.
    pub keys: u32,
}

/// The plans of keys that work at `now` (neither revoked nor expired), apart from those that are
/// `known`: the ones of most keys first, at most `most` of them. Reads every key once and blocks no
/// writer. Makes no file and brings none up to date.
///
/// # Errors
/// There is no file, or it cannot be read.
pub fn plans_beyond(
    path: &Path,
    known: &[&str],
    most: u32,
    now: Timestamp,
) -> Result<Vec<PlanInUse>, StoreError> {
    let known = serde_json::Value::from(known).to_string();
    let file = open_reader(path)?;
    let read = || -> rusqlite::Result<Vec<PlanInUse>> {
        // Those that work as in `KeyRecord::state`; the grants last, for they are looked up by key.
        let mut query = file.prepare(&format!(
            "SELECT plan, count(*) AS keys FROM keys
             WHERE plan IS NOT NULL AND revoked_at IS NULL
                 AND plan NOT IN (SELECT value FROM json_each(?1))
                 AND coalesce(expires_at > ?3, TRUE) AND coalesce({GRANTED_UNTIL} > ?3, TRUE)
             GROUP BY plan ORDER BY keys DESC, plan LIMIT ?2",
        ))?;
        let rows = query.query_map((known, most, storable_time(now)), |row| {
            Ok(PlanInUse {
                plan: row.get(0)?,
                keys: row.get(1)?,
            })
        })?;
        rows.collect()
    };
    read().described(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Clock, KeyHasher, KeySelector, NewKey, Store};
    use tempfile::TempDir;

    #[test]
    fn unknown_plans_are_reported_with_the_keys_that_have_them() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("ledger.db");
        assert!(plans_beyond(&path, &[], 9, Clock::system().now()).is_err());
        assert!(!path.exists());
        let hasher = KeyHasher::new(b"a pepper for tests").unwrap();
        let store = Store::open(&path, hasher, Clock::system()).unwrap();
        let make = |plan: Option<&str>| {
            let new = NewKey {
                plan: plan.map(str::to_owned),
                ..NewKey::named("x")
            };
            store.create_key(&new).unwrap().record
        };
        for plan in [None, Some("a"), Some("b"), Some("b"), Some("c/{d}")] {
            make(plan);
        }
        let reported = |known: &[&str], most| {
            let found = plans_beyond(&path, known, most, store.clock().now()).unwrap();
            let pairs = found.into_iter().map(|it| (it.plan, it.keys));
            pairs.collect::<Vec<_>>()
        };
        let of = |plan: &str, keys: u32| (plan.to_owned(), keys);
        assert_eq!(reported(&["b", "c/{d}", "d"], 9), [of("a", 1)]);
        assert_eq!(reported(&[], 2), [of("b", 2), of("a", 1)]);
        assert_eq!(reported(&["a", "b", "c/{d}"], 9), []);
        let gone = make(Some("gone"));
        store
            .revoke_key(&KeySelector::Id(gone.id().clone()))
            .unwrap();
        assert_eq!(reported(&["a", "b", "c/{d}"], 9), []);
        let end = store.clock().now().plus(std::time::Duration::from_secs(60));
        let trial = NewKey {
            plan: Some("trial".to_owned()),
            expires_at: Some(end),
            ..NewKey::named("x")
        };
        store.create_key(&trial).unwrap();
        let at = |now| plans_beyond(&path, &["a", "b", "c/{d}"], 9, now).unwrap();
        assert_eq!(at(store.clock().now()).len(), 1);
        assert_eq!(at(end), []);
    }
}
