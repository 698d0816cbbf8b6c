//! How fast changes reach another process, and whether requests wait for the database.

use super::{
    Empty, hasher,
    partition::{Node, completed, key_with, wait_for},
};
use crate::{
    KeyDirectory, Shortage,
    clock::Clock,
    directory::{DirectorySettings, LookupFailure, Refusal},
    record::{KeyRecord, NewKey},
    store::{
        KeySelector, ServerSettings, Store,
        database::Database as _,
        migrate,
        postgres::{Postgres, connection::Connection},
    },
};
use parking_lot::RwLock;
use std::{
    num::NonZeroU32,
    sync::{Arc, mpsc::channel},
    time::{Duration, Instant},
};
use tollgate_types::{Limits, Unit};

const PATIENCE: Duration = Duration::from_secs(10);
/// What is promised of a change.
const SECOND: Duration = Duration::from_secs(1);

fn find(directory: &KeyDirectory, key: &str) -> Result<Arc<KeyRecord>, Refusal> {
    match wait_for(directory.lookup(key)) {
        Ok(record) => Ok(record),
        Err(LookupFailure::Refused(refusal)) => Err(refusal),
        Err(fault) => panic!("{fault}"),
    }
}

/// How long it takes until `is_seen`.
fn until(what: &str, mut is_seen: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !is_seen() {
        assert!(start.elapsed() < PATIENCE, "{what} is not seen");
        std::thread::park_timeout(Duration::from_millis(2));
    }
    let took = start.elapsed();
    println!("{what}: {} ms", took.as_millis());
    took
}

/// Limits, tops up and revokes keys that another process serves. Returns the median time until that process
/// knew of each: other load can delay one.
fn changes(case: &Empty, poll_every: Duration) -> [Duration; 3] {
    let open = || Store::open_on_server(case.settings(), hasher(), Clock::system()).unwrap();
    let (store, other) = (open(), open());
    let settings = DirectorySettings {
        poll_every,
        ..DirectorySettings::default()
    };
    let directory = KeyDirectory::open(&other, settings).unwrap();
    let node = Node::start(case, 1);
    let [mut limits_took, mut top_ups_took, mut revocations_took] = [(); 3].map(|()| Vec::new());
    // Until the first announcement the process may not be subscribed yet.
    std::thread::park_timeout(Duration::from_millis(300));
    for round in 1..=5 {
        let made = store.create_key(&NewKey::named("ci")).unwrap();
        let (text, id) = (made.key.expose().to_owned(), made.record.id().clone());
        let selector = KeySelector::Id(id.clone());
        store.top_up(&selector, &super::terms(10)).unwrap();
        assert!(find(&directory, &text).is_ok());
        let limits = Limits {
            requests: NonZeroU32::new(round),
            ..Limits::default()
        };
        store.set_limits(&selector, &limits).unwrap();
        let took = until("a limit", || {
            find(&directory, &text).unwrap().identity.limits == limits
        });
        limits_took.push(took);
        node.reserve(&id, 10).unwrap().settle(&completed(10));
        assert_eq!(
            node.reserve(&id, 10).unwrap_err(),
            Shortage::Exhausted(Unit::Tokens)
        );
        store.top_up(&selector, &super::terms(10)).unwrap();
        let took = until("a top-up", || node.reserve(&id, 10).is_ok());
        top_ups_took.push(took);
        store.revoke_key(&selector).unwrap();
        let took = until("a revocation", || find(&directory, &text).is_err());
        revocations_took.push(took);
    }
    [limits_took, top_ups_took, revocations_took].map(|mut took| {
        took.sort();
        took[took.len() / 2]
    })
}

fn case() -> Option<Empty> {
    let case = Empty::on(super::primary()?);
    migrate(&case.settings().server).unwrap();
    Some(case)
}

#[test]
fn a_change_is_announced_to_other_processes() {
    let Some(case) = case() else { return };
    // The directory does not poll.
    let took = changes(&case, Duration::from_secs(3600));
    assert!(took.iter().all(|it| *it < SECOND), "{took:?}");
}

