//! The breaker on a clock of the test's own.

use super::*;
use proptest::prelude::*;

const SECOND: u64 = 1000;

fn policy() -> BreakerPolicy {
    BreakerPolicy {
        consecutive_failures: Some(3),
        error_rate: Some(0.5),
        min_requests: 10,
        window: Duration::from_secs(30),
        cooldown: Duration::from_secs(5),
        max_cooldown: Duration::from_secs(60),
    }
}

/// What makes a cooldown exactly as long as it is without a spread.
const MIDDLE: u64 = 1 << 63;

fn fail(breaker: &Breaker, now: u64) -> Option<Change> {
    let mut pass = breaker.enter(now).expect("it lets in");
    breaker.failed(&mut pass, Severity::Counts, &policy(), now, MIDDLE)
}

fn succeed(breaker: &Breaker, now: u64) -> Option<Change> {
    let mut pass = breaker.enter(now).expect("it lets in");
    breaker.succeeded(&mut pass, now)
}

fn open(breaker: &Breaker, now: u64) -> Duration {
    loop {
        if let Some(Change::Opened(span)) = fail(breaker, now) {
            return span;
        }
    }
}

#[test]
fn it_reports_the_time_of_its_state_and_the_last_failure() {
    let breaker = Breaker::default();
    assert_eq!((breaker.changed_at(), breaker.last_failure()), (None, None));
    let failure = LastFailure {
        class: "busy",
        at: SECOND,
    };
    breaker.note(failure);
    open(&breaker, 2 * SECOND);
    assert_eq!(breaker.changed_at(), Some(2 * SECOND));
    succeed(&breaker, 9 * SECOND);
    assert_eq!(breaker.changed_at(), Some(9 * SECOND));
    succeed(&breaker, 10 * SECOND);
    assert_eq!(breaker.changed_at(), Some(9 * SECOND));
    assert_eq!(breaker.last_failure(), Some(failure));
}

#[test]
fn failures_in_a_row_open_it_and_a_success_between_them_does_not_let_it() {
    let breaker = Breaker::default();
    for _ in 0..10 {
        assert_eq!(fail(&breaker, SECOND), None);
        assert_eq!(fail(&breaker, SECOND), None);
        for _ in 0..9 {
            assert_eq!(succeed(&breaker, SECOND), None);
        }
    }
    assert_eq!(fail(&breaker, SECOND), None);
    assert_eq!(fail(&breaker, SECOND), None);
    let opened = Some(Change::Opened(Duration::from_secs(5)));
    assert_eq!(fail(&breaker, SECOND), opened);
    assert_eq!(
        breaker.standing(SECOND),
        Standing::Open { until: 6 * SECOND }
    );
    assert_eq!(breaker.enter(6 * SECOND - 1), None);
}

#[test]
fn a_success_that_turns_into_a_failure_is_taken_back() {
    let breaker = Breaker::default();
    let break_off = || {
        let mut pass = breaker.enter(SECOND).unwrap();
        assert_eq!(breaker.succeeded(&mut pass, SECOND), None);
        breaker.failed(&mut pass, Severity::Counts, &policy(), SECOND, MIDDLE)
    };
    assert_eq!((break_off(), break_off()), (None, None));
    // The success of another attempt stays.
    let _ = succeed(&breaker, SECOND);
    assert_eq!((break_off(), break_off()), (None, None));
    let opened = Some(Change::Opened(Duration::from_secs(5)));
    assert_eq!(break_off(), opened);
}

#[test]
fn half_of_the_requests_failing_opens_it_once_there_are_enough_of_them() {
    let breaker = Breaker::default();
    let mut opened_after = None;
    for count in 1..=20 {
        let now = count * 100;
        let _ = succeed(&breaker, now);
        if fail(&breaker, now + 50).is_some() {
            opened_after = Some(count * 2);
            break;
        }
    }
    assert_eq!(opened_after, Some(10));
}

