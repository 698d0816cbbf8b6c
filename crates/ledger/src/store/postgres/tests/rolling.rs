//! Gateways of two versions on one database, while they are upgraded one after the other.

use super::{
    Empty,
    partition::{Node, completed, key_with, wait_for},
    primary,
};
use crate::{
    Shortage,
    clock::Clock,
    store::{Store, StoreError, migrate, postgres::schema},
};
use std::time::{Duration, Instant};
use tollgate_types::Unit;

const PATIENCE: Duration = Duration::from_secs(20);

/// A step that adds something to every table that gateways write.
const ADDITION: &str = "
    ALTER TABLE keys ADD note text; ALTER TABLE grants ADD note text;
    ALTER TABLE processes ADD note text; ALTER TABLE leases ADD note text DEFAULT '';
    ALTER TABLE lease_requests ADD note text; ALTER TABLE usage ADD note text;
    ALTER TABLE charges ADD note text; ALTER TABLE totals ADD notes bigint NOT NULL DEFAULT 0;
    CREATE TABLE notes (key bigint NOT NULL REFERENCES keys (number), note text NOT NULL);
    CREATE INDEX grants_by_plan ON grants (plan)";

/// What the version after this one would do.
fn as_the_next_version<T>(run: impl FnOnce() -> T) -> T {
    schema::NEXT.set(Some((ADDITION, 1)));
    let done = run();
    schema::NEXT.set(None);
    done
}

fn open(case: &Empty) -> Result<Store, StoreError> {
    Store::open_on_server(case.settings(), super::hasher(), Clock::system())
}

#[test]
fn gateways_of_two_versions_work_together_after_a_step_that_only_adds_something() {
    let Some(server) = primary() else { return };
    let case = Empty::on(server);
    let migrate = || migrate(&case.settings().server).unwrap();
    assert_eq!(migrate(), 1);
    let store = open(&case).unwrap();
    let key = key_with(&store, 1000);
    let old = Node::start(&case, 1);
    old.eventually(&key, 10).settle(&completed(10));
    // The new program does not use the tables before they are migrated.
    let refused = as_the_next_version(|| open(&case)).err().unwrap();
    let wanted = "has format 1, this program needs 2: run tollgate ledger migrate";
    assert!(refused.to_string().contains(wanted), "{refused}");
    assert_eq!(as_the_next_version(migrate), 1);
    let new = as_the_next_version(|| Node::start(&case, 2));
    // The old program can also be started again.
    let again = Node::start(&case, 3);
    for _ in 0..33 {
        for node in [&old, &new, &again] {
            node.eventually(&key, 10).settle(&completed(10));
        }
    }
    for node in [&old, &new, &again] {
        assert!(wait_for(node.ledger.caught_up(PATIENCE)));
    }
    for node in [&old, &new, &again] {
        let begun = Instant::now();
        while node.reserve(&key, 10).unwrap_err() != Shortage::Exhausted(Unit::Tokens) {
            assert!(begun.elapsed() < PATIENCE);
        }
        assert!(!node.ledger.is_fenced());
    }
    for store in [open(&case), as_the_next_version(|| open(&case))] {
        let found = store.unwrap().verify().unwrap();
        assert_eq!(found.faults, [""; 0]);
        assert_eq!((found.requests, found.spent), (100, 1000));
    }
    // After a step that changes something, the old program is refused.
    case.sql("UPDATE schema_version SET usable_from = 2 WHERE version = 2");
    let refused = open(&case).err().unwrap().to_string();
    let wanted = "has format 2, this program knows up to 1: use the newer program";
    assert!(refused.contains(wanted), "{refused}");
    as_the_next_version(|| open(&case)).unwrap();
}
