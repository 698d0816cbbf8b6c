//! `kill -9` at random moments: whatever a caller has fully received is in the ledger,
//! once.
//!
//! The program under load is this test binary itself, started as a process of its own.
//! It prints the id of a request after it has been settled: from then on a caller could
//! have the whole answer. `TOLLGATE_CRASH_ROUNDS` says how many processes are killed.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod setup;

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};
use tollgate_ledger::{Ledger, LedgerSettings, Reserve, Store, UpperBound};
use tollgate_types::{KeyId, RequestId, ReservationGuard as _, Usage, UsageDetails, Weights};

const FILE: &str = "TOLLGATE_TEST_LEDGER";
const KEYS: &str = "TOLLGATE_TEST_KEYS";
const WORKERS: usize = 2;
const TOKENS_PER_REQUEST: u64 = 7;

fn random() -> u64 {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).unwrap();
    u64::from_le_bytes(bytes)
}

/// Not a test by itself: the process that is killed.
#[test]
#[ignore = "run by the other test as a process of its own"]
fn under_load() {
    let store = setup::open(&PathBuf::from(std::env::var_os(FILE).unwrap()));
    let ledger = Ledger::open(&store, LedgerSettings::default()).unwrap();
    let keys: Vec<KeyId> = std::env::var(KEYS)
        .unwrap()
        .split(',')
        .map(KeyId::new)
        .collect();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .enable_all()
        .build()
        .unwrap();
    let keys = Arc::new(keys);
    let workers = (0..WORKERS).map(|worker| {
        let (ledger, keys) = (ledger.clone(), Arc::clone(&keys));
        runtime.spawn(serve(ledger, keys, worker))
    });
    for worker in workers.collect::<Vec<_>>() {
        runtime.block_on(worker).unwrap();
    }
}

/// Serves requests until it is killed.
async fn serve(ledger: Ledger, keys: Arc<Vec<KeyId>>, worker: usize) {
    let mut stdout = std::io::stdout();
    for key in keys.iter().cycle().skip(worker) {
        let id = RequestId::from_parts(random() >> 20, u128::from(random()));
        let request = setup::request(id);
        let bound = UpperBound {
            hidden_input: 0,
            plausible_input: u64::MAX,
            plausible_output: u64::MAX,
            input: 100,
            output: 100,
            useful_output: 1,
        };
        match ledger.reserve(key, request, bound, Weights::default()) {
            Reserve::Reserved(reservation) => {
                reservation.settle(&setup::completed(Usage {
                    output: TOKENS_PER_REQUEST,
                    ..Usage::default()
                }));
                // One write of one line: the pipe takes it whole or not at all.
                let line = format!("{id}\n");
                stdout.write_all(line.as_bytes()).unwrap();
                stdout.flush().unwrap();
            }
            Reserve::Wait(account) => account.wait().await.unwrap(),
            Reserve::Refused(refused) => assert!(refused.to_string().contains("too many")),
        }
        tokio::task::yield_now().await;
    }
}

/// Streams under way at once, and how long each waits from one token to the next.
const STREAMS: usize = 16;
const A_TOKEN: Duration = Duration::from_millis(5);
/// How old what is known of a stream may be.
const KEPT: Duration = Duration::from_millis(250);

