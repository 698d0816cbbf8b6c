//! How many transactions a running gateway makes, by the server's own count.

use super::{Empty, hasher, primary, store_over, terms};
use crate::{
    charge::{BillingState, UpperBound},
    clock::Clock,
    directory::{DirectorySettings, KeyDirectory},
    ledger::{Ending, Ledger, LedgerSettings, RequestInfo, Reservation, Reserve},
    record::NewKey,
    store::conformance::Fixture,
};
use std::{
    ops::Range,
    time::{Duration, Instant},
};
use tollgate_types::{Format, KeyId, RequestId, Usage, Weights};

/// The bound that the documentation states: so many in a second, and one more for so many requests.
const A_SECOND: u64 = 20;
const REQUESTS: u64 = 1_000;
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

fn request(number: u64) -> RequestInfo {
    RequestInfo {
        id: RequestId::from_parts(Clock::system().now().unix_ms(), number.into()),
        model: "alpha-sonnet-5".into(),
        reason: None,
        format: Some(Format::Chat),
        streamed: true,
    }
}

async fn reserve(ledger: &Ledger, key: &KeyId, number: u64) -> Reservation {
    let bound = UpperBound {
        hidden_input: 0,
        plausible_input: u64::MAX,
        plausible_output: u64::MAX,
        input: 300,
        output: 1000,
        useful_output: 16,
    };
    let request = || request(number);
    loop {
        match ledger.reserve(key, request(), bound, Weights::default()) {
            Reserve::Reserved(reservation) => return reservation,
            // The writer is behind, and has no slot.
            Reserve::Wait(account) => {
                let more = ledger.reserve_after(account, request(), bound, Weights::default());
                if let Ok(reservation) = more.await {
                    return reservation;
                }
            }
            Reserve::Refused(refused) => panic!("{refused}"),
        }
    }
}

#[test]
fn a_gateway_with_warm_leases_makes_twenty_transactions_a_second() {
    const ALL: u64 = 40_000;
    let Some(server) = primary() else { return };
    let case = Empty::on(server);
    let store = store_over(case.open(&hasher().fingerprint()));
    let key = |_| {
        let grant = Some(terms(1 << 40));
        let new = NewKey {
            grant,
            ..NewKey::named("ci")
        };
        store.create_key(&new).unwrap().record.id().clone()
    };
    let keys: Vec<KeyId> = (0..100).map(key).collect();
    let directory = KeyDirectory::open(&store, DirectorySettings::default()).unwrap();
    let ledger = Ledger::open(&store, LedgerSettings::default()).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let used = Usage {
        output: 57,
        ..Usage::default()
    };
    let spend = |numbers: Range<u64>| {
        runtime.block_on(async {
            for number in numbers {
                let key = &keys[usize::try_from(number).unwrap() % keys.len()];
                let reservation = reserve(&ledger, key, number).await;
                reservation.settle(&Ending::unreported(BillingState::Completed, used));
            }
            assert!(ledger.caught_up(PATIENCE).await);
        });
    };
    // The first charge of a grant is a change, which is announced and read.
    spend(0..1_000);
    let (begun, before) = (Instant::now(), case.transactions());
    let commits = ledger.stats().commits;
    let full_speed = Instant::now();
    spend(1_000..ALL + 1_000);
    let full_speed = full_speed.elapsed();
    let commits = ledger.stats().commits - commits;
    let made = case.transactions() - before;
    let took = begun.elapsed();
    println!(
        "{made} transactions in {took:?}, {commits} commits for {ALL} requests in {full_speed:?}"
    );
    // A session may have reported late.
    let seconds = took.as_secs() + 1;
    assert!(
        made <= seconds * A_SECOND + ALL / REQUESTS,
        "{made} in {took:?}"
    );
    assert!(commits <= ALL / 500, "{commits}");
    assert!(ledger.close(PATIENCE));
    assert_eq!(store.verify().unwrap().faults, [""; 0]);
    drop(directory);
}
