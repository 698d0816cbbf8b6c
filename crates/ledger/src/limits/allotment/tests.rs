use super::*;
use crate::limits::bucket::Bucket;
use proptest::prelude::*;

/// A key in a database, and how its processes claim.
#[derive(Default)]
struct Shared {
    free: Allotment,
    processes: Vec<(String, Allotment)>,
    now_ms: u64,
}

const LIMIT: u32 = 600;

fn units(count: i64) -> i64 {
    count * 60_000
}

fn claim(demand: u64, is_refused: bool) -> Claim {
    Claim {
        key: KeyId::new("k"),
        limits: [LIMIT, 0, 0],
        taken: [0; 3],
        floor: [0; 3],
        demand,
        is_refused,
        running: 0,
        is_last: false,
    }
}

impl Shared {
    fn new() -> Self {
        Self {
            free: Allotment {
                parts: WHOLE,
                ..Allotment::default()
            },
            now_ms: 1_790_000_000_000,
            ..Self::default()
        }
    }

    fn claim(&mut self, node: &str, claim: &Claim) -> Lease {
        let mut others = std::mem::take(&mut self.processes);
        let place = others.iter().position(|(name, _)| name == node);
        let own = place.map(|place| others.swap_remove(place).1);
        let mut division = Division {
            free: self.free,
            own: own.unwrap_or_default(),
            others,
        };
        let before = division.others.clone();
        let (lease, gone) = division.apply(claim, self.now_ms);
        self.free = division.free;
        // The rows of others are not written.
        let stays = |(name, _): &(String, Allotment)| !gone.contains(name);
        self.processes = before.into_iter().filter(stays).collect();
        if !claim.is_last {
            self.processes.push((node.to_owned(), division.own));
        }
        lease
    }

    fn parts(&self) -> u64 {
        let all = self.processes.iter().map(|(_, it)| it);
        all.chain([&self.free]).map(|it| u64::from(it.parts)).sum()
    }

    /// What all owe now.
    fn debt(&self) -> u64 {
        let all = self.processes.iter().map(|(_, it)| *it).chain([self.free]);
        let debts = all.map(|mut it| {
            it.flow_off([LIMIT, 0, 0], self.now_ms);
            it.debts[0]
        });
        debts.sum()
    }
}

#[test]
fn a_process_alone_has_everything_and_one_that_joins_gets_an_equal_share() {
    let mut shared = Shared::new();
    assert_eq!(shared.claim("a", &claim(1, false)).parts, WHOLE);
    assert_eq!(shared.claim("b", &claim(1, false)).parts, 0);
    assert_eq!(shared.claim("a", &claim(0, false)).parts, WHOLE / 2);
    assert_eq!(shared.claim("b", &claim(0, false)).parts, WHOLE / 2);
    // Requests now and then move nothing.
    for demand in [5, 0, 3] {
        assert_eq!(shared.claim("a", &claim(demand, false)).parts, WHOLE / 2);
        assert_eq!(shared.claim("b", &claim(0, false)).parts, WHOLE / 2);
    }
}

#[test]
fn refused_requests_divide_the_limit_by_demand_and_move_all_of_it() {
    let mut shared = Shared::new();
    shared.claim("a", &claim(100, true));
    shared.claim("b", &claim(300, true));
    assert_eq!(shared.claim("a", &claim(100, true)).parts, WHOLE / 4);
    assert_eq!(shared.claim("b", &claim(300, true)).parts, WHOLE / 4 * 3);
    // The requests of `a` end; its refusals are remembered for a while.
    assert_eq!(shared.claim("a", &claim(0, true)).parts, 0);
    assert_eq!(shared.claim("b", &claim(300, true)).parts, WHOLE);
    assert_eq!(shared.claim("b", &claim(0, false)).parts, WHOLE);
}