/// Not a test by itself: streams until it is killed, and prints how many tokens each stream has
/// delivered by which millisecond.
#[test]
#[ignore = "run by the other test as a process of its own"]
fn streaming() {
    let store = setup::open(&PathBuf::from(std::env::var_os(FILE).unwrap()));
    let ledger = Ledger::open(&store, LedgerSettings::default()).unwrap();
    let key = KeyId::new(std::env::var(KEYS).unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let mut streams = Vec::new();
    while streams.len() < STREAMS {
        let id = RequestId::from_parts(random() >> 20, u128::from(random()));
        let bound = UpperBound {
            input: 0,
            hidden_input: 0,
            output: 1 << 20,
            useful_output: 1,
            plausible_input: u64::MAX,
            plausible_output: u64::MAX,
        };
        match ledger.reserve(&key, setup::request(id), bound, Weights::default()) {
            Reserve::Reserved(held) => streams.push(held),
            Reserve::Wait(account) => runtime.block_on(account.wait()).unwrap(),
            Reserve::Refused(refused) => panic!("{refused}"),
        }
    }
    let begun = Instant::now();
    for tokens in 1.. {
        let now = Instant::now();
        for stream in &mut streams {
            let delivered = Usage {
                output: tokens,
                ..Usage::default()
            };
            stream.progress(delivered, UsageDetails::default());
            if stream.is_keeping_due(now) {
                stream.keep_progress(now, None);
            }
        }
        println!("delivered {} {tokens}", begun.elapsed().as_millis());
        std::thread::park_timeout(A_TOKEN);
    }
}

#[test]
fn output_delivered_before_kill_9_is_charged_but_for_a_quarter_second() {
    let rounds = std::env::var("TOLLGATE_CRASH_ROUNDS");
    let rounds: u32 = rounds.map_or(3, |rounds| rounds.parse().unwrap());
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("ledger.db");
    let store = setup::open(&path);
    let key = setup::make_key(&store).record.id().to_string();
    let (mut delivered, mut charged) = (0, 0);
    for round in 0..rounds {
        let span = Duration::from_millis(300 + random() % 1200);
        let lines = kill_after("streaming", "delivered ", &path, &key, span);
        let steps: Vec<(u128, u64)> = lines.iter().filter_map(|line| step(line)).collect();
        let ledger = Ledger::open(&store, LedgerSettings::default()).unwrap();
        assert!(ledger.close(Duration::from_secs(20)));
        let found = store.verify().unwrap();
        assert_eq!((found.faults.len(), found.leased), (0, 0), "{found:?}");

        let (end, last) = *steps.last().unwrap();
        let known = steps
            .iter()
            .rev()
            .find(|(at, _)| at + longest_wait(&steps) <= end);
        let least = known.map_or(0, |(_, tokens)| *tokens) * STREAMS as u64;
        let most = (last + 1) * STREAMS as u64;
        let new = found.spent - charged;
        println!(
            "round {round}: {} delivered, {new} charged",
            last * STREAMS as u64
        );
        assert!((least..=most).contains(&new), "{new} of {least} to {most}");
        delivered += last * STREAMS as u64;
        charged = found.spent;
    }
    let lost = delivered.saturating_sub(charged);
    println!("{rounds} kills: {delivered} tokens delivered, {lost} lost");
}

/// The millisecond and the tokens of a line.
fn step(line: &str) -> Option<(u128, u64)> {
    let mut words = line.strip_prefix("delivered ")?.split(' ');
    Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}

/// For how long at most a stream is not known, in milliseconds: where the machine is busy, a piece
/// comes later than it should.
fn longest_wait(steps: &[(u128, u64)]) -> u128 {
    let waits = steps.iter().zip(steps.iter().skip(1));
    let waits = waits.map(|(one, next)| next.0 - one.0);
    KEPT.as_millis() + waits.max().unwrap_or(0) + 1
}

/// Starts a process, kills it `span` after its first line that begins so, and returns these lines.
fn kill_after(program: &str, begin: &str, path: &Path, keys: &str, span: Duration) -> Vec<String> {
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", program, "--ignored", "--nocapture", "--quiet"])
        .env(FILE, path)
        .env(KEYS, keys)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let pipe = process.stdout.take().unwrap();
    let lines = BufReader::new(pipe).lines().map_while(Result::ok);
    // The harness may print lines of its own.
    let mut lines = lines.filter(|line| line.starts_with(begin));
    let first = lines.next();
    let killer = std::thread::spawn(move || {
        std::thread::park_timeout(span);
        process.kill().unwrap();
        process.wait().unwrap();
    });
    let received = first.into_iter().chain(lines).collect();
    killer.join().unwrap();
    received
}

#[test]
fn answers_received_before_kill_9_are_in_the_ledger_once() {
    let rounds = std::env::var("TOLLGATE_CRASH_ROUNDS");
    let rounds: u32 = rounds.map_or(3, |rounds| rounds.parse().unwrap());
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("ledger.db");
    let store = setup::open(&path);
    let keys = (0..3).map(|_| setup::make_key(&store).record.id().to_string());
    let keys: Vec<String> = keys.collect();
    let mut received = BTreeSet::new();
    for round in 0..rounds {
        let span = Duration::from_millis(20 + random() % 300);
        let start = Instant::now();
        let new = kill_after("under_load", "req_", &path, &keys.join(","), span);
        // The last line may have been cut.
        let new: BTreeSet<String> = new.into_iter().filter(|line| line.len() == 30).collect();
        let rate = new.len() as f64 / span.as_secs_f64();
        eprintln!(
            "round {round}: {} in {span:?}, {rate:.0}/s, {:?}",
            new.len(),
            start.elapsed()
        );
        received.extend(new);
        check(&path, &store, &received, (round as usize + 1) * WORKERS);
    }
}

/// Recovers, and compares what is there with what must be: all that was received, and at
/// most what was in flight beyond it.
fn check(path: &Path, store: &Store, received: &BTreeSet<String>, in_flight: usize) {
    let ledger = Ledger::open(store, LedgerSettings::default()).unwrap();
    assert!(ledger.close(Duration::from_secs(20)));
    let found = store.verify().unwrap();
    assert_eq!(found.faults, [""; 0]);
    assert_eq!(found.spent, found.requests * TOKENS_PER_REQUEST);
    assert_eq!(found.leased, 0);

    let file = rusqlite::Connection::open(path).unwrap();
    let mut ids = file.prepare("SELECT request FROM usage").unwrap();
    let ids = ids.query_map([], |row| row.get(0)).unwrap();
    let recorded: BTreeSet<String> = ids.map(Result::unwrap).collect();
    let lost: Vec<_> = received.difference(&recorded).collect();
    assert!(lost.is_empty(), "{} lost: {lost:?}", lost.len());
    let beyond = recorded.difference(received).count();
    assert!(beyond <= in_flight, "{beyond} beyond what was received");
}
