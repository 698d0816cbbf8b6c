//! What is left in the settlement file of a crashed process if it is not whole.

use super::*;
use crate::entry::{Entry, PANICS, tests::largest};
use std::fs;

/// What many grants have paid: longer than a slot.
fn long(house: &House, number: u128) -> Entry {
    let key = house.key(10);
    for _ in 1..20 {
        house.top_up(&key, 10);
    }
    let grants = "SELECT number FROM grants ORDER BY number DESC LIMIT 20";
    let grants: Vec<i64> = testing::values(&house.path(), grants).unwrap();
    let grants = grants.into_iter();
    Entry {
        request: RequestId::from_parts(0, number),
        key: house.sql("SELECT max(number) FROM keys"),
        at: 1_790_000_000_000,
        paid: grants.map(|grant| (grant, 3)).collect::<Vec<_>>().into(),
        overdraft: 0,
        usage: Usage {
            output: 60,
            ..Usage::default()
        },
        ..largest()
    }
}

/// Leaves the file of a crashed process with these records in it, without the slots of these places.
/// Of how many slots they were.
fn leave(house: &House, entries: &[&Entry], emptied: std::ops::Range<usize>) -> usize {
    let path = house.folder.path().join("ledger.db.settlements-left");
    let journal = Journal::create(path.clone(), 8, Path::new("ledger.db")).unwrap();
    let mut count = 0;
    for entry in entries {
        let mut slot = journal.take().unwrap();
        let slots = slots_for(entry.paid.len());
        assert!(journal.widen(&mut slot, slots));
        journal
            .write(&slot, entry.request, |out| entry.write_record(out))
            .unwrap();
        count += slots;
    }
    journal.die();
    let mut bytes = fs::read(&path).unwrap();
    // The file is made anew, for the copy says more than it will, and a process that has it mapped must not see
    // it shortened.
    journal.remove();
    let held: Vec<_> = (0..8)
        .map(|place| place * 512..(place + 1) * 512)
        .filter(|slot| bytes[slot.clone()].iter().any(|byte| *byte != 0))
        .collect();
    assert_eq!(held.len(), count);
    for slot in &held[emptied] {
        bytes[slot.clone()].fill(0);
    }
    fs::write(&path, &bytes).unwrap();
    count
}

