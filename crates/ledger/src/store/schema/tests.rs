use super::*;
use crate::{
    charge::BillingState,
    clock::Clock,
    history::{History, HistoryQuery},
    key::KeyHasher,
    store::{Store, Verification},
};
use std::path::PathBuf;
use tempfile::TempDir;
use tollgate_types::KeyId;

/// A file as a program of format 3 has left it: three requests, of which one grant has paid
/// the first and two the second, and the third was refused.
const LEFT_BY_FORMAT_3: &str = "
    INSERT INTO keys (number, id, hash, prefix, name, created_at)
        VALUES (1, 'key_old', zeroblob(32), 'sk-old', 'old', 1);
    INSERT INTO grants (number, id, key, tokens, spent, validity_ms, created_at, first_used_at,
            expires_at)
        VALUES (1, 'grant_1', 1, 10, 10, 1000, 1, 5, 1005), (2, 'grant_2', 1, 90, 5, 1000, 1, 6, 1006);
    INSERT INTO usage (number, request, key, at, model_asked, model_served, format, streamed, status,
            state, input, cache_read, cache_write, output, reasoning, charged, overdraft, source,
            clamped, duration_ms)
        VALUES (1, 'req_1', 1, 5, 'm', 'm', 'chat', 0, 200, 'completed', 4, 0, 0, 4, 0, 8, 0,
                'reported', 0, 1),
            (2, 'req_2', 1, 6, 'm', 'm', 'chat', 0, 200, 'client_closed', 4, 0, 0, 4, 0, 8, 1,
                'estimated', 0, 1),
            (3, 'req_3', 1, 7, 'm', 'm', 'chat', 0, 400, 'rejected', 0, 0, 0, 0, 0, 0, 0,
                'reported', 0, 1);
    INSERT INTO charges (usage, grant_number, tokens) VALUES (1, 1, 8), (2, 1, 2), (2, 2, 5);
    INSERT INTO totals VALUES (1, 'm', 3, 8, 0, 0, 8, 16, 1);";

/// What a program of format 1 has left: a key.
const LEFT_BY_FORMAT_1: &str = "
    INSERT INTO keys (number, id, hash, prefix, name, created_at)
        VALUES (1, 'key_old', zeroblob(32), 'sk-old', 'old', 1);";

struct Old(TempDir);

impl Old {
    fn left(steps: usize, rows: &str) -> Self {
        let old = Self(TempDir::new().unwrap());
        let file = old.file();
        for step in &STEPS[..steps] {
            file.execute_batch(step).unwrap();
        }
        file.execute_batch(rows).unwrap();
        if i64::try_from(steps).unwrap() >= commits::SINCE_VERSION {
            commits::migrate(&file, 0).unwrap();
        }
        file.pragma_update(None, "application_id", APPLICATION_ID)
            .unwrap();
        file.pragma_update(None, "user_version", i64::try_from(steps).unwrap())
            .unwrap();
        old
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("ledger.db")
    }

    fn file(&self) -> Connection {
        Connection::open(self.path()).unwrap()
    }

    fn open(&self) -> Store {
        let hasher = KeyHasher::new(b"a pepper for tests").unwrap();
        Store::open(self.path(), hasher, Clock::system()).unwrap()
    }
}

fn faults(found: &Verification) -> String {
    found.faults.join("\n")
}

#[test]
fn a_file_of_the_format_before_keeps_its_charges_beside_new_ones() {
    let old = Old::left(3, LEFT_BY_FORMAT_3);
    let store = old.open();
    let found = store.verify().unwrap();
    assert!(found.holds(), "{}", faults(&found));
    assert_eq!((found.requests, found.spent), (3, 15));

    let new = "INSERT INTO usage SELECT 4, 'req_4', key, 8, model_asked, model_served, format,
            streamed, status, error, state, input, cache_read, cache_write, output, reasoning,
            9, 2, source, clamped, first_byte_ms, duration_ms, 2, NULL FROM usage WHERE number = 1;
        UPDATE grants SET spent = spent + 7 WHERE number = 2;
        UPDATE totals SET charged = charged + 9, overdraft = overdraft + 2";
    old.file().execute_batch(new).unwrap();
    store.seal().unwrap();
    let found = store.verify().unwrap();
    assert!(found.holds(), "{}", faults(&found));
}

#[test]
fn a_file_of_any_format_before_becomes_one_of_this_and_keeps_its_records() {
    for steps in 1..STEPS.len() {
        let (left, requests) = match steps {
            1 => (LEFT_BY_FORMAT_1, 0),
            _ => (LEFT_BY_FORMAT_3, 3),
        };
        let old = Old::left(steps, left);
        let store = old.open();
        assert_eq!(version(&old.file()).unwrap(), supported(), "{steps}");
        let found = store.verify().unwrap();
        assert!(found.holds(), "{steps}: {}", faults(&found));
        assert_eq!(found.requests, requests, "{steps}");
        let history = History::new(&store);
        let page = history
            .page(&KeyId::new("key_old"), &HistoryQuery::default())
            .unwrap();
        let reasons: Vec<_> = page.data.iter().map(|it| &it.route_reason).collect();
        assert_eq!(
            reasons.len(),
            usize::try_from(requests).unwrap(),
            "{steps}: {page:?}"
        );
        assert!(reasons.iter().all(|it| it.is_none()), "{steps}: {page:?}");
    }
}

#[test]
fn every_state_is_found_in_a_file_of_the_format_before() {
    let old = Old::left(3, LEFT_BY_FORMAT_3);
    let store = old.open();
    let key = KeyId::new("key_old");
    let history = History::new(&store);
    let found = |state| {
        let query = HistoryQuery {
            state: Some(state),
            ..HistoryQuery::default()
        };
        let page = history.page(&key, &query).unwrap();
        let ids = page.data.into_iter().map(|record| record.id);
        ids.collect::<Vec<_>>()
    };
    assert_eq!(found(BillingState::Completed), ["req_1"]);
    assert_eq!(found(BillingState::ClientClosed), ["req_2"]);
    assert_eq!(found(BillingState::Rejected), ["req_3"]);
    assert!(found(BillingState::Incomplete).is_empty());
}

#[test]
fn a_charge_that_stands_twice_or_nowhere_is_found() {
    for (wrong, words) in [
        (
            "UPDATE usage SET paid_by = 1 WHERE number = 1",
            "a request's charges do not add up",
        ),
        (
            "DELETE FROM charges WHERE usage = 1",
            "a request's charges do not add up",
        ),
        (
            "DELETE FROM charges WHERE usage = 1; UPDATE usage SET paid_by = 2 WHERE number = 1",
            "a grant's charges do not add up",
        ),
        (
            "UPDATE usage SET overdraft = 9, paid_by = 1 WHERE number = 1",
            "a request's charges do not add up",
        ),
        (
            "UPDATE totals SET charged = charged + 1",
            "a key's totals by model say it was charged is not what is spent of its grants: \
             key_old (16 by model, 15 spent)",
        ),
        ("DELETE FROM totals", "key_old (0 by model, 15 spent)"),
    ] {
        let old = Old::left(3, LEFT_BY_FORMAT_3);
        let store = old.open();
        old.file().execute_batch(wrong).unwrap();
        let found = store.verify().unwrap();
        assert!(
            faults(&found).contains(words),
            "{wrong}: {}",
            faults(&found)
        );
    }
}
