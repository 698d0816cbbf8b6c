//! How many rows the statements read that a running process repeats.

use super::{super::testing::take_steps, Empty};
use crate::store::conformance::cost::{KEYS, run_recurring_statements};
use rusqlite::Connection;
use tempfile::TempDir;

#[test]
fn recurring_statements_take_no_longer_with_many_keys() {
    /// A scan takes several steps for each row.
    const MOST: i32 = 10_000;
    let empty = Empty(TempDir::new().unwrap());
    let path = empty.0.path().join("ledger.db");
    let fill = || {
        Connection::open(&path)
            .unwrap()
            .execute_batch(&format!(
                "CREATE TEMP TABLE n AS WITH RECURSIVE n (i) AS (
                     SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < {KEYS})
                 SELECT i FROM n;
                 INSERT INTO keys (id, hash, prefix, name, created_at)
                 SELECT 'key_' || i, unhex(printf('%064x', i)), 'p' || i, 'ci', 0 FROM n;
                 INSERT INTO grants (id, key, tokens, validity_ms, created_at)
                 SELECT 'grant_' || i, i, 1000, 86400000, 0 FROM n;
                 INSERT INTO leases
                 SELECT i, 1 + (i > {KEYS} / 4), 1000 FROM n WHERE i <= {KEYS} / 2;
                 INSERT INTO lease_requests SELECT i, 2 FROM n WHERE i <= 5;
                 INSERT INTO usage (request, key, at, model_asked, model_served, format, streamed,
                     status, state, input, cache_read, cache_write, output, reasoning, charged,
                     overdraft, source, clamped, duration_ms)
                 SELECT 'req_' || i, i, 1790000000000, 'm', 'm', 'chat', 1, 200, 'completed',
                     1, 0, 0, 0, 0, 0, 0, 'reported', 0, 5 FROM n;
                 INSERT INTO owned (id, key, provider, credential, at)
                 SELECT 'item_' || i, 'key_' || i, 'east', 'first', 1790000000000 FROM n;"
            ))
            .unwrap();
        take_steps();
    };
    run_recurring_statements(&empty, &fill);
    let steps = take_steps();
    assert!(steps.len() > 20, "{steps:?}");
    for (sql, steps) in steps {
        assert!(steps < MOST, "{steps} steps: {sql}");
    }
}
