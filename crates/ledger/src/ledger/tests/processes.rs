//! Processes that share one file, and processes that die.

use super::*;
use crate::journal::name_without_copy;

#[tokio::test]
async fn settlements_before_a_crash_are_entered_once() {
    let house = House::new();
    let key = house.key(1000);
    let ledger = house.ledger();
    for _ in 0..20 {
        house
            .reserve(&ledger, &key, 10)
            .await
            .unwrap()
            .settle(&completed(3));
    }
    let open = house.reserve(&ledger, &key, 500).await.unwrap();
    ledger.crash();
    for _ in 0..3 {
        house.ledger().crash();
        assert_eq!(house.used(&key), 60);
        house.check(20);
    }
    // The reservation that was open at the crash holds nothing any more.
    let after = house.ledger();
    let all = house.reserve(&after, &key, 940).await.unwrap();
    drop((open, all));
}

#[tokio::test]
async fn two_processes_on_one_file_never_spend_the_same_tokens() {
    let house = House::new();
    let key = house.key(1000);
    let (one, two) = (house.ledger(), house.ledger());
    let mut admitted = 0;
    let start = Instant::now();
    // Each takes what it can get until nothing is left for either.
    while admitted < 100 {
        for ledger in [&one, &two] {
            if let Ok(reservation) = house.reserve(ledger, &key, 10).await {
                reservation.settle(&completed(10));
                admitted += 1;
            }
        }
        assert!(start.elapsed() < PATIENCE, "{admitted} admitted");
        tokio::task::yield_now().await;
    }
    for ledger in [&one, &two] {
        assert!(house.reserve(ledger, &key, 10).await.is_err());
    }
    assert!(one.close(PATIENCE) && two.close(PATIENCE));
    assert_eq!(house.used(&key), 1000);
    house.check(100);
}

#[tokio::test]
async fn a_process_that_ends_leaves_its_share_to_the_others() {
    let house = House::new();
    let key = house.key(1000);
    let old = house.ledger();
    drop(house.reserve(&old, &key, 1).await.unwrap());
    let new = house.ledger();
    assert!(old.close(PATIENCE));
    drop(house.eventually(&new, &key, 1000).await);
}

#[tokio::test]
async fn shared_out_tokens_are_left_to_their_process() {
    let house = House::new();
    let (key, other) = (house.key(1000), house.key(1000));
    let old = house.ledger();
    drop(house.reserve(&old, &other, 1).await.unwrap());
    // The first use begins the grant, which is a change for every reader of the file.
    let first = house.reserve(&old, &key, 10).await.unwrap();
    first.settle(&completed(10));
    assert!(old.caught_up(PATIENCE).await);
    let new = house.ledger();
    assert!(old.give_up_half().await);
    // Whatever it looks for has been seen once this has.
    house.top_up(&other, 1000);
    let start = Instant::now();
    while old
        .holdings(&other)
        .and_then(|it| it.tokens)
        .is_none_or(|it| it.free < 1000)
    {
        assert!(start.elapsed() < PATIENCE);
        tokio::task::yield_now().await;
    }
    drop(house.reserve(&new, &key, 400).await.unwrap());
}

#[tokio::test]
async fn a_process_gets_the_unused_tokens_of_another() {
    let house = House::new();
    let key = house.key(1000);
    let (one, two) = (house.ledger(), house.ledger());
    drop(house.reserve(&one, &key, 1).await.unwrap());
    assert!(two.wait_for_release(&key).is_none(), "no process has asked");
    // Each asking brings half of what is left there.
    for wanted in [400, 300] {
        let start = Instant::now();
        let held = loop {
            match house.reserve(&two, &key, wanted).await {
                Ok(held) => break held,
                Err(refused) => assert_eq!(refused, Shortage::Busy),
            }
            assert!(start.elapsed() < PATIENCE, "{wanted}");
            // `None` if they have come since.
            if let Some(more) = two.wait_for_release(&key) {
                more.await;
            }
        };
        held.settle(&completed(wanted));
    }
    // Reserved tokens do not come, and no request waits for long.
    let _held = house.eventually(&one, &key, 100).await;
    let start = Instant::now();
    for _ in 0..3 {
        let refused = house.reserve(&two, &key, 280).await.unwrap_err();
        assert_eq!(refused, Shortage::Busy);
        if let Some(more) = two.wait_for_release(&key) {
            more.await;
        }
    }
    assert!(
        start.elapsed() < Duration::from_secs(5),
        "{:?}",
        start.elapsed()
    );
}

