//! Several processes that lease limits of the same keys at the same time.

use super::{Empty, hasher, primary};
use crate::{
    limits::LimitClaim,
    store::{conformance::Fixture, database::Database},
};
use std::{
    collections::HashMap,
    num::NonZeroU32,
    sync::Arc,
    time::{Duration, Instant},
};
use tollgate_types::{Dimension, KeyId};

/// Requests a minute: so few that less than one flows back during a test, and all that are taken can be owed.
const LIMIT: u32 = 10;
const REQUEST: u64 = 60_000;

/// One claim of one request for each key, in the order of their buckets.
fn claims(keys: u32) -> Vec<LimitClaim> {
    let claim = |number| LimitClaim {
        key: KeyId::new(format!("key_{number}")),
        dimension: Dimension::Requests,
        limit: NonZeroU32::new(LIMIT).unwrap(),
        taken: REQUEST.cast_signed(),
        floor: 0,
        kept: 0,
        demand: 1,
    };
    let mut claims: Vec<_> = (0..keys).map(claim).collect();
    claims.sort_by_key(LimitClaim::bucket);
    claims
}

/// One process for each order of claims reports them so many times, as `calls` divides them. Returns the time
/// of each report.
fn report<'a, I: Iterator<Item = &'a [LimitClaim]>>(
    case: &Empty,
    orders: &'a [Vec<LimitClaim>],
    times: usize,
    calls: fn(&'a [LimitClaim]) -> I,
) -> Vec<Duration> {
    let work = |node: usize, claims: &'a [LimitClaim]| {
        let database: Arc<dyn Database> = case.open(&hasher().fingerprint());
        let report = || {
            let begun = Instant::now();
            for claims in calls(claims) {
                let leased = database.lease_limits(&node.to_string(), 1, claims);
                assert_eq!(leased.unwrap().len(), claims.len());
            }
            begun.elapsed()
        };
        std::iter::repeat_with(report)
            .take(times)
            .collect::<Vec<_>>()
    };
    std::thread::scope(|scope| {
        let work = &work;
        let all = orders.iter().enumerate();
        let all: Vec<_> = all
            .map(|(node, claims)| scope.spawn(move || work(node, claims)))
            .collect();
        all.into_iter().flat_map(|it| it.join().unwrap()).collect()
    })
}

#[test]
fn claims_of_several_processes_are_all_counted_whatever_their_order() {
    const TIMES: u8 = 30;
    let Some(server) = primary() else {
        return;
    };
    let case = Empty::on(server);
    let begun = Instant::now();
    let forwards = claims(100);
    let backwards: Vec<_> = forwards.iter().rev().cloned().collect();
    // Each call locks all buckets.
    let one_call = std::iter::once;
    report(
        &case,
        &[forwards.clone(), backwards],
        TIMES.into(),
        one_call,
    );
    let database = case.open(&hasher().fingerprint());
    let leased = database.lease_limits("last", 1, &forwards).unwrap();
    let elapsed_ms = u64::try_from(begun.elapsed().as_millis()).unwrap();
    let taken = REQUEST * (2 * u64::from(TIMES) + 1);
    for (claim, lease) in forwards.iter().zip(leased) {
        let flown = u64::from(LIMIT) * elapsed_ms;
        let counted = taken.saturating_sub(flown)..=taken;
        assert!(
            counted.contains(&lease.debt),
            "{claim:?} {lease:?} {counted:?}"
        );
    }
}

#[test]
fn no_bucket_is_in_two_calls_and_no_claim_is_left_out() {
    for keys in [0, 1, 250, 251, 3000, 40_000] {
        let claims = claims(keys);
        let mut call_of = HashMap::new();
        let mut count = 0;
        for (call, part) in LimitClaim::calls(&claims).enumerate() {
            count += part.len();
            assert!(part.len() <= 500 || keys > 16_000, "{keys} {}", part.len());
            for claim in part {
                assert_eq!(*call_of.entry(claim.bucket()).or_insert(call), call);
            }
        }
        assert_eq!(count, claims.len());
    }
}

/// `cargo test -p tollgate-ledger limit_locks -- --ignored --nocapture`
#[test]
#[ignore = "measures"]
fn time_of_reports_of_many_keys() {
    let Some(server) = primary() else {
        return;
    };
    let case = Empty::on(server);
    let orders = vec![claims(1000); 4];
    report(&case, &orders, 1, LimitClaim::calls);
    for is_analyzed in [false, true] {
        if is_analyzed {
            // As autovacuum does.
            case.sql("ANALYZE limit_debts; ANALYZE limit_leases");
        }
        let one_call = report(&case, &orders, 20, std::iter::once);
        let several = report(&case, &orders, 20, LimitClaim::calls);
        for (what, mut times) in [("one call", one_call), ("several", several)] {
            times.sort();
            let median = times[times.len() / 2];
            println!(
                "analyzed: {is_analyzed}, {what}: {median:?}, at most {:?}",
                times.last()
            );
        }
    }
}