#[test]
fn a_share_moves_with_its_part_of_the_debts() {
    let mut shared = Shared::new();
    let mut first = claim(1, true);
    first.taken = [units(400), 0, 0];
    assert_eq!(shared.claim("a", &first).debts[0], cost(400));
    shared.claim("b", &claim(1, true));
    assert_eq!(shared.claim("a", &claim(1, true)).debts[0], cost(200));
    let other = shared.claim("b", &claim(1, true));
    assert_eq!((other.parts, other.debts[0]), (WHOLE / 2, cost(200)));
    assert_eq!(other.total[0], cost(400));
    // What comes back may be owed by another by now.
    let mut back = claim(0, false);
    back.taken = [units(-500), 0, 0];
    back.is_last = true;
    assert_eq!(shared.claim("a", &back).total[0], cost(200));
    assert_eq!(shared.claim("b", &claim(1, true)).parts, WHOLE);
    // The shared server had counted more.
    let mut floor = claim(1, true);
    floor.floor = [cost(600), 0, 0];
    assert_eq!(shared.claim("c", &floor).total[0], cost(600));
}

#[test]
fn a_process_that_claims_nothing_loses_its_share_after_its_term() {
    let mut shared = Shared::new();
    let mut first = claim(1, true);
    first.taken = [units(600), 0, 0];
    first.running = 3;
    shared.claim("a", &first);
    shared.now_ms += TERM_MS;
    let early = shared.claim("b", &claim(1, true));
    assert_eq!((early.parts, early.others), (0, 3));
    shared.now_ms += 1;
    let late = shared.claim("b", &claim(1, true));
    assert_eq!((late.parts, late.others), (WHOLE, 0));
    assert_eq!(late.debts[0], cost(600) - 2001 * u64::from(LIMIT));
}

#[test]
fn parts_of_limits_and_debts_are_rounded_to_the_safe_side() {
    let limit = |limit| NonZeroU32::new(limit).unwrap();
    assert_eq!(Fraction::ALL.of_limit(NonZeroU32::MAX), NonZeroU32::MAX);
    assert_eq!(Fraction::ALL.of_debt(u64::MAX), u64::MAX);
    assert_eq!(Fraction::one_of(0), Fraction::ALL);
    assert_eq!(Fraction::one_of(3).of_limit(limit(8)), limit(2));
    assert_eq!(Fraction::one_of(3).of_limit(limit(2)), limit(1));
    assert_eq!(Fraction::one_of(3).of_debt(7), 3);
    assert_eq!(Fraction::millionths(0).of_limit(limit(9)), limit(1));
    assert_eq!(Fraction::millionths(WHOLE).of_limit(limit(9)), limit(9));
}

#[derive(Clone, Debug)]
struct Step {
    wait: u64,
    node: usize,
    taken: i64,
    demand: u64,
    is_refused: bool,
    is_last: bool,
}

fn step() -> impl Strategy<Value = Step> {
    let wait = prop_oneof![0..500_u64, 0..500_u64, 0..9_000_u64];
    let rest = (0..4_usize, -50..200_i64, 0..2000_u64);
    let flags = (any::<bool>(), proptest::bool::weighted(0.1));
    (wait, rest, flags).prop_map(
        |(wait, (node, taken, demand), (is_refused, is_last))| Step {
            wait,
            node,
            taken,
            demand,
            is_refused,
            is_last,
        },
    )
}

proptest! {
    /// Whatever the processes do, their shares are the limit, and they owe no less than one process would that
    /// has taken the same.
    #[test]
    fn shares_are_the_limit_and_no_debt_is_lost(
        steps in proptest::collection::vec(step(), 1..150),
    ) {
        let mut shared = Shared::new();
        let mut one = Bucket::new(NonZeroU32::new(LIMIT).unwrap());
        let begun_ms = shared.now_ms;
        for step in steps {
            shared.now_ms += step.wait;
            let name = ["a", "b", "c", "d"][step.node];
            let lease = shared.claim(name, &Claim {
                taken: [units(step.taken), 0, 0],
                is_last: step.is_last,
                ..claim(step.demand, step.is_refused)
            });
            let now_ms = shared.now_ms - begun_ms;
            match u64::try_from(step.taken) {
                Ok(taken) => one.force(taken, now_ms),
                Err(_) => one.refund(step.taken.unsigned_abs()),
            }
            prop_assert_eq!(shared.parts(), u64::from(WHOLE));
            prop_assert!(shared.debt() >= one.debt(now_ms), "{} {}", shared.debt(), one.debt(now_ms));
            prop_assert_eq!(shared.debt(), lease.total[0]);
            prop_assert!(lease.parts <= WHOLE && (!step.is_last || lease.debts == [0; 3]));
        }
    }
}