#[tokio::test]
async fn a_file_without_a_registered_owner_is_recovered_by_the_serving_process() {
    let house = House::new();
    let entry = long(&house, 1);
    let ledger = house.ledger();
    leave(&house, &[&entry], 0..0);
    let start = Instant::now();
    // Its own two files stay.
    while house.settlement_files() > 2 {
        assert!(start.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    house.check(1);
    assert!(ledger.close(PATIENCE));
}

#[tokio::test]
async fn a_record_that_was_entered_and_half_emptied_at_the_crash_is_no_alarm() {
    let house = House::new();
    let entry = long(&house, 1);
    let count = leave(&house, &[&entry], 0..0);
    assert!(count > 1);
    assert!(house.ledger().close(PATIENCE));
    house.check(1);
    for emptied in 1..count {
        for range in [0..emptied, emptied..count] {
            leave(&house, &[&entry], range.clone());
            let ledger = house.ledger();
            assert_eq!(ledger.stats().quarantined_torn, 0, "{range:?}");
            assert!(ledger.close(PATIENCE));
            house.check(1);
            assert_eq!(house.settlement_files(), 0);
        }
    }
    assert_eq!(house.sql::<i64>("SELECT sum(spent) FROM grants"), 60);
}

#[tokio::test]
async fn after_a_restore_no_other_key_pays_for_what_was_settled_before() {
    let house = House::new();
    let key = house.key(100);
    testing::checkpoint(&house.path());
    let backup = fs::read(house.path()).unwrap();
    let lost = long(&house, 1);
    for file in ["-wal", "-shm", ".sequence"] {
        let _ = fs::remove_file(house.folder.path().join(format!("ledger.db{file}")));
    }
    fs::write(house.path(), backup).unwrap();
    // Keys and grants of the same places.
    let other = long(&house, 2);
    assert_ne!(lost.key, other.key);
    leave(&house, &[&lost], 0..0);
    assert!(house.ledger().close(PATIENCE));
    assert_eq!(house.sql::<i64>("SELECT sum(spent) FROM grants"), 0);
    let found = house.store().verify().unwrap();
    assert_eq!((found.requests, found.faults.len()), (0, 1), "{found:?}");
    testing::edit(&house.path(), "DELETE FROM quarantine");
    // Of a key that was in the backup, whose later grants were not.
    let number = format!("SELECT number FROM keys WHERE id = '{key}'");
    let mixed = Entry {
        key: house.sql(&number),
        ..other
    };
    leave(&house, &[&mixed], 0..0);
    assert!(house.ledger().close(PATIENCE));
    assert_eq!(house.sql::<i64>("SELECT sum(spent) FROM grants"), 0);
    assert_eq!(house.sql::<i64>("SELECT overdraft FROM usage"), 60);
    house.check(1);
}

#[tokio::test]
async fn the_rest_of_a_record_that_was_not_entered_is_kept_named_and_counted() {
    let house = House::new();
    let entry = long(&house, 1);
    let count = leave(&house, &[&entry], 1..2);
    let ledger = house.ledger();
    let stats = ledger.stats();
    let kept = u64::try_from(count - 1).unwrap();
    assert_eq!(
        (stats.quarantined_torn, stats.quarantined_unreadable),
        (kept, 0)
    );
    assert_eq!(stats.quarantined_refused, 0);
    assert!(ledger.close(PATIENCE));
    let found = house.store().verify().unwrap();
    assert_eq!(found.faults.len(), count - 1);
    for fault in &found.faults {
        let words = format!(
            "torn in the settlement file: {} is not on record",
            entry.request
        );
        assert!(fault.contains(&words), "{fault}");
    }
}

/// Else no process with this folder could start.
#[tokio::test]
async fn a_record_at_which_the_program_panics_is_kept_and_the_others_are_entered() {
    let house = House::new();
    let good = long(&house, 1);
    let bad = Entry {
        request: RequestId::from_parts(0, 2),
        asked: PANICS.into(),
        ..good.clone()
    };
    leave(&house, &[&bad, &good], 0..0);
    for _ in 0..2 {
        let ledger = house.ledger();
        assert_eq!(ledger.stats().quarantined_unreadable, 1);
        assert!(ledger.close(PATIENCE));
        assert_eq!(house.settlement_files(), 0);
        let found = house.store().verify().unwrap();
        assert_eq!((found.requests, found.spent), (1, 60));
        let [fault] = &found.faults[..] else {
            panic!("{:?}", found.faults);
        };
        assert!(fault.contains("not readable"), "{fault}");
    }
}

#[tokio::test]
async fn records_in_quarantine_are_counted_by_cause_until_they_are_removed() {
    let house = House::new();
    let ledger = house.ledger();
    let counted = async |torn, unreadable, refused| {
        let start = Instant::now();
        loop {
            let stats = ledger.stats();
            let seen = (
                stats.quarantined_torn,
                stats.quarantined_unreadable,
                stats.quarantined_refused,
            );
            if seen == (torn, unreadable, refused) {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "{seen:?}");
            tokio::task::yield_now().await;
        }
    };
    testing::execute(
        &house.path(),
        "INSERT INTO quarantine (at, record, cause) VALUES
             (1, x'00', 'torn in the settlement file'), (1, x'00', 'not readable'),
             (1, x'00', 'torn in the settlement file: req_ is not on record'),
             (1, x'00', 'FOREIGN KEY constraint failed'), (1, x'00', 'datatype mismatch')",
    );
    counted(2, 1, 2).await;
    testing::execute(&house.path(), "DELETE FROM quarantine");
    counted(0, 0, 0).await;
}