#[test]
fn a_change_is_seen_without_announcements() {
    let Some(case) = case() else { return };
    case.sql(
        "CREATE OR REPLACE FUNCTION note_change(changed bytea) RETURNS void LANGUAGE sql AS
         'INSERT INTO changes (hash) VALUES (changed)'",
    );
    let took = changes(&case, DirectorySettings::default().poll_every);
    assert!(took.iter().all(|it| *it < SECOND), "{took:?}");
}

#[test]
fn changes_are_read_while_every_shared_connection_is_in_use() {
    let Some(case) = case() else { return };
    let settings = ServerSettings {
        connections: 1,
        ..case.settings()
    };
    let database = Postgres::open(settings, &hasher().fingerprint()).unwrap();
    let changes = database.pool.with(|_| database.changes_since(None));
    assert_eq!(changes.unwrap().newest, 0);
}

#[test]
fn requests_and_reports_leave_connections_to_each_other() {
    const CONNECTIONS: usize = 4;
    let Some(case) = case() else { return };
    let settings = ServerSettings {
        connections: CONNECTIONS,
        ..case.settings()
    };
    let database = Postgres::open(settings, &hasher().fingerprint()).unwrap();
    for for_requests in [false, true] {
        let gate = RwLock::new(());
        let (enter, entered) = channel();
        std::thread::scope(|scope| {
            let closed = gate.write();
            for _ in 0..CONNECTIONS {
                scope.spawn(|| {
                    let hold = |_: &mut Connection| {
                        enter.send(()).unwrap();
                        drop(gate.read());
                        Ok(())
                    };
                    match for_requests {
                        true => database.pool.for_request(hold),
                        false => database.pool.with(hold),
                    }
                });
            }
            for _ in 1..CONNECTIONS {
                entered.recv().unwrap();
            }
            match for_requests {
                true => database.ask(|session| session.batch("SELECT 1")).unwrap(),
                false => {
                    let found = database.look_up_key(&hasher().fingerprint()).unwrap();
                    assert!(found.record.is_none());
                }
            }
            drop(closed);
        });
    }
}

/// Two processes serve one key at a thousand requests a second each.
#[test]
fn requests_of_a_steady_load_never_wait_for_the_database() {
    const WARM: u32 = 2_000;
    const COUNT: u32 = 6_000;
    let Some(case) = case() else { return };
    let store = Store::open_on_server(case.settings(), hasher(), Clock::system()).unwrap();
    let key = key_with(&store, 1_000_000_000);
    let nodes = [Node::start(&case, 1), Node::start(&case, 2)];
    let serve = |node: &Node<'_>, count: u32| {
        let start = Instant::now();
        for number in 0..count {
            let due = start + Duration::from_millis(number.into());
            std::thread::park_timeout(due.saturating_duration_since(Instant::now()));
            let held = node.reserve(&key, 1000).unwrap();
            held.settle(&completed(300));
        }
    };
    let both = |count| {
        std::thread::scope(|scope| {
            for node in &nodes {
                scope.spawn(move || serve(node, count));
            }
        });
    };
    both(WARM);
    let counts = |node: &Node<'_>| node.ledger.stats().lease_waits;
    let waited = nodes.each_ref().map(counts);
    let commits = |node: &Node<'_>| node.ledger.stats().commits;
    let before = nodes.each_ref().map(commits);
    both(COUNT);
    println!("waits while warming up: {waited:?}");
    println!(
        "commits: {before:?}, then {:?}",
        nodes.each_ref().map(commits)
    );
    assert_eq!(nodes.each_ref().map(counts), waited);
    for node in &nodes {
        // Ten seconds of 300 tokens a millisecond, at most twice.
        let leased = node.ledger.holdings(&key).unwrap().tokens.unwrap().all();
        assert!(leased <= 2 * (3_000_000 + 10_000), "{leased}");
        assert!(wait_for(node.ledger.caught_up(PATIENCE)));
    }
    assert_eq!(store.verify().unwrap().faults, [""; 0]);
}
