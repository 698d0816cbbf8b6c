use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

const DAY: Duration = Duration::from_secs(86_400);

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_unix_ms(1_790_000_000_000 + seconds * 1000)
}

fn grant(number: i64, free: u64, expires_at: Option<Timestamp>) -> Grant {
    Grant {
        number: GrantNumber(number),
        unit: Unit::Tokens,
        validity: DAY,
        expires_at,
        free,
        reserved: 0,
    }
}

fn balance(grants: impl IntoIterator<Item = Grant>) -> Balance {
    let mut balance = Balance::default();
    grants.into_iter().for_each(|grant| balance.lease(grant));
    balance
}

fn piece(number: i64, amount: u64) -> Piece {
    Piece {
        grant: GrantNumber(number),
        amount,
    }
}

#[test]
fn grants_that_expire_first_are_spent_first_and_unused_grants_last() {
    let mut balance = balance([
        grant(1, 10, None),
        grant(2, 10, Some(at(200))),
        grant(3, 10, Some(at(100))),
    ]);
    let held = balance.reserve(need(25, 1), at(0)).unwrap();
    assert_eq!(*held, [piece(3, 10), piece(2, 10), piece(1, 5)]);
}

#[test]
fn a_grants_time_starts_when_its_first_token_is_spent() {
    let mut balance = balance([grant(1, 10, None)]);
    let held = balance.reserve(need(5, 1), at(0)).unwrap();
    balance.settle(&held, 0, MAX_PIECES, at(1));
    assert_eq!(
        balance.grants[0].expires_at, None,
        "a free request began it"
    );
    let held = balance.reserve(need(5, 1), at(2)).unwrap();
    balance.settle(&held, 1, MAX_PIECES, at(3));
    assert_eq!(balance.grants[0].expires_at, Some(at(3).plus(DAY)));
}

#[test]
fn a_balance_for_ten_admits_ten() {
    let mut balance = balance([grant(1, 60, None), grant(2, 40, None)]);
    let held: Vec<_> = (0..10)
        .map(|_| balance.reserve(need(10, 10), at(0)).unwrap())
        .collect();
    assert_eq!(balance.reserve(need(10, 10), at(0)), Err(Short::Busy));
    for held in &held {
        balance.settle(held, 10, MAX_PIECES, at(0));
    }
    assert_eq!(balance.reserve(need(10, 10), at(0)), Err(Short::Exhausted));
}

#[test]
fn the_balance_caps_a_reservation_down_to_the_useful_minimum() {
    let mut balance = balance([grant(1, 30, None)]);
    assert_eq!(balance.reserve(need(100, 31), at(0)), Err(Short::Exhausted));
    assert_eq!(
        balance.reserve(need(100, 30), at(0)),
        Ok(Pieces::from([piece(1, 30)]))
    );
}

#[test]
fn a_key_whose_grants_are_all_over_is_expired() {
    let mut balance = balance([grant(1, 10, Some(at(100)))]);
    assert!(balance.reserve(need(1, 1), at(99)).is_ok());
    assert_eq!(balance.reserve(need(1, 1), at(100)), Err(Short::Expired));
    assert_eq!(
        Balance::default().reserve(need(1, 1), at(0)),
        Err(Short::Exhausted)
    );
}

#[test]
fn a_request_that_outlives_its_grant_pays_with_what_it_held() {
    let mut balance = balance([grant(1, 10, Some(at(100))), grant(2, 10, Some(at(900)))]);
    let held = balance.reserve(need(10, 1), at(99)).unwrap();
    let payment = balance.settle(&held, 8, MAX_PIECES, at(500));
    assert_eq!(*payment.pieces, [piece(1, 8)]);
    // The two that were let go are lost with the grant.
    assert_eq!(balance.holdings(at(500)).free, 10);
}

#[test]
fn a_charge_above_the_reservation_takes_the_rest_of_the_balance_and_then_overdraws() {
    let mut balance = balance([grant(1, 10, None), grant(2, 10, None)]);
    let held = balance.reserve(need(5, 1), at(0)).unwrap();
    let payment = balance.settle(&held, 27, MAX_PIECES, at(0));
    assert_eq!(*payment.pieces, [piece(1, 10), piece(2, 10)]);
    assert_eq!((payment.paid(), payment.overdraft), (20, 7));
    assert_eq!(balance.holdings(at(0)), Holdings::default());
}

#[test]
fn an_empty_balance_admits_nothing_not_even_what_costs_nothing() {
    let mut balance = balance([grant(1, 0, None)]);
    assert_eq!(balance.reserve(need(0, 0), at(0)), Err(Short::Exhausted));
}

