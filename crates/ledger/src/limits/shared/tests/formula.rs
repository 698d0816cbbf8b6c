//! The script and `bucket` are one formula.

use super::{
    super::{
        super::{Dimension, Limiter, Standing},
        command::{Order, Renewal, Script, Settlement},
    },
    limits,
    redis_server::Redis,
};
use crate::clock::{Clock, Timestamp};
use proptest::{
    prelude::*, test_runner::Config, test_runner::TestCaseError, test_runner::TestRunner,
};
use std::time::Duration;
use tokio::sync::oneshot;
use tollgate_types::{Denied, KeyId, Limited, Limits};

/// What is done to both implementations of the formula.
#[derive(Clone, Debug)]
enum Step {
    Admit(usize, u64, u64),
    Finish(usize, u64, u64),
    Drop(usize),
}

fn step() -> impl Strategy<Value = (u64, Step)> {
    let tokens = || prop_oneof![0..200_u64, 0..5000_u64, Just(u64::MAX)];
    let step = prop_oneof![
        4 => (0..3_usize, 0..1200_u64, 0..300_u64).prop_map(|(l, i, o)| Step::Admit(l, i, o)),
        2 => (0..8_usize, tokens(), tokens()).prop_map(|(n, i, o)| Step::Finish(n, i, o)),
        1 => (0..8_usize).prop_map(Step::Drop),
    ];
    (prop_oneof![Just(0), 0..20_000_u64, 0..700_000_u64], step)
}

/// The script with the time as its last argument, and the driver of it that a test needs.
struct Scripted {
    connection: ::redis::Connection,
    script: Script,
    name: KeyId,
    number: usize,
}

impl Scripted {
    fn run(&mut self, mut call: ::redis::Cmd, now_ms: u64) -> Vec<i64> {
        call.arg(now_ms);
        call.query(&mut self.connection).unwrap()
    }
}

