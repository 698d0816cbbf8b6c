//! How many rows the statements read that a running process repeats, and the pages of a history.

use super::{Empty, commit, hasher, lease, partition::key_with, primary, settled, store_over};
use crate::{
    charge::BillingState,
    entry::Entry,
    history::{History, HistoryQuery},
    record::NewKey,
    store::conformance::{
        Fixture,
        cost::{KEYS, run_recurring_statements},
    },
};

impl Empty {
    /// The rows and entries of indexes that were read so far.
    fn rows_read(&self) -> i64 {
        self.counted(
            "SELECT (SELECT sum(seq_tup_read) FROM pg_stat_user_tables)::bigint
                 + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes)::bigint",
        )
    }

    /// The rows of the history that were read so far without an index.
    fn rows_scanned(&self) -> i64 {
        self.counted(
            "SELECT coalesce(sum(seq_tup_read), 0)::bigint FROM pg_stat_user_tables
             WHERE relname LIKE 'usage%'",
        )
    }

    /// A number from the statistics. Waits for all other connections to end: the server adds their part then.
    fn counted(&self, sql: &str) -> i64 {
        let mut client = self.server.local(&self.name).connect().unwrap();
        let others = "SELECT count(*) FROM pg_stat_activity
                      WHERE datname = current_database() AND pid <> pg_backend_pid()
                          AND backend_type = 'client backend'";
        while client.query_one(others, &[]).unwrap().get::<_, i64>(0) > 0 {
            std::thread::park_timeout(std::time::Duration::from_millis(10));
        }
        client.query_one(sql, &[]).unwrap().get(0)
    }
}

#[test]
fn recurring_statements_take_no_longer_with_many_keys() {
    let Some(server) = primary() else { return };
    let case = Empty::on(server);
    let fill = || {
        case.sql(&format!(
            "SET session_replication_role = replica;
             INSERT INTO keys (number, id, hash, prefix, name, created_at)
             SELECT i, 'key_' || i, decode(lpad(to_hex(i), 64, '0'), 'hex'), 'p' || i, 'ci', 0
             FROM generate_series(2, {KEYS}) AS i;
             INSERT INTO grants (number, id, key, tokens, validity_ms, created_at)
             SELECT i, 'grant_' || i, i, 1000, 86400000, 0 FROM generate_series(2, {KEYS}) AS i;
             INSERT INTO leases SELECT i, number, 1000 FROM generate_series(2, {KEYS} / 2) AS i
             JOIN processes ON settlements = CASE WHEN i > {KEYS} / 4 THEN 'two' ELSE 'one' END;
             INSERT INTO lease_requests SELECT i, number FROM generate_series(2, 5) AS i
             JOIN processes ON settlements = 'two';
             SELECT make_history_part(1790000000000 / 604800000);
             INSERT INTO usage (request, key, at, model_asked, model_served, format, streamed,
                 status, state, input, cache_read, cache_write, output, reasoning, charged,
                 overdraft, source, clamped, duration_ms)
             SELECT 'req_' || i, i, 1790000000000, 'm', 'm', 'chat', TRUE, 200, 'completed',
                 1, 0, 0, 0, 0, 0, 0, 'reported', FALSE, 5 FROM generate_series(2, {KEYS}) AS i;
             INSERT INTO record_times SELECT i, 1790000000000 FROM generate_series(2, {KEYS}) AS i;
             INSERT INTO owned (id, key, provider, credential, at)
             SELECT 'item_' || i, 'key_' || i, 'east', 'first', 1790000000000
             FROM generate_series(2, {KEYS}) AS i;
             ANALYZE keys, grants, leases, usage, owned;
             SELECT pg_stat_reset();"
        ));
    };
    run_recurring_statements(&case, &fill);
    let read = case.rows_read();
    assert!((100..5_000).contains(&read), "{read} rows");
}

#[test]
fn a_page_does_not_read_all_failures_of_a_busy_key() {
    let Some(server) = primary() else { return };
    let case = Empty::on(server);
    let store = store_over(case.open(&hasher().fingerprint()));
    let key = store.create_key(&NewKey::named("ci")).unwrap();
    // Half of the records are of the first of 20 keys: more than the server expects.
    case.sql(
        "SELECT make_history_part(week) FROM generate_series(0, 19) AS week;
         INSERT INTO usage (request, key, at, model_asked, model_served, format, streamed,
             status, state, input, cache_read, cache_write, output, reasoning, charged,
             overdraft, source, clamped, duration_ms)
         SELECT 'req_' || i, CASE WHEN i % 2 = 0 THEN (SELECT number FROM keys) ELSE i % 40 + 1 END, i * 302400::bigint, 'm' || i % 8,
             'm' || i % 8, 'chat', TRUE, CASE i % 10 WHEN 0 THEN 429 ELSE 200 END,
             CASE i % 10 WHEN 0 THEN 'rejected' ELSE 'completed' END,
             1, 0, 0, 0, 0, 0, 0, 'reported', FALSE, 5 FROM generate_series(1, 39999) AS i;",
    );
    case.sql("VACUUM ANALYZE usage");
    case.sql("SELECT pg_stat_reset()");
    let rejected = HistoryQuery {
        state: Some(BillingState::Rejected),
        ..HistoryQuery::default()
    };
    let queries = [
        HistoryQuery {
            status: Some(429),
            ..HistoryQuery::default()
        },
        HistoryQuery {
            model: Some("m2".into()),
            ..rejected.clone()
        },
        rejected,
    ];
    for query in &queries {
        let page = History::new(&store).page(key.record.id(), query).unwrap();
        assert_eq!((page.data.len(), page.has_more), (50, true));
    }
    drop(store);
    let read = case.rows_read();
    // The key has four thousand failures.
    assert!(read < 4_000, "{read} rows");
}

#[test]
fn a_commit_does_not_read_the_whole_week_that_has_begun() {
    let Some(server) = primary() else { return };
    let case = Empty::on(server);
    let store = store_over(case.open(&hasher().fingerprint()));
    let key = key_with(&store, 1_000_000);
    let now = store.clock().now();
    let mut process = store.database().begin_process("one", now).unwrap();
    let share = lease(&mut *process, &key, now);
    case.sql("SELECT pg_stat_reset()");
    for batch in 0..20 {
        let entries: Vec<Entry> = (0..100)
            .map(|it| settled(&share, batch * 100 + it, 1))
            .collect();
        let entries: Vec<&Entry> = entries.iter().collect();
        commit(&mut *process, &entries, &[], now);
    }
    drop(process);
    drop(store);
    let read = case.rows_scanned();
    assert!(read < 2_000, "{read} rows");
}
