//! Records that are entered later than others that were settled after them.

use super::*;
use crate::{
    entry::{Entry, tests::largest},
    history::{HistoryPage, UsageRecord},
    store::{
        database::{Batch, Lease, LeaseMode, Process},
        sqlite::testing::SqliteProcess,
    },
};
use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicBool, Ordering},
};

/// The record of a request that was settled at this millisecond after the beginning.
fn settled(key: i64, number: u64, at: u64) -> Entry {
    Entry {
        request: RequestId::from_parts(0, number.into()),
        key,
        at: BEGIN + at,
        paid: Vec::new().into(),
        overdraft: 0,
        cost: Some(tollgate_types::Money::from_nanos(number)),
        usage: output(1),
        ..largest()
    }
}

const BEGIN: u64 = 1_790_000_000_000;
const DAY_MS: u64 = 86_400_000;

struct Desk {
    house: House,
    process: SqliteProcess,
    history: History,
    key: KeyId,
}

impl Desk {
    fn new() -> Self {
        let house = House::new();
        let key = house.key(1000);
        Self {
            process: testing::process(&house.path(), Timestamp::from_unix_ms(BEGIN)),
            history: History::new(&house.store()),
            house,
            key,
        }
    }

    /// Enters records in one commit, at this millisecond after the beginning.
    fn enter(&mut self, now: u64, entries: &[Entry]) {
        let now = Timestamp::from_unix_ms(BEGIN + now);
        self.enter_by(&|| now, entries);
    }

    fn enter_by(&mut self, now: &dyn Fn() -> Timestamp, entries: &[Entry]) {
        let settled: Vec<&Entry> = entries.iter().collect();
        let batch = Batch {
            settled: &settled,
            stored: &[],
            returned: &[],
            leases: &[],
            now,
            pause: &|| (),
        };
        self.process.commit(&batch).unwrap();
    }

    /// Purges once what is older than 90 days. Returns how many records.
    fn purge(&mut self, now: Timestamp) -> usize {
        let retention = Retention {
            history: Some(90 * DAY),
            stored: 90 * DAY,
            most_stored: 1000,
        };
        self.process.maintain(&retention, now).unwrap()
    }

    /// Enters so many records with a commit, whose clock says that it is this day.
    fn enter_on(&mut self, day: u64, first: u64, count: u64) {
        let now = day * DAY_MS;
        let numbers = first..first + count;
        let entries: Vec<_> = numbers.map(|number| settled(1, number, now)).collect();
        self.enter(now, &entries);
    }

    /// Takes away what is older than 90 days on this day, as often as it takes. What is left.
    fn purge_on(&mut self, day: u64) -> u64 {
        let now = Timestamp::from_unix_ms(BEGIN + day * DAY_MS);
        while self.purge(now) > 0 {}
        let found = self.house.store().verify().unwrap();
        assert_eq!(found.faults, [""; 0]);
        found.requests
    }

    fn page(&self, query: &HistoryQuery) -> HistoryPage {
        self.history.page(&self.key, query).unwrap()
    }

    fn since(&self, cursor: Option<&str>) -> HistoryPage {
        self.page(&HistoryQuery {
            before: cursor.map(str::to_owned),
            ..HistoryQuery::default()
        })
    }
}

fn ids(records: &[UsageRecord]) -> Vec<String> {
    records.iter().map(|record| record.id.clone()).collect()
}

fn times(records: &[UsageRecord]) -> Vec<u64> {
    let times = records.iter().map(|record| record.time.unix_ms() - BEGIN);
    times.collect()
}

#[test]
fn a_record_that_had_to_wait_for_the_file_is_late_from_when_it_is_entered() {
    let mut desk = Desk::new();
    let path = desk.house.path();
    static WAITS: AtomicBool = AtomicBool::new(false);
    static IS_FREE: AtomicBool = AtomicBool::new(false);
    let (locks, locked) = std::sync::mpsc::channel();
    let other = std::thread::spawn(move || {
        let lock = testing::Other::lock(&path);
        locks.send(()).unwrap();
        while !WAITS.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        IS_FREE.store(true, Ordering::SeqCst);
        lock.end();
    });
    locked.recv().unwrap();
    // Four seconds go by while the file is locked.
    let clock = || {
        let waited = if IS_FREE.load(Ordering::SeqCst) {
            4000
        } else {
            0
        };
        Timestamp::from_unix_ms(BEGIN + waited)
    };
    testing::when_it_waits(&mut desk.process, |_| {
        WAITS.store(true, Ordering::SeqCst);
        std::thread::yield_now();
        true
    });
    desk.enter_by(&clock, &[settled(1, 1, 0)]);
    other.join().unwrap();
    assert_eq!(times(&desk.since(None).data), [4000]);
}

