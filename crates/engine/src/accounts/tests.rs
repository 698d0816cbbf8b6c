use super::*;
use tollgate_types::Allowance;

fn one() -> NonZeroU32 {
    NonZeroU32::MIN
}

#[test]
fn requested_counts_and_background_counts_have_separate_limits() {
    let clock = Clock::manual(now());
    let limits = PlannedLimits {
        limiters: RateLimiters::new(&clock),
        clock,
        plans: PlanLimits::default(),
        reported: AtomicBool::new(false),
    };
    let identity = Identity {
        key: KeyId::new("k"),
        name: String::new(),
        plan: None,
        groups: Allowance::All,
        endpoints: Allowance::All,
        limits: Limits::default(),
        pays_money: false,
        shares: Default::default(),
    };
    let mut admissions = Vec::new();
    let mut ask = |a_minute| {
        let load = Load::Count { limit: a_minute };
        let MaybeReady::Ready(admission) = limits.admit(load, &identity) else {
            panic!("no other process is asked");
        };
        let admission = admission.into_inner();
        admission.map(|it| admissions.push(it)).is_ok()
    };
    let many = NonZeroU32::new(600).unwrap();
    assert!(limits.take_count(&identity, many));
    // The whole minute of the one is not the other's, by turns neither.
    assert!(ask(one()));
    assert!(!ask(one()));
    for _ in 1..600 {
        assert!(limits.take_count(&identity, many));
        assert!(!ask(one()));
    }
    assert!(!limits.take_count(&identity, many));
}
