//! Long histories.

use super::{Empty, hasher, primary, store_over};
use crate::{
    clock::Timestamp,
    record::NewKey,
    store::conformance::{Fixture, reads::pages_come_within_twenty_milliseconds},
};

/// `make test-history`: minutes and some gigabytes.
#[test]
#[ignore = "takes minutes; TOLLGATE_HISTORY_ROWS says how many rows"]
fn a_page_of_a_long_history_comes_within_twenty_milliseconds() {
    const WEEKS: i64 = 52;
    const WEEK_MS: i64 = 7 * 86_400_000;
    let Some(server) = primary() else {
        return;
    };
    let rows = std::env::var("TOLLGATE_HISTORY_ROWS");
    let rows: i64 = rows.map_or(10_000_000, |rows| rows.parse().unwrap());
    let case = Empty::on(server);
    let store = store_over(case.open(&hasher().fingerprint()));
    let key = store.create_key(&NewKey::named("ci")).unwrap();
    let of_week = rows / WEEKS;
    for week in 0..WEEKS {
        // Without a write-ahead log; attaching the table creates its indexes, over all rows at once.
        case.sql(&format!(
            "SET maintenance_work_mem = '512MB';
             CREATE UNLOGGED TABLE usage_{week} (LIKE usage INCLUDING ALL EXCLUDING INDEXES);
             INSERT INTO usage_{week} (number, request, key, at, model_asked, model_served, format, streamed,
                 status, state, input, cache_read, cache_write, output, reasoning, charged,
                 overdraft, source, clamped, duration_ms)
             SELECT {week}::bigint * {of_week} + i, 'req_{week}_' || i, (SELECT number FROM keys),
                 {week} * {WEEK_MS}::bigint + i * {WEEK_MS}::bigint / ({of_week} + 1),
                 'm' || (i % 40), 'm' || (i % 40), 'chat', TRUE,
                 CASE WHEN i % 1000 = 0 THEN 429 ELSE 200 END,
                 CASE WHEN i % 1000 = 0 THEN 'rejected' WHEN i % 100 = 7 THEN 'client_closed'
                     ELSE 'completed' END,
                 1, 2, 3, 4, 0, 0, 0, 'reported', FALSE, 5
             FROM generate_series(1, {of_week}) AS i;
             ALTER TABLE usage ATTACH PARTITION usage_{week}
                 FOR VALUES FROM ({week} * {WEEK_MS}::bigint) TO (({week} + 1) * {WEEK_MS}::bigint)"
        ));
        case.sql(&format!("VACUUM (FREEZE) usage_{week}"));
    }
    case.sql("ANALYZE usage");
    let end = Timestamp::from_unix_ms((WEEKS * WEEK_MS).unsigned_abs());
    pages_come_within_twenty_milliseconds(&store, key.record.id(), end);
}
