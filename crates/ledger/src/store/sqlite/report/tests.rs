use super::*;
use crate::{Clock, KeyHasher, NewKey, Store, StoreError, Timestamp};
use rusqlite::params;
use std::time::Duration;
use tempfile::TempDir;
use tollgate_types::{KeyId, Money, RequestId};

const DAY: u64 = 86_400_000;

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

    fn key(&self, name: &str, plan: Option<&str>) -> KeyId {
        let new = NewKey {
            plan: plan.map(str::to_owned),
            ..NewKey::named(name)
        };
        self.store.create_key(&new).unwrap().record.id().clone()
    }

    /// A record of this model with so many tokens of input.
    fn add(&self, key: &KeyId, at: u64, model: &str, input: i64) {
        let file = Connection::open(self.folder.path().join("ledger.db")).unwrap();
        file.execute(
            "INSERT INTO usage (request, key, at, model_asked, model_served, format, streamed,
                 status, state, input, cache_read, cache_write, output, reasoning, charged,
                 overdraft, source, clamped, duration_ms, cost, cost_overdraft)
             SELECT 'req_' || (SELECT coalesce(max(number), 0) FROM usage), number, ?2, ?3, ?3,
                 'chat', 1, 200, 'completed', ?4, 2, 3, 4, 1, 9, 5, 'reported', 0, 5, 1 << 52, 7
             FROM keys WHERE id = ?1",
            params![key.as_str(), i64::try_from(at).unwrap(), model, input],
        )
        .unwrap();
    }

    fn report(&self, by: &[GroupBy], from: u64, to: u64) -> Result<Vec<ReportRow>, StoreError> {
        let query = ReportQuery {
            from: Timestamp::from_unix_ms(from),
            to: Timestamp::from_unix_ms(to),
            by: by.to_vec(),
        };
        let mut rows = Vec::new();
        let each = &mut |row| {
            rows.push(row);
            true
        };
        self.store.report(&query, each).map(|()| rows)
    }
}

fn row(group: &[&str], requests: u64, input: u64) -> ReportRow {
    let group = group
        .iter()
        .map(|it| (!it.is_empty()).then(|| (*it).to_owned()));
    let [read, written, output, reasoning, charged, over] =
        [2, 3, 4, 1, 9, 5].map(|it| it * requests);
    ReportRow {
        group: group.collect(),
        sums: [
            requests, input, read, written, output, reasoning, charged, over,
        ],
        costs: [requests << 52, requests * 7].map(Money::from_nanos),
    }
}

#[test]
fn records_are_added_up_by_what_is_asked_for_and_in_its_order() {
    use GroupBy::{Day, Key, Model, Month, Plan};
    let archive = Archive::new();
    let (one, two) = (archive.key("one", Some("pro")), archive.key("=two", None));
    archive.add(&one, DAY, "b", 10);
    archive.add(&one, DAY + 1, "a", 20);
    archive.add(&two, 2 * DAY, "a", 30);
    archive.add(&one, 40 * DAY, "a", 40);
    let all = |by: &[GroupBy]| archive.report(by, 0, 100 * DAY).unwrap();
    assert_eq!(all(&[]), [row(&[], 4, 100)]);
    assert_eq!(all(&[Model]), [row(&["a"], 3, 90), row(&["b"], 1, 10)]);
    assert_eq!(all(&[Plan]), [row(&[""], 1, 30), row(&["pro"], 3, 70)]);
    let mut by_key = [
        row(&[one.as_str(), "one"], 3, 70),
        row(&[two.as_str(), "=two"], 1, 30),
    ];
    by_key.sort_by(|one, other| one.group.cmp(&other.group));
    assert_eq!(all(&[Key]), by_key);
    assert_eq!(
        all(&[Month, Model]),
        [
            row(&["1970-01", "a"], 2, 50),
            row(&["1970-01", "b"], 1, 10),
            row(&["1970-02", "a"], 1, 40),
        ]
    );
    // From a time on, and before another.
    let days = archive.report(&[Day], DAY + 1, 40 * DAY).unwrap();
    assert_eq!(
        days,
        [row(&["1970-01-02"], 1, 20), row(&["1970-01-03"], 1, 30)]
    );
    assert_eq!(archive.report(&[Day], 50 * DAY, 60 * DAY).unwrap(), []);
}

#[test]
fn a_sum_that_has_no_room_is_an_error_and_no_other_number() {
    let archive = Archive::new();
    let key = archive.key("one", None);
    for _ in 0..2 {
        archive.add(&key, DAY, "m", i64::MAX / 2 + 1);
    }
    let fault = archive.report(&[], 0, 2 * DAY).unwrap_err().to_string();
    assert!(fault.contains("integer overflow"), "{fault}");
}

#[test]
fn a_reader_that_has_enough_ends_a_report() {
    let archive = Archive::new();
    let key = archive.key("one", None);
    for model in ["a", "b", "c"] {
        archive.add(&key, DAY, model, 1);
    }
    let query = ReportQuery {
        from: Timestamp::default(),
        to: Timestamp::MAX,
        by: vec![GroupBy::Model],
    };
    let mut seen = 0;
    let each = &mut |_| {
        seen += 1;
        seen < 2
    };
    archive.store.report(&query, each).unwrap();
    assert_eq!(seen, 2);
}

#[test]
fn a_request_is_found_by_its_id_whatever_key_sent_it() {
    let archive = Archive::new();
    let key = archive.key("one", Some("pro"));
    let at = Timestamp::default().plus(Duration::from_secs(86_400));
    let id = RequestId::from_parts(at.unix_ms(), 7);
    assert_eq!(archive.store.request(&id).unwrap(), None);
    archive.add(&key, at.unix_ms(), "m", 10);
    let file = Connection::open(archive.folder.path().join("ledger.db")).unwrap();
    file.execute("UPDATE usage SET request = ?1", [id.as_str()])
        .unwrap();
    let found = archive.store.request(&id).unwrap().unwrap();
    assert_eq!((found.key, found.key_name.as_str()), (key, "one"));
    assert_eq!(found.plan.as_deref(), Some("pro"));
    assert_eq!(
        (found.record.id.as_str(), found.record.time),
        (id.as_str(), at)
    );
    assert_eq!(found.record.usage.input, 10);
}
