//! What a settlement costs each thread: processor time of the one that serves requests, of the
//! writer and of the thread that syncs, while requests come at a steady pace.
//!
//!     cargo bench -p tollgate-ledger --bench settlements -- 15000 10 1
//!
//! Requests a second, seconds, keys. What the kernel does for a thread is in its time; Linux
//! alone reports it by thread.
//!
//! With `TOLLGATE_DATABASE=postgres://…` the store is in this database, which must be empty and is reached
//! without TLS: requests come in batches of a fifth of a second, so that the pace sets their size.

#![expect(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

#[path = "../tests/setup/mod.rs"]
mod setup;

use std::{
    collections::{BTreeMap, VecDeque},
    fs,
    path::Path,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use tollgate_ledger::{
    Clock, Ending, KeyHasher, Ledger, LedgerSettings, RequestInfo, Reservation, Reserve, Server,
    ServerSettings, ServerTls, Store, UpperBound, migrate,
};
use tollgate_types::{KeyId, RequestId, Usage, Weights};

/// Requests under way at once.
const OPEN: usize = 32;
/// How many come in a turn of the thread that serves them.
const A_TURN: u32 = 16;

fn main() {
    let numbers = std::env::args().filter_map(|word| word.parse::<u32>().ok());
    let numbers: Vec<u32> = numbers.collect();
    let number = |place: usize, default| numbers.get(place).copied().unwrap_or(default);
    let (pace, seconds, keys) = (number(0, 15_000), number(1, 5), number(2, 1));
    let folder = tempfile::TempDir::new().unwrap();
    let store = open(folder.path());
    let keys = (0..keys).map(|_| setup::make_key(&store).record.id().clone());
    let keys: Vec<KeyId> = keys.collect();
    let ledger = Ledger::open(&store, LedgerSettings::default()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let mut caller = Caller {
        ledger: &ledger,
        keys: &keys,
        runtime: &runtime,
        open: VecDeque::new(),
        made: 0,
        shed: 0,
    };
    for _ in &keys {
        caller.turn(1);
    }
    let (before, stats) = (times(), ledger.stats());
    let begun = Instant::now();
    caller.keep_pace(pace, Duration::from_secs(seconds.into()));
    let (took, shed) = (begun.elapsed(), caller.shed);
    drop(caller);
    let settled = runtime.block_on(ledger.caught_up(Duration::from_secs(60)));
    let (after, now) = (times(), ledger.stats());
    let count = (now.settlements - stats.settlements).max(1);
    let commits = (now.commits - stats.commits).max(1);
    let mut all = 0.0;
    for (name, ns) in &after {
        let spent = ns - before.get(name).copied().unwrap_or(0);
        let each = spent as f64 / count as f64 / 1000.0;
        all += each;
        eprintln!("{name:16} {each:7.3} us a settlement");
    }
    eprintln!("{:16} {all:7.3}", "all");
    eprintln!(
        "{count} settlements, {:.0} a second, {} a commit of {} us, longest {} us, {shed} shed, \
         all in the file: {settled}",
        count as f64 / took.as_secs_f64(),
        count / commits,
        (now.commit_micros - stats.commit_micros) / commits,
        now.longest_commit_micros,
    );
}

/// A store in a file of the folder, or in the database that the environment names.
fn open(folder: &Path) -> Store {
    let Ok(url) = std::env::var("TOLLGATE_DATABASE") else {
        return setup::open(&folder.join("ledger.db"));
    };
    let server = Arc::new(Server::new(&url, &ServerTls::Off).unwrap());
    migrate(&server).unwrap();
    let settings = ServerSettings {
        server,
        local: folder.join("ledger"),
        connections: 4,
        lease_term: Duration::from_secs(30),
    };
    let hasher = KeyHasher::new(b"a pepper for tests").unwrap();
    Store::open_on_server(settings, hasher, Clock::system()).unwrap()
}

struct Caller<'a> {
    ledger: &'a Ledger,
    keys: &'a [KeyId],
    runtime: &'a tokio::runtime::Runtime,
    open: VecDeque<Reservation>,
    made: u32,
    shed: u32,
}

impl Caller<'_> {
    #[expect(clippy::disallowed_methods, reason = "its pace is what this measures")]
    fn keep_pace(&mut self, pace: u32, span: Duration) {
        let begun = Instant::now();
        let turn = Duration::from_secs(1) * A_TURN / pace;
        let mut turns = 0;
        while begun.elapsed() < span {
            self.turn(A_TURN);
            turns += 1;
            std::thread::sleep((turn * turns).saturating_sub(begun.elapsed()));
        }
    }

    fn turn(&mut self, requests: u32) {
        for _ in 0..requests {
            self.reserve();
            if self.open.len() > OPEN {
                let _ = self.open.pop_front().unwrap().settle(&ending());
            }
        }
    }

    fn reserve(&mut self) {
        self.made += 1;
        let key = self.keys.get(self.made as usize % self.keys.len());
        let key = key.unwrap();
        loop {
            match self
                .ledger
                .reserve(key, request(self.made), BOUND, Weights::default())
            {
                Reserve::Reserved(held) => return self.open.push_back(held),
                Reserve::Wait(account) => self.runtime.block_on(account.wait()).unwrap(),
                Reserve::Refused(_) => {
                    self.shed += 1;
                    std::thread::yield_now();
                }
            }
        }
    }
}

const BOUND: UpperBound = UpperBound {
    hidden_input: 0,
    plausible_input: u64::MAX,
    plausible_output: u64::MAX,
    input: 300,
    output: 1000,
    useful_output: 16,
};

fn request(number: u32) -> RequestInfo {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    // Spread over all that a random number can be, as in the gateway.
    let random = u128::from(number).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835);
    let now = u64::try_from(now.as_millis()).unwrap();
    setup::request(RequestId::from_parts(now, random))
}

fn ending() -> Ending {
    setup::completed(Usage {
        input: 290,
        output: 57,
        ..Usage::default()
    })
}

/// Nanoseconds on a processor, by the names of threads.
fn times() -> BTreeMap<String, u64> {
    let mut times = BTreeMap::new();
    for task in fs::read_dir("/proc/self/task").unwrap().flatten() {
        let read = |file| fs::read_to_string(task.path().join(file)).unwrap_or_default();
        let spent = read("schedstat");
        let spent = spent
            .split(' ')
            .next()
            .and_then(|ns| ns.parse::<u64>().ok());
        *times.entry(read("comm").trim().to_owned()).or_default() += spent.unwrap_or(0);
    }
    times
}