#[test]
fn a_few_failures_among_many_successes_never_open_it() {
    let breaker = Breaker::default();
    for count in 0..10_000_u64 {
        let now = SECOND + count * 20;
        let change = match count % 5 {
            0 => fail(&breaker, now),
            _ => succeed(&breaker, now),
        };
        assert_eq!(change, None, "after {count}");
    }
}

#[test]
fn failures_of_long_ago_are_forgotten() {
    let breaker = Breaker::default();
    for hour in 1..100_u64 {
        let now = hour * 3600 * SECOND;
        let _ = succeed(&breaker, now);
        assert_eq!(fail(&breaker, now), None);
        assert_eq!(fail(&breaker, now), None);
    }
}

#[test]
fn after_the_cooldown_one_attempt_at_a_time_is_let_in_and_its_success_closes_it() {
    let breaker = Breaker::default();
    open(&breaker, SECOND);
    let now = 6 * SECOND;
    assert_eq!(breaker.standing(now), Standing::HalfOpen);
    let mut probe = breaker.enter(now).unwrap();
    assert_eq!(breaker.enter(now), None);
    assert!(matches!(breaker.standing(now), Standing::Open { .. }));
    breaker.abandoned(&mut probe);
    let mut probe = breaker.enter(now).unwrap();
    assert_eq!(breaker.succeeded(&mut probe, now), Some(Change::Closed));
    assert_eq!(breaker.standing(now), Standing::Closed);
    assert_eq!(fail(&breaker, now), None);
}

#[test]
fn a_probe_that_takes_long_keeps_no_other_out() {
    let breaker = Breaker::default();
    open(&breaker, SECOND);
    let mut slow = breaker.enter(6 * SECOND).unwrap();
    assert_eq!(breaker.enter(15 * SECOND), None);
    let mut second = breaker.enter(16 * SECOND).unwrap();
    assert_eq!(breaker.enter(16 * SECOND), None);
    // The end of the first is not the end of the second.
    breaker.abandoned(&mut slow);
    assert_eq!(breaker.enter(16 * SECOND), None);
    let closed = breaker.succeeded(&mut second, 17 * SECOND);
    assert_eq!(closed, Some(Change::Closed));
}

#[test]
fn a_probe_of_an_earlier_opening_keeps_no_other_out() {
    let breaker = Breaker::default();
    open(&breaker, SECOND);
    let _hangs = breaker.enter(6 * SECOND).unwrap();
    let closed = breaker.succeeded(&mut breaker.force(), 6 * SECOND);
    assert_eq!(closed, Some(Change::Closed));
    let cooldown = millis(open(&breaker, 6 * SECOND));
    assert!(cooldown <= 10 * SECOND);
    assert!(breaker.enter(6 * SECOND + cooldown).is_some());
}

#[test]
fn each_failed_probe_doubles_the_cooldown_up_to_the_longest_and_calm_shortens_it_again() {
    let breaker = Breaker::default();
    let mut now = SECOND;
    let mut cooldowns = vec![open(&breaker, now)];
    for _ in 0..5 {
        now += millis(*cooldowns.last().unwrap());
        let Some(Change::Opened(span)) = fail(&breaker, now) else {
            panic!("the probe has failed and it is closed");
        };
        cooldowns.push(span);
    }
    let seconds: Vec<_> = cooldowns.iter().map(Duration::as_secs).collect();
    assert_eq!(seconds, [5, 10, 20, 40, 60, 60]);
    now += 60 * SECOND;
    assert_eq!(succeed(&breaker, now), Some(Change::Closed));
    assert_eq!(
        open(&breaker, now + 59 * SECOND).as_secs(),
        60,
        "no calm yet"
    );
    now += 200 * SECOND;
    assert_eq!(succeed(&breaker, now), Some(Change::Closed));
    assert_eq!(open(&breaker, now + 60 * SECOND).as_secs(), 5);
}