#[tokio::test]
async fn a_wait_for_another_process_that_times_out_does_not_block_later_waits() {
    let house = House::new();
    let key = house.key(1000);
    let one = house.ledger();
    let settings = LedgerSettings {
        waiting_callers: 1,
        ..LedgerSettings::default()
    };
    let two = Ledger::open(&house.store(), settings).unwrap();
    // Nothing comes of what one holds in earnest.
    let _held = house.reserve(&one, &key, 1000).await.unwrap();
    let refused = house.reserve(&two, &key, 500).await.unwrap_err();
    assert_eq!(refused, Shortage::Busy);
    for _ in 0..2 {
        two.wait_for_release(&key).expect("it is asked for").await;
        let waiting = two.wait_for_release(&key).expect("the waiter has gone");
        assert!(two.wait_for_release(&key).is_none(), "one may wait");
        drop(waiting);
    }
}

/// Both are asked by turns, so that each gives what it has to the other again and again.
#[tokio::test]
async fn a_balance_too_small_over_all_processes_is_exhausted_in_each() {
    let house = House::new();
    let key = house.key(1000);
    let (one, two) = (house.ledger(), house.ledger());
    let mut start = Instant::now();
    let mut last = [None, None];
    // Some is left at the end, and too little for any request, wherever it is.
    while last
        != [
            Some(Shortage::Exhausted(Unit::Tokens)),
            Some(Shortage::Exhausted(Unit::Tokens)),
        ]
    {
        for (ledger, last) in [&one, &two].into_iter().zip(&mut last) {
            *last = match house.reserve(ledger, &key, 30).await {
                Ok(reservation) => {
                    reservation.settle(&completed(30));
                    start = Instant::now();
                    None
                }
                Err(refused) => Some(refused),
            };
            tokio::task::yield_now().await;
        }
        assert!(start.elapsed() < PATIENCE, "{last:?}");
    }
    // So it stays, however often each looks into the file meanwhile.
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(500) {
        for ledger in [&one, &two] {
            let refused = house.reserve(ledger, &key, 30).await.unwrap_err();
            assert_eq!(refused, Shortage::Exhausted(Unit::Tokens));
        }
        tokio::task::yield_now().await;
    }
    // What comes afterwards is found, in whichever it is looked for.
    house.top_up(&key, 100);
    drop(house.eventually(&two, &key, 60).await);
    drop(house.eventually(&one, &key, 60).await);
    assert!(one.close(PATIENCE) && two.close(PATIENCE));
    assert_eq!(house.used(&key), 990);
}

#[tokio::test]
async fn a_retired_process_leaves_all_tokens_to_the_other() {
    let house = House::new();
    let key = house.key(1000);
    let (old, new) = (house.ledger(), house.ledger());
    let open = house.reserve(&old, &key, 600).await.unwrap();
    old.retire();
    drop(house.eventually(&new, &key, 400).await);
    // What its last requests let go comes as well, all of it.
    open.settle(&completed(100));
    drop(house.eventually(&new, &key, 900).await);
    // Requests that still reach the old process are served.
    drop(house.eventually(&old, &key, 300).await);
}

#[tokio::test]
async fn a_retired_process_knows_new_grants() {
    let house = House::new();
    let key = house.key(10);
    let old = house.ledger();
    let all = house.reserve(&old, &key, 10).await.unwrap();
    all.settle(&completed(10));
    assert!(old.caught_up(PATIENCE).await);
    old.retire();
    let new = house.ledger();
    house.top_up(&key, 1000);
    // Where it is: with the other, and to be had.
    drop(house.eventually(&new, &key, 500).await);
    drop(house.eventually(&old, &key, 10).await);
}

