//! Processes that lease what they expect to need, as on a server.

use super::*;
use futures::{future::join_all, poll};

/// What a process leases of a key.
fn leased(ledger: &Ledger, key: &KeyId) -> u64 {
    ledger.holdings(key).unwrap().tokens.unwrap().all()
}

#[tokio::test]
async fn a_process_leaves_to_others_what_it_does_not_need() {
    let house = House::by_use();
    let key = house.key(100_000);
    let (one, two) = (house.ledger(), house.ledger());
    let first = house.reserve(&one, &key, 100).await.unwrap();
    assert_eq!(leased(&one, &key), 200);
    // Enough is free: the second process makes no lease request.
    drop(house.reserve(&two, &key, 40_000).await.unwrap());
    // A request of a kind that was not seen before waits for the database alone.
    first.settle(&completed(100));
    drop(house.reserve(&one, &key, 5000).await.unwrap());
    assert_eq!(one.stats().lease_waits, 1);
    assert!(one.close(PATIENCE) && two.close(PATIENCE));
    assert_eq!(house.used(&key), 100);
    house.check(3);
}

#[tokio::test]
async fn requests_of_the_usual_kind_never_wait() {
    let house = House::by_use();
    let key = house.key(1_000_000);
    let ledger = house.ledger_with(1000);
    house
        .reserve(&ledger, &key, 100)
        .await
        .unwrap()
        .settle(&completed(30));
    for _ in 0..300 {
        let held = house.reserve(&ledger, &key, 100).await.unwrap();
        held.settle(&completed(30));
        // A moment of some requests, for the writer.
        assert!(ledger.caught_up(PATIENCE).await);
        house.clock.advance(Duration::from_millis(100));
    }
    let stats = ledger.stats();
    assert_eq!(stats.lease_waits, 0);
    // Ten seconds of 300 tokens each, at most twice.
    let leased = leased(&ledger, &key);
    assert!((1000..=2 * (3000 + 100)).contains(&leased), "{leased}");
    assert!(ledger.close(PATIENCE));
    house.check(301);
}

#[tokio::test]
async fn what_is_not_needed_any_more_is_given_back() {
    let house = House::by_use();
    let key = house.key(1_000_000);
    let ledger = house.ledger();
    drop(house.reserve(&ledger, &key, 500_000).await.unwrap());
    for _ in 0..4 {
        drop(house.reserve(&ledger, &key, 100).await.unwrap());
        house.clock.advance(Duration::from_secs(10));
    }
    let start = Instant::now();
    while house
        .store()
        .unleased(&key, house.clock.now())
        .unwrap()
        .tokens
        < 999_000
    {
        assert!(start.elapsed() < PATIENCE, "{}", leased(&ledger, &key));
        tokio::task::yield_now().await;
    }
    drop(house.reserve(&ledger, &key, 100).await.unwrap());
    assert_eq!(ledger.stats().lease_waits, 0, "of the usual kind");
    drop(house.reserve(&ledger, &key, 1_000_000).await.unwrap());
    assert!(ledger.close(PATIENCE));
}

#[tokio::test]
async fn a_nearly_spent_balance_is_spent_to_the_last_token() {
    let house = House::by_use();
    let key = house.key(1000);
    let (one, two) = (house.ledger(), house.ledger());
    let mut charged = 0;
    let mut exhausted = 0;
    let start = Instant::now();
    while exhausted < 20 {
        for ledger in [&one, &two] {
            let mut held = house.reserve(ledger, &key, 7).await;
            if held.is_err()
                && let Some(more) = ledger.wait_for_release(&key)
            {
                more.await;
                held = house.reserve(ledger, &key, 7).await;
            }
            match held {
                Ok(held) => charged += held.settle(&completed(7)).charged,
                Err(Shortage::Busy) => {}
                Err(refused) => {
                    assert_eq!(refused, Shortage::Exhausted(Unit::Tokens));
                    assert!(charged > 1000 - 7, "refused after {charged}");
                    exhausted += 1;
                }
            }
        }
        assert!(start.elapsed() < PATIENCE, "{charged} charged");
    }
    assert!(one.close(PATIENCE) && two.close(PATIENCE));
    assert_eq!(house.used(&key), 994);
}

