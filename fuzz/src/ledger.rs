//! Keys, and the files of the ledger.

use crate::input::Input;
use std::{
    fs,
    path::Path,
    sync::LazyLock,
    time::{Duration, Instant},
};
use tempfile::TempDir;
use tollgate_ledger::{
    ApiKey, BillingState, Clock, Ending, GrantTerms, KeyHasher, Ledger, LedgerSettings, NewKey,
    RequestInfo, Reserve, Store, StoreError, UpperBound, Verification,
};
use tollgate_types::{Format, KeyId, RequestId, Usage, Weights};

/// The text of a key: one that is accepted is the key that it says, and hashes to one value.
pub fn key(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let Ok(key) = ApiKey::parse(text) else {
        return;
    };
    assert_eq!(key.expose(), text);
    assert_eq!(text.len(), ApiKey::LEN);
    assert!(!format!("{key:?}").contains(text), "a key is shown");
}

const NAME: &str = "tollgate.db";
const PATIENCE: Duration = Duration::from_secs(5);
const GRANTED: u64 = 1_000_000;
/// What the only request costs. Its settlement is in the settlement file and not in the database.
const CHARGED: u64 = 70;

/// The files that a process leaves if it crashes after it has settled a request.
#[derive(Clone)]
struct Files {
    database: Vec<u8>,
    /// The settlement file, and its copy on the disk: two records of the same charge.
    settlements: [(String, Vec<u8>); 2],
}

static FILES: LazyLock<Files> = LazyLock::new(make);

fn folder() -> TempDir {
    // A disk would be waited for at every commit.
    let memory = Path::new("/dev/shm");
    match memory.is_dir() {
        true => TempDir::new_in(memory),
        false => TempDir::new(),
    }
    .expect("a folder")
}

fn open(path: &Path) -> Result<Store, StoreError> {
    let hasher =
        KeyHasher::new(b"a pepper for the fuzzer, of 32 bytes and more").expect("a pepper");
    Store::open(path, hasher, Clock::system())
}

fn settings() -> LedgerSettings {
    LedgerSettings {
        open_requests: 16,
        ..LedgerSettings::default()
    }
}

/// Makes the files, and checks that they recover to the charge if nothing damages them.
fn make() -> Files {
    let files = make_files();
    let found = recover(&files.write().path().join(NAME)).expect("opened");
    assert_is_charged(&found);
    files
}

fn assert_is_charged(found: &Verification) {
    let counts = (found.spent, found.requests, found.granted);
    assert_eq!(counts, (CHARGED, 1, GRANTED), "{found:?}");
    assert!(found.holds(), "{found:?}");
}

impl Files {
    fn write(&self) -> TempDir {
        let folder = folder();
        fs::write(folder.path().join(NAME), &self.database).expect("a database");
        for (name, bytes) in &self.settlements {
            fs::write(folder.path().join(name), bytes).expect("settlements");
        }
        folder
    }
}

fn make_files() -> Files {
    let folder = folder();
    let path = folder.path().join(NAME);
    let store = open(&path).expect("a store");
    let key = NewKey {
        grant: Some(GrantTerms {
            tokens: GRANTED,
            validity: Duration::from_secs(86_400),
            ..GrantTerms::default()
        }),
        ..NewKey::named("fuzz")
    };
    let key = store.create_key(&key).expect("a key").record.id().clone();
    let ledger = Ledger::open(&store, settings()).expect("a ledger");
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().expect("a runtime");
    let backup = folder.path().join("backup.db");
    runtime.block_on(settle(&ledger, &key, || {
        store.backup(&backup).expect("a backup");
    }));
    let settlements = settlements(folder.path());
    assert!(ledger.close(PATIENCE), "everything is written");
    let database = fs::read(&backup).expect("a database");
    Files {
        database,
        settlements,
    }
}

/// Reads the settlement file and its copy, as soon as the copy is up to date.
fn settlements(folder: &Path) -> [(String, Vec<u8>); 2] {
    let entries = fs::read_dir(folder).expect("a folder").flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<_> = names
        .filter(|name| name.contains(".settlements-"))
        .collect();
    names.sort();
    let names: [String; 2] = names.try_into().expect("a file and its copy");
    let late = Instant::now() + PATIENCE;
    loop {
        let both = names.clone().map(|name| {
            let bytes = fs::read(folder.join(&name)).expect("settlements");
            (name, bytes)
        });
        if both[0].1 == both[1].1 {
            return both;
        }
        assert!(Instant::now() < late, "the copy lags behind");
        std::thread::yield_now();
    }
}

