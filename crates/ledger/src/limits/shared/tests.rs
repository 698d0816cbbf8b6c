//! Against a real server.

mod faults;
mod formula;
#[path = "../../../../../tests/support/redis.rs"]
#[allow(
    dead_code,
    missing_docs,
    reason = "shared with the tests of the gateway"
)]
pub(crate) mod redis_server;

use super::{super::Limiter, *};
use crate::clock::Clock;
use redis_server::Redis;
use std::{num::NonZeroU32, sync::atomic::AtomicU32, time::Instant};
use tollgate_types::{Limits, MaybeReady};

const TIMEOUT: Duration = Duration::from_millis(500);
/// For processes whose requests must not time out.
const PATIENT: Duration = Duration::from_secs(20);

fn limits(requests: u32, input: u32, output: u32, concurrent: u32) -> Limits {
    Limits {
        requests: NonZeroU32::new(requests),
        input_tokens: NonZeroU32::new(input),
        output_tokens: NonZeroU32::new(output),
        concurrent: NonZeroU32::new(concurrent),
    }
}

fn server(redis: &Redis) -> LimitServer {
    LimitServer::new(&redis.url(Redis::PASSWORD), None).unwrap()
}

/// One of two processes that share limits through the server.
fn node(redis: &Redis, timeout: Duration) -> Limiter {
    node_of(2, redis, timeout)
}

fn node_of(nodes: u32, redis: &Redis, timeout: Duration) -> Limiter {
    let shared = SharedLimits::start(server(redis), timeout).unwrap();
    let limiter = Limiter::new(100, Clock::system());
    let nodes = Arc::new(AtomicU32::new(nodes));
    limiter.shared_by(nodes, Some(&shared), None).unwrap()
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
        stats.all(|it| it.by_server == Some(is_shared))
    })
    .await;
}