#[tokio::test]
async fn many_at_once_on_a_new_account_are_served_by_what_they_lease_together() {
    let house = House::by_use();
    let key = house.key(1_000_000);
    let ledger = house.ledger_with(1000);
    let all = (0..200).map(|_| house.reserve(&ledger, &key, 100));
    let held = join_all(all).await;
    assert!(held.iter().all(Result::is_ok));
    drop(held);
    // Those beyond a balance are refused at once.
    let small = house.key(1000);
    let all = (0..200).map(|_| house.reserve(&ledger, &small, 100));
    let held = join_all(all).await;
    let admitted = held.iter().filter(|it| it.is_ok()).count();
    assert_eq!(admitted, 10);
    let refused = held.iter().filter_map(|it| it.as_ref().err());
    assert!(refused.clone().all(|it| *it == Shortage::Busy), "{held:?}");
}

#[tokio::test]
async fn many_that_come_while_a_lease_is_committed_wait_for_one_more_commit() {
    let house = House::by_use();
    let key = house.key(1_000_000);
    let ledger = house.ledger_with(1000);
    let wait = || match ledger.reserve(&key, house.request(), bound(100), Weights::default()) {
        Reserve::Wait(pending) => pending,
        answered => panic!("{answered:?}"),
    };
    let lock = testing::Other::lock(&house.path());
    let mut waiting = vec![wait()];
    let start = Instant::now();
    while ledger.0.shared.accounts.counted(&key) == 0 {
        assert!(start.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    waiting.extend((0..200).map(|_| wait()));
    lock.end();
    let served = waiting.into_iter().map(async |pending| {
        pending.wait().await.unwrap();
        let again = ledger.reserve(&key, house.request(), bound(100), Weights::default());
        let Reserve::Reserved(held) = again else {
            panic!("{again:?}");
        };
        held
    });
    assert_eq!(join_all(served).await.len(), 201);
}

#[tokio::test]
async fn a_request_waits_again_if_others_reserve_what_was_leased_for_it() {
    let house = House::by_use();
    let key = house.key(1_000_000);
    let ledger = house.ledger();
    let (bound, weights) = (bound(100), Weights::default());
    let waiting = match ledger.reserve(&key, house.request(), bound, weights) {
        Reserve::Wait(account) => ledger.reserve_after(account, house.request(), bound, weights),
        answered => panic!("{answered:?}"),
    };
    let mut waiting = Box::pin(waiting);
    let mut others = Vec::new();
    // Their commits must fit the 2 s in which it begins a wait.
    for _ in 0..3 {
        assert!(poll!(&mut waiting).is_pending());
        // The lease is there; the request has not seen it yet.
        let start = Instant::now();
        let free = loop {
            match ledger.holdings(&key).and_then(|it| it.tokens) {
                Some(holdings) if holdings.free > 0 => break holdings.free,
                _ => assert!(start.elapsed() < PATIENCE),
            }
            std::thread::yield_now();
        };
        let other = ledger.reserve(&key, house.request(), super::bound(free), weights);
        assert!(matches!(other, Reserve::Reserved(_)), "{other:?}");
        others.push(other);
    }
    assert!(waiting.await.is_ok());
}

#[tokio::test]
async fn a_free_model_serves_the_first_request_of_a_key() {
    let house = House::by_use();
    let (key, spent) = (house.key(100), house.key(10));
    let ledger = house.ledger();
    let free = Weights::fixed(0).unwrap();
    let reserve = async |key| match ledger.reserve(key, house.request(), bound(10), free) {
        Reserve::Wait(account) => {
            account.wait().await.unwrap();
            ledger.reserve(key, house.request(), bound(10), free)
        }
        answered => answered,
    };
    let answered = reserve(&key).await;
    let Reserve::Reserved(held) = answered else {
        panic!("{answered:?}");
    };
    assert_eq!(held.settle(&completed(10)).charged, 0);
    let held = house.reserve(&ledger, &spent, 10).await.unwrap();
    held.settle(&completed(10));
    let answered = reserve(&spent).await;
    let exhausted = Shortage::Exhausted(Unit::Tokens);
    assert!(
        matches!(&answered, Reserve::Refused(why) if *why == exhausted),
        "{answered:?}"
    );
}
