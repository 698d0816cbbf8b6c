//! Balances in money, alone and beside tokens.

use super::{DAY, Fixture, Home, Work, settled};
use crate::{
    balance::Grant,
    entry::Entry,
    history::{Direction, HistoryQuery},
    record::NewKey,
    store::{
        GrantTerms, KeySelector, OrderName, StoreError,
        database::{LeaseMode, Leftover, Retention, Share},
    },
};
use std::time::Duration;
use tollgate_types::{KeyId, Money, Unit};

fn money(nanos: u64) -> Money {
    Money::from_nanos(nanos)
}

fn terms(tokens: u64, nanos: u64) -> GrantTerms {
    GrantTerms {
        plan: Some("pro".into()),
        tokens,
        money: money(nanos),
        validity: DAY,
    }
}

pub(super) fn key(home: &Home<'_>, tokens: u64, nanos: u64) -> KeyId {
    let new = NewKey {
        grant: Some(terms(tokens, nanos)),
        ..NewKey::named("ci")
    };
    let made = home.store().create_key(&new).unwrap();
    made.record.id().clone()
}

fn grant(share: &Share, unit: Unit) -> &Grant {
    let mut grants = share.grants.iter();
    grants.find(|grant| grant.unit == unit).unwrap()
}

/// A request that is paid so many tokens and so much of its cost.
fn paid(share: &Share, number: u64, tokens: u64, nanos: u64) -> Entry {
    Entry {
        cost: Some(money(nanos)),
        cost_paid: vec![(grant(share, Unit::Money).number.0, nanos)].into(),
        cost_overdraft: Some(Money::ZERO),
        ..settled(share, grant(share, Unit::Tokens), number, tokens)
    }
}

/// What is used of a key's tokens and money.
fn used(home: &Home<'_>, key: &KeyId) -> (u64, u64) {
    let grants = home.store().grants(key).unwrap();
    let money = grants.iter().map(|grant| grant.money_used.nanos());
    (grants.iter().map(|grant| grant.used).sum(), money.sum())
}

pub(crate) fn one_order_makes_a_grant_of_each_unit_once(fixture: &dyn Fixture) {
    let home = Home::on(fixture);
    let key = KeySelector::Id(key(&home, 1, 0));
    let store = home.store();
    let order = OrderName::new("order-1").unwrap();
    let give = |terms: &GrantTerms| store.top_up_once(&key, terms, &order);
    let made = give(&terms(10, 2_500_000_000)).unwrap();
    let amounts = |it: &crate::store::GrantView| (it.tokens, it.money.to_string());
    let given: Vec<_> = made.iter().map(amounts).collect();
    assert_eq!(given, [(10, "0".to_owned()), (0, "2.5".to_owned())]);
    assert_ne!(made[0].id, made[1].id);
    assert_eq!(give(&terms(10, 2_500_000_000)).unwrap(), made);
    for other in [
        terms(10, 0),
        terms(0, 2_500_000_000),
        terms(11, 2_500_000_000),
    ] {
        let refused = give(&other).unwrap_err();
        assert!(
            matches!(refused, StoreError::OtherOrder { .. }),
            "{refused}"
        );
    }
    let nothing = store.top_up(&key, &terms(0, 0)).unwrap_err();
    assert!(matches!(nothing, StoreError::InvalidGrant));
    let KeySelector::Id(id) = &key else {
        unreachable!("it was made by its id")
    };
    assert_eq!(store.grants(id).unwrap().len(), 3);
    home.adds_up(0);
}

pub(crate) fn both_units_are_leased_and_charged_and_add_up(fixture: &dyn Fixture) {
    let home = Home::on(fixture);
    let key = key(&home, 100, 5_000);
    let mut process = home.process("one");
    let share = home.lease(&mut *process, &key, LeaseMode::Take);
    let free = |unit| grant(&share, unit).free;
    assert_eq!((free(Unit::Tokens), free(Unit::Money)), (100, 5_000));
    let mut other = home.process("two");
    let none = home.lease(&mut *other, &key, LeaseMode::Take);
    assert_eq!(
        (none.of.tokens.elsewhere, none.of.money.elsewhere),
        (100, 5_000)
    );
    let entries = [
        paid(&share, 1, 10, 300),
        Entry {
            cost: Some(money(450)),
            cost_overdraft: Some(money(50)),
            ..paid(&share, 2, 20, 400)
        },
    ];
    let work = Work {
        settled: &entries,
        ..Work::default()
    };
    home.commit(&mut *process, &work);
    let store = home.store();
    let found = store.verify().unwrap();
    assert_eq!((found.spent, found.leased), (30, 70));
    assert_eq!(
        (found.money_spent, found.money_leased),
        (money(700), money(4_300))
    );
    home.commit(&mut *process, &work);
    assert_eq!(used(&home, &key), (30, 700));
    home.adds_up(2);
    let summary = store.database().summary(&key, home.now()).unwrap();
    let given = (summary.given.tokens.unwrap(), summary.given.money.unwrap());
    assert_eq!(
        (given.0.used, given.1.granted, given.1.used),
        (30, 5_000, 700)
    );
    let query = HistoryQuery::default();
    let found = store
        .database()
        .history(&key, &query, Direction::Older(None), 9);
    let overdraft = |it: &crate::history::UsageRecord| it.cost_overdraft.unwrap().nanos();
    let overdrafts: Vec<_> = found.unwrap().records.iter().map(overdraft).collect();
    assert_eq!(overdrafts, [50, 0]);
    // The rest is free again, and old records go without a trace in the sums.
    process.end(home.now()).unwrap();
    let unleased = store.unleased(&key, home.now()).unwrap();
    assert_eq!((unleased.tokens, unleased.money), (70, 4_300));
    // PostgreSQL drops the records of a whole week.
    home.clock.advance(14 * DAY);
    let retention = Retention {
        history: Some(Duration::from_secs(3600)),
        stored: DAY,
        most_stored: 10,
    };
    assert_eq!(home.purge(&mut *other, &retention), 2);
    assert_eq!(used(&home, &key), (30, 700));
    home.adds_up(0);
}

