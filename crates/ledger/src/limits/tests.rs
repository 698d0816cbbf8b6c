use super::*;
use crate::clock::Timestamp;
use std::{num::NonZeroU32, time::Duration};

struct Gate {
    limiter: Limiter,
    clock: Clock,
    key: KeyId,
}

impl Gate {
    fn new() -> Self {
        let clock = Clock::manual(Timestamp::from_unix_ms(1_790_000_000_000));
        Self {
            limiter: Limiter::new(100, clock.clone()),
            clock,
            key: KeyId::new("key_a"),
        }
    }

    fn admit(&self, limits: &Limits, input: u64, output: u64) -> Result<Admission, Limited> {
        self.limiter.admit(&self.key, limits, input, output)
    }
}

fn limits(requests: u32, input: u32, output: u32, concurrent: u32) -> Limits {
    Limits {
        requests: NonZeroU32::new(requests),
        input_tokens: NonZeroU32::new(input),
        output_tokens: NonZeroU32::new(output),
        concurrent: NonZeroU32::new(concurrent),
    }
}

fn dimension(refused: Result<Admission, Limited>) -> Dimension {
    refused.unwrap_err().dimension
}

#[test]
fn each_limit_refuses_by_its_own_name() {
    let gate = Gate::new();
    let limits = limits(3, 1000, 100, 2);
    let first = gate.admit(&limits, 600, 10).unwrap();
    let second = gate.admit(&limits, 100, 50).unwrap();
    assert_eq!(dimension(gate.admit(&limits, 1, 1)), Dimension::Concurrent);
    first.finish(600, 10);
    assert_eq!(
        dimension(gate.admit(&limits, 301, 1)),
        Dimension::InputTokens
    );
    assert_eq!(
        dimension(gate.admit(&limits, 1, 41)),
        Dimension::OutputTokens
    );
    gate.admit(&limits, 1, 1).unwrap().finish(1, 1);
    assert_eq!(dimension(gate.admit(&limits, 1, 1)), Dimension::Requests);
    second.finish(100, 50);
}

#[test]
fn a_request_that_is_refused_by_one_limit_takes_from_none() {
    let gate = Gate::new();
    let limits = limits(10, 1000, 100, 10);
    for _ in 0..50 {
        assert_eq!(
            dimension(gate.admit(&limits, 500, 101)),
            Dimension::OutputTokens
        );
    }
    let standing = gate.limiter.standing(&gate.key, &limits);
    assert_eq!(standing.requests.unwrap().remaining, 10);
    assert_eq!(standing.input_tokens.unwrap().remaining, 1000);
}

#[test]
fn a_request_that_a_later_check_refuses_gets_everything_back() {
    let gate = Gate::new();
    let limits = limits(10, 1000, 100, 1);
    drop(gate.admit(&limits, 500, 50).unwrap());
    let again = gate.admit(&limits, 1000, 100).unwrap();
    let standing = again.standing();
    assert_eq!(standing.requests.unwrap().remaining, 9);
    assert_eq!(standing.output_tokens.unwrap().remaining, 0);
}

#[test]
fn the_real_usage_counts() {
    let gate = Gate::new();
    let limits = limits(10, 1000, 100, 1);
    gate.admit(&limits, 500, 100).unwrap().finish(700, 20);
    let standing = gate.limiter.standing(&gate.key, &limits);
    assert_eq!(standing.input_tokens.unwrap().remaining, 300);
    assert_eq!(standing.output_tokens.unwrap().remaining, 80);
    assert_eq!(standing.requests.unwrap().remaining, 9);
}

#[test]
fn keys_do_not_share_limits_and_no_limit_is_no_limit() {
    let gate = Gate::new();
    let one = limits(1, 0, 0, 0);
    gate.admit(&one, 1, 1).unwrap().finish(1, 1);
    assert!(gate.limiter.admit(&KeyId::new("key_b"), &one, 1, 1).is_ok());
    let free = gate.admit(&Limits::default(), u64::MAX, u64::MAX).unwrap();
    assert_eq!(free.standing(), Standing::default());
}

