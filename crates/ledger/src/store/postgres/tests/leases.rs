//! Lease requests and commits that fail, of gateways on one database.

use super::{
    Empty, commit, hasher, lease, lease_at_most,
    partition::{Node, bound, completed, key_with, wait_for},
    settled, try_lease,
};
use crate::{
    Shortage, UpperBound,
    balance::Piece,
    clock::Clock,
    store::{Store, database::Leftover, migrate, postgres::connection::LOCK_TIMEOUT},
};
use postgres::Client;
use std::time::{Duration, Instant};
use tollgate_types::{KeyId, PerUnit, Unavailable, Unit, Weights};

const PATIENCE: Duration = Duration::from_secs(20);

fn case() -> Option<Empty> {
    let case = Empty::on(super::primary()?);
    migrate(&case.settings().server).unwrap();
    Some(case)
}

fn open(case: &Empty) -> Store {
    Store::open_on_server(case.settings(), hasher(), Clock::system()).unwrap()
}

impl Empty {
    fn number(&self, sql: &str) -> i64 {
        let mut client = self.server.local(&self.name).connect().unwrap();
        client.query_one(sql, &[]).unwrap().get(0)
    }

    /// Locks the row of a key until the client is dropped.
    fn lock(&self, key: &KeyId) -> Client {
        let mut client = self.server.local(&self.name).connect().unwrap();
        let lock = format!("BEGIN; SELECT 1 FROM keys WHERE id = '{key}' FOR UPDATE");
        client.batch_execute(&lock).unwrap();
        client
    }

