//! Two real processes on one file: what the command line does, a running gateway sees.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};
use tollgate_ledger::{
    Clock, DirectorySettings, KeyDirectory, KeyHasher, KeySelector, LookupFailure, NewKey, Refusal,
    Store,
};

/// Where the second process finds the file and the key that it shall revoke.
const FILE: &str = "TOLLGATE_TEST_LEDGER";
const KEY: &str = "TOLLGATE_TEST_KEY";
const PATIENCE: Duration = Duration::from_secs(20);

fn open(path: &Path) -> Store {
    let hasher = KeyHasher::new(b"a pepper for tests").unwrap();
    Store::open(path, hasher, Clock::system()).unwrap()
}

/// Not a test by itself: the program of the second process.
#[test]
#[ignore = "run by the other test as a process of its own"]
fn second_process() {
    let path = PathBuf::from(std::env::var_os(FILE).unwrap());
    let key = KeySelector::parse(&std::env::var(KEY).unwrap()).unwrap();
    open(&path).revoke_key(&key).unwrap();
}

fn revoke_in_another_process(path: &Path, key: &str) {
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "second_process", "--ignored", "--quiet"])
        .env(FILE, path)
        .env(KEY, key)
        .stdout(std::process::Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
}

#[tokio::test]
async fn a_revocation_by_another_process_is_seen_within_a_second() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("ledger.db");
    let store = open(&path);
    let keys = [(); 5].map(|()| store.create_key(&NewKey::named("ci")).unwrap());
    let directory = KeyDirectory::open(&store, DirectorySettings::default()).unwrap();
    let mut took = [Duration::ZERO; 5];
    for (made, took) in keys.iter().zip(&mut took) {
        directory.lookup(made.key.expose()).await.unwrap();
        revoke_in_another_process(&path, made.record.id().as_str());
        let revoked = Instant::now();
        loop {
            let answer = directory.lookup(made.key.expose()).await;
            if let Err(LookupFailure::Refused(Refusal::Revoked(_))) = answer {
                break;
            }
            assert!(revoked.elapsed() < PATIENCE, "still {answer:?}");
            tokio::task::yield_now().await;
        }
        *took = revoked.elapsed();
    }
    // The median: other load can delay one change.
    took.sort();
    assert!(took[2] < Duration::from_secs(1), "{took:?}");
}