#[test]
fn a_changed_limit_keeps_the_usage_and_the_running_requests() {
    let gate = Gate::new();
    let key = KeyId::new("key_a");
    assert_eq!(gate.limiter.running(&key), 0);
    let running = gate.admit(&limits(10, 0, 0, 2), 1, 1).unwrap();
    let narrower = limits(2, 0, 0, 1);
    assert_eq!(
        dimension(gate.admit(&narrower, 1, 1)),
        Dimension::Concurrent
    );
    assert_eq!(gate.limiter.running(&key), 1);
    running.finish(1, 1);
    assert_eq!(gate.limiter.running(&key), 0);
    let after = gate.admit(&narrower, 1, 1).unwrap();
    assert_eq!(after.standing().requests.unwrap().remaining, 0);
}

fn output_left(gate: &Gate, limits: &Limits) -> u64 {
    let standing = gate.limiter.standing(&gate.key, limits);
    standing.output_tokens.unwrap().remaining
}

#[test]
fn a_request_that_ends_under_other_limits_owes_and_gets_back_what_it_would_have() {
    let gate = Gate::new();
    let (before, after) = (limits(0, 0, 6000, 0), limits(30, 0, 6000, 0));
    let longer = gate.admit(&before, 0, 100).unwrap();
    let shorter = gate.admit(&before, 0, 3000).unwrap();
    assert_eq!(output_left(&gate, &after), 2900);
    shorter.finish(0, 500);
    assert_eq!(output_left(&gate, &after), 5400);
    longer.finish(0, 4500);
    assert_eq!(output_left(&gate, &after), 1000);
}

#[test]
fn a_limit_that_is_raised_admits_what_the_new_one_has_room_for() {
    let gate = Gate::new();
    let (lower, higher) = (limits(10, 0, 0, 0), limits(20, 0, 0, 0));
    let admitted = |limits| {
        let all = std::iter::from_fn(|| gate.admit(limits, 0, 0).ok());
        all.map(|admission| admission.finish(0, 0)).count()
    };
    assert_eq!(admitted(&lower), 10);
    assert_eq!(admitted(&higher), 10);
    assert_eq!(admitted(&lower), 0);
}

#[test]
fn a_limit_that_is_lifted_and_set_again_knows_what_was_taken_before() {
    let gate = Gate::new();
    let (limited, free) = (limits(0, 0, 1000, 0), Limits::default());
    let first = gate.admit(&limited, 0, 1000).unwrap();
    let unlimited = gate.admit(&free, 0, 5000).unwrap();
    assert_eq!(unlimited.standing(), Standing::default());
    first.finish(0, 200);
    gate.admit(&free, 0, 5000).unwrap().finish(0, 5000);
    assert_eq!(output_left(&gate, &limited), 800);
    // It was let in when nothing limited it.
    unlimited.finish(0, 300);
    assert_eq!(output_left(&gate, &limited), 800);
}

#[test]
fn the_reported_wait_is_long_enough() {
    let gate = Gate::new();
    let limits = limits(0, 7, 0, 0);
    gate.admit(&limits, 7, 0).unwrap().finish(7, 0);
    let Denied::Wait(wait) = gate.admit(&limits, 3, 0).unwrap_err().denied else {
        panic!("it fits some time");
    };
    gate.clock.advance(wait - Duration::from_millis(1));
    assert!(gate.admit(&limits, 3, 0).is_err());
    gate.clock.advance(Duration::from_millis(1));
    assert!(gate.admit(&limits, 3, 0).is_ok());
}

#[test]
fn two_hundred_at_once_on_a_limit_of_ten_are_ten() {
    for _ in 0..20 {
        let gate = Gate::new();
        let limits = limits(10, 0, 0, 0);
        let admitted = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..25 {
                        if let Ok(admission) = gate.admit(&limits, 1, 1) {
                            admission.finish(1, 1);
                            admitted.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!(admitted.into_inner(), 10);
    }
}