#[test]
fn a_request_that_is_committed_again_after_a_failure_is_paid_once() {
    let mut desk = Desk::new();
    let path = desk.house.path();
    let lease = Lease {
        key: desk.key.clone(),
        mode: LeaseMode::Take,
        most: PerUnit::from_fn(|_| u64::MAX),
    };
    let mut entry = settled(1, 1, 0);
    entry.paid = vec![(1, 10)].into();
    fn batch<'a>(settled: &'a [&'a Entry], leases: &'a [Lease]) -> Batch<'a> {
        Batch {
            settled,
            stored: &[],
            returned: &[],
            leases,
            now: &|| Timestamp::from_unix_ms(BEGIN),
            pause: &|| (),
        }
    }
    desk.process.commit(&batch(&[], &[lease])).unwrap();
    testing::when_it_waits(&mut desk.process, |_| false);
    let lock = testing::Other::lock(&path);
    desk.process.commit(&batch(&[&entry], &[])).unwrap_err();
    lock.end();
    desk.process.commit(&batch(&[&entry], &[])).unwrap();
    let found = desk.house.store().verify().unwrap();
    assert_eq!(
        (found.leased, found.spent, found.faults),
        (990, 10, Vec::new())
    );
}

#[test]
fn a_round_takes_more_than_one_batch_of_old_records_away() {
    let mut desk = Desk::new();
    desk.enter_on(0, 0, 6000);
    let now = Timestamp::from_unix_ms(BEGIN + 91 * DAY_MS);
    // A slow transaction ends its round, but not every one is slow: some round has more than one.
    assert!((0..10).any(|_| desk.purge(now) > 500));
    desk.enter_on(91, 6000, 30);
    assert_eq!(desk.purge_on(91), 30);
}

#[test]
fn a_settlement_that_is_entered_late_is_newer_than_those_entered_before_it() {
    let mut desk = Desk::new();
    desk.enter(1000, &[settled(1, 1, 900), settled(1, 2, 1000)]);
    let seen = desk.since(None);
    assert_eq!(times(&seen.data), [1000, 900]);
    // By another process, 200 ms later; one that died an hour ago; one whose clock is ahead.
    desk.enter(1150, &[settled(1, 3, 950)]);
    let hour = 3_600_000;
    desk.enter(hour, &[settled(1, 4, 960)]);
    desk.enter(
        hour + 10,
        &[settled(1, 5, hour + 5000), settled(1, 6, hour + 9)],
    );
    let more = desk.since(seen.first_cursor.as_deref());
    assert_eq!(times(&more.data), [hour + 10, hour + 9, hour, 1000]);
    let expected = [5, 6, 4, 3].map(|number| settled(1, number, 0).request.to_string());
    assert_eq!(ids(&more.data), expected);
    // What lay in a time that was over has stayed as it was.
    let over = HistoryQuery {
        to: Some(Timestamp::from_unix_ms(BEGIN + 1000)),
        ..HistoryQuery::default()
    };
    assert_eq!(ids(&desk.page(&over).data), ids(&seen.data[1..]));
    // When the use of a grant began is no matter of the record.
    let mut paying = settled(1, 7, 970);
    paying.paid = vec![(1, 5)].into();
    desk.enter(hour + 20, &[paying]);
    let first: i64 = desk.house.sql("SELECT first_used_at FROM grants");
    assert_eq!(first.unsigned_abs(), BEGIN + 970);
}

/// SplitMix64: the same seed throws the same.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % end
    }
}

