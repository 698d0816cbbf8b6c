//! Processes: their leases, settlements, crashes and ends.

use super::{DAY, EVERYTHING, Fixture, Home, Work, free, money, settled};
use crate::{
    balance::{Grant, Piece},
    entry::{Entry, PANICS},
    journal::LostSlot,
    store::database::{LeaseMode, Leftover, Look, ProcessNumber, Retention},
};
use std::{
    collections::HashSet,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};
use tollgate_types::{Money, PerUnit, RequestId, Unit};

pub(crate) fn a_lease_is_one_processs_until_it_ends(fixture: &dyn Fixture) {
    let home = Home::on(fixture);
    let key = home.key(100);
    let (mut one, mut two) = (home.process("one"), home.process("two"));
    let looked = home.lease(&mut *one, &key, LeaseMode::Look);
    assert_eq!((free(&looked), looked.of.tokens.elsewhere), (0, 100));
    assert_eq!(free(&home.lease(&mut *one, &key, LeaseMode::Take)), 100);
    assert_eq!(free(&home.lease(&mut *one, &key, LeaseMode::Take)), 0);
    let none = home.lease(&mut *two, &key, LeaseMode::Take);
    let rest = none.of.tokens;
    assert_eq!((free(&none), rest.elsewhere, rest.left), (0, 100, 100));
    assert_eq!(home.store().unleased(&key, home.now()).unwrap().tokens, 0);
    one.end(home.now()).unwrap();
    assert_eq!(free(&home.lease(&mut *two, &key, LeaseMode::Take)), 100);
    home.adds_up(0);
}

pub(crate) fn a_request_that_costs_nothing_begins_its_grants_once(fixture: &dyn Fixture) {
    let home = Home::on(fixture);
    let key = money::key(&home, 100, 7);
    let other = home.key(50);
    let mut process = home.process("one");
    let share = home.lease(&mut *process, &key, LeaseMode::Take);
    let others = home.lease(&mut *process, &other, LeaseMode::Take);
    let begun = |key| {
        let grants = home.store().grants(key).unwrap();
        grants.iter().map(|it| it.valid_from).collect::<Vec<_>>()
    };
    let free = |number, paid: &[&Grant]| Entry {
        at: home.now().unix_ms(),
        paid: paid.iter().map(|grant| (grant.number.0, 0)).collect(),
        ..settled(&share, &share.grants[0], number, 0)
    };
    let mut enter = |entries: &[Entry]| {
        let work = Work {
            settled: entries,
            ..Work::default()
        };
        home.commit(&mut *process, &work);
    };
    enter(&[free(1, &[])]);
    assert_eq!(begun(&key), [None, None]);
    let first = home.now();
    let both = [&share.grants[0], &share.grants[1]];
    enter(&[free(2, &both), free(3, &both)]);
    assert_eq!(begun(&key), [Some(first); 2]);
    // Neither once more, nor by a request of another key, as after a restore.
    home.clock.advance(DAY);
    enter(&[free(4, &both), free(5, &[&others.grants[0]])]);
    assert_eq!(begun(&key), [Some(first); 2]);
    assert_eq!(begun(&other), [None]);
    home.adds_up(5);
}

pub(crate) fn no_more_is_leased_than_is_asked_for(fixture: &dyn Fixture) {
    let home = Home::on(fixture);
    let key = money::key(&home, 100, 7);
    home.top_up(&key, 50);
    let (mut one, mut two) = (home.process("one"), home.process("two"));
    let mut take = |process: usize, mode, tokens, money| {
        let process = if process == 1 { &mut one } else { &mut two };
        let share = home.lease_at_most(&mut **process, &key, mode, PerUnit { tokens, money });
        Unit::ALL.map(|unit| {
            let of_unit = share.grants.iter().filter(|grant| grant.unit == unit);
            let of = share.of.get(unit);
            let leased: u64 = of_unit.map(|grant| grant.free).sum();
            (leased, of.unleased, of.elsewhere)
        })
    };
    assert_eq!(take(1, LeaseMode::Take, 30, 5), [(30, 120, 0), (5, 2, 0)]);
    // The grant that is spent first is leased first.
    assert_eq!(take(2, LeaseMode::Need, 90, 0), [(90, 30, 30), (0, 2, 5)]);
    assert_eq!(take(1, LeaseMode::Take, 0, 0), [(0, 30, 90), (0, 2, 0)]);
    assert_eq!(take(1, LeaseMode::Need, 40, 9), [(30, 0, 90), (2, 0, 0)]);
    // Of a unit that is not to be leased, nothing is requested.
    assert_eq!(take(1, LeaseMode::Need, 0, 9), [(0, 0, 90), (0, 0, 0)]);
    let news = two.news(0, Look::Always).unwrap().unwrap();
    assert!(news.requested.is_empty());
    home.lease(&mut *one, &key, LeaseMode::Need);
    let news = two.news(0, Look::Always).unwrap().unwrap();
    assert_eq!(news.requested, std::slice::from_ref(&key));
    let unleased = home.store().unleased(&key, home.now()).unwrap();
    assert_eq!((unleased.tokens, unleased.money), (0, 0));
    home.adds_up(0);
}

