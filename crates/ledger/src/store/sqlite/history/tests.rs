use super::*;
use crate::{
    clock::{Clock, Timestamp},
    history::{History, HistoryError, HistoryPage},
    key::KeyHasher,
    record::NewKey,
    store::{Store, conformance::reads::pages_come_within_twenty_milliseconds},
};
use rusqlite::params;
use tempfile::TempDir;

struct Archive {
    folder: TempDir,
    store: Store,
}

impl Archive {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let hasher = KeyHasher::new(b"a pepper for tests").unwrap();
        let path = folder.path().join("ledger.db");
        let store = Store::open(path, hasher, Clock::system()).unwrap();
        Self { folder, store }
    }

    fn key(&self) -> KeyId {
        let made = self.store.create_key(&NewKey::named("ci")).unwrap();
        made.record.id().clone()
    }

    fn file(&self) -> Connection {
        Connection::open(self.folder.path().join("ledger.db")).unwrap()
    }

    /// A record at this second, of this model and state.
    fn add(&self, key: &KeyId, second: i64, model: &str, state: BillingState) {
        insert(&self.file(), key, second, model, state);
    }

    fn page(&self, key: &KeyId, query: &HistoryQuery) -> HistoryPage {
        History::new(&self.store).page(key, query).unwrap()
    }
}

fn insert(file: &Connection, key: &KeyId, second: i64, model: &str, state: BillingState) {
    file.prepare_cached(
        "INSERT INTO usage (request, key, at, model_asked, model_served, format, streamed,
             status, state, input, cache_read, cache_write, output, reasoning, charged,
             overdraft, source, clamped, duration_ms)
         SELECT 'req_' || (SELECT coalesce(max(number), 0) FROM usage), number, ?2, ?3, ?3,
             'chat', 1, 200, ?4, 1, 2, 3, 4, 0, 0, 0, 'reported', 0, 5
         FROM keys WHERE id = ?1",
    )
    .unwrap()
    .execute(params![key.as_str(), second * 1000, model, state.as_str()])
    .unwrap();
}

fn seconds(page: &HistoryPage) -> Vec<u64> {
    page.data.iter().map(|r| r.time.unix_ms() / 1000).collect()
}

fn pages_of(limit: u32) -> HistoryQuery {
    HistoryQuery {
        limit,
        ..HistoryQuery::default()
    }
}

#[test]
fn records_come_newest_first_and_every_page_leads_to_the_next() {
    let archive = Archive::new();
    let key = archive.key();
    for second in [3, 1, 2, 2, 5, 4, 2] {
        archive.add(&key, second, "m", BillingState::Completed);
    }
    let mut seen = Vec::new();
    let mut query = pages_of(2);
    loop {
        let page = archive.page(&key, &query);
        assert!(page.data.len() <= 2);
        seen.extend(seconds(&page));
        // What arrives meanwhile at the newer end disturbs nothing.
        archive.add(&key, 9, "m", BillingState::Completed);
        query.after = page.last_cursor;
        if !page.has_more {
            break;
        }
    }
    assert_eq!(seen, [5, 4, 3, 2, 2, 2, 1]);
}

#[test]
fn records_newer_than_a_page_are_found_from_its_first_cursor() {
    let archive = Archive::new();
    let key = archive.key();
    for second in 1..=5 {
        archive.add(&key, second, "m", BillingState::Completed);
    }
    let newest = archive.page(&key, &pages_of(2));
    assert_eq!(seconds(&newest), [5, 4]);
    for second in 6..=8 {
        archive.add(&key, second, "m", BillingState::Completed);
    }
    let query = HistoryQuery {
        before: newest.first_cursor,
        ..pages_of(2)
    };
    let newer = archive.page(&key, &query);
    assert_eq!((seconds(&newer), newer.has_more), (vec![7, 6], true));
}

#[test]
fn filters_by_model_state_and_time_hold_together() {
    let archive = Archive::new();
    let key = archive.key();
    for second in 1..=20 {
        let model = if second % 2 == 0 { "even" } else { "odd" };
        let state = if second % 5 == 0 {
            BillingState::ClientClosed
        } else {
            BillingState::Completed
        };
        archive.add(&key, second, model, state);
    }
    let query = HistoryQuery {
        model: Some("even".into()),
        state: Some(BillingState::Completed),
        from: Some(Timestamp::from_unix_ms(4000)),
        to: Some(Timestamp::from_unix_ms(16_000)),
        ..HistoryQuery::default()
    };
    assert_eq!(seconds(&archive.page(&key, &query)), [14, 12, 8, 6, 4]);
    for state in BillingState::ALL {
        let query = HistoryQuery {
            state: Some(state),
            ..HistoryQuery::default()
        };
        let page = archive.page(&key, &query);
        assert!(page.data.iter().all(|r| r.state == state.as_str()));
    }
}