#[tokio::test]
async fn lease_requests_end_with_their_waiters() {
    let house = House::new();
    let key = house.key(1000);
    let (one, two) = (house.ledger(), house.ledger());
    drop(house.reserve(&one, &key, 1).await.unwrap());
    // All there is together is too little.
    let refused = house.reserve(&two, &key, 2000).await.unwrap_err();
    assert_eq!(refused, Shortage::Exhausted(Unit::Tokens));
    let start = Instant::now();
    while house.sql::<i64>("SELECT count(*) FROM lease_requests") > 0 {
        assert!(start.elapsed() < PATIENCE, "it is still asked for");
        std::thread::yield_now();
    }
}

#[tokio::test]
async fn a_file_has_one_folder_by_whatever_name_it_is_known() {
    let house = House::new();
    let key = house.key(1000);
    let elsewhere = TempDir::new().unwrap();
    let link = elsewhere.path().join("tollgate.db");
    std::os::unix::fs::symlink(house.folder.path().join("ledger.db"), &link).unwrap();
    let one = house.ledger();
    let hasher = KeyHasher::new(b"a pepper for tests").unwrap();
    let store = Store::open(&link, hasher, house.clock.clone()).unwrap();
    let two = Ledger::open(&store, LedgerSettings::default()).unwrap();
    drop(house.eventually(&two, &key, 500).await);
    drop(house.eventually(&one, &key, 500).await);
    assert!(one.close(PATIENCE) && two.close(PATIENCE));
}

#[tokio::test]
async fn leases_of_a_crashed_process_are_spent_by_the_others() {
    let house = House::new();
    let key = house.key(1000);
    let (dying, living) = (house.ledger(), house.ledger());
    house
        .reserve(&dying, &key, 100)
        .await
        .unwrap()
        .settle(&completed(100));
    let refused = house.reserve(&living, &key, 900).await.unwrap_err();
    assert_eq!(refused, Shortage::Busy);
    dying.crash();
    drop(house.eventually(&living, &key, 900).await);
    assert_eq!(house.used(&key), 100);
}

#[tokio::test]
async fn a_process_that_was_closed_by_another_admits_nothing_more_and_charges_what_it_served() {
    let house = House::new();
    let key = house.key(1000);
    let ledger = house.ledger();
    let open = house.reserve(&ledger, &key, 10).await.unwrap();
    testing::execute(
        &house.path(),
        "BEGIN; DELETE FROM leases; UPDATE processes SET ended_at = 1; COMMIT",
    );
    open.settle(&completed(10));
    let start = Instant::now();
    while house.reserve(&ledger, &key, 1).await.is_ok() {
        assert!(start.elapsed() < PATIENCE);
        tokio::task::yield_now().await;
    }
    ledger.close(PATIENCE);
    assert_eq!(
        house.sql::<i64>("SELECT charged FROM usage WHERE output = 10"),
        10
    );
    assert_eq!(house.used(&key), 10);
}

#[tokio::test]
async fn a_closed_process_that_has_nothing_to_enter_notices_and_leases_nothing_more() {
    let house = House::new();
    let key = house.key(1000);
    let ledger = house.ledger();
    drop(house.reserve(&ledger, &key, 10).await.unwrap());
    while ledger.stats().open_requests > 0 {
        tokio::task::yield_now().await;
    }
    assert!(!ledger.is_fenced());
    assert_eq!(ledger.stats().fenced, 0);
    testing::execute(
        &house.path(),
        "BEGIN; DELETE FROM leases; UPDATE processes SET ended_at = 1;
         UPDATE grants SET validity_ms = validity_ms + 1; COMMIT",
    );
    tokio::time::timeout(PATIENCE, ledger.fenced())
        .await
        .unwrap();
    assert_eq!(ledger.stats().fenced, 1);
    let refused = house.reserve(&ledger, &key, 1).await.unwrap_err();
    assert_eq!(refused, Shortage::Unavailable(Unavailable::Fenced));
    assert_eq!(house.sql::<i64>("SELECT count(*) FROM leases"), 0);
    ledger.close(PATIENCE);
}