#[test]
fn the_script_and_the_bucket_are_one_formula() {
    let Some(redis) = Redis::start() else { return };
    let client = ::redis::Client::open(redis.url(Redis::PASSWORD)).unwrap();
    let clock = "local time = redis.call('TIME')";
    let source = include_str!("../limits.lua");
    assert_eq!(source.matches(clock).count(), 1);
    let ours = "local ms = tonumber(ARGV[#ARGV]) \
                local time = { math.floor(ms / 1000), ms % 1000 * 1000 }";
    let mut connection = client.get_connection().unwrap();
    let mut load = ::redis::cmd("SCRIPT");
    load.arg("LOAD").arg(source.replace(clock, ours));
    let sha: String = load.query(&mut connection).unwrap();
    let seed = std::env::var("TOLLGATE_SEED")
        .ok()
        .and_then(|it| it.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("TOLLGATE_SEED={seed}");
    let mut config = Config::with_cases(150);
    config.failure_persistence = None;
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = proptest::test_runner::TestRng::from_seed(
        proptest::test_runner::RngAlgorithm::ChaCha,
        &bytes,
    );
    let mut runner = TestRunner::new_with_rng(config, rng);
    let scripted = std::cell::RefCell::new(Scripted {
        connection,
        script: Script {
            sha,
            node: "n".to_owned(),
        },
        name: KeyId::new("k0"),
        number: 0,
    });
    let all = (
        proptest::array::uniform3((0..40_u32, 0..2000_u32, 0..400_u32, 0..5_u32)),
        proptest::collection::vec(step(), 1..60),
    );
    let outcome = runner.run(&all, |(choices, steps)| {
        let mut scripted = scripted.borrow_mut();
        scripted.number += 1;
        scripted.name = KeyId::new(format!("k{}", scripted.number));
        let choices = choices.map(|(r, i, o, c)| limits(r, i, o, c));
        compare(&mut scripted, choices, &steps)
    });
    outcome.unwrap_or_else(|fault| panic!("TOLLGATE_SEED={seed}: {fault}"));
}

fn compare(
    scripted: &mut Scripted,
    choices: [Limits; 3],
    steps: &[(u64, Step)],
) -> Result<(), TestCaseError> {
    let start = 1_790_000_000_000;
    let clock = Clock::manual(Timestamp::from_unix_ms(start));
    let limiter = Limiter::new(10, clock.clone());
    let key = scripted.name.clone();
    let mut now_ms = start;
    let latest = || limiter.meter(&key).paces().share.limits;
    // Leases of the test do not end, whatever the clock does.
    let mut open = Vec::new();
    for (wait, step) in steps {
        clock.advance(Duration::from_millis(*wait));
        now_ms += wait;
        match step {
            Step::Admit(choice, input, output) => {
                let current = choices[*choice];
                if current == Limits::default() {
                    continue;
                }
                // Requests are under way at this node until it says otherwise.
                let paces = crate::limits::meter::Paces::for_test(&current);
                let meter = limiter.meter(&key);
                if let Some(renewal) = Renewal::of(&key, &paces, &meter) {
                    scripted.run(renewal.call(&scripted.script), now_ms);
                }
                let amounts = crate::limits::Amounts::request(*input, *output);
                let (reply, _answer) = oneshot::channel();
                let order = Order::new(&limiter, &key, &current, amounts, reply);
                let answer = scripted.run(order.call(&scripted.script), now_ms);
                let here = limiter.admit(&key, &current, *input, *output);
                // Neither has looked at the other limits if too many are under way.
                let is_looked_at = answer[0] != 4;
                let standing = is_looked_at.then(|| limiter.standing(&key, &current));
                let standing = standing.unwrap_or_default();
                same(&answer, &here.as_ref().map(|_| ()), &current, &standing)?;
                if let Ok(admission) = here {
                    open.push((admission, current.concurrent.is_some()));
                }
            }
            Step::Finish(place, ..) | Step::Drop(place) if open.is_empty() => {
                let _ = place;
            }
            Step::Finish(place, input, output) => {
                let (admission, has_slot) = open.swap_remove(place % open.len());
                let taken = admission.taken;
                admission.finish(*input, *output);
                let used = Some((*input, *output));
                let back = Settlement::of_request(&key, &latest(), has_slot, &taken, used);
                scripted.run(back.call(&scripted.script), now_ms);
            }
            Step::Drop(place) => {
                let (admission, has_slot) = open.swap_remove(place % open.len());
                let back =
                    Settlement::of_request(&key, &latest(), has_slot, &admission.taken, None);
                drop(admission);
                scripted.run(back.call(&scripted.script), now_ms);
            }
        }
    }
    Ok(())
}

/// Whether both have decided the same, and owe the same.
fn same(
    answer: &[i64],
    here: &Result<(), &Limited>,
    limits: &Limits,
    standing: &Standing,
) -> Result<(), TestCaseError> {
    let refused = match here {
        Ok(()) => 0,
        Err(limited) => match limited.dimension {
            Dimension::Requests => 1,
            Dimension::InputTokens => 2,
            Dimension::OutputTokens => 3,
            Dimension::Concurrent => 4,
        },
    };
    prop_assert_eq!(answer[0], refused);
    if refused == 4 {
        return Ok(());
    }
    let all = [limits.requests, limits.input_tokens, limits.output_tokens];
    if let Err(limited) = here {
        let limit = all[usize::try_from(refused - 1).unwrap()].unwrap();
        let denied = match answer[1] {
            -1 => Denied::NeverFits,
            over => Denied::Wait(crate::limits::bucket::Bucket::wait(
                limit,
                over.try_into().unwrap(),
            )),
        };
        prop_assert_eq!(limited.denied, denied);
    }
    let levels = [
        standing.requests,
        standing.input_tokens,
        standing.output_tokens,
    ];
    for (place, limit) in all.into_iter().enumerate() {
        let there = limit.map(|limit| {
            let debt = answer[2 + place].try_into().unwrap();
            crate::limits::bucket::Bucket::with_debt(limit, debt, 7).level(7)
        });
        prop_assert_eq!(levels[place], there);
    }
    Ok(())
}