#[test]
fn a_wait_that_was_asked_for_is_kept() {
    let breaker = Breaker::default();
    for asked in [7, 3600] {
        let now = breaker.until.load(Ordering::Relaxed).max(SECOND);
        let mut pass = breaker.enter(now).unwrap();
        let wait = Duration::from_secs(asked);
        let change = breaker.failed(&mut pass, Severity::Rests(wait), &policy(), now, 0);
        assert_eq!(change, Some(Change::Opened(wait)));
        let until = now + asked * SECOND;
        assert_eq!(breaker.rests_until(until - 1), Some(until));
        assert_eq!(breaker.rests_until(until), None);
    }
}

#[test]
fn a_wait_that_was_asked_for_does_not_lengthen_the_next_cooldown() {
    let breaker = Breaker::default();
    let mut now = SECOND;
    for _ in 0..6 {
        let mut pass = breaker.enter(now).unwrap();
        let severity = Severity::Rests(Duration::from_millis(200));
        breaker.failed(&mut pass, severity, &policy(), now, MIDDLE);
        now += SECOND;
        assert_eq!(succeed(&breaker, now), Some(Change::Closed));
    }
    assert_eq!(open(&breaker, now).as_secs(), 5);
}

#[test]
fn a_wait_that_was_asked_for_prolongs_a_shorter_cooldown() {
    let breaker = Breaker::default();
    let mut late = breaker.enter(SECOND).unwrap();
    open(&breaker, SECOND);
    let report = |pass: &mut Pass, wait, now| {
        let severity = Severity::Rests(Duration::from_secs(wait));
        breaker.failed(pass, severity, &policy(), now, MIDDLE)
    };
    let rests = || breaker.rests_until(2 * SECOND);
    // The cooldown ends after six seconds.
    assert_eq!(report(&mut breaker.force(), 3, 2 * SECOND), None);
    assert_eq!(rests(), None);
    assert_eq!(report(&mut breaker.force(), 60, 2 * SECOND), None);
    assert_eq!(rests(), Some(62 * SECOND));
    assert_eq!(report(&mut breaker.force(), 30, 3 * SECOND), None);
    assert_eq!(rests(), Some(62 * SECOND));
    // It began before the breaker opened.
    assert_eq!(report(&mut late, 90, 3 * SECOND), None);
    assert_eq!(rests(), Some(93 * SECOND));
    assert_eq!(breaker.enter(92 * SECOND), None);
    assert_eq!(succeed(&breaker, 93 * SECOND), Some(Change::Closed));
}

#[test]
fn attempts_that_began_before_it_opened_neither_close_nor_prolong_it() {
    let breaker = Breaker::default();
    let mut late_success = breaker.enter(SECOND).unwrap();
    let mut late_failure = breaker.enter(SECOND).unwrap();
    open(&breaker, SECOND);
    let before = breaker.standing(2 * SECOND);
    assert_eq!(breaker.succeeded(&mut late_success, 2 * SECOND), None);
    let counts = Severity::Counts;
    let change = breaker.failed(&mut late_failure, counts, &policy(), 7 * SECOND, MIDDLE);
    assert_eq!(change, None);
    assert_eq!(breaker.standing(2 * SECOND), before);
}

#[test]
fn a_last_resort_that_succeeds_closes_it_and_one_that_fails_changes_nothing() {
    let breaker = Breaker::default();
    open(&breaker, SECOND);
    let mut forced = breaker.force();
    let counts = Severity::Counts;
    let change = breaker.failed(&mut forced, counts, &policy(), 2 * SECOND, MIDDLE);
    assert_eq!(change, None);
    assert_eq!(
        breaker.standing(2 * SECOND),
        Standing::Open { until: 6 * SECOND }
    );
    let change = breaker.succeeded(&mut breaker.force(), 3 * SECOND);
    assert_eq!(change, Some(Change::Closed));
}