#[test]
fn records_are_found_by_their_http_status() {
    let archive = Archive::new();
    let key = archive.key();
    for second in 1..=4 {
        archive.add(&key, second, "m", BillingState::Completed);
    }
    let file = archive.file();
    file.execute("UPDATE usage SET status = 429 WHERE at IN (2000, 3000)", [])
        .unwrap();
    let with = |status: u16, model: Option<&str>| HistoryQuery {
        status: Some(status),
        model: model.map(str::to_owned),
        ..HistoryQuery::default()
    };
    for (query, wanted) in [
        (with(429, None), vec![3, 2]),
        (with(200, Some("m")), vec![4, 1]),
        (with(404, None), vec![]),
    ] {
        assert_eq!(seconds(&archive.page(&key, &query)), wanted, "{query:?}");
    }
}

#[test]
fn wildcards_and_quotes_in_a_filter_match_themselves_alone() {
    let archive = Archive::new();
    let key = archive.key();
    archive.add(&key, 1, "alpha", BillingState::Completed);
    for model in [
        "%",
        "alph_",
        "ALPHA",
        "'; DROP TABLE usage; --",
        "alpha' OR '1'='1",
    ] {
        let query = HistoryQuery {
            model: Some(model.into()),
            ..HistoryQuery::default()
        };
        assert_eq!(
            archive.page(&key, &query),
            HistoryPage::default(),
            "{model}"
        );
    }
}

#[test]
fn another_keys_records_and_cursors_are_out_of_reach() {
    let archive = Archive::new();
    let (mine, theirs) = (archive.key(), archive.key());
    archive.add(&mine, 1, "m", BillingState::Completed);
    archive.add(&theirs, 2, "m", BillingState::Completed);
    let page = archive.page(&theirs, &pages_of(1));
    assert_eq!(seconds(&page), [2]);
    let stolen = HistoryQuery {
        after: page.last_cursor,
        ..HistoryQuery::default()
    };
    let fault = History::new(&archive.store)
        .page(&mine, &stolen)
        .unwrap_err();
    assert!(matches!(fault, HistoryError::Cursor(_)), "{fault}");
}

#[test]
fn an_invented_or_changed_cursor_is_refused() {
    let archive = Archive::new();
    let key = archive.key();
    archive.add(&key, 1, "m", BillingState::Completed);
    let good = archive.page(&key, &pages_of(1)).last_cursor.unwrap();
    let mut texts = vec![
        String::new(),
        "AAAA".into(),
        "é".into(),
        "A".repeat(1 << 20),
    ];
    for index in 0..good.len() {
        let mut bad = good.clone().into_bytes();
        bad[index] = if bad[index] == b'A' { b'B' } else { b'A' };
        texts.push(String::from_utf8(bad).unwrap());
    }
    for text in texts {
        let query = HistoryQuery {
            before: Some(text.clone()),
            ..HistoryQuery::default()
        };
        let answer = History::new(&archive.store).page(&key, &query);
        let refused = matches!(answer, Err(HistoryError::Cursor(_)));
        assert!(refused, "{text:.60}: {answer:?}");
    }
}

#[test]
fn a_page_has_a_bounded_length() {
    let archive = Archive::new();
    let key = archive.key();
    for second in 0..600 {
        archive.add(&key, second, "m", BillingState::Completed);
    }
    assert_eq!(archive.page(&key, &pages_of(0)).data.len(), 50);
    assert_eq!(archive.page(&key, &pages_of(u32::MAX)).data.len(), 500);
}

#[test]
fn a_filter_that_lets_little_through_costs_a_bounded_number_of_rows() {
    let archive = Archive::new();
    let key = archive.key();
    let mut file = archive.file();
    let transaction = file.transaction().unwrap();
    insert(&transaction, &key, 0, "m", BillingState::Completed);
    for second in 1..=20 {
        insert(&transaction, &key, second, "m", BillingState::Rejected);
    }
    transaction.commit().unwrap();
    let query = HistoryQuery {
        model: Some("m".into()),
        state: Some(BillingState::Completed),
        ..HistoryQuery::default()
    };
    let effort = Effort {
        least: 0,
        most: 12,
        time: Duration::MAX,
    };
    let find_from = |position| find(&file, &key, &query, Direction::Older(position), 50, &effort);
    let first = find_from(None).unwrap();
    assert_eq!((first.records.len(), first.has_more), (0, true));
    let second = find_from(first.last).unwrap();
    assert_eq!((second.records.len(), second.has_more), (1, false));
}

