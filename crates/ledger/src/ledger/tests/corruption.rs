//! Damage at random places of every file: what was charged is there, or the damage is reported.
//!
//! `TOLLGATE_CORRUPTIONS` says how often, `TOLLGATE_CORRUPTION_SEED` repeats them.

use super::*;
use std::{collections::BTreeMap, fs};

/// SplitMix64, so that a seed names the same damage for ever.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next()).unwrap() % end.max(1)
    }
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}: {text}")))
}

type Files = BTreeMap<String, Vec<u8>>;

fn files_of(house: &House) -> Files {
    let entries = fs::read_dir(house.folder.path()).unwrap();
    entries
        .map(|entry| {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            (name, fs::read(entry.path()).unwrap())
        })
        .collect()
}

/// A ledger with some history, of which the last requests are in the settlement files alone.
async fn killed() -> (House, Files) {
    let house = House::new();
    let store = house.store();
    let keys = [house.key(100_000), house.key(50_000)];
    house.top_up(&keys[1], 300);
    for round in 0..4 {
        let ledger = house.ledger();
        for turn in 0..30_u64 {
            let key = &keys[usize::try_from(turn % 2).unwrap()];
            let held = house.eventually(&ledger, key, 50).await;
            held.settle(&completed(turn % 40));
        }
        assert!(ledger.caught_up(PATIENCE).await);
        if round < 3 {
            assert!(ledger.close(PATIENCE));
            continue;
        }
        let mut streaming = house.eventually(&ledger, &keys[0], 500).await;
        let mut last = Vec::new();
        for _ in 0..10 {
            last.push(house.eventually(&ledger, &keys[0], 50).await);
        }
        // From here on nothing reaches the database.
        ledger.0.shared.abandoned.store(true, Ordering::Release);
        last.into_iter().for_each(|held| {
            held.settle(&completed(33));
        });
        streaming.progress(output(77), UsageDetails::default());
        streaming.keep_progress(Instant::now(), None);
        ledger.0.shared.journal.follow();
        let files = files_of(&house);
        ledger.crash();
        drop((store, streaming));
        return (house, files);
    }
    unreachable!("the last round returns")
}

/// The same, ended without a kill.
async fn stopped() -> (House, Files) {
    let (house, _) = killed().await;
    let reader = house.store();
    assert!(house.ledger().close(PATIENCE));
    let files = files_of(&house);
    drop(reader);
    (house, files)
}

/// A place in a file, of four tries the first that is not empty: pages have much room.
fn place_in(bytes: &[u8], random: &mut Random) -> usize {
    let places: [usize; 4] = std::array::from_fn(|_| random.below(bytes.len()));
    let is_used = |place: &&usize| bytes.get(**place).is_some_and(|byte| *byte != 0);
    *places.iter().find(is_used).unwrap_or(&places[0])
}

/// Damages one file, every second time the database, and says how.
fn damage(files: &mut Files, random: &mut Random) -> String {
    let names: Vec<String> = files.keys().cloned().collect();
    let name = match random.below(2) {
        0 => "ledger.db".to_owned(),
        _ => names[random.below(names.len())].clone(),
    };
    let bytes = files.get_mut(&name).unwrap();
    let len = bytes.len();
    let place = place_in(bytes, random);
    let what = match random.below(8) {
        0..=3 if len > 0 => {
            let bit = random.below(8);
            bytes[place] ^= 1 << bit;
            format!("bit {bit} of byte {place}")
        }
        4 if len > 0 => {
            bytes[place] = bytes[place].wrapping_add(1 + u8::try_from(random.below(255)).unwrap());
            format!("byte {place}")
        }
        5 => {
            bytes.truncate(place);
            format!("cut to {place} of {len} bytes")
        }
        6 if len > 0 => {
            let page = place / 4096 * 4096;
            let end = len.min(page + 4096);
            bytes[page..end].fill(0);
            format!("zeros from {page} to {end}")
        }
        _ => {
            files.remove(&name);
            return format!("{name}: removed");
        }
    };
    format!("{name}: {what}")
}

/// Everything that a caller or an operator can see of what was given and charged.
fn contents(path: &Path) -> Result<Vec<String>, String> {
    let mut all = Vec::new();
    for query in [
        "SELECT concat_ws('|', id, hex(hash), prefix, name, plan, model_groups, endpoints,
             created_at, expires_at, revoked_at) FROM keys ORDER BY id",
        "SELECT concat_ws('|', id, key, plan, tokens, spent, purged, validity_ms, created_at,
             first_used_at, expires_at) FROM grants ORDER BY id",
        "SELECT concat_ws('|', request, key, model_asked, model_served, format, streamed, status,
             error, state, input, output, charged, overdraft, cost, source, paid_by)
             FROM usage ORDER BY request",
        "SELECT concat_ws('|', key, model, requests, input, output, charged, overdraft, cost)
             FROM totals ORDER BY key, model",
    ] {
        all.extend(testing::values::<String>(path, query)?);
    }
    Ok(all)
}

