//! How many transactions a running gateway makes, by the server's own count.

use super::{
    Empty, hasher,
    partition::{Node, completed, key_with, wait_for},
    primary, store_over,
};
use crate::{
    directory::{DirectorySettings, KeyDirectory},
    store::conformance::Fixture,
};
use std::time::{Duration, Instant};
use tollgate_types::KeyId;

/// The bound that the documentation states: so many in a second, and one more for so many requests above so many.
const A_SECOND: u64 = 20;
const REQUESTS: u64 = 2_000;
const ABOVE: u64 = 10_000;
const PATIENCE: Duration = Duration::from_secs(20);

impl Empty {
    /// The transactions so far. Sessions report theirs a second later, with the next one.
    fn transactions(&self) -> u64 {
        std::thread::park_timeout(Duration::from_secs(2));
        let made = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = $1";
        let mut client = self.server.local("postgres").connect().unwrap();
        let made: i64 = client.query_one(made, &[&self.name]).unwrap().get(0);
        made.unsigned_abs()
    }
}

#[test]
fn a_gateway_with_warm_leases_makes_twenty_transactions_a_second() {
    const ALL: u64 = 40_000;
    let Some(server) = primary() else { return };
    let case = Empty::on(server);
    let store = store_over(case.open(&hasher().fingerprint()));
    let keys: Vec<KeyId> = (0..100).map(|_| key_with(&store, 1 << 40)).collect();
    let directory = KeyDirectory::open(&store, DirectorySettings::default()).unwrap();
    let node = Node::start(&case, 1);
    let spend = |requests: u64| {
        for (key, _) in keys.iter().cycle().zip(0..requests) {
            // The writer can be behind, and have no slot.
            node.eventually(key, 1000).settle(&completed(57));
        }
        assert!(wait_for(node.ledger.caught_up(PATIENCE)));
    };
    // The first charge of a grant is a change, which is announced and read.
    spend(1_000);
    let (begun, before) = (Instant::now(), case.transactions());
    let commits = node.ledger.stats().commits;
    let full_speed = Instant::now();
    spend(ALL);
    let full_speed = full_speed.elapsed();
    let commits = node.ledger.stats().commits - commits;
    let made = case.transactions() - before;
    let took = begun.elapsed();
    println!(
        "{made} transactions in {took:?}, {commits} commits for {ALL} requests in {full_speed:?}"
    );
    // A session may have reported late.
    let seconds = took.as_secs() + 1;
    assert!(
        made <= seconds * A_SECOND + ALL.saturating_sub(ABOVE * full_speed.as_secs()) / REQUESTS,
        "{made} in {took:?}"
    );
    assert!(commits <= ALL / 500, "{commits}");
    assert!(node.ledger.close(PATIENCE));
    assert_eq!(store.verify().unwrap().faults, [""; 0]);
    drop(directory);
}
