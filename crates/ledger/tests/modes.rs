//! Every file of the ledger is readable and writable by its owner alone, whatever the umask is. The
//! owner is that of the database.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, chown},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};
use tollgate_ledger::{Clock, KeyHasher, Ledger, LedgerSettings, NewKey, Store};

const FILE: &str = "TOLLGATE_TEST_LEDGER";

/// Not a test by itself: the process that makes the files. It does not remove its settlement files.
#[test]
#[ignore = "run by the other test as a process of its own"]
fn make_files() {
    let path = PathBuf::from(std::env::var_os(FILE).unwrap());
    let hasher = KeyHasher::new(b"a pepper for tests").unwrap();
    let store = Store::open(&path, hasher, Clock::system()).unwrap();
    store.create_key(&NewKey::named("test")).unwrap();
    let ledger = Ledger::open(&store, LedgerSettings::default()).unwrap();
    store.backup(&path.with_file_name("backup.db")).unwrap();
    std::mem::forget((ledger, store));
}

fn make_files_under(umask: &str, path: &Path) {
    let script = format!("umask {umask}; exec \"$0\" --exact make_files --ignored --quiet");
    let status = Command::new("sh")
        .args(["-c", &script])
        .arg(std::env::current_exe().unwrap())
        .env(FILE, path)
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "{umask}: {status}");
}

#[test]
fn every_file_is_its_owners_alone_whatever_the_umask() {
    for umask in ["000", "022", "777"] {
        let folder = tempfile::TempDir::new().unwrap();
        make_files_under(umask, &folder.path().join("ledger.db"));
        let mut names = Vec::new();
        for entry in fs::read_dir(folder.path()).unwrap() {
            let entry = entry.unwrap();
            let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o600, "{entry:?} under {umask}: {mode:o}");
            names.push(entry.file_name().into_string().unwrap());
        }
        for end in [
            "ledger.db",
            "-wal",
            "-shm",
            "-opening",
            ".sequence",
            ".synced",
            "backup.db",
        ] {
            assert!(names.iter().any(|it| it.ends_with(end)), "{end}: {names:?}");
        }
        assert_eq!(names.len(), 8, "{names:?}");
    }
}

#[test]
fn files_that_root_creates_have_the_owner_of_the_database() {
    const OWNER: (u32, u32) = (12_345, 23_456);
    let folder = tempfile::TempDir::new().unwrap();
    let database = folder.path().join("ledger.db");
    let files = || {
        let entries = fs::read_dir(folder.path()).unwrap();
        entries.map(|entry| entry.unwrap().path())
    };
    make_files_under("022", &database);
    if fs::metadata(&database).unwrap().uid() != 0 {
        eprintln!("SKIPPED: only root can give a file to another user");
        return;
    }
    for path in files().filter(|path| *path != database) {
        fs::remove_file(path).unwrap();
    }
    chown(&database, Some(OWNER.0), Some(OWNER.1)).unwrap();
    make_files_under("022", &database);
    let mut count = 0;
    for path in files().filter(|path| !path.ends_with("backup.db")) {
        let file = fs::metadata(&path).unwrap();
        assert_eq!((file.uid(), file.gid()), OWNER, "{}", path.display());
        count += 1;
    }
    assert_eq!(count, 7);
}