pub(crate) fn a_unit_of_which_nothing_is_leased_is_requested(fixture: &dyn Fixture) {
    let home = Home::on(fixture);
    let key = money::key(&home, 100, 7);
    let (mut one, mut two) = (home.process("one"), home.process("two"));
    let (tokens, money) = (30, 7);
    home.lease_at_most(&mut *one, &key, LeaseMode::Take, PerUnit { tokens, money });
    let share = home.lease_at_most(&mut *two, &key, LeaseMode::Need, PerUnit { tokens, money });
    assert_eq!(free(&share), tokens);
    let news = one.news(0, Look::Always).unwrap().unwrap();
    assert_eq!(news.requested, [key]);
}

pub(crate) fn tokens_that_are_given_back_are_free_for_others(fixture: &dyn Fixture) {
    let home = Home::on(fixture);
    let key = home.key(100);
    let (mut one, mut two) = (home.process("one"), home.process("two"));
    let share = home.lease(&mut *one, &key, LeaseMode::Take);
    let grant = share.grants[0].number;
    // More than is leased is not given back.
    for (tokens, left) in [(101, 0), (40, 40), (61, 0)] {
        let returned = [Piece {
            grant,
            amount: tokens,
        }];
        let work = Work {
            returned: &returned,
            ..Work::default()
        };
        home.commit(&mut *one, &work);
        let leased = home.lease(&mut *two, &key, LeaseMode::Take);
        assert_eq!(free(&leased), left, "{tokens}");
    }
    home.adds_up(0);
}

pub(crate) fn a_lease_request_is_news_for_the_others_until_it_is_withdrawn(fixture: &dyn Fixture) {
    let home = Home::on(fixture);
    let key = home.key(100);
    let (mut one, mut two) = (home.process("one"), home.process("two"));
    home.lease(&mut *one, &key, LeaseMode::Take);
    let news = one.news(0, Look::Always).unwrap().unwrap();
    assert!(news.requested.is_empty());
    // A process that does not need tokens requests none.
    home.lease(&mut *two, &key, LeaseMode::Take);
    assert!(
        one.news(0, Look::Always)
            .unwrap()
            .unwrap()
            .requested
            .is_empty()
    );
    home.lease(&mut *two, &key, LeaseMode::Need);
    let news = one.news(0, Look::IfChanged).unwrap().unwrap();
    assert_eq!(news.requested, std::slice::from_ref(&key));
    assert_eq!(one.news(news.newest, Look::IfChanged).unwrap(), None);
    // It is none for a process that has nothing to give.
    let mut three = home.process("three");
    let news = three.news(0, Look::Always).unwrap().unwrap();
    assert!(news.requested.is_empty());
    let own = two.news(0, Look::Always).unwrap().unwrap();
    assert!(own.requested.is_empty());

    two.keep_lease_requests(&HashSet::from([key.clone()]))
        .unwrap();
    assert_eq!(one.news(0, Look::Always).unwrap().unwrap().requested, [key]);
    two.keep_lease_requests(&HashSet::new()).unwrap();
    assert!(
        one.news(0, Look::Always)
            .unwrap()
            .unwrap()
            .requested
            .is_empty()
    );
}