/// Reserves and settles a request, and calls `before` in between.
async fn settle(ledger: &Ledger, key: &KeyId, before: impl Fn()) {
    let request = RequestInfo {
        id: RequestId::from_parts(1_790_000_000_000, 7),
        model: "a-model".into(),
        reason: None,
        format: Some(Format::Chat),
        streamed: true,
    };
    let bound = UpperBound {
        input: 100,
        hidden_input: 0,
        output: 100,
        useful_output: 1,
        plausible_input: 100,
        plausible_output: 100,
    };
    let usage = Usage {
        output: CHARGED,
        ..Usage::default()
    };
    loop {
        match ledger.reserve(key, request.clone(), bound, Weights::default()) {
            Reserve::Reserved(reservation) => {
                before();
                reservation.settle(&Ending {
                    status: 200,
                    reported: Some(usage),
                    ..Ending::unreported(BillingState::Completed, usage)
                });
                return;
            }
            Reserve::Wait(account) => account.wait().await.expect("an account"),
            Reserve::Refused(refused) => panic!("{refused}"),
        }
    }
}

/// What a crash leaves, damaged. By the first byte modulo 3: a settlement file is the data itself, bytes of a
/// settlement file are changed, or bytes of the database are changed. The first two damage either the
/// settlement file or its copy.
///
/// - The files are opened or refused.
/// - The charge is recovered exactly, or the damage is reported. A damaged settlement file never
///   loses the charge, because its copy has it.
/// - What was recovered is not entered twice.
pub fn files(input: &[u8]) {
    let Some(input) = Input::of(input) else {
        return;
    };
    let mut files = FILES.clone();
    let kind = input.formats % 3;
    let (_, settlements) = &mut files.settlements[usize::from(input.chooses(1))];
    match kind {
        0 => *settlements = input.data.to_vec(),
        1 => change(settlements, input.data),
        _ => change(&mut files.database, input.data),
    }
    let mends = kind < 2 && input.chooses(0);
    if mends {
        mend_checksums(settlements);
    }
    let folder = files.write();
    let path = folder.path().join(NAME);
    let first = recover(&path);
    let second = recover(&path);
    if mends {
        // An invented record may say anything.
        return;
    }
    let first = match first {
        Ok(first) => first,
        Err(_) if kind == 2 => return,
        Err(fault) => panic!("{fault}"),
    };
    if kind == 2 && !first.holds() {
        return;
    }
    let is_quarantined = |fault: &String| fault.contains("could not be entered");
    assert!(first.faults.iter().all(is_quarantined), "{first:?}");
    assert_is_charged(&Verification {
        faults: Vec::new(),
        ..first.clone()
    });
    assert_eq!(second.expect("opened again"), first, "entered twice");
}

/// Opens the files as the next process does.
fn recover(path: &Path) -> Result<Verification, StoreError> {
    let store = open(path)?;
    let ledger = Ledger::open(&store, settings())?;
    ledger.close(PATIENCE);
    store.verify()
}

/// Changes bytes: two bytes say which, scaled to the length, one says to what.
fn change(bytes: &mut [u8], edits: &[u8]) {
    for edit in edits.chunks_exact(3).take(64) {
        let place = usize::from(u16::from_be_bytes([edit[0], edit[1]]));
        let most = bytes.len().max(1);
        if let Some(byte) = bytes.get_mut(place * most / (1 << 16)) {
            *byte = edit[2];
        }
    }
}

/// Gives each slot the checksum of its record, so that what a record says is read.
fn mend_checksums(bytes: &mut [u8]) {
    const SLOT: usize = 512;
    const HEADER: usize = 12;
    for slot in bytes.chunks_mut(SLOT) {
        let Some((header, record)) = slot.split_first_chunk_mut::<HEADER>() else {
            continue;
        };
        let length = u32::from_le_bytes([header[4], header[5], header[6], header[7]]);
        let record = record.get(..usize::try_from(length).expect("a length"));
        if let Some(record) = record {
            header[8..].copy_from_slice(&crc32fast::hash(record).to_le_bytes());
        }
    }
}