#[tokio::test]
async fn a_settlement_file_that_no_row_names_is_taken_up_once() {
    let house = House::new();
    let key = house.key(1000);
    die_after_a_settlement(&house, &key).await;
    // The crash came between the commit and the removal: the row says that it is over.
    let left = settlement_file(&house);
    let kept = std::fs::read(&left).unwrap();
    house.ledger().close(PATIENCE);
    std::fs::write(&left, &kept).unwrap();
    assert!(house.ledger().close(PATIENCE));
    assert_eq!((house.used(&key), house.settlement_files()), (3, 0));
    house.check(1);
}

/// A process that has settled a request for three tokens, and dies before it enters it.
async fn die_after_a_settlement(house: &House, key: &KeyId) {
    let ledger = house.ledger();
    house
        .reserve(&ledger, key, 10)
        .await
        .unwrap()
        .settle(&completed(3));
    ledger.crash();
}

fn settlement_file(house: &House) -> PathBuf {
    let files = std::fs::read_dir(house.folder.path()).unwrap();
    let mut files = files.map(|file| file.unwrap().path());
    files
        .find(|path| {
            let name = path.to_string_lossy();
            name.contains(".settlements-") && name_without_copy(&name) == name
        })
        .unwrap()
}

/// Settles for a process that has died, and waits until the copy of its settlement file says so.
async fn settle_into_the_copy(reservation: Reservation, mut settlements: PathBuf) {
    let request = reservation.request();
    reservation.settle(&completed(3));
    settlements.as_mut_os_string().push(".synced");
    let name = request.as_str().as_bytes();
    let is_copied = || {
        let copy = std::fs::read(&settlements).unwrap();
        copy.windows(name.len()).any(|bytes| bytes == name)
    };
    let late = Instant::now() + PATIENCE;
    while !is_copied() {
        assert!(Instant::now() < late);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn records_that_a_power_failure_took_from_a_settlement_file_are_entered_from_its_copy() {
    for is_gone in [false, true] {
        let house = House::new();
        let key = house.key(1000);
        let ledger = house.ledger();
        let reservation = house.reserve(&ledger, &key, 10).await.unwrap();
        let left = settlement_file(&house);
        // So that a process is left that brings it to the copy.
        let _open = ledger.clone();
        ledger.crash();
        settle_into_the_copy(reservation, left.clone()).await;
        if is_gone {
            std::fs::remove_file(&left).unwrap();
        } else {
            // Not shorter: a process that has it mapped would end by that.
            let file = std::fs::File::options().write(true).open(&left).unwrap();
            let blank = vec![0; usize::try_from(file.metadata().unwrap().len()).unwrap()];
            std::os::unix::fs::FileExt::write_all_at(&file, &blank, 0).unwrap();
        }
        house.ledger().close(PATIENCE);
        assert_eq!((house.used(&key), house.settlement_files()), (3, 0));
        house.check(1);
    }
}

#[tokio::test]
async fn settlements_of_a_removed_file_are_entered_from_the_copy() {
    let house = House::new();
    let key = house.key(1000);
    let ledger = house.ledger();
    let reservation = house.reserve(&ledger, &key, 10).await.unwrap();
    let removed = settlement_file(&house);
    std::fs::remove_file(&removed).unwrap();
    house.ledger().close(PATIENCE);
    assert_eq!(house.settlement_files(), 1, "the copy, of one that lives");
    let _open = ledger.clone();
    ledger.crash();
    settle_into_the_copy(reservation, removed).await;
    house.ledger().close(PATIENCE);
    assert_eq!((house.used(&key), house.settlement_files()), (3, 0));
    house.check(1);
}

#[tokio::test]
async fn unreadable_parts_of_a_settlement_file_are_kept_and_named() {
    let house = House::new();
    let key = house.key(1000);
    die_after_a_settlement(&house, &key).await;
    // As a program of another layout would have left it.
    let left = settlement_file(&house);
    let mut bytes = std::fs::read(&left).unwrap();
    let slot = bytes.len() - 512;
    bytes[slot..slot + 13].copy_from_slice(b"TOL9 a charge");
    std::fs::write(&left, &bytes).unwrap();
    house.ledger().close(PATIENCE);
    assert_eq!((house.used(&key), house.settlement_files()), (3, 0));
    let kept: Vec<u8> = house.sql("SELECT record FROM quarantine");
    assert_eq!(kept, bytes[slot..]);
    let found = house.store().verify().unwrap();
    assert_eq!(found.faults.len(), 1, "{found:?}");
    assert!(
        found.faults[0].contains("torn in the settlement file"),
        "{found:?}"
    );
}

#[tokio::test]
async fn a_record_that_the_file_refuses_is_quarantined_and_holds_up_no_other() {
    let house = House::new();
    let (gone, key) = (house.key(1000), house.key(1000));
    let ledger = house.ledger();
    let orphan = house.reserve(&ledger, &gone, 10).await.unwrap();
    let request = orphan.request();
    let other = house.reserve(&ledger, &key, 10).await.unwrap();
    let number: i64 = house.sql(&format!("SELECT number FROM keys WHERE id = '{gone}'"));
    // As after an older backup was put in the place of the file.
    let delete = format!(
        "PRAGMA foreign_keys = OFF; BEGIN;
         DELETE FROM leases WHERE grant_number IN (SELECT number FROM grants WHERE key = {number});
         DELETE FROM grants WHERE key = {number}; DELETE FROM keys WHERE number = {number}; COMMIT"
    );
    testing::execute(&house.path(), &delete);
    orphan.settle(&completed(10));
    other.settle(&completed(10));
    assert!(ledger.close(PATIENCE));
    assert_eq!(house.used(&key), 10);
    let kept: Vec<u8> = house.sql("SELECT record FROM quarantine");
    let kept: serde_json::Value = serde_json::from_slice(&kept).unwrap();
    assert_eq!(kept["request"], request.as_str());
    assert_eq!(house.sql::<i64>("SELECT count(*) FROM usage"), 1);
}

#[tokio::test]
async fn settlements_that_come_together_share_a_commit() {
    const COUNT: u64 = 150;
    let house = House::new();
    let key = house.key(COUNT);
    let ledger = house.ledger_with(1000);
    drop(house.reserve(&ledger, &key, 1).await.unwrap());
    assert!(ledger.caught_up(PATIENCE).await);
    let before = ledger.stats().commits;
    let mut open = Vec::new();
    for _ in 0..COUNT {
        open.push(house.reserve(&ledger, &key, 1).await.unwrap());
    }
    for reservation in open {
        reservation.settle(&completed(1));
    }
    assert!(ledger.caught_up(PATIENCE).await);
    let commits = ledger.stats().commits - before;
    assert!((1..COUNT / 5).contains(&commits), "{commits}");
    assert_eq!(house.used(&key), COUNT);
}

/// Callers come to one process and the other in turn, and each request needs most of what is left.
#[tokio::test]
async fn the_last_tokens_of_a_key_are_not_torn_between_processes() {
    let house = House::new();
    let key = house.key(100);
    let (one, two) = (house.ledger(), house.ledger());
    let mut served = 0;
    let mut busy = 0;
    while served < 16 {
        for ledger in [&one, &two] {
            let mut held = house.reserve(ledger, &key, 60).await;
            if held.is_err()
                && let Some(more) = ledger.wait_for_release(&key)
            {
                more.await;
                held = house.reserve(ledger, &key, 60).await;
            }
            match held {
                Ok(held) => {
                    held.settle(&completed(2));
                    served += 1;
                }
                Err(refused) => {
                    assert_eq!(refused, Shortage::Busy);
                    busy += 1;
                }
            }
        }
        assert!(busy < 40, "{served} requests were served");
    }
    assert!(one.close(PATIENCE) && two.close(PATIENCE));
    house.check(served);
}

#[tokio::test]
async fn a_process_that_ends_with_an_open_request_returns_what_the_request_does_not_reserve() {
    let house = House::new();
    let key = house.key(1000);
    let (old, new) = (house.ledger(), house.ledger());
    let open = house.reserve(&old, &key, 100).await.unwrap();
    assert!(!old.close(PATIENCE));
    drop(house.eventually(&new, &key, 900).await);
    open.settle(&completed(100));
}