#[test]
fn a_request_is_paid_from_a_bounded_number_of_grants() {
    const MANY: i64 = 2 * MAX_PIECES as i64;
    let mut balance = balance((0..MANY).map(|number| grant(number, 1, None)));
    let held = balance.reserve(need(1000, 1), at(0)).unwrap();
    assert_eq!(held.len(), MAX_PIECES);
    let payment = balance.settle(&held, 70, MAX_PIECES, at(0));
    assert_eq!((payment.pieces.len(), payment.overdraft), (MAX_PIECES, 6));
    // What was not held pays as far as the record has room.
    let held = balance.reserve(need(2, 1), at(0)).unwrap();
    let payment = balance.settle(&held, 20, 10, at(0));
    assert_eq!((payment.pieces.len(), payment.overdraft), (10, 10));
}

#[test]
fn grants_of_which_nothing_is_left_are_forgotten_where_they_are_many() {
    const MANY: i64 = 2 * MAX_PIECES as i64;
    let mut balance = balance((0..MANY).map(|number| grant(number, 1, None)));
    for _ in 0..MANY {
        let held = balance.reserve(need(1, 1), at(0)).unwrap();
        balance.settle(&held, 1, 1, at(0));
    }
    let held = balance.reserve(need(1, 1), at(0));
    assert_eq!(held, Err(Short::Exhausted));
    balance.forget_spent();
    assert_eq!(balance.reserve(need(1, 1), at(0)), Err(Short::Exhausted));
    balance.lease(grant(MANY, 1, None));
    balance.forget_spent();
    assert_eq!(balance.grants.len(), 1);
    assert_eq!(
        balance.reserve(need(1, 1), at(0)),
        Ok(Pieces::from([piece(MANY, 1)]))
    );
}

fn need(wanted: u64, useful: u64) -> Need {
    Need { wanted, useful }
}

/// What can happen to a balance.
#[derive(Clone, Debug)]
enum Step {
    /// A grant, or more of one: number, tokens, validity in seconds.
    Lease(i64, u64, u64),
    Reserve(u64, u64),
    /// The reservation at this place (modulo their number) ends with this charge.
    Settle(usize, u64),
    /// Another process asks for half.
    GiveUp,
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0..6_i64, 0..1000_u64, 1..500_u64).prop_map(|(n, t, v)| Step::Lease(n, t, v)),
        (0..400_u64, 0..50_u64).prop_map(|(wanted, useful)| Step::Reserve(wanted, useful)),
        (any::<usize>(), 0..600_u64).prop_map(|(which, charge)| Step::Settle(which, charge)),
        Just(Step::GiveUp),
        (0..200_u64).prop_map(Step::Wait),
    ];
    proptest::collection::vec(step, 1..120)
}

/// What went in and out of every grant, kept apart from the code under test.
#[derive(Default)]
struct Books(BTreeMap<i64, (u64, u64)>);

impl Books {
    fn granted(&mut self, number: i64, tokens: u64) {
        self.0.entry(number).or_default().0 += tokens;
    }

    fn gone(&mut self, pieces: &[Piece]) {
        for piece in pieces {
            self.0.entry(piece.grant.0).or_default().1 += piece.amount;
        }
    }

    fn check(&self, balance: &Balance, held: &[Pieces]) {
        for grant in &balance.grants {
            let (granted, gone) = self.0[&grant.number.0];
            assert_eq!(granted, gone + grant.reserved + grant.free, "{grant:?}");
            let reserved: u64 = held
                .iter()
                .flatten()
                .filter(|piece| piece.grant == grant.number)
                .map(|piece| piece.amount)
                .sum();
            assert_eq!(grant.reserved, reserved, "{grant:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn granted_is_spent_and_reserved_and_remaining_whatever_happens(steps in steps()) {
        let mut balance = Balance::default();
        let mut books = Books::default();
        let mut held: Vec<Pieces> = Vec::new();
        let mut now = at(0);
        for step in steps {
            match step {
                Step::Lease(number, tokens, validity) => {
                    let validity = Duration::from_secs(validity);
                    balance.lease(Grant { validity, ..grant(number, tokens, None) });
                    books.granted(number, tokens);
                }
                Step::Reserve(wanted, useful) => {
                    let useful = useful.min(wanted);
                    let free = balance.holdings(now).free;
                    if let Ok(pieces) = balance.reserve(need(wanted, useful), now) {
                        let tokens = sum(pieces.iter().map(|piece| piece.amount));
                        prop_assert!(tokens >= useful && tokens <= wanted.min(free));
                        held.push(pieces);
                    } else {
                        let few = balance.grants.len() <= MAX_PIECES;
                        prop_assert!(!few || free < useful.max(1));
                    }
                }
                Step::Settle(which, charge) if !held.is_empty() => {
                    let pieces = held.swap_remove(which % held.len());
                    let payment = balance.settle(&pieces, charge, MAX_PIECES, now);
                    prop_assert_eq!(payment.paid() + payment.overdraft, charge);
                    books.gone(&payment.pieces);
                }
                Step::Settle(..) => {}
                Step::GiveUp => books.gone(&balance.give_up(|grant| grant.free / 2)),
                Step::Wait(seconds) => now = now.plus(Duration::from_secs(seconds)),
            }
            books.check(&balance, &held);
        }
    }
}