#[test]
fn where_time_is_over_a_page_ends_with_the_least_number_of_rows() {
    let late = Instant::now();
    let effort = Effort {
        least: 128,
        most: 1000,
        time: Duration::ZERO,
    };
    let last = (0..).find(|examined| effort.is_over(*examined, late));
    assert_eq!(last, Some(128));
    let patient = Effort {
        time: Duration::MAX,
        ..effort
    };
    let last = (0..).find(|examined| patient.is_over(*examined, late));
    assert_eq!(last, Some(1000));
}

#[test]
fn a_page_of_completed_requests_is_full_however_many_failed_after_them() {
    const FAILED: i64 = 5400;
    let archive = Archive::new();
    let key = archive.key();
    let mut file = archive.file();
    let transaction = file.transaction().unwrap();
    for second in 0..60 {
        insert(&transaction, &key, second, "m", BillingState::Completed);
    }
    for second in 60..60 + FAILED {
        insert(
            &transaction,
            &key,
            second,
            "m",
            BillingState::UpstreamFailed,
        );
    }
    transaction.commit().unwrap();
    let query = HistoryQuery {
        state: Some(BillingState::Completed),
        ..HistoryQuery::default()
    };
    // A machine that is busy gives a page its least, and the cursor says how to go on.
    let mut page = archive.page(&key, &query);
    if page.data.is_empty() {
        assert!(page.has_more);
        let on = HistoryQuery {
            after: page.last_cursor,
            ..query
        };
        page = archive.page(&key, &on);
    }
    assert_eq!((page.data.len(), page.has_more), (50, true));
    assert_eq!(seconds(&page)[0], 59);
}

#[test]
fn every_kind_of_query_goes_by_an_index_and_sorts_nothing() {
    let archive = Archive::new();
    let file = archive.file();
    let position = Position { at: 1, number: 1 };
    let directions = [
        Direction::Older(None),
        Direction::Older(Some(position)),
        Direction::Newer(position),
    ];
    let states = [
        None,
        Some(BillingState::Completed),
        Some(BillingState::ClientClosed),
    ];
    for (state, status) in states
        .into_iter()
        .flat_map(|it| [(it, None), (it, Some(429))])
    {
        for (model, direction) in directions
            .iter()
            .flat_map(|it| [(None, it), (Some("m"), it)])
        {
            let query = HistoryQuery {
                model: model.map(str::to_owned),
                state,
                status,
                ..HistoryQuery::default()
            };
            let (sql, ..) = statement(&query, *direction);
            let plan: Vec<String> = file
                .prepare(&format!("EXPLAIN QUERY PLAN {sql}"))
                .unwrap()
                .query_map(params!["k", 1, 1, 1, "m"], |row| row.get(3))
                .unwrap()
                .map(Result::unwrap)
                .collect();
            let plan = plan.join("; ");
            let bounded = plan.contains("at>? AND at<?") || plan.contains("at<?");
            // What filters of failures compare is in the index.
            let index = match (state, status) {
                (_, Some(_)) => "usage USING COVERING INDEX usage_by_status",
                (Some(BillingState::ClientClosed), _) => {
                    "usage USING COVERING INDEX usage_by_state"
                }
                _ => "usage USING INDEX usage_by_",
            };
            assert!(plan.contains(index) && bounded, "{plan}");
            assert!(!plan.contains("TEMP B-TREE"), "{plan}");
        }
    }
}

/// `make test-history`: minutes and some gigabytes.
#[test]
#[ignore = "takes minutes; TOLLGATE_HISTORY_ROWS says how many rows"]
fn a_page_of_a_long_history_comes_within_twenty_milliseconds() {
    let rows = std::env::var("TOLLGATE_HISTORY_ROWS");
    let rows: i64 = rows.map_or(10_000_000, |rows| rows.parse().unwrap());
    let archive = Archive::new();
    let key = archive.key();
    let mut file = archive.file();
    // KiB: so that the indexes are not written out again and again while they grow.
    file.pragma_update(None, "cache_size", -2_000_000).unwrap();
    let transaction = file.transaction().unwrap();
    transaction
        .execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
             INSERT INTO usage (request, key, at, model_asked, model_served, format, streamed,
                 status, state, input, cache_read, cache_write, output, reasoning, charged,
                 overdraft, source, clamped, duration_ms)
             SELECT 'req_' || i, 1, i * 10, 'm' || (i % 40), 'm' || (i % 40), 'chat', 1,
                 iif(i % 1000 = 0, 429, 200),
                 iif(i % 1000 = 0, 'rejected', iif(i % 100 = 7, 'client_closed', 'completed')),
                 1, 2, 3, 4, 0, 0, 0, 'reported', 0, 5 FROM n",
            [rows],
        )
        .unwrap();
    transaction.commit().unwrap();
    let end = Timestamp::from_unix_ms(u64::try_from(rows).unwrap() * 10);
    pages_come_within_twenty_milliseconds(&archive.store, &key, end);
}
