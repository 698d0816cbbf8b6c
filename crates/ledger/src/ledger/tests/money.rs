//! Balances in money: alone, and beside tokens.

use super::*;
use crate::{
    balance::{Grant, GrantNumber, Need, Piece},
    ledger::account::{ReserveOutcome, Reserved},
    store::database::{Share, UnitShare},
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use tollgate_types::{PerUnit, ServiceTier, Weight};

/// What a token of output costs at [`prices`].
const NANOS: u64 = 15_000;

fn tariff() -> Tariff {
    Tariff {
        prices: Some(prices()),
        ..Tariff::default()
    }
}

impl House {
    fn key_with(&self, tokens: u64, nanos: u64) -> KeyId {
        let new = NewKey {
            grant: Some(GrantTerms {
                tokens,
                money: Money::from_nanos(nanos),
                validity: DAY,
                ..GrantTerms::default()
            }),
            ..NewKey::named("ci")
        };
        self.store().create_key(&new).unwrap().record.id().clone()
    }

    /// Reserves what `bound` takes at the prices, which are set as for an attempt.
    async fn buy(
        &self,
        ledger: &Ledger,
        key: &KeyId,
        bound: UpperBound,
    ) -> Result<Reservation, Shortage> {
        loop {
            match ledger.reserve(key, self.request(), bound, tariff()) {
                Reserve::Reserved(mut reservation) => {
                    reservation.set_prices(Some(prices()));
                    return Ok(reservation);
                }
                Reserve::Refused(refused) => return Err(refused),
                Reserve::Wait(account) => account.wait().await?,
            }
        }
    }

    fn money_used(&self, key: &KeyId) -> u64 {
        let grants = self.store().grants(key).unwrap();
        grants.iter().map(|grant| grant.money_used.nanos()).sum()
    }
}

#[tokio::test]
async fn a_key_with_money_alone_is_charged_the_exact_cost() {
    let house = House::new();
    let key = house.key_with(0, 100 * NANOS);
    let ledger = house.ledger();
    let first = house.buy(&ledger, &key, bound(60)).await.unwrap();
    assert_eq!(first.reserved(Unit::Money), Some(60 * NANOS));
    assert_eq!(first.reserved(Unit::Tokens), None);
    let busy = house.buy(&ledger, &key, bound(41)).await.unwrap_err();
    assert_eq!(busy, Shortage::Busy);
    let settled = first.settle(&completed(25));
    assert_eq!((settled.charged, settled.overdraft), (0, 0));
    assert_eq!(settled.cost, Some(Money::from_nanos(25 * NANOS)));
    assert_eq!(settled.cost_overdraft, Some(Money::ZERO));
    let exhausted = house.buy(&ledger, &key, bound(76)).await.unwrap_err();
    assert_eq!(exhausted, Shortage::Exhausted(Unit::Money));
    let last = house.buy(&ledger, &key, bound(75)).await.unwrap();
    assert_eq!(last.output_limit(), None);
    let settled = last.settle(&completed(80));
    assert_eq!(settled.cost_overdraft, Some(Money::from_nanos(5 * NANOS)));
    let stats = ledger.stats();
    assert_eq!(stats.charged_money, 100 * NANOS);
    assert_eq!(stats.overdraft_money, 5 * NANOS);
    assert!(ledger.close(PATIENCE));
    assert_eq!(house.money_used(&key), 100 * NANOS);
    house.check(2);
}

#[tokio::test]
async fn more_calls_of_tools_than_plausible_are_cut_and_marked() {
    let house = House::new();
    let ledger = house.ledger();
    let key = house.key_with(0, 1 << 40);
    let mut prices = prices();
    prices.special.tool_calls[0] = Money::from_nanos(NANOS);
    for (covered, reported, charged) in [
        (0, 320, 320),
        (0, 1 << 40, 320),
        (20, 640, 640),
        (20, 641, 640),
    ] {
        let tariff = Tariff {
            tool_calls: covered,
            prices: Some(prices),
            ..Tariff::default()
        };
        let mut bought = loop {
            match ledger.reserve(&key, house.request(), bound(1), tariff) {
                Reserve::Reserved(bought) => break bought,
                Reserve::Refused(refused) => panic!("{refused:?}"),
                Reserve::Wait(account) => account.wait().await.unwrap(),
            }
        };
        bought.set_prices(Some(prices));
        let mut ending = completed(1);
        ending.details.tool_calls[0] = reported;
        let settled = bought.settle(&ending);
        let cost = Money::from_nanos((1 + charged) * NANOS);
        assert_eq!(settled.cost, Some(cost), "{reported}");
        assert_eq!(settled.clamped, reported != charged, "{reported}");
        let is_reported = settled.source == CountSource::Reported;
        assert_eq!(is_reported, reported == charged, "{reported}");
    }
}

#[tokio::test]
async fn with_both_a_request_needs_both_and_takes_neither_if_one_is_short() {
    let house = House::new();
    let key = house.key_with(100, 50 * NANOS);
    let ledger = house.ledger();
    let refused = house.buy(&ledger, &key, bound(51)).await.unwrap_err();
    assert_eq!(refused, Shortage::Exhausted(Unit::Money));
    let held = ledger.holdings(&key).unwrap();
    assert_eq!(held.tokens.unwrap().free, 100);
    assert_eq!(held.money.unwrap().free, 50 * NANOS);
    let bought = house.buy(&ledger, &key, bound(40)).await.unwrap();
    assert_eq!(bought.reserved(Unit::Tokens), Some(40));
    assert_eq!(bought.reserved(Unit::Money), Some(40 * NANOS));
    let settled = bought.settle(&completed(30));
    assert_eq!((settled.charged, settled.overdraft), (30, 0));
    house.top_up(&key, 1000);
    let refused = house.buy(&ledger, &key, bound(21)).await.unwrap_err();
    assert_eq!(
        refused,
        Shortage::Exhausted(Unit::Money),
        "tokens do not pay the cost"
    );
    assert!(ledger.close(PATIENCE));
    assert_eq!((house.used(&key), house.money_used(&key)), (30, 30 * NANOS));
    house.check(1);
}

#[tokio::test]
async fn the_output_limit_is_what_the_scarcer_unit_affords() {
    let house = House::new();
    let ledger = house.ledger();
    let asked = UpperBound {
        useful_output: 1,
        ..bound(90)
    };
    for (tokens, nanos, limit) in [
        (100, 90 * NANOS, None),
        (100, 70 * NANOS, Some(70)),
        (60, 70 * NANOS, Some(60)),
        (0, 70 * NANOS + NANOS - 1, Some(70)),
    ] {
        let key = house.key_with(tokens, nanos);
        let bought = house.buy(&ledger, &key, asked).await.unwrap();
        assert_eq!(bought.output_limit(), limit);
        bought.release();
    }
    // The input is reserved at the price of its dearest kind.
    let key = house.key_with(0, 10 * 3_750 + 20 * NANOS);
    let asked = UpperBound { input: 10, ..asked };
    let bought = house.buy(&ledger, &key, asked).await.unwrap();
    assert_eq!(bought.output_limit(), Some(20));
}

#[tokio::test]
async fn what_has_no_price_is_refused_to_a_key_that_pays_in_money() {
    let house = House::new();
    let ledger = house.ledger();
    let key = house.key_with(100, NANOS);
    let refused = house.reserve(&ledger, &key, 1).await.unwrap_err();
    assert_eq!(refused, Shortage::Unpriced);
    assert_eq!(ledger.holdings(&key).unwrap().tokens.unwrap().free, 100);
    let free = house.key_with(100, 0);
    assert!(house.reserve(&ledger, &free, 1).await.is_ok());
}

#[tokio::test]
async fn a_crash_charges_money_once() {
    let house = House::new();
    let key = house.key_with(1000, 1000 * NANOS);
    let ledger = house.ledger();
    let settled = house.buy(&ledger, &key, bound(100)).await.unwrap();
    let mut running = house.buy(&ledger, &key, bound(100)).await.unwrap();
    settled.settle(&completed(30));
    running.progress(output(7), UsageDetails::default());
    running.keep_progress(Instant::now(), None);
    std::mem::forget(running);
    ledger.crash();
    for _ in 0..2 {
        let next = house.ledger();
        assert!(next.close(PATIENCE));
        assert_eq!((house.used(&key), house.money_used(&key)), (37, 37 * NANOS));
        house.check(2);
    }
}

#[tokio::test]
async fn a_crash_and_a_drop_charge_the_tier_and_the_calls_so_far() {
    let fast = UsageDetails {
        tool_calls: [3, 0, 0, 0],
        tier: ServiceTier::Fast,
        ..UsageDetails::default()
    };
    let mut dear = prices();
    dear.special.fast = Some(Weight::from_thousandths(2000));
    dear.special.tool_calls[0] = Money::from_nanos(NANOS);
    for is_crash in [true, false] {
        let house = House::new();
        let key = house.key_with(0, 1000 * NANOS);
        let ledger = house.ledger();
        let mut running = house.buy(&ledger, &key, bound(100)).await.unwrap();
        running.set_prices(Some(dear));
        running.progress(output(7), fast);
        if is_crash {
            running.keep_progress(Instant::now(), None);
            std::mem::forget(running);
            ledger.crash();
            assert!(house.ledger().close(PATIENCE));
        } else {
            drop(running);
            assert!(ledger.close(PATIENCE));
        }
        // Seven tokens at twice the price, and three calls.
        assert_eq!(house.money_used(&key), 17 * NANOS, "{is_crash}");
    }
}

#[tokio::test]
async fn a_price_that_rises_after_the_reservation_overdraws_one_request() {
    let house = House::new();
    let key = house.key_with(0, 100 * NANOS);
    let ledger = house.ledger();
    let mut bought = house.buy(&ledger, &key, bound(100)).await.unwrap();
    let mut dearer = prices();
    dearer.output = "30".parse().unwrap();
    bought.set_prices(Some(dearer));
    let settled = bought.settle(&completed(60));
    assert_eq!(settled.cost, Some(Money::from_nanos(120 * NANOS)));
    assert_eq!(settled.cost_overdraft, Some(Money::from_nanos(20 * NANOS)));
    let refused = house.buy(&ledger, &key, bound(1)).await.unwrap_err();
    assert_eq!(refused, Shortage::Exhausted(Unit::Money));
    assert!(ledger.close(PATIENCE));
    house.check(1);
}

/// Two processes spend a budget to the last, however they lease it.
async fn spend_together(house: House, tokens: u64) {
    let key = house.key_with(tokens, 100 * NANOS);
    let (one, two) = (house.ledger(), house.ledger());
    let mut bought = 0;
    let start = Instant::now();
    while bought < 100 {
        for ledger in [&one, &two] {
            let mut held = house.buy(ledger, &key, bound(1)).await;
            if held.is_err()
                && let Some(more) = ledger.wait_for_release(&key)
            {
                more.await;
                held = house.buy(ledger, &key, bound(1)).await;
            }
            match held {
                Ok(held) => {
                    held.settle(&completed(1));
                    bought += 1;
                }
                Err(refused) if bought < 100 => assert_eq!(refused, Shortage::Busy),
                Err(_) => {}
            }
        }
        assert!(start.elapsed() < PATIENCE, "{bought} requests");
    }
    assert!(one.close(PATIENCE) && two.close(PATIENCE));
    assert_eq!(house.money_used(&key), 100 * NANOS);
    assert_eq!(house.used(&key), tokens.min(100));
    house.check(100);
}

#[tokio::test]
async fn two_processes_spend_one_budget_of_money_once() {
    spend_together(House::new(), 0).await;
}

#[tokio::test]
async fn two_processes_that_lease_by_use_spend_budgets_of_both_units_to_the_last() {
    spend_together(House::by_use(), 0).await;
    spend_together(House::by_use(), 100).await;
    spend_together(House::by_use(), 1_000_000).await;
}

/// What can happen to an account.
#[derive(Clone, Debug)]
enum Step {
    /// So much more of a grant of tokens or of money.
    Lease(bool, u64),
    /// The most and the least, of tokens and of money.
    Reserve(PerUnit<u64>, PerUnit<u64>),
    /// The reservation at this place (modulo their number) ends with these charges.
    Settle(usize, PerUnit<u64>),
    GiveHalf,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let both = |most: u64| (0..most, 0..most).prop_map(|(tokens, money)| PerUnit { tokens, money });
    let step = prop_oneof![
        (any::<bool>(), 1..900_u64).prop_map(|(unit, amount)| Step::Lease(unit, amount)),
        (both(400), both(60)).prop_map(|(most, least)| Step::Reserve(most, least)),
        (any::<usize>(), both(500)).prop_map(|(which, charge)| Step::Settle(which, charge)),
        Just(Step::GiveHalf),
    ];
    proptest::collection::vec(step, 1..80)
}

fn share(grants: Vec<Grant>) -> Share {
    Share {
        key: 1,
        grants,
        of: PerUnit::from_fn(|_| UnitShare::default()),
        has_more: false,
    }
}

fn sum(pieces: &[Piece]) -> u64 {
    pieces.iter().map(|piece| piece.amount).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn each_unit_adds_up_by_itself_whatever_happens(steps in steps()) {
        let accounts = accounts::Accounts::new(1, false);
        let (id, now) = (KeyId::new("key_1"), Timestamp::from_unix_ms(1_790_000_000_000));
        accounts.add_lease(&id, &share(Vec::new()), now);
        let account = accounts.get(&id).unwrap();
        let mut leased = PerUnit::<u64>::default();
        let mut gone = PerUnit::<u64>::default();
        let mut open: Vec<Reserved> = Vec::new();
        // Which unit a grant is of.
        let units = BTreeMap::from([(1, Unit::Tokens), (2, Unit::Money)]);
        for step in steps {
            match step {
                Step::Lease(is_money, amount) => {
                    let number = if is_money { 2 } else { 1 };
                    let unit = units[&number];
                    account.add_lease(&share(vec![Grant {
                        number: GrantNumber(number),
                        unit,
                        validity: DAY,
                        expires_at: None,
                        free: amount,
                        reserved: 0,
                    }]), now);
                    *leased.get_mut(unit) += amount;
                }
                Step::Reserve(most, least) => {
                    let before = account.holdings(now);
                    let need = |unit| Some(Need {
                        wanted: *most.get(unit),
                        useful: (*least.get(unit)).min(*most.get(unit)),
                    });
                    let needs = PerUnit::from_fn(need);
                    if let ReserveOutcome::Reserved { reserved: held, .. } = account.reserve(&needs, &|| true, now) {
                        for unit in Unit::ALL {
                            let required = before.get(unit).is_some();
                            prop_assert_eq!(held.of(unit).is_some(), required);
                            let Some(pieces) = held.of(unit) else { continue };
                            let need = needs.get(unit).unwrap();
                            prop_assert!((need.useful..=need.wanted).contains(&sum(pieces)));
                            prop_assert!(pieces.iter().all(|it| units[&it.grant.0] == unit));
                        }
                        open.push(held);
                    } else {
                        prop_assert_eq!(account.holdings(now), before, "a refusal takes nothing");
                    }
                }
                Step::Settle(which, charge) if !open.is_empty() => {
                    let held = open.swap_remove(which % open.len());
                    let (paid, _) = account.settle(&held, &charge, 64, now);
                    for unit in Unit::ALL {
                        let payment = paid.get(unit);
                        let charged = held.of(unit).map_or(0, |_| *charge.get(unit));
                        prop_assert_eq!(payment.paid() + payment.overdraft, charged);
                        prop_assert!(payment.pieces.iter().all(|it| units[&it.grant.0] == unit));
                        *gone.get_mut(unit) += payment.paid();
                    }
                }
                Step::Settle(..) => {}
                Step::GiveHalf => {
                    for piece in account.give_up_half() {
                        *gone.get_mut(units[&piece.grant.0]) += piece.amount;
                    }
                }
            }
            let holdings = account.holdings(now);
            for unit in Unit::ALL {
                let here = holdings.get(unit).unwrap_or_default();
                let reserved: u64 = open.iter().filter_map(|it| it.of(unit)).map(|it| sum(it)).sum();
                prop_assert_eq!(here.reserved, reserved);
                prop_assert_eq!(*leased.get(unit), gone.get(unit) + here.free + here.reserved);
            }
        }
    }
}
