//! Limits of keys that processes divide in the database.

use super::{Empty, hasher, partition::wait_for, primary};
use crate::{
    LimitServer, Limiter, SharedLimits,
    clock::Clock,
    limits::redis_server::Redis,
    store::{ServerSettings, Store, conformance::Fixture},
};
use std::{
    num::NonZeroU32,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};
use tollgate_types::{KeyId, Limits};

const PATIENCE: Duration = Duration::from_secs(30);

fn limits(requests: u32, output: u32, concurrent: u32) -> Limits {
    Limits {
        requests: NonZeroU32::new(requests),
        output_tokens: NonZeroU32::new(output),
        concurrent: NonZeroU32::new(concurrent),
        ..Limits::default()
    }
}

/// Processes that divide limits in one database.
struct Nodes {
    case: Empty,
    all: Vec<Limiter>,
    begun: Instant,
}

impl Nodes {
    fn start(number: u32, redis: Option<&Redis>) -> Option<Self> {
        let case = Empty::on(primary()?);
        case.open(&hasher().fingerprint());
        let node = |place: u32| {
            let role = format!("{}_{place}", case.name);
            case.sql(&format!("CREATE ROLE {role} LOGIN SUPERUSER"));
            let settings = ServerSettings {
                server: case.server.local_as(&role, &case.name),
                ..case.settings()
            };
            let store = Store::open_on_server(settings, hasher(), Clock::system()).unwrap();
            let server = redis.map(|redis| {
                let server = LimitServer::new(&redis.url(Redis::PASSWORD), None).unwrap();
                SharedLimits::start(server, Duration::from_millis(500)).unwrap()
            });
            let nodes = Arc::new(AtomicU32::new(number));
            let limiter = Limiter::new(100, Clock::system());
            limiter
                .shared_by(nodes, server.as_ref(), Some(&store))
                .unwrap()
        };
        Some(Self {
            all: (0..number).map(node).collect(),
            begun: Instant::now(),
            case,
        })
    }

    /// The most that all may have admitted until now: the limit, what flows back, and what each may use before
    /// it has a share.
    fn most(&self, limit: u32) -> u32 {
        let elapsed_ms = u32::try_from(self.begun.elapsed().as_millis()).unwrap();
        let flown = limit * elapsed_ms / 60_000;
        let nodes = u32::try_from(self.all.len()).unwrap();
        limit + flown + 1 + nodes * (limit / (10 * nodes)).max(1)
    }

    fn cut_off(&self, place: usize) {
        let role = format!("{}_{place}", self.case.name);
        self.case.sql(&format!(
            "ALTER ROLE {role} NOLOGIN; SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE usename = '{role}'"
        ));
    }

    fn join_again(&self, place: usize) {
        self.case
            .sql(&format!("ALTER ROLE {}_{place} LOGIN", self.case.name));
    }
}

/// Requests of one output token, until one is refused. Returns how many were admitted.
fn take(limiter: &Limiter, key: &KeyId, limits: &Limits) -> u32 {
    let admit = || wait_for(limiter.admit_shared(key, limits, 0, 1)).ok();
    let all = std::iter::from_fn(admit);
    all.map(|it| it.finish(0, 1)).count().try_into().unwrap()
}

/// Requests a minute that the process applies.
fn share(limiter: &Limiter, key: &KeyId, limits: &Limits) -> u64 {
    limiter.standing(key, limits).requests.unwrap().limit
}

/// Calls `is_so` until it is true. Returns how long that took.
fn until(what: &str, mut is_so: impl FnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::park_timeout(Duration::from_millis(10));
    }
    begun.elapsed()
}

#[test]
fn a_process_that_alone_serves_a_key_has_the_whole_limit() {
    let Some(nodes) = Nodes::start(3, None) else {
        return;
    };
    for limit in [7, 300] {
        let (key, limits) = (KeyId::new(format!("k{limit}")), limits(limit, 0, 0));
        let mut admitted = 0;
        let took = until("the limit", || {
            admitted += take(&nodes.all[0], &key, &limits);
            admitted >= limit
        });
        println!("{admitted} of {limit} after {took:?}");
        assert!(admitted <= nodes.most(limit), "{admitted}");
        assert_eq!(share(&nodes.all[0], &key, &limits), u64::from(limit));
        assert_eq!(nodes.all[0].shared_stats().unwrap().by_database, Some(true));
    }
}

