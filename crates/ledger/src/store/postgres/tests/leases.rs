//! Lease requests and commits that fail, of gateways on one database.

use super::{
    Empty, hasher,
    partition::{Node, key_with},
};
use crate::{
    Shortage,
    clock::Clock,
    store::{Store, migrate},
};
use std::time::Duration;

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