    /// Waits until a transaction waits for a lock.
    fn wait_for_waiter(&self) {
        let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
                     AND wait_event_type = 'Lock'";
        let begun = Instant::now();
        while self.number(waits) == 0 {
            assert!(begun.elapsed() < PATIENCE);
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }
}

#[test]
fn a_charge_beyond_the_lease_counts_as_overdraft_only_if_nothing_is_free() {
    let Some(case) = case() else { return };
    let store = open(&case);
    let node = Node::start(&case, 1);
    for (charge, paid, overdraft) in [(600, 600, 0), (1300, 1600, 300)] {
        let key = key_with(&store, 1000);
        let settled = node.eventually(&key, 10).settle(&completed(charge));
        assert_eq!(settled.charged, charge);
        assert!(settled.overdraft > overdraft, "{settled:?}");
        assert!(wait_for(node.ledger.caught_up(PATIENCE)));
        let stats = node.ledger.stats();
        let counted = (stats.charged_tokens, stats.overdraft_tokens);
        assert_eq!(counted, (paid, overdraft));
    }
    assert_eq!(store.verify().unwrap().faults, [""; 0]);
}

#[test]
fn an_unanswered_lease_request_is_repeated_by_the_clock_alone() {
    let Some(case) = case() else { return };
    let key = key_with(&open(&case), 1000);
    let (one, two) = (Node::start(&case, 1), Node::start(&case, 2));
    let _all = one.reserve(&key, 1000).unwrap();
    assert_eq!(two.reserve(&key, 500).unwrap_err(), Shortage::Busy);
    let commits = || case.number("SELECT sum(commits)::bigint FROM processes");
    let requests = || case.number("SELECT last_value FROM lease_request_numbers");
    let begun = Instant::now();
    let before = (commits(), requests());
    while requests() - before.1 < 5 {
        assert!(begun.elapsed() < PATIENCE);
        std::thread::park_timeout(Duration::from_millis(50));
    }
    let more = (commits() - before.0, requests() - before.1);
    // Each process looks five times a second; both commit for each repetition.
    let most = i64::try_from(begun.elapsed().as_millis()).unwrap() / 200 + 2;
    assert!(more.1 <= most && more.0 <= 5 * most, "{more:?}, {most}");
}

#[test]
fn a_key_is_served_again_after_an_outage_whose_last_commit_had_no_settlement() {
    let Some(case) = case() else { return };
    let key = key_with(&open(&case), 1_000_000);
    let node = Node::start(&case, 1);
    node.reserve(&key, 100).unwrap().settle(&completed(100));
    assert!(wait_for(node.ledger.caught_up(PATIENCE)));
    // The grant has begun, which is a change. It is not one to take up after the outage.
    std::thread::park_timeout(Duration::from_secs(1));
    node.cut_off();
    // More than is leased.
    let refused = node.reserve(&key, 10_000).unwrap_err();
    let is_stalled = matches!(refused, Shortage::Unavailable(Unavailable::Stalled(_)));
    assert!(is_stalled, "{refused:?}");
    node.join_again();
    drop(node.eventually(&key, 10_000));
}

#[test]
fn a_commit_that_waits_for_a_lock_does_not_end_the_process() {
    let Some(server) = super::primary() else {
        return;
    };
    let case = Empty {
        lease_term: LOCK_TIMEOUT * 3,
        ..Empty::on(server)
    };
    migrate(&case.settings().server).unwrap();
    let store = open(&case);
    let (locked, other) = (key_with(&store, 1000), key_with(&store, 1000));
    let node = Node::start(&case, 1);
    drop(node.reserve(&other, 500).unwrap());
    let held = node.reserve(&locked, 100).unwrap();
    let lock = case.lock(&locked);
    held.settle(&completed(100));
    let begun = Instant::now();
    while begun.elapsed() < case.lease_term * 3 / 4 {
        node.reserve(&other, 1).unwrap().release();
        std::thread::park_timeout(Duration::from_millis(50));
    }
    assert!(node.ledger.stats().failed_commits > 0);
    drop(lock);
    assert!(wait_for(node.ledger.caught_up(PATIENCE)));
    assert!(!node.ledger.is_fenced());
    assert_eq!(store.grants(&locked).unwrap()[0].used, 100);
}

#[test]
fn a_long_leftover_is_entered_in_parts_and_once() {
    const COUNT: u64 = 1100;
    let Some(case) = case() else { return };
    let store = open(&case);
    let key = key_with(&store, 2 * COUNT);
    let now = store.clock().now();
    let mut crashed = store.database().begin_process("crashed", now).unwrap();
    let share = lease(&mut *crashed, &key, now);
    drop(crashed);
    let mut other = store.database().begin_process("other", now).unwrap();
    let number = other.check_in().unwrap().peers[0].number;
    let mut entries: Vec<_> = (0..COUNT).map(|it| settled(&share, it, 1)).collect();
    entries[0].is_progress = true;
    let leftover = Leftover {
        entries,
        ..Leftover::default()
    };
    let recovered = other.recover(Some(number), Some(&leftover), now).unwrap();
    assert_eq!((recovered.settled, recovered.cut), (1099, 1));
    let again = other.recover(Some(number), Some(&leftover), now).unwrap();
    assert_eq!((again.settled, again.cut), (0, 0));
    assert_eq!(store.grants(&key).unwrap()[0].used, COUNT);
    let found = store.verify().unwrap();
    assert_eq!((found.faults, found.leased), (vec![], 0));
}

#[test]
fn a_process_is_renewed_while_a_commit_after_a_failed_one_waits() {
    let Some(case) = case() else { return };
    let store = open(&case);
    let key = key_with(&store, 100);
    let now = store.clock().now();
    let mut process = store.database().begin_process("one", now).unwrap();
    let mut renew = process.renewal().unwrap();
    case.fail_commits();
    let mut lease = || try_lease(&mut *process, &key, PerUnit::from_fn(|_| 60), now);
    lease().unwrap_err();
    case.sql("DROP FUNCTION fail CASCADE");
    let lock = case.lock(&key);
    std::thread::scope(|scope| {
        let renewed = scope.spawn(|| {
            case.wait_for_waiter();
            let renewed = renew();
            drop(lock);
            renewed
        });
        assert!(!lease().unwrap().is_fenced);
        assert!(renewed.join().unwrap().unwrap());
    });
}

/// The server still works on a commit whose connection was lost.
#[test]
fn a_commit_waits_for_one_in_doubt() {
    let Some(case) = case() else { return };
    let store = open(&case);
    let key = key_with(&store, 100);
    let now = store.clock().now();
    let mut process = store.database().begin_process("one", now).unwrap();
    let mut lease = || try_lease(&mut *process, &key, PerUnit::from_fn(|_| 60), now);
    case.fail_commits();
    lease().unwrap_err();
    case.sql("DROP FUNCTION fail CASCADE");
    let mut doubtful = case.server.local(&case.name).connect().unwrap();
    let write = "BEGIN; UPDATE processes SET commits = commits + 1;
                 INSERT INTO leases SELECT grants.number, processes.number, 60 FROM grants, processes";
    doubtful.batch_execute(write).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            case.wait_for_waiter();
            doubtful.batch_execute("COMMIT").unwrap();
        });
        assert!(lease().unwrap().is_fenced);
    });
    assert_eq!(store.verify().unwrap().leased, 0);
}