pub(crate) fn a_process_hears_of_top_ups_and_not_of_spending(fixture: &dyn Fixture) {
    let home = Home::on(fixture);
    let key = home.key(100);
    let (mut one, mut two) = (home.process("one"), home.process("two"));
    let share = home.lease(&mut *two, &key, LeaseMode::Take);
    let first = [settled(&share, &share.grants[0], 1, 10)];
    let work = |settled| Work {
        settled,
        ..Work::default()
    };
    home.commit(&mut *two, &work(&first));
    let seen = one.news(0, Look::Always).unwrap().unwrap().newest;
    let second = [settled(&share, &share.grants[0], 2, 10)];
    home.commit(&mut *two, &work(&second));
    let news = one.news(seen, Look::Always).unwrap().unwrap();
    assert_eq!((news.newest, news.changed), (seen, Some(Vec::new())));
    home.top_up(&key, 50);
    let news = one.news(seen, Look::IfChanged).unwrap().unwrap();
    assert_eq!(news.changed, Some(vec![key]));
    assert!(news.newest > seen);
}

pub(crate) fn a_request_is_charged_once_however_often_it_is_committed(fixture: &dyn Fixture) {
    let home = Home::on(fixture);
    let key = home.key(100);
    let mut process = home.process("one");
    let share = home.lease(&mut *process, &key, LeaseMode::Take);
    let grant = &share.grants[0];
    let batch = [settled(&share, grant, 1, 10), settled(&share, grant, 2, 20)];
    for _ in 0..2 {
        let work = Work {
            settled: &batch,
            ..Work::default()
        };
        home.commit(&mut *process, &work);
        assert_eq!(home.used(&key), 30);
    }
    // The first of several records of one request counts.
    let other = [settled(&share, grant, 1, 50), settled(&share, grant, 3, 5)];
    let work = Work {
        settled: &other,
        ..Work::default()
    };
    home.commit(&mut *process, &work);
    assert_eq!(home.used(&key), 35);
    home.adds_up(3);
}

pub(crate) fn what_is_leased_for_a_request_that_another_process_has_entered_is_free_again(
    fixture: &dyn Fixture,
) {
    let home = Home::on(fixture);
    let key = home.key(100);
    let (mut one, mut two) = (home.process("one"), home.process("two"));
    let half = PerUnit::from_fn(|_| 50);
    let of_one = home.lease_at_most(&mut *one, &key, LeaseMode::Take, half);
    let of_two = home.lease_at_most(&mut *two, &key, LeaseMode::Take, half);
    assert_eq!((free(&of_one), free(&of_two)), (50, 50));
    let work = |settled| Work {
        settled,
        ..Work::default()
    };
    let first = [settled(&of_one, &of_one.grants[0], 1, 10)];
    home.commit(&mut *one, &work(&first));
    let second = [
        settled(&of_two, &of_two.grants[0], 1, 20),
        settled(&of_two, &of_two.grants[0], 2, 5),
    ];
    home.commit(&mut *two, &work(&second));
    assert_eq!(home.used(&key), 15);
    assert_eq!(home.store().verify().unwrap().leased, 40 + 25);
    assert_eq!(home.store().unleased(&key, home.now()).unwrap().tokens, 20);
    home.adds_up(2);
}

pub(crate) fn a_record_that_is_refused_is_quarantined_and_delays_no_other(fixture: &dyn Fixture) {
    let home = Home::on(fixture);
    let key = home.key(100);
    let mut process = home.process("one");
    let share = home.lease(&mut *process, &key, LeaseMode::Take);
    let mut refused = settled(&share, &share.grants[0], 1, 10);
    refused.key += 1000;
    let batch = [refused, settled(&share, &share.grants[0], 2, 20)];
    let work = Work {
        settled: &batch,
        ..Work::default()
    };
    home.commit(&mut *process, &work);
    assert_eq!(home.used(&key), 20);
    let quarantined = process.check_in().unwrap().quarantined;
    assert_eq!((quarantined.refused, quarantined.torn), (1, 0));
    let found = home.store().verify().unwrap();
    assert_eq!(found.faults.len(), 1, "{:?}", found.faults);
}

pub(crate) fn a_charge_above_the_lease_is_paid_from_free_tokens(fixture: &dyn Fixture) {
    let home = Home::on(fixture);
    let key = home.key(100);
    let (mut one, mut two) = (home.process("one"), home.process("two"));
    let share = home.lease(&mut *one, &key, LeaseMode::Take);
    let number = two.check_in().unwrap().peers[0].number;
    two.recover(Some(number), Some(&Leftover::default()), home.now())
        .unwrap();
    assert!(one.check_in().unwrap().is_fenced);
    // Half of it is leased elsewhere.
    let leased = home.lease(&mut *two, &key, LeaseMode::Take);
    let grant = leased.grants[0].number;
    let returned = [Piece { grant, amount: 30 }];
    let work = Work {
        returned: &returned,
        ..Work::default()
    };
    home.commit(&mut *two, &work);
    let late = [settled(&share, &share.grants[0], 1, 50)];
    let work = Work {
        settled: &late,
        ..Work::default()
    };
    let committed = home.commit(&mut *one, &work);
    assert!(committed.is_fenced);
    assert_eq!(home.used(&key), 30);
    home.adds_up(1);
}