/// Waits until no admission is under way: a call ends shortly after its answer has come.
async fn answered(limiter: &Limiter, key: &KeyId) {
    let meter = limiter.meter(key);
    until("the answer", || meter.paces().server.unanswered == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_share_each_limit_exactly() {
    let Some(redis) = Redis::start() else { return };
    let (one, two) = (node(&redis, PATIENT), node(&redis, PATIENT));
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
        until("room", || two.running(&key) == 0).await;
        // The server hears of it a little later. In this time, too little flows back by itself.
        let again = tokio::time::timeout(Duration::from_secs(3), async {
            loop {
                match two.admit_shared(&key, &limits, input, output).await {
                    Ok(admission) => return admission,
                    Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
                }
            }
        });
        again.await.expect("room").finish(input, output);
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

/// Some processes that send requests of one key as fast as they can.
struct Crowd {
    begun: Instant,
    admitted: Arc<AtomicU32>,
    tasks: tokio::task::JoinSet<()>,
}

impl Crowd {
    const LIMIT: u32 = 120;
    const CONCURRENT: u32 = 4;

    async fn start(nodes: u32, redis: &Redis, timeout: Duration) -> Self {
        let all: Vec<_> = (0..nodes).map(|_| node_of(nodes, redis, timeout)).collect();
        shared(&all.iter().collect::<Vec<_>>(), true).await;
        let key = KeyId::new(format!("k{nodes}{timeout:?}"));
        let limits = limits(Self::LIMIT, 0, 0, 0);
        let admitted = Arc::new(AtomicU32::new(0));
        let mut tasks = tokio::task::JoinSet::new();
        // What the tasks admit before this would count as too much.
        let begun = Instant::now();
        for limiter in all {
            for _ in 0..Self::CONCURRENT {
                let (limiter, key, admitted) = (limiter.clone(), key.clone(), admitted.clone());
                tasks.spawn(async move {
                    loop {
                        if let Ok(admission) = limiter.admit_shared(&key, &limits, 1, 1).await {
                            admission.finish(1, 1);
                            admitted.fetch_add(1, Ordering::Relaxed);
                        }
                        tokio::time::sleep(Duration::from_millis(15)).await;
                    }
                });
            }
        }
        Self {
            begun,
            admitted,
            tasks,
        }
    }

    /// How many more were admitted than the limit and what has flowed back.
    fn beyond(&self) -> f64 {
        self.beyond_since(self.begun)
    }

    /// The same if the limit was whole at this time.
    fn beyond_since(&self, begun: Instant) -> f64 {
        let admitted = f64::from(self.admitted.load(Ordering::Relaxed));
        admitted - f64::from(Self::LIMIT) * (1.0 + begun.elapsed().as_secs_f64() / 60.0)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_processes_never_admit_more_than_one_request_each_beyond_the_limit() {
    let Some(redis) = Redis::start() else { return };
    for nodes in [2, 3] {
        let mut crowd = Crowd::start(nodes, &redis, Duration::from_secs(5)).await;
        let admitted = || crowd.admitted.load(Ordering::Relaxed);
        until("a request", || admitted() > 0).await;
        // Until a request nothing flows back.
        let first = Instant::now();
        tokio::time::sleep(Duration::from_secs(5)).await;
        until("the limit", || crowd.beyond_since(first) >= -2.0).await;
        crowd.tasks.shutdown().await;
        let beyond = crowd.beyond();
        assert!(beyond <= f64::from(nodes), "{nodes}: {beyond}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_admitted_beyond_a_limit_while_the_server_is_lost_and_found_is_made_up_for() {
    let Some(redis) = Redis::start() else { return };
    for nodes in [2, 3] {
        let mut crowd = Crowd::start(nodes, &redis, Duration::from_millis(200)).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        redis.signal("STOP");
        tokio::time::sleep(Duration::from_millis(1500)).await;
        redis.signal("CONT");
        let begun = Instant::now();
        let mut most = 0_f64;
        while begun.elapsed() < Duration::from_secs(3) || crowd.beyond() > f64::from(nodes) {
            most = most.max(crowd.beyond());
            assert!(begun.elapsed() < Duration::from_secs(90), "{nodes}: {most}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        crowd.tasks.shutdown().await;
        // A share of each other process, which has not reported yet what it has admitted.
        let shares = f64::from(Crowd::LIMIT * (nodes - 1) / nodes);
        println!("{nodes} nodes: {most:.1} more than the limit at the most");
        assert!(most <= shares, "{nodes}: {most}");
    }
}

#[tokio::test]
async fn a_request_does_not_wait_if_the_share_of_the_room_suffices() {
    let Some(redis) = Redis::start() else { return };
    let (one, two) = (node(&redis, PATIENT), node(&redis, PATIENT));
    shared(&[&one, &two], true).await;
    let (key, limits) = (KeyId::new("k"), limits(8, 0, 0, 0));
    let ask = |limiter: &Limiter| limiter.admit_shared(&key, &limits, 1, 1);
    let waits = |limiter: &Limiter| matches!(ask(limiter), MaybeReady::Pending(_));
    let take = async |limiter: &Limiter| ask(limiter).await.map(|it| it.finish(1, 1));
    take(&one).await.unwrap();
    answered(&one, &key).await;
    redis.signal("STOP");
    let MaybeReady::Ready(ahead) = ask(&one) else {
        panic!("it waits");
    };
    ahead.into_inner().unwrap().finish(1, 1);
    // One at a time.
    assert!(waits(&one));
    redis.signal("CONT");
    let left = |limiter: &Limiter| limiter.standing(&key, &limits).requests.unwrap().remaining;
    answered(&one, &key).await;
    // The other process takes the rest, which this one does not see.
    while take(&two).await.is_ok() {}
    assert!(left(&one) >= 2, "{}", left(&one));
    take(&one).await.unwrap();
    // It is beyond the limit, and the only one.
    until("the answer", || left(&one) == 0).await;
    assert!(waits(&one));
    assert!(take(&one).await.is_err());
    assert!(take(&two).await.is_err());
}

#[tokio::test]
async fn a_process_that_is_gone_leaves_its_slots_after_its_lease() {
    let Some(redis) = Redis::start() else { return };
    let two = node(&redis, PATIENT);
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
