//! Copies between a file and a server.

use super::{Empty, Leasing, commit, hasher, lease, settled, store_over, terms};
use crate::{
    clock::Clock,
    entry::Entry,
    history::{History, HistoryQuery},
    record::NewKey,
    store::{
        Copied, GrantTerms, KeySelector, Store, Verification,
        conformance::{Fixture, keys_of},
        database::{Retention, Share},
    },
};
use std::time::Duration;
use tempfile::TempDir;
use tollgate_types::{KeyId, Money, Unit};

fn file(folder: &TempDir) -> Store {
    Store::open(folder.path().join("ledger.db"), hasher(), Clock::system()).unwrap()
}

fn copy(source: &Store, target: &Store) -> Verification {
    match source.copy_to(target, &|_, _| {}).unwrap() {
        Copied::All(found) => found,
        Copied::History(gateway) => panic!("{gateway} uses it"),
    }
}

/// A request for which the key's grants of tokens pay these parts.
fn paid(share: &Share, request: u64, parts: &[u64]) -> Entry {
    let grants = share.grants.iter().filter(|it| it.unit == Unit::Tokens);
    let numbers = grants.map(|it| it.number.0);
    Entry {
        paid: numbers.zip(parts.iter().copied()).collect(),
        ..settled(share, request, parts.iter().sum())
    }
}

/// Everything that a client or an operator sees of a key.
fn seen(store: &Store, key: &KeyId) -> String {
    let history = History::new(store);
    let page = history.page(key, &HistoryQuery::default()).unwrap();
    let keys = keys_of(store);
    format!("{keys:?} {:?} {:?}", store.grants(key).unwrap(), page.data)
}

#[test]
fn a_ledger_is_copied_from_a_file_to_a_server_and_back() {
    let Some(server) = super::primary() else {
        return;
    };
    let case = Empty::on(server);
    let (folder, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let source = file(&folder);
    let middle = store_over(case.open(&hasher().fingerprint()));
    let new = NewKey {
        grant: Some(GrantTerms {
            money: Money::from_nanos(70),
            ..terms(100)
        }),
        ..NewKey::named("ci")
    };
    let key = source.create_key(&new).unwrap().record.id().clone();
    let selector = KeySelector::Id(key.clone());
    source.top_up(&selector, &terms(50)).unwrap();
    let now = source.clock().now();
    let mut process = source.database().begin_process("one", now).unwrap();
    let share = lease(&mut *process, &key, now);
    let entry = Entry {
        reason: Some("a tab\t and a \\".into()),
        ..paid(&share, 1, &[30])
    };
    commit(&mut *process, &[&entry], &[], now);
    // The history comes first, as often as it is asked for.
    for _ in 0..2 {
        let running = source.copy_to(&middle, &|_, _| {}).unwrap();
        assert!(matches!(running, Copied::History(gateway) if gateway == "one"));
    }
    // Two grants pay this one.
    commit(&mut *process, &[&paid(&share, 2, &[4, 6])], &[], now);
    process.end(now).unwrap();
    let found = copy(&source, &middle);
    assert_eq!((found.granted, found.spent, found.requests), (150, 40, 2));
    assert_eq!(found.money_granted, Money::from_nanos(70));
    assert_eq!(seen(&middle, &key), seen(&source, &key));
    let again = source.copy_to(&middle, &|_, _| {}).unwrap_err().to_string();
    assert!(again.contains("it is in use"), "{again}");
    // The copy is used, and copied back.
    middle.top_up(&selector, &terms(20)).unwrap();
    middle.create_key(&NewKey::named("new")).unwrap();
    let mut process = middle.database().begin_process("one", now).unwrap();
    let share = lease(&mut *process, &key, now);
    commit(&mut *process, &[&paid(&share, 3, &[5])], &[], now);
    let target = file(&other);
    let running = middle.copy_to(&target, &|_, _| {}).unwrap_err().to_string();
    assert!(running.contains("has not ended"), "{running}");
    process.end(now).unwrap();
    let found = copy(&middle, &target);
    assert_eq!((found.granted, found.spent, found.requests), (170, 45, 3));
    assert_eq!(seen(&target, &key), seen(&middle, &key));
    target.create_key(&NewKey::named("newer")).unwrap();
    assert_eq!(target.verify().unwrap().faults, [""; 0]);
}

#[test]
fn what_was_purged_since_the_history_was_copied_is_gone_from_the_copy() {
    let Some(server) = super::primary() else {
        return;
    };
    let case = Empty::on(server);
    let folder = TempDir::new().unwrap();
    let source = file(&folder);
    let target = store_over(case.open(&hasher().fingerprint()));
    let mut leasing = Leasing::on(&source, terms(100));
    leasing.settle(&[&settled(&leasing.share, 1, 30)]);
    let running = source.copy_to(&target, &|_, _| {}).unwrap();
    assert!(matches!(running, Copied::History(_)));
    let day = Duration::from_secs(86_400);
    let later = leasing.now.plus(2 * day);
    leasing.now = later;
    leasing.settle(&[&settled(&leasing.share, 2, 5)]);
    let retention = Retention {
        history: Some(day),
        stored: day,
        most_stored: 10,
    };
    assert_eq!(leasing.process.maintain(&retention, later).unwrap(), 1);
    leasing.process.end(later).unwrap();
    let found = copy(&source, &target);
    assert_eq!((found.spent, found.requests), (35, 1));
}