pub(crate) fn a_fenced_process_leases_nothing_more(fixture: &dyn Fixture) {
    let home = Home::on(fixture);
    let key = home.key(100);
    let (mut one, mut two) = (home.process("one"), home.process("two"));
    assert!(!one.check_in().unwrap().is_fenced);
    let number = two.check_in().unwrap().peers[0].number;
    two.recover(Some(number), Some(&Leftover::default()), home.now())
        .unwrap();
    let leases = [crate::store::database::Lease {
        key: key.clone(),
        mode: LeaseMode::Need,
        most: EVERYTHING,
    }];
    let work = Work {
        leases: &leases,
        ..Work::default()
    };
    let committed = home.commit(&mut *one, &work);
    assert!(committed.is_fenced && committed.shares.is_empty());
    assert!(two.check_in().unwrap().peers.is_empty());
    assert_eq!(free(&home.lease(&mut *two, &key, LeaseMode::Take)), 100);
}

pub(crate) fn records_of_a_crashed_process_are_entered_once(fixture: &dyn Fixture) {
    let home = Home::on(fixture);
    let key = home.key(100);
    let (mut crashed, mut other) = (home.process("crashed"), home.process("other"));
    let share = home.lease(&mut *crashed, &key, LeaseMode::Take);
    let grant = &share.grants[0];
    let known = [settled(&share, grant, 1, 10)];
    let work = Work {
        settled: &known,
        ..Work::default()
    };
    home.commit(&mut *crashed, &work);
    drop(crashed);
    let mut cut = settled(&share, grant, 3, 5);
    cut.is_progress = true;
    let torn = [
        LostSlot {
            bytes: b"of a known request".to_vec(),
            request: Some(known[0].request),
        },
        LostSlot {
            bytes: b"of another".to_vec(),
            request: Some(RequestId::from_parts(0, 77)),
        },
    ];
    let left = || Leftover {
        entries: vec![known[0].clone(), settled(&share, grant, 2, 20), cut.clone()],
        unreadable: vec![b"what is this"],
        torn: &torn,
    };
    let peers = other.check_in().unwrap().peers;
    assert_eq!(peers[0].journal, "crashed");
    let number = peers[0].number;
    let recovered = other
        .recover(Some(number), Some(&left()), home.now())
        .unwrap();
    assert_eq!(
        (recovered.settled, recovered.cut, recovered.torn),
        (1, 1, 1)
    );
    assert_eq!(home.used(&key), 35);
    let checked = other.check_in().unwrap();
    assert!(checked.peers.is_empty());
    assert_eq!(checked.quarantined.torn, 1);
    assert_eq!(checked.quarantined.unreadable, 1);
    // Its leases are free, and a second recovery finds nothing new, whether it knows the process or not.
    for process in [Some(number), None] {
        let again = other.recover(process, Some(&left()), home.now()).unwrap();
        assert_eq!((again.settled, again.cut, again.torn), (0, 0, 0));
    }
    assert_eq!(other.check_in().unwrap().quarantined, checked.quarantined);
    assert_eq!(home.used(&key), 35);
    assert_eq!(free(&home.lease(&mut *other, &key, LeaseMode::Take)), 65);
}

pub(crate) fn a_panic_at_a_record_undoes_what_was_entered_with_it(fixture: &dyn Fixture) {
    let home = Home::on(fixture);
    let key = home.key(100);
    let (mut crashed, mut other) = (home.process("crashed"), home.process("other"));
    let share = home.lease(&mut *crashed, &key, LeaseMode::Take);
    drop(crashed);
    let good = settled(&share, &share.grants[0], 1, 10);
    let bad = Entry {
        asked: PANICS.into(),
        ..settled(&share, &share.grants[0], 2, 20)
    };
    let number = other.check_in().unwrap().peers[0].number;
    let mut recover = |entries: Vec<Entry>| {
        let leftover = Leftover {
            entries,
            ..Leftover::default()
        };
        let run = || other.recover(Some(number), Some(&leftover), home.now());
        catch_unwind(AssertUnwindSafe(run))
    };
    assert!(recover(vec![good.clone(), bad]).is_err());
    assert_eq!(home.used(&key), 0);
    assert_eq!(recover(vec![good]).unwrap().unwrap().settled, 1);
    assert_eq!(home.used(&key), 10);
    home.adds_up(1);
}

