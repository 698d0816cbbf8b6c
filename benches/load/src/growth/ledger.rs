//! Fills a ledger with keys and records, past the gateway: a million keys through its API would take an hour.
//!
//! The sums of rows are not updated, so `ledger verify` would report these rows. Nothing else reads
//! the sums.

use std::path::Path;

use rusqlite::{Connection, params};
use tollgate_ledger::{ApiKey, KeyHasher};

use super::dimension::PEPPER;
use crate::failure::{Failure, Result};

/// Milliseconds over which a history extends: thirty days.
const HISTORY_MS: i64 = 30 * 24 * 60 * 60 * 1000;
/// Pages that are kept in memory meanwhile, in KiB.
const CACHE_KIB: i64 = 1_000_000;

/// Adds keys to a ledger that has one, so that it has `keys`, of which `used` work, and records of
/// these. Returns the keys that work, the first one included.
pub(super) fn fill(
    path: &Path,
    first: String,
    keys: u64,
    used: u64,
    records: u64,
) -> Result<Vec<String>> {
    let fault = |fault: rusqlite::Error| {
        Failure::io(
            format!("fill {}", path.display()),
            std::io::Error::other(fault),
        )
    };
    let mut file = Connection::open(path).map_err(fault)?;
    let working = add_keys(&mut file, first, keys, used).map_err(fault)?;
    if records > 0 {
        add_records(&file, records).map_err(fault)?;
    }
    // The gateway expects its journal.
    file.pragma_update(None, "journal_mode", "wal")
        .map_err(fault)?;
    Ok(working)
}

/// The keys are like the first one. Of those that are never used there is only a hash.
fn add_keys(
    file: &mut Connection,
    first: String,
    keys: u64,
    used: u64,
) -> rusqlite::Result<Vec<String>> {
    unsafe_but_fast(file)?;
    let hasher = KeyHasher::new(PEPPER.as_bytes()).map_err(other)?;
    let transaction = file.transaction()?;
    let mut working = vec![first];
    for number in 1..used {
        let key = ApiKey::generate().map_err(other)?;
        transaction.execute(
            "INSERT INTO keys (id, hash, prefix, name, plan, created_at)
             SELECT printf('key_growth%012d', ?1), ?2, ?3, name, plan, created_at
             FROM keys WHERE number = 1",
            params![stored(number), hasher.hash(&key).as_bytes(), key.prefix()],
        )?;
        working.push(key.expose().to_owned());
    }
    transaction.execute(
        "WITH RECURSIVE n(i) AS (SELECT ?1 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?2)
         INSERT INTO keys (id, hash, prefix, name, plan, created_at)
         SELECT printf('key_growth%012d', i), randomblob(32), 'sk-' || hex(randomblob(4)),
             name, plan, created_at
         FROM n JOIN keys ON number = 1 WHERE ?1 < ?2",
        [stored(used), stored(keys)],
    )?;
    transaction.execute(
        "INSERT INTO grants (id, key, plan, unit, tokens, validity_ms, created_at)
         SELECT printf('grant_growth%012d', keys.number), keys.number, grants.plan, unit, tokens,
             validity_ms, grants.created_at
         FROM keys JOIN grants ON grants.number = 1 WHERE keys.number > 1",
        [],
    )?;
    transaction.commit()?;
    Ok(working)
}

/// Records of all keys in turn, up to now. The indexes are made afterwards, in one piece.
fn add_records(file: &Connection, records: u64) -> rusqlite::Result<()> {
    unsafe_but_fast(file)?;
    let indexes: Vec<(String, String)> = file
        .prepare("SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'usage' AND sql IS NOT NULL")?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    for (name, _) in &indexes {
        file.execute_batch(&format!("DROP INDEX {name}"))?;
    }
    file.execute(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
         INSERT INTO usage (request, key, at, model_asked, model_served, format, streamed,
             status, state, input, cache_read, cache_write, output, reasoning, charged,
             overdraft, source, clamped, duration_ms)
         SELECT printf('req_growth%016d', i), 1 + i % (SELECT max(number) FROM keys),
             unixepoch() * 1000 - ?2 + i * ?2 / ?1, 'model-0', 'model-0', 'chat', 0, 200,
             iif(i % 1000 = 0, 'rejected', 'completed'), 200, 0, 0, 180, 0, 0, 0, 'reported', 0, 5
         FROM n",
        [stored(records), HISTORY_MS],
    )?;
    for (_, sql) in &indexes {
        file.execute_batch(sql)?;
    }
    Ok(())
}

fn stored(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A crash of this program leaves nothing that is needed.
fn unsafe_but_fast(file: &Connection) -> rusqlite::Result<()> {
    file.pragma_update(None, "journal_mode", "off")?;
    file.pragma_update(None, "synchronous", "off")?;
    file.pragma_update(None, "cache_size", -CACHE_KIB)
}

fn other(fault: impl std::error::Error + Send + Sync + 'static) -> rusqlite::Error {
    rusqlite::Error::UserFunctionError(Box::new(fault))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tollgate_ledger::{Clock, GrantTerms, History, HistoryQuery, KeySelector, NewKey, Store};

    use super::*;

    #[test]
    fn the_ledger_reads_the_keys_the_grants_and_the_records() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tollgate.db");
        let hasher = KeyHasher::new(PEPPER.as_bytes()).unwrap();
        let open = || Store::open(path.clone(), hasher.clone(), Clock::system()).unwrap();
        let mut new = NewKey::named("load");
        new.grant = Some(GrantTerms {
            tokens: 1_000,
            validity: Duration::from_secs(60),
            ..GrantTerms::default()
        });
        let first = open().create_key(&new).unwrap();
        let first = first.key.expose().to_owned();
        let keys = fill(&path, first, 50, 20, 3_000).unwrap();
        assert_eq!(keys.len(), 20);
        let store = open();
        for text in keys {
            let selector = KeySelector::Key(ApiKey::parse(&text).unwrap());
            let key = store.find_key(&selector).unwrap();
            assert_eq!(store.grants(key.id()).unwrap().len(), 1, "{key:?}");
            let query = HistoryQuery {
                limit: 500,
                ..HistoryQuery::default()
            };
            let page = History::new(&store).page(key.id(), &query).unwrap();
            assert_eq!(page.data.len(), 60, "{key:?}");
        }
        let file = Connection::open(&path).unwrap();
        let count = |what: &str| {
            let sql = format!("SELECT count(*) FROM {what}");
            file.query_row(&sql, [], |row| row.get::<_, i64>(0))
                .unwrap()
        };
        assert_eq!(count("keys"), 50);
        assert_eq!(count("grants"), 50);
        assert_eq!(count("sqlite_schema WHERE name LIKE 'usage_by%'"), 4);
    }
}
