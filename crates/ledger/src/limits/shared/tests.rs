//! Against a real server.

#[path = "../../../../../tests/support/redis.rs"]
#[allow(
    dead_code,
    missing_docs,
    reason = "shared with the tests of the gateway"
)]
mod redis_server;

use super::{
    super::{Dimension, Limiter, Standing},
    *,
};
use crate::clock::{Clock, Timestamp};
use proptest::test_runner::{Config, TestRunner};
use proptest::{prelude::*, test_runner::TestCaseError};
use redis_server::Redis;
use std::{num::NonZeroU32, sync::atomic::AtomicU32, time::Instant};
use tollgate_types::Denied;

const TIMEOUT: Duration = Duration::from_millis(500);

fn limits(requests: u32, input: u32, output: u32, concurrent: u32) -> Limits {
    Limits {
        requests: NonZeroU32::new(requests),
        input_tokens: NonZeroU32::new(input),
        output_tokens: NonZeroU32::new(output),
        concurrent: NonZeroU32::new(concurrent),
    }
}

fn server(redis: &Redis) -> LimitServer {
    LimitServer::new(&redis.url(Redis::PASSWORD), &LimitServerTls::System).unwrap()
}

/// One of two processes that share limits through the server.
fn node(redis: &Redis, timeout: Duration) -> Limiter {
    let shared = SharedLimits::start(server(redis), timeout).unwrap();
    let limiter = Limiter::new(100, Clock::system());
    limiter.shared_by(Arc::new(AtomicU32::new(2)), Some(&shared))
}

