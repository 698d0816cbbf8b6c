//! Old rows go, by the clock of the server as well.

use super::{Empty, Leasing, hasher, settled, terms};
use crate::{
    clock::{Clock, Timestamp},
    memory::{MemoryLimits, Remembered},
    ownership::Stored,
    store::{
        Store,
        database::{AnswerChange, Batch, Retention},
        migrate,
        postgres::connection::LOCK_TIMEOUT,
    },
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tollgate_types::RequestId;

const DAY: Duration = Duration::from_secs(86_400);
const MONTH: Duration = Duration::from_secs(30 * 86_400);

fn case() -> Option<Empty> {
    let case = Empty::on(super::primary()?);
    migrate(&case.settings().server).unwrap();
    Some(case)
}

fn open(case: &Empty) -> Store {
    Store::open_on_server(case.settings(), hasher(), Clock::system()).unwrap()
}

/// Makes a record, an owner and an answer of this number.
fn make(leasing: &mut Leasing, store: &Store, number: u64, at: Timestamp) {
    let stored = Stored {
        id: format!("resp_{number}").into(),
        key: leasing.key.clone(),
        provider: "east".into(),
        credential: "first".into(),
        tokens: None,
        request: None,
        tariff: None,
    };
    let entry = settled(&leasing.share, number, 10);
    let batch = Batch {
        settled: &[&entry],
        stored: &[Arc::new(stored)],
        returned: &[],
        leases: &[],
        now: &|| at,
        pause: &|| (),
    };
    leasing.process.commit(&batch).unwrap();
    let answer = Remembered {
        id: entry.request,
        key: leasing.key.clone(),
        previous: None,
        input: "1".into(),
        response: "2".into(),
    };
    let limits = Some(MemoryLimits {
        bytes_per_key: 1 << 20,
        bytes: 1 << 20,
        time: MONTH,
    });
    let change = [AnswerChange::Remember(&answer)];
    let changed = store.database().change_answers(&change, limits, 1, at);
    changed.unwrap();
}

/// Whether the record, the owner and the answer of this number are there.
fn is_left(leasing: &Leasing, store: &Store, number: u64) -> [bool; 3] {
    let database = store.database();
    let (id, begin) = (
        RequestId::from_parts(0, number.into()),
        Timestamp::from_unix_ms(0),
    );
    let owner = database.stored(&[&format!("resp_{number}")]).unwrap();
    let answer = database.answer(&leasing.key, id, begin).unwrap();
    let record = database.request(&id).unwrap();
    [record.is_some(), !owner.is_empty(), answer.is_some()]
}

#[test]
fn a_gateway_whose_clock_is_years_ahead_deletes_only_what_is_old_by_the_clock_of_the_server() {
    let Some(case) = case() else { return };
    let store = open(&case);
    let mut leasing = Leasing::on(&store, terms(100));
    let now = leasing.now;
    make(&mut leasing, &store, 1, now.minus(2 * MONTH));
    make(&mut leasing, &store, 2, now);
    let ahead = now.plus(3650 * DAY);
    let retention = Retention {
        history: Some(MONTH),
        stored: MONTH,
        most_stored: 10,
    };
    let mut purge = || leasing.process.maintain(&retention, ahead).unwrap();
    // It may take longer than one purge waits.
    assert_eq!((0..100).map(|_| purge()).find(|gone| *gone > 0), Some(1));
    assert_eq!(purge(), 0);
    let answers = store.database().expire_answers(ahead, MONTH, u64::MAX);
    assert!(answers.unwrap() > 0);
    assert_eq!(is_left(&leasing, &store, 1), [false; 3]);
    assert_eq!(is_left(&leasing, &store, 2), [true; 3]);
    assert_eq!(store.verify().unwrap().faults, [""; 0]);
}

#[test]
fn the_records_of_a_new_week_do_not_wait_until_an_old_one_is_dropped() {
    let Some(case) = case() else { return };
    let store = open(&case);
    let mut leasing = Leasing::on(&store, terms(100));
    let mut dropping = case.server.local(&case.name).connect().unwrap();
    let drop_nothing = "BEGIN; SELECT drop_history_part(0)";
    dropping.batch_execute(drop_nothing).unwrap();
    let begun = Instant::now();
    leasing.settle(&[&settled(&leasing.share, 1, 10)]);
    assert!(begun.elapsed() < LOCK_TIMEOUT, "{:?}", begun.elapsed());
}
