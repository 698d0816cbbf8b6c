use super::*;
use crate::{
    charge::BillingState,
    clock::Clock,
    history::{History, HistoryQuery},
    key::KeyHasher,
    store::{
        Store, Verification,
        sqlite::{Loss, Sqlite, testing::edit},
    },
};
use std::path::PathBuf;
use tempfile::TempDir;
use tollgate_types::KeyId;

/// Three requests. One grant has paid the first, two have paid the second; the third was refused.
const THREE_REQUESTS: &str = "
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
    INSERT INTO totals VALUES (1, 'm', 3, 8, 0, 0, 8, 16, 1, 0, 0);";

struct House(TempDir);

impl House {
    /// A new file with these rows in it.
    fn with(rows: &str) -> (Self, Store) {
        let house = Self(TempDir::new().unwrap());
        let hasher = KeyHasher::new(b"a pepper for tests").unwrap();
        let store = Store::open(house.path(), hasher, Clock::system()).unwrap();
        edit(&house.path(), rows);
        house.accept_rows();
        (house, store)
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("ledger.db")
    }

    fn accept_rows(&self) {
        let pepper = KeyHasher::new(b"a pepper for tests").unwrap().fingerprint();
        Sqlite::open(self.path(), &pepper, Loss::Accept).unwrap();
    }

    fn file(&self) -> Connection {
        Connection::open(self.path()).unwrap()
    }
}

fn faults(found: &Verification) -> String {
    found.faults.join("\n")
}

#[test]
fn charges_of_one_grant_and_of_several_add_up() {
    let (house, store) = House::with(THREE_REQUESTS);
    let found = store.verify().unwrap();
    assert!(found.holds(), "{}", faults(&found));
    assert_eq!((found.requests, found.spent), (3, 15));

    let new = "INSERT INTO usage SELECT 4, 'req_4', key, 8, model_asked, model_served, format,
            streamed, status, error, state, input, cache_read, cache_write, output, reasoning,
            9, 2, cost, source, clamped, first_byte_ms, duration_ms, 2, NULL, NULL, NULL FROM usage WHERE number = 1;
        UPDATE grants SET spent = spent + 7 WHERE number = 2;
        UPDATE totals SET charged = charged + 9, overdraft = overdraft + 2";
    house.file().execute_batch(new).unwrap();
    house.accept_rows();
    let found = store.verify().unwrap();
    assert!(found.holds(), "{}", faults(&found));
}

#[test]
fn every_state_is_found() {
    let (_house, store) = House::with(THREE_REQUESTS);
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
             key_old (16 tokens and 0 of money by model, 15 and 0 spent)",
        ),
        (
            "UPDATE usage SET cost = 9 WHERE number = 1",
            "the costs in a key's records exceed its total of the model: key_old (m: 9 in records, 0 in total)",
        ),
        (
            "UPDATE usage SET cost = 9, cost_overdraft = 2 WHERE number = 1",
            "what a request is charged in money does not add up: req_1 (9 cost, 2 overdraft, 0 paid",
        ),
        (
            "DELETE FROM totals",
            "key_old (0 tokens and 0 of money by model, 15 and 0 spent)",
        ),
    ] {
        let (house, store) = House::with(THREE_REQUESTS);
        house.file().execute_batch(wrong).unwrap();
        let found = store.verify().unwrap();
        assert!(
            faults(&found).contains(words),
            "{wrong}: {}",
            faults(&found)
        );
    }
}