async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn shared(nodes: &[&Limiter], is_shared: bool) {
    until("the state", || {
        let mut stats = nodes.iter().map(|it| it.shared_stats().unwrap());
        stats.all(|it| it.is_shared == is_shared)
    })
    .await;
}

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
    script: command::Script,
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
    let source = include_str!("limits.lua");
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
        script: command::Script {
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
        compare(&mut *scripted, choices, &steps)
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
    let latest = || limiter.meter(&key).paces().limits;
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
                let paces = super::super::meter::Paces::for_test(&current);
                let meter = limiter.meter(&key);
                if let Some(renewal) = Renewal::of(&key, &paces, &meter) {
                    scripted.run(renewal.call(&scripted.script), now_ms);
                }
                let wanted = super::super::Wanted::request(*input, *output);
                let (reply, _answer) = oneshot::channel();
                let order = Order::new(&limiter, &key, &current, wanted, reply);
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
                let back = Settlement::new(&key, &latest(), has_slot, &taken, used);
                scripted.run(back.call(&scripted.script), now_ms);
            }
            Step::Drop(place) => {
                let (admission, has_slot) = open.swap_remove(place % open.len());
                let back = Settlement::new(&key, &latest(), has_slot, &admission.taken, None);
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
            over => Denied::Wait(super::super::bucket::Bucket::wait(
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
            super::super::bucket::Bucket::with_debt(limit, debt, 7).level(7)
        });
        prop_assert_eq!(levels[place], there);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_share_each_limit_exactly() {
    let Some(redis) = Redis::start() else { return };
    let (one, two) = (node(&redis, TIMEOUT), node(&redis, TIMEOUT));
    shared(&[&one, &two], true).await;
    for (name, limits, input, output, sum) in [
        ("requests", limits(7, 0, 0, 0), 1, 1, 7),
        ("input", limits(0, 1000, 0, 0), 90, 1, 11),
        ("output", limits(0, 0, 100, 0), 1, 9, 11),
        ("concurrent", limits(0, 0, 0, 5), 1, 1, 5),
    ] {
        let key = KeyId::new(name);
        let all = (0..40).map(|place| {
            let limiter = if place % 2 == 0 { &one } else { &two };
            limiter.admit_shared(&key, &limits, input, output)
        });
        let all = futures::future::join_all(all).await;
        assert_eq!(all.iter().filter(|it| it.is_ok()).count(), sum, "{name}");
        // What is dropped goes back.
        drop(all);
        let again = two.admit_shared(&key, &limits, input, output);
        until("room", || two.running(&key) == 0).await;
        again.await.unwrap().finish(input, output);
    }
    assert!(one.shared_stats().unwrap().fallbacks == 0);
}

#[tokio::test]
async fn a_key_without_limits_does_not_ask_the_server() {
    let Some(redis) = Redis::start() else { return };
    let one = node(&redis, TIMEOUT);
    shared(&[&one], true).await;
    let key = KeyId::new("free");
    let admitted = one.admit_shared(&key, &Limits::default(), 1, 1);
    assert!(matches!(admitted, tollgate_types::MaybeReady::Ready(_)));
    assert!(!redis.cli(&["KEYS", "*"]).contains("free"));
}

#[tokio::test]
async fn a_stopped_server_costs_one_time_out_and_is_shared_again_when_it_goes_on() {
    let Some(redis) = Redis::start() else { return };
    let timeout = Duration::from_millis(60);
    let one = node(&redis, timeout);
    shared(&[&one], true).await;
    let (key, limits) = (KeyId::new("slow"), limits(10, 0, 0, 4));
    let running = one.admit_shared(&key, &limits, 1, 1).await.unwrap();
    redis.signal("STOP");
    let mut waited = Vec::new();
    for _ in 0..5 {
        let begun = Instant::now();
        // A half of ten, of which one is taken already.
        let admitted = one.admit_shared(&key, &limits, 1, 1).await;
        waited.push(begun.elapsed());
        if let Ok(admission) = admitted {
            admission.finish(1, 1);
        }
    }
    let slow = waited.iter().filter(|it| **it > timeout / 2).count();
    assert_eq!(slow, 1, "{waited:?}");
    assert!(waited[0] < timeout * 3, "{waited:?}");
    let share = one.standing(&key, &limits).requests.unwrap();
    assert_eq!((share.limit, share.remaining), (5, 0), "{share:?}");
    redis.signal("CONT");
    shared(&[&one], true).await;
    running.finish(1, 1);
    let again = one.admit_shared(&key, &limits, 1, 1).await.unwrap();
    // Nothing of the request that has gone on without the server is left there.
    let remaining = again.standing().requests.unwrap().remaining;
    assert!((8..=9).contains(&remaining), "{remaining}");
    assert_eq!(one.shared_stats().unwrap().fallbacks, 1);
}

#[tokio::test]
async fn a_server_that_is_killed_and_started_again_is_shared_again() {
    let Some(mut redis) = Redis::start() else {
        return;
    };
    let (one, two) = (node(&redis, TIMEOUT), node(&redis, TIMEOUT));
    shared(&[&one, &two], true).await;
    let (key, limits) = (KeyId::new("k"), limits(0, 0, 0, 3));
    let running = one.admit_shared(&key, &limits, 1, 1).await.unwrap();
    redis.kill();
    let during = two.admit_shared(&key, &limits, 1, 1).await.unwrap();
    shared(&[&one, &two], false).await;
    redis.restart();
    shared(&[&one, &two], true).await;
    // Both requests that run are counted again.
    let third = one.admit_shared(&key, &limits, 1, 1).await.unwrap();
    assert!(two.admit_shared(&key, &limits, 1, 1).await.is_err());
    for admission in [running, during, third] {
        admission.finish(1, 1);
    }
    until("no slot", || one.running(&key) + two.running(&key) == 0).await;
    for _ in 0..3 {
        let admitted = two.admit_shared(&key, &limits, 1, 1).await.unwrap();
        admitted.finish(1, 1);
    }
}

#[tokio::test]
async fn a_process_that_is_gone_leaves_its_slots_after_its_lease() {
    let Some(redis) = Redis::start() else { return };
    let two = node(&redis, TIMEOUT);
    shared(&[&two], true).await;
    let (key, limits) = (KeyId::new("k"), limits(0, 0, 0, 1));
    let name = "tollgate:limits:{k}";
    // As a process leaves it that was killed, with a shorter lease.
    let sha = redis.cli(&["SCRIPT", "LOAD", include_str!("limits.lua")]);
    let renewal = ["renew", "killed", "3000", "1"];
    redis.cli(&[&["EVALSHA", sha.trim(), "1", name], &renewal[..]].concat());
    assert!(two.admit_shared(&key, &limits, 1, 1).await.is_err());
    tokio::time::sleep(Duration::from_secs(3)).await;
    two.admit_shared(&key, &limits, 1, 1)
        .await
        .unwrap()
        .finish(1, 1);
    let ttl: i64 = redis.cli(&["PTTL", name]).trim().parse().unwrap();
    assert!(ttl > 0, "{ttl}");
}

#[test]
fn what_is_wrong_is_said_in_one_line_without_the_password() {
    let Some(redis) = Redis::start() else { return };
    let said = |server: &LimitServer| {
        let fault = server.check().unwrap_err().to_string();
        assert!(
            !fault.contains('\n') && !fault.contains(Redis::PASSWORD),
            "{fault}"
        );
        fault
    };
    let expect = |url: &str, words: &str| {
        let server = LimitServer::new(url, &LimitServerTls::System).unwrap();
        let fault = said(&server);
        assert!(fault.contains(words), "{words}: {fault}");
    };
    server(&redis).check().unwrap();
    expect(&redis.url("wrong"), "user or the password");
    expect(
        &format!("redis://127.0.0.1:{}", redis.port),
        "user or the password",
    );
    expect("redis://127.0.0.1:1", "cannot be reached");
    let right = redis.url(Redis::PASSWORD);
    expect(&right.replace("redis:", "rediss:"), "does not support TLS");
    redis.cli(&[
        "ACL", "SETUSER", "clerk", "on", ">clerk", "~*", "+@all", "-set",
    ]);
    expect(
        &format!("redis://clerk:clerk@127.0.0.1:{}", redis.port),
        "lacks a permission",
    );
    redis.cli(&["ACL", "SETUSER", "clerk", "-evalsha", "+set"]);
    expect(
        &format!("redis://clerk:clerk@127.0.0.1:{}", redis.port),
        "lacks a permission",
    );
    redis.cli(&["CONFIG", "SET", "replica-serve-stale-data", "yes"]);
    redis.cli(&["REPLICAOF", "127.0.0.1", "1"]);
    expect(&right, "read-only replica");
    for url in [Redis::PASSWORD, "http://x:correct-horse-battery@host", ""] {
        let fault = LimitServer::new(url, &LimitServerTls::System)
            .unwrap_err()
            .to_string();
        assert!(
            fault.contains("redis://USER") && !fault.contains(Redis::PASSWORD),
            "{fault}"
        );
    }
}
