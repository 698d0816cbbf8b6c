//! Which plans the keys of a file have that a configuration does not know.

use super::{
    error::{Described, StoreError},
    open_reader,
};
use std::path::Path;

/// A plan that keys have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanInUse {
    /// Its name.
    pub plan: String,
    /// How many keys have it that were not revoked.
    pub keys: u32,
}

/// The plans of keys that were not revoked, apart from those that are `known`: the ones of most
/// keys first, `most` of them. Reads every key once, over a connection of its own, so that it
/// neither waits for whoever writes nor holds them up; neither makes a file nor brings one up
/// to date.
///
/// # Errors
/// There is no file, or it cannot be read.
pub fn plans_beyond(path: &Path, known: &[&str], most: u32) -> Result<Vec<PlanInUse>, StoreError> {
    let known = serde_json::Value::from(known).to_string();
    let file = open_reader(path)?;
    let read = || -> rusqlite::Result<Vec<PlanInUse>> {
        let mut query = file.prepare(
            "SELECT plan, count(*) AS keys FROM keys
             WHERE plan IS NOT NULL AND revoked_at IS NULL
                 AND plan NOT IN (SELECT value FROM json_each(?1))
             GROUP BY plan ORDER BY keys DESC, plan LIMIT ?2",
        )?;
        let rows = query.query_map((known, most), |row| {
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
    fn plans_that_are_not_known_are_told_with_the_keys_that_have_them() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("ledger.db");
        assert!(plans_beyond(&path, &[], 9).is_err());
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
        let told = |known: &[&str], most| {
            let found = plans_beyond(&path, known, most).unwrap();
            let pairs = found.into_iter().map(|it| (it.plan, it.keys));
            pairs.collect::<Vec<_>>()
        };
        let of = |plan: &str, keys: u32| (plan.to_owned(), keys);
        assert_eq!(told(&["b", "c/{d}", "d"], 9), [of("a", 1)]);
        assert_eq!(told(&[], 2), [of("b", 2), of("a", 1)]);
        assert_eq!(told(&["a", "b", "c/{d}"], 9), []);
        let gone = make(Some("gone"));
        store
            .revoke_key(&KeySelector::Id(gone.id().clone()))
            .unwrap();
        assert_eq!(told(&["a", "b", "c/{d}"], 9), []);
    }
}
