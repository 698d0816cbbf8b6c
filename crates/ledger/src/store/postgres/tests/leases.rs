//! Lease requests and commits that fail, of gateways on one database.

use super::{
    Empty, hasher,
    partition::{Node, completed, key_with, wait_for},
};
use crate::{
    Shortage,
    clock::Clock,
    store::{Store, migrate},
};
use std::time::Duration;
use tollgate_types::Unavailable;

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
    let before = (commits(), requests());
    std::thread::park_timeout(Duration::from_secs(2));
    let more = (commits() - before.0, requests() - before.1);
    // Each process looks five times a second; both commit for each repetition.
    assert!((5..=11).contains(&more.1) && more.0 <= 60, "{more:?}");
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