/// What became of the damage.
#[derive(Debug)]
enum Outcome {
    Harmless,
    Refused(String),
    Named(Vec<String>),
}

/// Starts, stops and verifies, as an operator does.
fn restart(folder: &Path, clock: &Clock) -> Result<Verified, StoreError> {
    let hasher = KeyHasher::new(b"a pepper for tests").unwrap();
    let store = Store::open(folder.join("ledger.db"), hasher, clock.clone())?;
    let settings = LedgerSettings {
        open_requests: 16,
        ..LedgerSettings::default()
    };
    let closed = Ledger::open(&store, settings)?.close(PATIENCE);
    Ok(Verified {
        closed,
        faults: store.verify()?.faults,
    })
}

struct Verified {
    closed: bool,
    faults: Vec<String>,
}

fn outcome(files: &Files, expected: Option<&[String]>, clock: &Clock) -> (Outcome, Vec<String>) {
    let folder = TempDir::new().unwrap();
    for (name, bytes) in files {
        fs::write(folder.path().join(name), bytes).unwrap();
    }
    let verified = match restart(folder.path(), clock) {
        Err(fault) => return (Outcome::Refused(fault.to_string()), Vec::new()),
        Ok(verified) => verified,
    };
    if !verified.closed {
        return (Outcome::Named(vec!["not closed".to_owned()]), Vec::new());
    }
    if !verified.faults.is_empty() {
        return (Outcome::Named(verified.faults), Vec::new());
    }
    let found = contents(&folder.path().join("ledger.db"));
    let found = found.unwrap_or_else(|fault| vec![fault]);
    if let Some(expected) = expected {
        let missing: Vec<_> = expected.iter().filter(|it| !found.contains(it)).collect();
        let new: Vec<_> = found.iter().filter(|it| !expected.contains(it)).collect();
        assert!(
            missing.is_empty() && new.is_empty(),
            "silent: {missing:?} became {new:?}"
        );
    }
    (Outcome::Harmless, found)
}

async fn corrupt(what: &str, (house, files): (House, Files), rounds: u64) {
    let seed = number("TOLLGATE_CORRUPTION_SEED").unwrap_or_else(|| {
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).unwrap();
        u64::from_le_bytes(bytes)
    });
    println!("{what}: TOLLGATE_CORRUPTION_SEED={seed}");
    let (untouched, expected) = outcome(&files, None, &house.clock);
    assert!(matches!(untouched, Outcome::Harmless), "{untouched:?}");
    assert!(expected.len() > 120, "{expected:?}");
    let mut random = Random(seed);
    let mut counts = BTreeMap::<(String, &str), u32>::new();
    for round in 0..rounds {
        let mut damaged = files.clone();
        let how = damage(&mut damaged, &mut random);
        let run = std::panic::AssertUnwindSafe(|| outcome(&damaged, Some(&expected), &house.clock));
        let (outcome, _) = std::panic::catch_unwind(run)
            .unwrap_or_else(|_| panic!("round {round} of seed {seed}: {how}"));
        let by_sums = |fault: &String| fault.contains("not as it was committed");
        let kind = match &outcome {
            Outcome::Harmless => "harmless or repaired",
            Outcome::Refused(reported) if reported.contains(" lacks ") => {
                "refused: commits missing"
            }
            Outcome::Refused(_) => "refused: damaged",
            Outcome::Named(faults) if faults.iter().all(by_sums) => "verify: by the sums alone",
            Outcome::Named(_) => "verify: structure, rules",
        };
        let file = how.split(':').next().unwrap_or_default();
        let file = match file.split_once(".settlements-") {
            Some((_, rest)) if rest.ends_with(".synced") => "settlements.synced",
            Some(_) => "settlements",
            None => file,
        };
        *counts.entry((file.to_owned(), kind)).or_default() += 1;
    }
    for ((file, kind), count) in counts {
        println!("{what}: {file:20} {kind:26} {count}");
    }
}

fn rounds() -> u64 {
    number("TOLLGATE_CORRUPTIONS").unwrap_or(1000) / 2
}

#[tokio::test]
async fn no_damage_after_a_clean_stop_goes_unnoticed() {
    corrupt("stopped", stopped().await, rounds()).await;
}

#[tokio::test]
async fn no_damage_after_a_kill_goes_unnoticed() {
    corrupt("killed", killed().await, rounds()).await;
}
