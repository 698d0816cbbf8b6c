//! Copies between a file and a server.

use super::{Empty, commit, hasher, lease, settled, store_over, terms};
use crate::{
    clock::Clock,
    entry::Entry,
    history::{History, HistoryQuery},
    record::NewKey,
    store::{GrantTerms, KeySelector, Store, conformance::Fixture},
};
use tempfile::TempDir;
use tollgate_types::{KeyId, Money};

fn file(folder: &TempDir) -> Store {
    Store::open(folder.path().join("ledger.db"), hasher(), Clock::system()).unwrap()
}

/// Everything that a client or an operator sees of a key.
fn seen(store: &Store, key: &KeyId) -> String {
    let history = History::new(store);
    let page = history.page(key, &HistoryQuery::default()).unwrap();
    let keys = store.list_keys(None, 9).unwrap();
    format!("{keys:?} {:?} {:?}", store.grants(key).unwrap(), page.data)
}

#[test]
fn a_ledger_is_copied_from_a_file_to_a_server_and_back() {
    let Some(server) = super::primary() else {
        return;
    };
    let case = Empty::on(server);
    let (folder, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let (source, middle) = (
        file(&folder),
        store_over(case.open(&hasher().fingerprint())),
    );
    let new = NewKey {
        grant: Some(GrantTerms {
            money: Money::from_nanos(70),
            ..terms(100)
        }),
        ..NewKey::named("ci")
    };
    let key = source.create_key(&new).unwrap().record.id().clone();
    let now = source.clock().now();
    let mut process = source.database().begin_process("one", now).unwrap();
    let share = lease(&mut *process, &key, now);
    let entry = Entry {
        reason: Some("a tab\t and a \\".into()),
        ..settled(&share, 1, 30)
    };
    commit(&mut *process, &[&entry], &[], now);
    let running = source.copy_to(&middle).unwrap_err().to_string();
    assert!(running.contains("has not ended"), "{running}");
    process.end(now).unwrap();
    let found = source.copy_to(&middle).unwrap();
    assert_eq!((found.granted, found.spent, found.requests), (100, 30, 1));
    assert_eq!(found.money_granted, Money::from_nanos(70));
    assert_eq!(seen(&middle, &key), seen(&source, &key));
    let again = source.copy_to(&middle).unwrap_err().to_string();
    assert!(again.contains("1 keys"), "{again}");
    // The copy is used, and copied back.
    let selector = KeySelector::Id(key.clone());
    middle.top_up(&selector, &terms(20)).unwrap();
    middle.create_key(&NewKey::named("new")).unwrap();
    let mut process = middle.database().begin_process("one", now).unwrap();
    let share = lease(&mut *process, &key, now);
    commit(&mut *process, &[&settled(&share, 2, 5)], &[], now);
    process.end(now).unwrap();
    let target = file(&other);
    let found = middle.copy_to(&target).unwrap();
    assert_eq!((found.granted, found.spent, found.requests), (120, 35, 2));
    assert_eq!(seen(&target, &key), seen(&middle, &key));
    target.create_key(&NewKey::named("newer")).unwrap();
    assert_eq!(target.verify().unwrap().faults, [""; 0]);
}