/// Its first commit was carried out, but the answer was lost; or the server still works on it.
#[test]
fn a_request_that_a_commit_in_doubt_has_entered_frees_no_tokens() {
    let Some(case) = case() else { return };
    let store = open(&case);
    let key = key_with(&store, 100);
    let now = store.clock().now();
    let mut process = store.database().begin_process("one", now).unwrap();
    let share = lease_at_most(&mut *process, &key, PerUnit::from_fn(|_| 60), now);
    let entry = settled(&share, 1, 10);
    let mut commit = || assert!(!commit(&mut *process, &[&entry], &[], now).is_fenced);
    commit();
    case.sql("UPDATE processes SET commits = commits + 1");
    commit();
    assert_eq!(store.verify().unwrap().leased, 50);
    case.sql("CREATE TABLE entered AS SELECT * FROM usage; DELETE FROM usage");
    let mut doubtful = case.server.local(&case.name).connect().unwrap();
    let write = "BEGIN; SELECT FROM keys FOR NO KEY UPDATE;
                 INSERT INTO usage SELECT * FROM entered;
                 UPDATE processes SET commits = commits + 1";
    doubtful.batch_execute(write).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            case.wait_for_waiter();
            doubtful.batch_execute("COMMIT").unwrap();
        });
        commit();
    });
    let found = store.verify().unwrap();
    assert_eq!((found.leased, found.spent, found.faults), (50, 10, vec![]));
    // All commits are confirmed: another process must have entered it.
    commit();
    assert_eq!(store.verify().unwrap().leased, 40);
}

/// As after a fail-over to a standby that had not received the last commits.
#[test]
fn a_process_whose_commit_is_rolled_back_ends() {
    let Some(case) = case() else { return };
    let store = open(&case);
    let key = key_with(&store, 100);
    let now = store.clock().now();
    let mut process = store.database().begin_process("one", now).unwrap();
    let share = lease_at_most(&mut *process, &key, PerUnit::from_fn(|_| 60), now);
    let returned = [Piece {
        grant: share.grants[0].number,
        amount: 50,
    }];
    commit(&mut *process, &[], &returned, now);
    case.sql("UPDATE processes SET commits = commits - 1; UPDATE leases SET tokens = 60");
    assert!(commit(&mut *process, &[], &[], now).is_fenced);
    assert!(process.check_in().unwrap().is_fenced);
    assert_eq!(store.verify().unwrap().leased, 0);
}

#[test]
fn a_request_is_served_from_the_lease_while_the_database_hangs() {
    let Some(case) = case() else { return };
    let store = open(&case);
    let key = key_with(&store, 1_000_000);
    let node = Node::start(&case, 1);
    drop(node.reserve(&key, 100).unwrap());
    let _lock = case.lock(&key);
    // More than is leased; a tenth is enough for a useful answer.
    let capped = UpperBound {
        useful_output: 50,
        ..bound(500)
    };
    let begun = Instant::now();
    let held = node.reserve_of(&key, capped, Weights::default()).unwrap();
    assert_eq!(held.reserved(Unit::Tokens), Some(200));
    held.release();
    assert!(begun.elapsed() < LOCK_TIMEOUT, "{:?}", begun.elapsed());
}

#[test]
fn a_request_is_served_by_the_second_try_of_a_commit_whose_connection_was_lost() {
    let Some(case) = case() else { return };
    let store = open(&case);
    let key = key_with(&store, 1_000_000);
    let node = Node::start(&case, 1);
    let held = std::thread::scope(|scope| {
        let lock = case.lock(&key);
        let held = scope.spawn(|| node.reserve(&key, 100));
        case.wait_for_waiter();
        case.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE datname = current_database() AND wait_event_type = 'Lock'",
        );
        drop(lock);
        held.join().unwrap()
    });
    assert_eq!(held.unwrap().reserved(Unit::Tokens), Some(100));
    assert_eq!(node.ledger.stats().failed_commits, 1);
}