pub(crate) fn what_is_leased_adds_up_to_the_nano_unit(fixture: &dyn Fixture) {
    const NANOS: u64 = 2_700_000_001;
    let home = Home::on(fixture);
    let key = key(&home, 100, NANOS);
    let mut process = home.process("one");
    home.lease(&mut *process, &key, LeaseMode::Take);
    let found = home.store().verify().unwrap();
    assert_eq!((found.leased, found.money_leased), (100, money(NANOS)));
    assert_eq!(found.money_granted, money(NANOS));
}

pub(crate) fn several_grants_of_money_pay_one_request(fixture: &dyn Fixture) {
    let home = Home::on(fixture);
    let key = key(&home, 100, 500);
    let selector = KeySelector::Id(key.clone());
    home.store().top_up(&selector, &terms(0, 700)).unwrap();
    let mut process = home.process("one");
    let share = home.lease(&mut *process, &key, LeaseMode::Take);
    let of_money = share.grants.iter().filter(|it| it.unit == Unit::Money);
    let pieces: Vec<_> = of_money.map(|it| (it.number.0, it.free)).collect();
    assert_eq!(pieces.len(), 2);
    let entries = [
        Entry {
            cost: Some(money(1_200)),
            cost_paid: pieces.into(),
            ..paid(&share, 1, 10, 0)
        },
        paid(&share, 2, 5, 0),
    ];
    let work = Work {
        settled: &entries,
        ..Work::default()
    };
    home.commit(&mut *process, &work);
    assert_eq!(used(&home, &key), (15, 1_200));
    home.adds_up(2);
}

pub(crate) fn a_fenced_process_pays_what_is_free_and_overdraws_the_rest(fixture: &dyn Fixture) {
    let home = Home::on(fixture);
    let key = key(&home, 0, 1_000);
    let mut process = home.process("one");
    let share = home.lease(&mut *process, &key, LeaseMode::Take);
    let entry = |number, nanos| Entry {
        paid: Default::default(),
        ..Entry {
            cost: Some(money(nanos)),
            cost_paid: vec![(grant(&share, Unit::Money).number.0, nanos)].into(),
            cost_overdraft: Some(Money::ZERO),
            ..settled(&share, grant(&share, Unit::Money), number, 1)
        }
    };
    let mut other = home.process("two");
    let peer = other.check_in().unwrap().peers.remove(0);
    let leftover = Leftover {
        entries: vec![entry(1, 600)],
        ..Leftover::default()
    };
    other
        .recover(Some(peer.number), Some(&leftover), home.now())
        .unwrap();
    assert_eq!(used(&home, &key), (0, 600));
    // It comes twice, and another request that the crashed process still settles.
    let late = [entry(1, 600), entry(2, 700)];
    let work = Work {
        settled: &late,
        ..Work::default()
    };
    assert!(home.commit(&mut *process, &work).is_fenced);
    assert_eq!(used(&home, &key), (0, 1_000));
    home.adds_up(2);
    let store = home.store();
    let query = HistoryQuery::default();
    let found = store
        .database()
        .history(&key, &query, Direction::Older(None), 1);
    let record = found.unwrap().records.remove(0);
    assert_eq!(
        (record.cost, record.cost_overdraft),
        (Some(money(700)), Some(money(300)))
    );
    assert_eq!((record.charged, record.overdraft), (0, 0));
}

pub(crate) fn a_key_pays_in_money_once_it_was_given_some(fixture: &dyn Fixture) {
    let home = Home::on(fixture);
    let id = key(&home, 10, 0);
    let selector = KeySelector::Id(id);
    let pays = || {
        home.store()
            .find_key(&selector)
            .unwrap()
            .identity
            .pays_money
    };
    assert!(!pays());
    home.store().top_up(&selector, &terms(10, 0)).unwrap();
    assert!(!pays());
    home.store().top_up(&selector, &terms(0, 1)).unwrap();
    assert!(pays());
    // What was given and has expired counts.
    home.clock.advance(100 * DAY);
    assert!(pays());
}

pub(crate) fn the_larger_share_of_both_units_counts(fixture: &dyn Fixture) {
    let home = Home::on(fixture);
    let keys = [key(&home, 100, 1_000), key(&home, 100, 1_000)];
    let mut process = home.process("one");
    for (number, (key, tokens, nanos)) in [(0, 40, 100), (1, 10, 900)].into_iter().enumerate() {
        let share = home.lease(&mut *process, &keys[key], LeaseMode::Take);
        let entries = [paid(&share, number as u64, tokens, nanos)];
        let work = Work {
            settled: &entries,
            ..Work::default()
        };
        home.commit(&mut *process, &work);
    }
    let used = home.store().most_used(5).unwrap();
    let of = |it: &crate::store::KeyUse| (it.id.clone(), it.used, it.money_used.nanos());
    let used: Vec<_> = used.iter().map(of).collect();
    assert_eq!(
        used,
        [(keys[1].clone(), 10, 900), (keys[0].clone(), 40, 100)]
    );
}
