//! Keys with many grants, and grants whose time a clock gets wrong.

use super::*;

#[tokio::test]
async fn small_grants_pay_together_for_what_none_of_them_could() {
    let house = House::new();
    let key = house.key(10);
    for _ in 1..64 {
        house.top_up(&key, 10);
    }
    let ledger = house.ledger();
    let all = house.reserve(&ledger, &key, 640).await.unwrap();
    assert_eq!(
        ledger.stats().open_requests,
        4,
        "as many slots as the record may need"
    );
    assert_eq!(all.settle(&completed(635)).charged, 635);
    let last = house.reserve(&ledger, &key, 6).await.unwrap_err();
    assert_eq!(last, Shortage::Exhausted(Unit::Tokens));
    assert!(ledger.close(PATIENCE));
    assert_eq!(house.used(&key), 635);
    assert_eq!(house.sql::<i64>("SELECT count(*) FROM charges"), 64);
    house.check(1);
}

#[tokio::test]
async fn charges_on_many_grants_survive_a_crash() {
    let house = House::new();
    let key = house.key(10);
    for _ in 1..40 {
        house.top_up(&key, 10);
    }
    let ledger = house.ledger();
    let few = house.reserve(&ledger, &key, 100).await.unwrap();
    // Beyond what it held the others pay, as far as its slot has room.
    assert_eq!(few.settle(&completed(100)).overdraft, 0);
    let many = house.reserve(&ledger, &key, 300).await.unwrap();
    assert_eq!(many.settle(&completed(295)).charged, 295);
    ledger.crash();
    for _ in 0..2 {
        house.ledger().crash();
        assert_eq!(house.used(&key), 395);
        house.check(2);
    }
}

#[tokio::test]
async fn a_charge_above_the_reservation_is_paid_by_as_many_grants_as_it_takes() {
    let house = House::new();
    let key = house.key(10);
    for _ in 1..20 {
        house.top_up(&key, 10);
    }
    let ledger = house.ledger_with(4);
    let held = house.reserve(&ledger, &key, 10).await.unwrap();
    let settled = held.settle(&completed(105));
    assert_eq!((settled.charged, settled.overdraft), (105, 0));
    ledger.crash();
    let ledger = house.ledger_with(4);
    assert_eq!(house.used(&key), 105);
    // Without a free slot, as many pay as there is room for.
    let mut all = vec![house.reserve(&ledger, &key, 5).await.unwrap()];
    for _ in 0..3 {
        all.push(house.eventually(&ledger, &key, 1).await);
    }
    let settled = all.remove(0).settle(&completed(90));
    assert_eq!((settled.charged, settled.overdraft), (90, 18));
    for held in all {
        held.release();
    }
    assert!(ledger.close(PATIENCE));
    house.check(2);
}

#[tokio::test]
async fn a_key_of_more_grants_than_a_request_is_paid_from_has_them_one_after_the_other() {
    let house = House::new();
    let key = house.key(10);
    // As an older program let them be given, most of them long spent.
    testing::edit(
        house.store().path(),
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1199)
         INSERT INTO grants (id, key, tokens, spent, validity_ms, created_at)
         SELECT 'g' || i, key, 10, 0, validity_ms, created_at FROM grants, n",
    );
    let ledger = house.ledger();
    let mut spent = 0;
    let start = Instant::now();
    while spent < 12_000 {
        let held = house.eventually(&ledger, &key, 500).await;
        held.settle(&completed(500));
        spent += 500;
        assert!(start.elapsed() < PATIENCE, "{spent}");
    }
    assert_eq!(
        house.reserve(&ledger, &key, 1).await.unwrap_err(),
        Shortage::Exhausted(Unit::Tokens)
    );
    assert!(ledger.close(PATIENCE));
    assert_eq!(house.sql::<i64>("SELECT sum(spent) FROM grants"), 12_000);
    house.check(24);
    // What is spent leaves room for more.
    house.top_up(&key, 10);
    let ledger = house.ledger();
    drop(house.reserve(&ledger, &key, 10).await.unwrap());
}

#[tokio::test]
async fn a_moments_leap_of_the_clock_expires_nothing_and_prolongs_nothing() {
    const HOUR: Duration = Duration::from_secs(3600);
    const YEAR_MS: i64 = 365 * 86_400_000;
    let begin = Timestamp::from_unix_ms(1_790_000_000_000);
    let mut house = House::new();
    house.clock = Clock::simulated(begin);
    let (key, fresh) = (house.key(1000), house.key(1000));
    let ledger = house.ledger();
    let first = house.reserve(&ledger, &key, 10).await.unwrap();
    first.settle(&completed(10));
    assert!(ledger.caught_up(PATIENCE).await);
    house.clock.simulate(HOUR, YEAR_MS);
    for key in [&key, &fresh] {
        let held = house.reserve(&ledger, key, 10).await.unwrap();
        held.settle(&completed(10));
    }
    assert!(ledger.caught_up(PATIENCE).await);
    house.clock.simulate(Duration::from_secs(30), -YEAR_MS);
    drop(house.reserve(&ledger, &key, 10).await.unwrap());
    assert!(ledger.close(PATIENCE));
    let until = |key| house.store().grants(key).unwrap()[0].valid_until;
    assert_eq!(until(&key), Some(begin.plus(DAY)));
    assert_eq!(until(&fresh), Some(begin.plus(HOUR).plus(DAY)));
    let history = History::new(&house.store());
    let page = history.page(&key, &HistoryQuery::default()).unwrap();
    let times: Vec<_> = page.data.iter().map(|record| record.time).collect();
    let last = begin.plus(HOUR).plus(Duration::from_secs(30));
    assert_eq!(times, [last, begin.plus(HOUR), begin]);
}

#[tokio::test]
async fn a_request_that_costs_nothing_begins_the_grant_that_would_have_paid() {
    const HOUR: Duration = Duration::from_secs(3600);
    let begin = Timestamp::from_unix_ms(1_790_000_000_000);
    let mut house = House::new();
    house.clock = Clock::simulated(begin);
    let key = house.key(1000);
    house.top_up(&key, 500);
    let ledger = house.ledger();
    let ends = [
        // It was not used.
        (Ending::unreported(BillingState::Rejected, output(0)), None),
        (
            Ending::unreported(BillingState::UpstreamFailed, output(0)),
            None,
        ),
        (completed(0), Some(begin.plus(3 * HOUR))),
        (completed(0), Some(begin.plus(3 * HOUR))),
    ];
    let begun = || {
        let grants = house.store().grants(&key).unwrap();
        [grants[0].valid_from, grants[1].valid_from]
    };
    for (ending, expected) in ends {
        house.clock.simulate(HOUR, 0);
        let held = house.reserve(&ledger, &key, 10).await.unwrap();
        assert_eq!(held.settle(&ending).charged, 0);
        assert!(ledger.caught_up(PATIENCE).await);
        assert_eq!(begun(), [expected, None]);
    }
    // The expired grant pays no more, and the next one begins.
    house.clock.simulate(DAY, 0);
    let held = house.reserve(&ledger, &key, 10).await.unwrap();
    held.settle(&completed(10));
    assert!(ledger.close(PATIENCE));
    let next = begin.plus(4 * HOUR).plus(DAY);
    assert_eq!(begun(), [Some(begin.plus(3 * HOUR)), Some(next)]);
    let grants = house.store().grants(&key).unwrap();
    assert_eq!([grants[0].used, grants[1].used], [0, 10]);
    house.check(5);
}
