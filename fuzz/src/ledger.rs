//! Keys, and the files of the ledger.

use crate::input::Input;
use std::{fs, path::Path, sync::LazyLock, time::Duration};
use tempfile::TempDir;
use tollgate_ledger::{
    ApiKey, BillingState, Clock, Ending, GrantTerms, KeyHasher, Least, Ledger, LedgerSettings,
    NewKey, RequestInfo, Reserve, Store, StoreError, UpperBound, Verification,
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
/// What the one request costs whose settlement stands in the settlement file.
const CHARGED: u64 = 70;

/// The files of a process that has settled one request.
struct Files {
    database: Vec<u8>,
    settlements: Vec<u8>,
    name: String,
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

fn make() -> Files {
    let folder = folder();
    let path = folder.path().join(NAME);
    let store = open(&path).expect("a store");
    let key = NewKey {
        grant: Some(GrantTerms {
            plan: None,
            tokens: GRANTED,
            validity: Duration::from_secs(86_400),
        }),
        ..NewKey::named("fuzz")
    };
    let key = store.create_key(&key).expect("a key").record.id().clone();
    let ledger = Ledger::open(&store, settings()).expect("a ledger");
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().expect("a runtime");
    runtime.block_on(settle(&ledger, &key));
    let entries = fs::read_dir(folder.path()).expect("a folder").flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names = names.filter(|name| name.starts_with(&format!("{NAME}.settlements-")));
    let name = names
        .find(|name| !name.ends_with(".synced"))
        .expect("a settlement file");
    let settlements = fs::read(folder.path().join(&name)).expect("settlements");
    assert!(ledger.close(PATIENCE), "everything is written");
    drop(store);
    let database = fs::read(&path).expect("a database");
    Files {
        database,
        settlements,
        name,
    }
}

async fn settle(ledger: &Ledger, key: &KeyId) {
    let request = RequestInfo {
        id: RequestId::from_parts(1_790_000_000_000, 7),
        model: "a-model".into(),
        reason: None,
        format: Format::Chat,
        streamed: true,
    };
    let bound = UpperBound {
        input: 100,
        hidden_input: 0,
        output: 100,
        useful_output: 1,
        believed_input: 100,
        believed_output: 100,
    };
    let usage = Usage {
        output: CHARGED,
        ..Usage::default()
    };
    loop {
        match ledger.reserve(key, request.clone(), bound, Weights::default()) {
            Reserve::Held(reservation) => {
                reservation.settle(&Ending {
                    state: BillingState::Completed,
                    status: 200,
                    error: None,
                    reported: Some(usage),
                    absurd: false,
                    delivered: usage,
                    produced: 0,
                    stored_input: 0,
                    least: Least::default(),
                    model_served: None,
                });
                return;
            }
            Reserve::Wait(account) => account.wait().await.expect("an account"),
            Reserve::Refused(refused) => panic!("{refused}"),
        }
    }
}

/// What a crash leaves: a damaged settlement file (by options modulo 3: the data itself, the
/// settlements of a request with bytes changed) or a damaged database.
///
/// - The files are opened or refused.
/// - After a damaged settlement file everything adds up, but for what is in quarantine, and no
///   more is charged than what was settled.
/// - What was recovered is not entered twice.
pub fn files(input: &[u8]) {
    let Some(input) = Input::of(input) else {
        return;
    };
    let mut files = (FILES.database.clone(), FILES.settlements.clone());
    let kind = input.options % 3;
    match kind {
        0 => files.1 = input.data.to_vec(),
        1 => change(&mut files.1, input.data),
        _ => change(&mut files.0, input.data),
    }
    let mends = kind < 2 && input.chooses(0);
    if mends {
        mend_checksums(&mut files.1);
    }
    let folder = folder();
    let path = folder.path().join(NAME);
    fs::write(&path, &files.0).expect("a database");
    fs::write(folder.path().join(&FILES.name), &files.1).expect("settlements");
    let first = recover(&path);
    let second = recover(&path);
    // A database that is damaged, or an invented record, may say anything.
    if kind == 2 || mends {
        return;
    }
    let (first, second) = (first.expect("opened"), second.expect("opened again"));
    let is_quarantined = |fault: &String| fault.contains("could not be entered");
    assert!(first.faults.iter().all(is_quarantined), "{first:?}");
    assert!(first.spent <= CHARGED, "{first:?}");
    assert_eq!(second, first, "entered twice");
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