/// Each process admits what it can, with so many threads, until `is_over`. Returns how many each admitted.
fn load(
    nodes: &Nodes,
    key: &KeyId,
    limits: &Limits,
    threads: &[usize],
    time: Duration,
) -> Vec<u32> {
    let is_over = AtomicBool::new(false);
    let work = |limiter: &Limiter| {
        let mut admitted = 0;
        while !is_over.load(Ordering::Relaxed) {
            if let Ok(admission) = limiter.admit(key, limits, 0, 1) {
                admission.finish(0, 1);
                admitted += 1;
            }
            std::thread::park_timeout(Duration::from_millis(2));
        }
        admitted
    };
    std::thread::scope(|scope| {
        let work = &work;
        let all = nodes.all.iter().zip(threads);
        let all = all.map(|(limiter, threads)| {
            let threads = (0..*threads).map(|_| scope.spawn(move || work(limiter)));
            threads.collect::<Vec<_>>()
        });
        let all: Vec<_> = all.collect();
        let begun = Instant::now();
        // A thread that ends wakes this one.
        while let Some(rest) = time.checked_sub(begun.elapsed()) {
            std::thread::park_timeout(rest);
        }
        is_over.store(true, Ordering::Relaxed);
        let sum = |it: Vec<std::thread::ScopedJoinHandle<'_, u32>>| {
            it.into_iter().map(|it| it.join().unwrap()).sum()
        };
        all.into_iter().map(sum).collect()
    })
}

#[test]
fn processes_under_load_use_the_limit_together_and_no_more() {
    for (number, limits, threads) in [
        (2, limits(600, 0, 0), &[2, 2, 0][..]),
        (3, limits(1200, 0, 0), &[1, 1, 4]),
        (3, limits(0, 1200, 0), &[2, 2, 2]),
    ] {
        let Some(nodes) = Nodes::start(number, None) else {
            return;
        };
        let limit = limits.requests.or(limits.output_tokens).unwrap().get();
        let key = KeyId::new("k");
        let admitted = load(&nodes, &key, &limits, threads, Duration::from_secs(8));
        let elapsed = nodes.begun.elapsed().as_secs_f64();
        let (sum, most) = (admitted.iter().sum::<u32>(), nodes.most(limit));
        let room = f64::from(limit) * (1.0 + elapsed / 60.0);
        println!("{admitted:?}: {sum} of {room:.0} at {elapsed:.1} s, at most {most}");
        assert!(sum <= most, "{admitted:?}: {sum} {most}");
        assert!(f64::from(sum) >= room * 0.9, "{admitted:?}: {sum} {room}");
    }
}

#[test]
fn the_limit_moves_with_the_load() {
    let Some(nodes) = Nodes::start(2, None) else {
        return;
    };
    let (key, limits) = (KeyId::new("k"), limits(600, 0, 3));
    let mut sum = 0;
    for (place, threads) in [(0, [2, 0]), (1, [0, 2]), (0, [2, 0])] {
        let mut took = None;
        let begun = Instant::now();
        until("the whole limit", || {
            let time = Duration::from_millis(50);
            sum += load(&nodes, &key, &limits, &threads, time)
                .iter()
                .sum::<u32>();
            let is_whole = share(&nodes.all[place], &key, &limits) == 600;
            if is_whole {
                took.get_or_insert(begun.elapsed());
            }
            // The other process has refusals of this load to forget.
            took.is_some_and(|took| begun.elapsed() > took + Duration::from_secs(2))
        });
        println!("the whole limit after {took:?}");
        assert!(sum <= nodes.most(600), "{sum} {}", nodes.most(600));
    }
    assert!(
        f64::from(sum) >= 0.9 * f64::from(nodes.most(600) - 62),
        "{sum}"
    );
}

#[test]
fn requests_at_once_are_those_of_all_processes() {
    let Some(nodes) = Nodes::start(2, None) else {
        return;
    };
    let (key, limits) = (KeyId::new("k"), limits(0, 0, 6));
    let [one, two] = &nodes.all[..] else { panic!() };
    let mut running = Vec::new();
    until("all six", || {
        running.extend(one.admit(&key, &limits, 0, 0));
        running.len() == 6
    });
    // One of the least share is let in; the others wait for an end.
    let mut more = Vec::new();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(3) {
        more.extend(two.admit(&key, &limits, 0, 0));
        std::thread::park_timeout(Duration::from_millis(20));
    }
    assert!(more.len() <= 1, "{}", more.len());
    running.clear();
    until("room", || {
        more.extend(two.admit(&key, &limits, 0, 0));
        more.len() == 6
    });
}

