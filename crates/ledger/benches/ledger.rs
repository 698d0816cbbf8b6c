//! What the ledger costs a request: finding its key, refusing nonsense, reserving and
//! settling. The writer commits to a real file meanwhile.

#![expect(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

#[path = "../tests/setup/mod.rs"]
mod setup;

use criterion::{Criterion, criterion_group, criterion_main};
use std::{
    hint::black_box,
    time::{Duration, Instant},
};
use tollgate_ledger::{
    ApiKey, Clock, DirectorySettings, Ending, KeyDirectory, Ledger, LedgerSettings, LedgerStats,
    Limiter, Reserve, Store, UpperBound,
};
use tollgate_types::{KeyId, Limits, RequestId, Usage, Weights};

struct House {
    _folder: tempfile::TempDir,
    store: Store,
    key: ApiKey,
    id: KeyId,
    runtime: tokio::runtime::Runtime,
}

impl House {
    fn new() -> Self {
        let folder = tempfile::TempDir::new().unwrap();
        let store = setup::open(&folder.path().join("ledger.db"));
        let made = setup::make_key(&store);
        Self {
            _folder: folder,
            store,
            id: made.record.id().clone(),
            key: made.key,
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap(),
        }
    }
}

fn look_up(criterion: &mut Criterion) {
    let house = House::new();
    let directory = KeyDirectory::open(&house.store, DirectorySettings::default()).unwrap();
    let loaded = directory.lookup(house.key.expose());
    house.runtime.block_on(loaded).unwrap();
    criterion.bench_function("look up a known key", |bencher| {
        bencher.iter(|| directory.lookup(black_box(house.key.expose())));
    });
    let typo = house
        .key
        .expose()
        .replace(house.key.prefix(), "sk-00000000");
    criterion.bench_function("refuse a key with a typo", |bencher| {
        bencher.iter(|| directory.lookup(black_box(&typo)));
    });
}

fn limit(criterion: &mut Criterion) {
    let limiter = Limiter::new(1000, Clock::system());
    let most = std::num::NonZeroU32::new(u32::MAX);
    let limits = Limits {
        requests: most,
        input_tokens: most,
        output_tokens: most,
        concurrent: most,
    };
    let key = KeyId::new("key_bench");
    criterion.bench_function("admit and finish under four limits", |bencher| {
        bencher.iter(|| {
            if let Ok(admission) = limiter.admit(black_box(&key), &limits, 10, 10) {
                admission.finish(9, 9);
            }
        });
    });
}

fn reserve_and_settle(criterion: &mut Criterion) {
    let house = House::new();
    let ledger = Ledger::open(&house.store, LedgerSettings::default()).unwrap();
    let ending = ending();
    let mut number = 0;
    criterion.bench_function("reserve and settle", |bencher| {
        bencher.iter_custom(|turns| {
            let mut took = Duration::ZERO;
            for _ in 0..turns {
                number += 1;
                took += settle_one(&house, &ledger, number, &ending);
            }
            took
        });
    });
    eprint!("as fast as it goes: ");
    report(&ledger.stats());
}

/// A thousand settlements a second for five seconds: what commits cost if no request waits
/// for them.
#[expect(clippy::disallowed_methods, reason = "its pace is what this measures")]
fn steady_load(_: &mut Criterion) {
    const ROUND: Duration = Duration::from_millis(10);
    const ROUNDS: u128 = 500;
    const A_ROUND: u128 = 10;
    let house = House::new();
    let ledger = Ledger::open(&house.store, LedgerSettings::default()).unwrap();
    let ending = ending();
    for round in 0..ROUNDS {
        let begun = Instant::now();
        for place in 0..A_ROUND {
            settle_one(&house, &ledger, round * A_ROUND + place, &ending);
        }
        std::thread::sleep(ROUND.saturating_sub(begun.elapsed()));
    }
    eprint!("a thousand a second: ");
    report(&ledger.stats());
}

fn ending() -> Ending {
    setup::completed(Usage {
        input: 100,
        output: 50,
        ..Usage::default()
    })
}

/// What the writer did meanwhile. Commit times are known by class: reported is the bound of the
/// class in which the commit of that rank is.
fn report(stats: &LedgerStats) {
    let commits = stats.commits.max(1);
    let within = |percent: u64| {
        let rank = (stats.commits * percent).div_ceil(100);
        let mut seen = 0;
        let place = stats.commit_classes.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        place.and_then(|place| LedgerStats::COMMIT_BOUNDS.get(place))
    };
    eprintln!(
        "{} settlements in {} commits ({} a commit), mean {} µs, 50% within {:?} µs, 99% within \
         {:?} µs, longest {} µs; {} reservations shed",
        stats.settlements,
        stats.commits,
        stats.settlements / commits,
        stats.commit_micros / commits,
        within(50),
        within(99),
        stats.longest_commit_micros,
        stats.shed,
    );
}

/// One request; the wait for a free slot, when the disk is behind, is not counted.
fn settle_one(house: &House, ledger: &Ledger, number: u128, ending: &Ending) -> Duration {
    loop {
        let request = setup::request(RequestId::from_parts(1, number));
        let bound = UpperBound {
            hidden_input: 0,
            plausible_input: u64::MAX,
            plausible_output: u64::MAX,
            input: 100,
            output: 1000,
            useful_output: 16,
        };
        let start = Instant::now();
        match ledger.reserve(&house.id, request, bound, Weights::default()) {
            Reserve::Reserved(reservation) => {
                black_box(reservation.settle(ending));
                return start.elapsed();
            }
            Reserve::Wait(account) => house.runtime.block_on(account.wait()).unwrap(),
            Reserve::Refused(_) => std::thread::yield_now(),
        }
    }
}

criterion_group!(benches, look_up, limit, reserve_and_settle, steady_load);
criterion_main!(benches);
