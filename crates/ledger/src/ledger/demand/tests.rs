use super::*;
use proptest::prelude::*;

fn at(ms: u64) -> Timestamp {
    Timestamp::from_unix_ms(1_790_000_000_000 + ms)
}

fn leased(free: u64, reserved: u64) -> Holdings {
    Holdings { free, reserved }
}

#[test]
fn the_first_request_leases_as_much_again_as_it_wants() {
    let mut demand = Demand::default();
    assert_eq!(demand.missing(Holdings::default(), 100, at(0)), 200);
    demand.note_need(100, at(0));
    demand.note_reserved(100);
    assert!(!demand.runs_low(leased(100, 100), at(0)));
    // Half of the margin is spent.
    assert!(!demand.runs_low(leased(150, 0), at(0)));
    assert!(demand.runs_low(leased(149, 0), at(0)));
}

#[test]
fn a_busy_key_leases_ten_seconds_of_its_use_beside_what_its_requests_hold() {
    let mut demand = Demand::default();
    // A hundred requests a second of ten tokens each, a hundred at once.
    for ms in (0..30_000).step_by(10) {
        demand.note_need(20, at(ms));
        demand.note_reserved(2000);
        demand.note_spent(10, at(ms));
    }
    let now = at(30_000);
    assert_eq!(demand.missing(leased(0, 2000), 0, now), 10_000);
    assert!(demand.runs_low(leased(4_999, 2000), now));
    assert!(!demand.runs_low(leased(5_000, 2000), now));
    assert_eq!(demand.amount_to_keep(leased(22_000, 2000), now), None);
    assert_eq!(
        demand.amount_to_keep(leased(22_001, 2000), now),
        Some(10_000)
    );
}

#[test]
fn the_first_pace_counts_after_two_seconds() {
    let mut demand = Demand::default();
    demand.note_spent(0, at(0));
    demand.note_spent(1000, at(100));
    assert_eq!(demand.missing(leased(0, 0), 0, at(100)), 5000);
    assert_eq!(demand.missing(leased(0, 0), 0, at(4000)), 2500);
}

#[test]
fn an_idle_key_keeps_what_one_of_its_requests_needs() {
    let mut demand = Demand::default();
    for ms in 0..1000 {
        demand.note_need(70, at(ms));
        demand.note_reserved(70_000);
        demand.note_spent(70, at(ms));
    }
    for idle in [40_000, 400_000, 4_000_000] {
        assert_eq!(
            demand.amount_to_keep(leased(281, 0), at(idle)),
            Some(140),
            "{idle}"
        );
        assert_eq!(
            demand.amount_to_keep(leased(280, 0), at(idle)),
            None,
            "{idle}"
        );
    }
}

#[derive(Clone, Debug)]
enum Step {
    Reserve(u64),
    Settle(u64),
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (1..2000_u64).prop_map(Step::Reserve),
        4 => (0..2000_u64).prop_map(Step::Settle),
        2 => (0..8000_u64).prop_map(Step::Wait),
    ];
    proptest::collection::vec(step, 1..200)
}

proptest! {
    /// Leasing what is missing is enough, and makes nothing superfluous; giving up what is superfluous
    /// leaves nothing missing.
    #[test]
    fn what_is_missing_and_what_is_kept_agree(steps in steps()) {
        let mut demand = Demand::default();
        let mut held = Holdings::default();
        let mut open = Vec::new();
        let mut ms = 0;
        for step in steps {
            match step {
                Step::Reserve(tokens) => {
                    if held.free < tokens {
                        held.free += demand.missing(held, tokens, at(ms));
                    }
                    prop_assert!(held.free >= tokens);
                    demand.note_need(tokens, at(ms));
                    held.free -= tokens;
                    held.reserved += tokens;
                    demand.note_reserved(held.reserved);
                    open.push(tokens);
                }
                Step::Settle(tokens) => {
                    if let Some(reserved) = open.pop() {
                        let spent = tokens.min(reserved);
                        held.reserved -= reserved;
                        held.free += reserved - spent;
                        demand.note_spent(spent, at(ms));
                    }
                }
                Step::Wait(more) => ms += more,
            }
            let now = at(ms);
            if demand.runs_low(held, now) {
                held.free += demand.missing(held, 0, now);
                prop_assert!(!demand.runs_low(held, now));
                prop_assert_eq!(demand.amount_to_keep(held, now), None);
            }
            if let Some(kept) = demand.amount_to_keep(held, now) {
                prop_assert!(kept < held.free);
                held.free = kept;
                prop_assert!(!demand.runs_low(held, now));
                prop_assert_eq!(demand.missing(held, 0, now), 0);
            }
        }
    }
}