#[test]
fn without_the_database_the_last_shares_hold_and_what_was_taken_is_counted_later() {
    let Some(nodes) = Nodes::start(2, None) else {
        return;
    };
    let (key, limits) = (KeyId::new("k"), limits(60, 0, 0));
    let [one, two] = &nodes.all[..] else { panic!() };
    let mut sum = 0;
    until("equal shares", || {
        for limiter in [one, two] {
            let admitted = limiter.admit(&key, &limits, 0, 1);
            sum += u32::from(admitted.map(|it| it.finish(0, 1)).is_ok());
        }
        [one, two].map(|it| share(it, &key, &limits)) == [30, 30]
    });
    // Another transaction locks the table; no request waits for it.
    let mut locking = nodes.case.server.local(&nodes.case.name).connect().unwrap();
    locking
        .batch_execute("BEGIN; LOCK TABLE limit_shares")
        .unwrap();
    let away = |it: &Limiter| it.shared_stats().unwrap().by_database == Some(false);
    until("the state", || away(one) && away(two));
    let held = [one, two].map(|it| share(it, &key, &limits));
    for place in [0, 1] {
        nodes.cut_off(place);
    }
    let admitted = [one, two].map(|it| take(it, &key, &limits));
    println!("{admitted:?} of 60 without the database");
    assert_eq!([one, two].map(|it| share(it, &key, &limits)), held);
    sum += admitted.iter().sum::<u32>();
    assert!(sum <= nodes.most(60), "{sum}");
    drop(locking);
    for place in [0, 1] {
        nodes.join_again(place);
    }
    until("the state", || !away(one) && !away(two));
    until("the whole limit", || {
        sum += take(one, &key, &limits);
        share(one, &key, &limits) == 60
    });
    sum += take(one, &key, &limits);
    println!("{sum} of 60, at most {}", nodes.most(60));
    assert!(sum <= nodes.most(60), "{sum}");
}

#[test]
fn what_the_server_has_counted_stays_counted_without_it_and_afterwards() {
    let Some(mut redis) = Redis::start() else {
        return;
    };
    let Some(nodes) = Nodes::start(2, Some(&redis)) else {
        return;
    };
    let by_server = |is_so: bool| {
        let is_it = |it: &Limiter| {
            // A request of another key notices it.
            let _ = wait_for(it.admit_shared(&KeyId::new("other"), &limits(9, 0, 0), 0, 1));
            it.shared_stats().unwrap().by_server == Some(is_so)
        };
        until("the state", || nodes.all.iter().all(is_it))
    };
    by_server(true);
    let (key, limits) = (KeyId::new("k"), limits(120, 0, 0));
    let [one, two] = &nodes.all[..] else { panic!() };
    let mut sum = 0;
    let mut take_one = |limiter: &Limiter| {
        let admitted = wait_for(limiter.admit_shared(&key, &limits, 0, 1));
        sum += u32::from(admitted.map(|it| it.finish(0, 1)).is_ok());
        sum
    };
    for _ in 0..15 {
        take_one(one);
        take_one(two);
    }
    redis.kill();
    by_server(false);
    let took = until("the whole limit", || {
        take_one(one);
        share(one, &key, &limits) == 120
    });
    println!("the whole limit after {took:?}");
    // The server comes back without what it has counted.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(1) {
        let sum = take_one(one);
        assert!((30..=nodes.most(120)).contains(&sum), "{sum}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
    redis.restart();
    by_server(true);
    for _ in 0..200 {
        take_one(one);
        take_one(two);
    }
    let (sum, most) = (take_one(one), nodes.most(120));
    println!("{sum} of 120, at most {most}");
    assert!((110..=most).contains(&sum), "{sum} {most}");
}

#[test]
fn shares_of_keys_that_are_not_used_are_deleted() {
    let Some(nodes) = Nodes::start(2, None) else {
        return;
    };
    let (key, limits) = (KeyId::new("k"), limits(6000, 0, 0));
    nodes.all[0]
        .admit(&key, &limits, 0, 1)
        .unwrap()
        .finish(0, 1);
    let rows = || {
        let mut client = nodes.case.server.local(&nodes.case.name).connect().unwrap();
        let row = client.query_one("SELECT count(*) FROM limit_shares", &[]);
        row.unwrap().get::<_, i64>(0)
    };
    until("a share", || rows() == 2);
    until("no share", || rows() == 0);
}