#[test]
fn readers_in_both_directions_see_each_record_once_despite_late_entries() {
    let seed = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let seed = u64::try_from(seed.as_nanos()).unwrap();
    println!("seed {seed}");
    let mut dice = Dice(seed);
    let mut desk = Desk::new();
    let mut entered = BTreeSet::new();
    let (mut number, mut now) = (0, 10_000_u64);
    let mut commit = |desk: &mut Desk, entered: &mut BTreeSet<String>, dice: &mut Dice| {
        now += dice.below(300);
        let mut batch = Vec::new();
        for _ in 0..(1 + dice.below(7)) {
            number += 1;
            // Mostly milliseconds ago; now and then much longer.
            let most = if dice.below(16) == 0 { 9000 } else { 400 };
            let ago = dice.below(most);
            batch.push(settled(1, number, now.saturating_sub(ago)));
        }
        entered.extend(batch.iter().map(|entry| entry.request.to_string()));
        desk.enter(now, &batch);
    };
    commit(&mut desk, &mut entered, &mut dice);
    let first = desk.since(None);
    let mut followed = ids(&first.data);
    let mut cursor = first.first_cursor;
    for _ in 0..40 {
        commit(&mut desk, &mut entered, &mut dice);
        // A walk back sees what there was when it began, and what comes in the meantime not.
        let (known, mut walked, mut between) = (entered.clone(), Vec::new(), 3);
        let mut query = HistoryQuery {
            limit: 1 + u32::try_from(dice.below(40)).unwrap(),
            ..HistoryQuery::default()
        };
        loop {
            let page = desk.page(&query);
            walked.extend(ids(&page.data));
            query.after = page.last_cursor;
            if !page.has_more {
                break;
            }
            if between > 0 && dice.below(2) == 0 {
                between -= 1;
                commit(&mut desk, &mut entered, &mut dice);
            }
        }
        let apart: BTreeSet<_> = walked.iter().cloned().collect();
        assert_eq!((walked.len(), &apart), (known.len(), &known));

        let query = HistoryQuery {
            limit: 1 + u32::try_from(dice.below(20)).unwrap(),
            before: cursor.take(),
            ..HistoryQuery::default()
        };
        let page = desk.page(&query);
        followed.extend(ids(&page.data));
        cursor = page.first_cursor.or(query.before);
    }
    loop {
        let page = desk.since(cursor.as_deref());
        followed.extend(ids(&page.data));
        if page.data.is_empty() {
            break;
        }
        cursor = page.first_cursor;
    }
    let apart: BTreeSet<_> = followed.iter().cloned().collect();
    assert_eq!((followed.len(), apart), (entered.len(), entered));
}

#[test]
fn a_clock_that_was_wrong_dates_no_record_behind_its_own() {
    const YEAR: u64 = 365 * 86_400_000;
    let mut desk = Desk::new();
    desk.enter(YEAR, &[settled(1, 1, YEAR)]);
    desk.enter(1000, &[settled(1, 2, 990)]);
    desk.enter(1200, &[settled(1, 3, 980)]);
    assert_eq!(times(&desk.since(None).data), [YEAR, 990, 990]);
}

#[test]
fn records_of_a_clock_that_was_years_ahead_go_with_the_others_and_hold_none_back() {
    for (wrong, right) in [(1, 5), (40, 120), (700, 2100), (1500, 3)] {
        let mut desk = Desk::new();
        desk.enter_on(0, 0, 3);
        desk.enter_on(5000, 10_000, wrong);
        desk.enter_on(1, 20_000, right);
        desk.enter_on(2, 30_000, 7);
        let all = 3 + wrong + right + 7;
        assert_eq!(desk.purge_on(89), all, "{wrong}");
        assert_eq!(desk.purge_on(91), all - 3, "{wrong}");
        assert_eq!(desk.purge_on(92), 7, "{wrong}");
        assert_eq!(desk.purge_on(93), 0, "{wrong}");
    }
}

#[test]
fn a_clock_that_was_days_ahead_keeps_records_for_as_many_days_longer() {
    let mut desk = Desk::new();
    desk.enter_on(0, 0, 3);
    desk.enter_on(40, 10_000, 5);
    desk.enter_on(1, 20_000, 7);
    assert_eq!(desk.purge_on(92), 12);
    assert_eq!(desk.purge_on(130), 12);
    assert_eq!(desk.purge_on(131), 0);
}

#[test]
fn a_few_records_of_a_clock_that_was_behind_take_no_others_with_them() {
    let mut desk = Desk::new();
    desk.enter_on(1000, 0, 5);
    desk.enter_on(3, 10, 5);
    desk.enter_on(1000, 20, 5);
    assert_eq!(desk.purge_on(1001), 15);
    assert_eq!(desk.purge_on(1091), 0);

    // Those of the last hour stay however many there are.
    let mut desk = Desk::new();
    desk.enter_on(1000, 0, 1);
    desk.enter_on(3, 10, 50);
    assert_eq!(desk.purge_on(1000), 51);
}