#[test]
fn a_breaker_that_is_held_open_lets_nothing_through_until_a_success() {
    let breaker = Breaker::default();
    breaker.hold(true);
    assert_eq!(breaker.standing(SECOND), Standing::Closed);
    open(&breaker, SECOND);
    let until = 6 * SECOND;
    assert_eq!(breaker.standing(9 * SECOND), Standing::Open { until });
    assert_eq!(breaker.enter(9 * SECOND), None);
    let again = breaker.failed(
        &mut breaker.force(),
        Severity::Opens,
        &policy(),
        9 * SECOND,
        MIDDLE,
    );
    assert_eq!(again, Some(Change::Opened(Duration::from_secs(10))));
    breaker.hold(false);
    assert_eq!(breaker.standing(20 * SECOND), Standing::HalfOpen);
    breaker.hold(true);
    let closed = breaker.succeeded(&mut breaker.force(), 20 * SECOND);
    assert_eq!(closed, Some(Change::Closed));
    assert_eq!(breaker.standing(20 * SECOND), Standing::Closed);
}

#[test]
fn cooldowns_are_spread_by_a_quarter_to_both_sides() {
    let span = |random| cooldown(&policy(), 0, random).as_millis();
    assert_eq!([span(0), span(MIDDLE), span(u64::MAX)], [3750, 5000, 6250]);
}

/// What can happen to a breaker.
#[derive(Clone, Debug)]
enum Event {
    Enter,
    Force,
    Succeed(usize),
    Fail(usize, u8),
    Abandon(usize),
    Wait(u64),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        Just(Event::Enter),
        Just(Event::Force),
        any::<usize>().prop_map(Event::Succeed),
        (any::<usize>(), 0_u8..3).prop_map(|(which, how)| Event::Fail(which, how)),
        any::<usize>().prop_map(Event::Abandon),
        (0_u64..20_000).prop_map(Event::Wait),
    ];
    proptest::collection::vec(event, 1..200)
}

proptest! {
    /// Whatever happens, never two young probes at once, never open for longer than the policy
    /// or the provider has it; and when all that is under way has ended, the end of the cooldown lets in.
    #[test]
    fn it_never_wedges(events in events(), random in any::<u64>()) {
        let breaker = Breaker::default();
        let mut now = SECOND;
        let mut under_way: Vec<Pass> = Vec::new();
        for event in events {
            match event {
                Event::Enter => under_way.extend(breaker.enter(now)),
                Event::Force => under_way.push(breaker.force()),
                Event::Wait(span) => now += span,
                Event::Succeed(which) | Event::Fail(which, _) | Event::Abandon(which)
                    if !under_way.is_empty() =>
                {
                    let mut pass = under_way.swap_remove(which % under_way.len());
                    match event {
                        Event::Succeed(_) => drop(breaker.succeeded(&mut pass, now)),
                        Event::Abandon(_) => breaker.abandoned(&mut pass),
                        Event::Fail(_, how) => {
                            let severity = match how {
                                0 => Severity::Counts,
                                1 => Severity::Opens,
                                _ => Severity::Rests(Duration::from_secs(90)),
                            };
                            breaker.failed(&mut pass, severity, &policy(), now, random);
                        }
                        _ => unreachable!(),
                    }
                }
                _ => {}
            }
            let probes = under_way.iter().filter(|it| now < it.probe && it.epoch == breaker.epoch.load(Ordering::Relaxed));
            prop_assert!(probes.count() <= 1);
            let until = breaker.until.load(Ordering::Relaxed);
            prop_assert!(until <= now + 90 * SECOND);
        }
        for mut pass in under_way {
            breaker.abandoned(&mut pass);
        }
        now += 90 * SECOND;
        let mut pass = breaker.enter(now).expect("it lets in");
        breaker.succeeded(&mut pass, now);
        prop_assert_eq!(breaker.standing(now), Standing::Closed);
    }
}
