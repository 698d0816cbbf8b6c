//! What a stream that a crash cuts is charged.

use super::*;

const KEEP: Duration = Duration::from_millis(250);

/// Notes what was delivered, that long after the request began.
fn deliver(held: &mut Reservation, tokens: u64, begun: Instant, after: Duration) {
    held.progress(output(tokens), UsageDetails::default());
    let now = begun + after;
    if held.is_keeping_due(now) {
        held.keep_progress(now, Some("beta".into()));
    }
}

#[tokio::test]
async fn a_crash_charges_what_a_stream_had_delivered_a_quarter_second_before() {
    let house = House::new();
    let key = house.key(1000);
    let ledger = house.ledger();
    let mut held = house.reserve(&ledger, &key, 500).await.unwrap();
    held.set_prices(Some(prices()));
    let silent = house.reserve(&ledger, &key, 100).await.unwrap();
    let begun = Instant::now();
    deliver(&mut held, 3, begun, Duration::ZERO);
    assert!(!held.is_keeping_due(begun + KEEP / 2));
    deliver(&mut held, 70, begun, KEEP);
    deliver(&mut held, 80, begun, KEEP + KEEP / 2);
    deliver(&mut held, 95, begun, 2 * KEEP);
    deliver(&mut held, 99, begun, 2 * KEEP + KEEP / 2);
    ledger.crash();
    for _ in 0..2 {
        let ledger = house.ledger();
        assert!(ledger.close(PATIENCE));
        assert_eq!(house.used(&key), 95);
        house.check(1);
    }
    let reported: String = house.sql(
        "SELECT concat_ws(' ', state, source, error, status, model_served, output, cost)
         FROM usage",
    );
    assert_eq!(
        reported,
        "upstream_failed estimated service_unavailable 200 beta 95 1425000"
    );
    drop((held, silent));
}

#[tokio::test]
async fn a_settlement_takes_the_place_of_progress_whatever_the_copy_holds() {
    let house = House::new();
    let key = house.key(1000);
    let ledger = house.ledger();
    let mut held = house.reserve(&ledger, &key, 500).await.unwrap();
    let begun = Instant::now();
    deliver(&mut held, 70, begun, KEEP);
    ledger.0.shared.journal.follow();
    // The live file has the settlement alone, the copy the progress before it.
    ledger.0.shared.abandoned.store(true, Ordering::Release);
    held.settle(&completed(40));
    ledger.crash();
    assert!(house.ledger().close(PATIENCE));
    assert_eq!(house.used(&key), 40);
    house.check(1);
}

#[tokio::test]
async fn a_request_that_is_released_leaves_no_progress() {
    let house = House::new();
    let key = house.key(1000);
    let ledger = house.ledger();
    let mut held = house.reserve(&ledger, &key, 500).await.unwrap();
    deliver(&mut held, 70, Instant::now(), KEEP);
    held.release();
    ledger.crash();
    assert!(house.ledger().close(PATIENCE));
    assert_eq!(house.used(&key), 0);
    house.check(0);
}

#[tokio::test]
async fn progress_that_many_grants_would_pay_is_charged_to_them() {
    let house = House::new();
    let key = house.key(10);
    for _ in 0..20 {
        house.top_up(&key, 10);
    }
    let ledger = house.ledger();
    let mut held = house.reserve(&ledger, &key, 200).await.unwrap();
    deliver(&mut held, 195, Instant::now(), KEEP);
    ledger.crash();
    assert!(house.ledger().close(PATIENCE));
    assert_eq!(house.used(&key), 195);
    house.check(1);
    drop(held);
}