pub(crate) fn processes_that_have_ended_are_no_peers(fixture: &dyn Fixture) {
    let home = Home::on(fixture);
    let (mut one, mut two) = (home.process("one"), home.process("two"));
    let numbers = |process: &mut dyn crate::store::database::Process| -> Vec<ProcessNumber> {
        let peers = process.check_in().unwrap().peers;
        peers.iter().map(|peer| peer.number).collect()
    };
    let (of_one, of_two) = (numbers(&mut *one), numbers(&mut *two));
    assert_eq!((of_one.len(), of_two.len()), (1, 1));
    assert_ne!(of_one, of_two);
    one.end(home.now()).unwrap();
    assert_eq!(numbers(&mut *two), []);
}

pub(crate) fn old_records_go_and_what_they_charged_stays(fixture: &dyn Fixture) {
    let home = Home::on(fixture);
    let key = home.key(100);
    let mut process = home.process("one");
    let share = home.lease(&mut *process, &key, LeaseMode::Take);
    let first = [settled(&share, &share.grants[0], 1, 10)];
    let work = |settled| Work {
        settled,
        ..Work::default()
    };
    home.commit(&mut *process, &work(&first));
    // PostgreSQL drops the records of a whole week.
    home.clock.advance(14 * DAY);
    let second = [settled(&share, &share.grants[0], 2, 10)];
    home.commit(&mut *process, &work(&second));
    let of = |history| Retention {
        history,
        stored: DAY,
        most_stored: 10,
    };
    assert_eq!(process.maintain(&of(None), home.now()).unwrap(), 0);
    assert_eq!(home.purge(&mut *process, &of(Some(DAY))), 1);
    // An hour at least, whatever the retention is.
    assert_eq!(
        process
            .maintain(&of(Some(Duration::ZERO)), home.now())
            .unwrap(),
        0
    );
    assert_eq!(home.used(&key), 20);
    home.adds_up(1);
    let summary = home.store();
    let summary = summary.database().summary(&key, home.now()).unwrap();
    assert_eq!(summary.models[0].requests, 2);
    assert_eq!(summary.models[0].cost.nanos(), 20);
}

pub(crate) fn the_cost_of_a_batch_is_exact(fixture: &dyn Fixture) {
    const DEAREST: u64 = 1 << 52;
    let home = Home::on(fixture);
    let key = home.key(100);
    let mut process = home.process("one");
    let share = home.lease(&mut *process, &key, LeaseMode::Take);
    let costs = [DEAREST, DEAREST, 1];
    let settled = [0, 1, 2].map(|number: usize| Entry {
        cost: Some(Money::from_nanos(costs[number])),
        ..settled(&share, &share.grants[0], number as u64, 1)
    });
    let work = Work {
        settled: &settled,
        ..Work::default()
    };
    home.commit(&mut *process, &work);
    let store = home.store();
    let summary = store.database().summary(&key, home.now()).unwrap();
    assert_eq!(summary.models[0].cost.nanos(), 2 * DEAREST + 1);
    home.adds_up(3);
}

pub(crate) fn keys_that_are_used_up_most_come_first(fixture: &dyn Fixture) {
    let home = Home::on(fixture);
    let keys = [home.key(1000), home.key(100), home.key(100)];
    let mut process = home.process("one");
    for (number, (key, tokens)) in [(0, 100), (1, 50)].into_iter().enumerate() {
        let share = home.lease(&mut *process, &keys[key], LeaseMode::Take);
        let settled = [settled(&share, &share.grants[0], number as u64, tokens)];
        let work = Work {
            settled: &settled,
            ..Work::default()
        };
        home.commit(&mut *process, &work);
    }
    let store = home.store();
    let used = store.most_used(5).unwrap();
    let used: Vec<_> = used.iter().map(|it| (&it.id, it.tokens, it.used)).collect();
    assert_eq!(used, [(&keys[1], 100, 50), (&keys[0], 1000, 100)]);
    assert_eq!(store.most_used(1).unwrap().len(), 1);
}
