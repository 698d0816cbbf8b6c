use super::*;
use crate::{
    clock::Clock,
    key::{ApiKey, KeyHasher},
    record::{KeyState, NewKey},
    store::{
        GrantTerms, KeyFilter, KeySelector, Store,
        conformance::{Fixture, keys_of},
    },
};
use std::{fs, sync::Arc, time::Duration};
use tempfile::TempDir;

mod cost;
mod grants;
mod states;

fn hasher() -> KeyHasher {
    KeyHasher::new(b"a pepper for tests").unwrap()
}

fn clock() -> Clock {
    Clock::manual(Timestamp::from_unix_ms(1_790_000_000_000))
}

struct Home {
    folder: TempDir,
    clock: Clock,
}

impl Home {
    fn new() -> Self {
        Self {
            folder: TempDir::new().unwrap(),
            clock: clock(),
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("ledger.db")
    }

    fn open(&self) -> Result<Store, StoreError> {
        Store::open(self.path(), hasher(), self.clock.clone())
    }

    fn store(&self) -> Store {
        self.open().unwrap()
    }

    fn database(&self) -> Sqlite {
        Sqlite::open(self.path(), &hasher().fingerprint(), Loss::Refuse).unwrap()
    }

    fn over(&self, database: Sqlite) -> Store {
        Store::over(Arc::new(database), hasher(), self.clock.clone())
    }

    fn sql(&self, sql: &str) {
        Connection::open(self.path())
            .unwrap()
            .execute_batch(sql)
            .unwrap();
    }

    fn refusal(&self) -> String {
        self.open().unwrap_err().to_string()
    }
}

fn select(text: &str) -> KeySelector {
    KeySelector::parse(text).unwrap()
}

#[test]
fn the_file_does_not_hold_the_key() {
    let home = Home::new();
    let made = home.store().create_key(&NewKey::named("ci")).unwrap();
    let secret = &made.key.expose().as_bytes()[ApiKey::PREFIX_LEN..];
    for file in fs::read_dir(home.folder.path()).unwrap() {
        let bytes = fs::read(file.unwrap().path()).unwrap();
        let holds = |part: &[u8]| bytes.windows(part.len()).any(|window| window == part);
        assert!(!holds(secret));
    }
}

#[test]
fn a_beginning_that_several_keys_share_names_them_and_revokes_none() {
    let home = Home::new();
    let store = home.store();
    let ids: Vec<String> = (0..3)
        .map(|_| store.create_key(&NewKey::named("twin")).unwrap())
        .map(|made| made.record.id().to_string())
        .collect();
    home.sql("UPDATE keys SET prefix = 'sk-AAAAAAAA'");
    let fault = store.revoke_key(&select("sk-AAAAAAAA")).unwrap_err();
    let shown = fault.to_string();
    assert!(ids.iter().all(|id| shown.contains(id)), "{shown}");
    let all = keys_of(&store);
    assert!(all.iter().all(|record| record.revoked_at.is_none()));
}

#[test]
fn a_beginning_is_taken_letter_by_letter() {
    let home = Home::new();
    let store = home.store();
    store.create_key(&NewKey::named("lower")).unwrap();
    home.sql("UPDATE keys SET prefix = 'sk-abcdefgh'");
    assert!(store.find_key(&select("sk-abc")).is_ok());
    for other in ["sk-ABC", "sk-abd", "sk-abcdefgi", "sk-b"] {
        let fault = store.find_key(&select(other)).unwrap_err();
        assert!(matches!(fault, StoreError::NoSuchKey), "{other}: {fault}");
    }
}

#[test]
fn a_newer_file_is_refused_and_left_alone() {
    let home = Home::new();
    drop(home.store());
    home.sql("PRAGMA user_version = 999");
    let before = fs::read(home.path()).unwrap();
    let shown = home.refusal();
    assert!(shown.contains("has format 999"), "{shown}");
    assert!(shown.contains("use the newer program"), "{shown}");
    assert_eq!(fs::read(home.path()).unwrap(), before);
}

#[test]
fn a_file_of_something_else_is_refused_and_left_alone() {
    for content in ["", "CREATE TABLE theirs (x)"] {
        let home = Home::new();
        if content.is_empty() {
            fs::write(home.path(), "not a database at all ".repeat(99)).unwrap();
        } else {
            home.sql(content);
        }
        let before = fs::read(home.path()).unwrap();
        let shown = home.refusal();
        assert!(shown.contains("is not a ledger file"), "{shown}");
        assert_eq!(fs::read(home.path()).unwrap(), before);
    }
}

#[test]
fn a_damaged_file_says_so() {
    let home = Home::new();
    let made = home.store().create_key(&NewKey::named("ci")).unwrap();
    home.sql("PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode = DELETE");
    let mut bytes = fs::read(home.path()).unwrap();
    // The header stays whole, every page behind it does not.
    bytes.iter_mut().skip(4096).for_each(|byte| *byte = 0xA5);
    fs::write(home.path(), bytes).unwrap();
    let shown = match home.open() {
        Err(fault) => fault.to_string(),
        Ok(store) => store
            .find_key(&select(made.record.id().as_str()))
            .unwrap_err()
            .to_string(),
    };
    assert!(shown.contains("is damaged"), "{shown}");
    assert!(shown.contains("restore it from a backup"), "{shown}");
}

#[test]
fn a_record_that_makes_no_sense_names_its_key() {
    let home = Home::new();
    let store = home.store();
    let made = store.create_key(&NewKey::named("ci")).unwrap();
    let all = KeyFilter::default();
    for (change, what) in [
        ("model_groups = '[]'", "its groups"),
        ("model_groups = 'opus'", "its groups"),
        ("model_groups = NULL, expires_at = -1", "its expiry"),
    ] {
        home.sql(&format!("UPDATE keys SET {change}"));
        let shown = store.filter_keys(&all, None, 9).unwrap_err().to_string();
        assert!(shown.contains(made.record.id().as_str()), "{shown}");
        assert!(shown.contains(what), "{shown}");
    }
}

#[test]
fn a_file_locked_by_another_process_says_so_after_a_bounded_wait() {
    let home = Home::new();
    let database = home.database();
    database
        .writer
        .lock()
        .busy_timeout(Duration::from_millis(10))
        .unwrap();
    let store = home.over(database);
    let other = Connection::open(home.path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let shown = store
        .create_key(&NewKey::named("ci"))
        .unwrap_err()
        .to_string();
    assert!(shown.contains("locked by another process"), "{shown}");
    other.execute_batch("ROLLBACK").unwrap();
    assert!(store.create_key(&NewKey::named("ci")).is_ok());
}

#[test]
fn a_file_that_cannot_be_written_says_so() {
    let home = Home::new();
    let database = home.database();
    // Permissions do not stop root, so the connection is made read-only instead.
    database
        .writer
        .lock()
        .pragma_update(None, "query_only", true)
        .unwrap();
    let store = home.over(database);
    let shown = store
        .create_key(&NewKey::named("ci"))
        .unwrap_err()
        .to_string();
    assert!(shown.contains("cannot be written"), "{shown}");
}

#[test]
fn a_folder_that_does_not_exist_says_so() {
    let path = Home::new().folder.path().join("missing/ledger.db");
    let shown = Store::open(path, hasher(), clock())
        .unwrap_err()
        .to_string();
    assert!(
        shown.contains("missing/ledger.db cannot be opened"),
        "{shown}"
    );
}

#[test]
fn another_pepper_is_noticed_at_once() {
    let home = Home::new();
    drop(home.store());
    let other = KeyHasher::new(b"another pepper").unwrap();
    let fault = Store::open(home.path(), other, clock()).unwrap_err();
    assert!(matches!(fault, StoreError::WrongPepper), "{fault}");
}

#[test]
fn a_pepper_is_checked_without_making_a_file() {
    let home = Home::new();
    let other = KeyHasher::new(b"another pepper").unwrap();
    assert!(super::check_pepper(&home.path(), &other).is_err());
    assert!(!home.path().exists());
    let store = home.store();
    super::check_pepper(&home.path(), store.hasher()).unwrap();
    let fault = super::check_pepper(&home.path(), &other).unwrap_err();
    assert!(matches!(fault, StoreError::WrongPepper), "{fault}");
}

#[test]
fn many_programs_may_make_one_file_at_the_same_time() {
    let home = Home::new();
    std::thread::scope(|scope| {
        let made: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| home.store().create_key(&NewKey::named("racer"))))
            .collect();
        for thread in made {
            thread.join().unwrap().unwrap();
        }
    });
    assert_eq!(keys_of(&home.store()).len(), 8);
}

/// In write-ahead mode a lock on the file says that a process uses its log. Closing any
/// handle of the file would take it away, and a program with an SQLite that looks at
/// nothing else would remove the log under the gateway's feet.
#[cfg(target_os = "linux")]
#[test]
fn a_second_store_in_a_process_takes_no_lock_away() {
    use std::os::unix::fs::MetadataExt;
    let home = Home::new();
    let first = home.store();
    let inode = fs::metadata(home.path()).unwrap().ino();
    let (process, file) = (std::process::id().to_string(), format!(":{inode}"));
    let locks = || {
        let all = fs::read_to_string("/proc/locks").unwrap();
        let lines = all.lines().map(|line| line.split_whitespace().collect());
        lines
            .filter(|lock: &Vec<&str>| lock[1] == "POSIX" && lock[4] == process)
            .filter(|lock| lock[5].ends_with(&file))
            .count()
    };
    assert_eq!(locks(), 1);
    let second = home.store();
    second.create_key(&NewKey::named("ci")).unwrap();
    assert_eq!(locks(), 1);
    drop((first, second));
    assert_eq!(locks(), 0);
}

#[cfg(unix)]
#[test]
fn the_file_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let home = Home::new();
    let _store = home.store();
    for file in fs::read_dir(home.folder.path()).unwrap() {
        let file = file.unwrap();
        let mode = file.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{:?} {mode:o}", file.path());
    }
}

fn terms(tokens: u64, seconds: u64) -> GrantTerms {
    GrantTerms {
        plan: Some("pro".into()),
        tokens,
        validity: Duration::from_secs(seconds),
        ..GrantTerms::default()
    }
}

/// An empty file.
struct Empty(TempDir);

impl Fixture for Empty {
    fn open(&self, pepper: &KeyHash) -> Arc<dyn Database> {
        let path = self.0.path().join("ledger.db");
        Arc::new(Sqlite::open(path, pepper, Loss::Refuse).unwrap())
    }
}

#[test]
fn a_backup_is_a_whole_database_without_leases() {
    let empty = Empty(TempDir::new().unwrap());
    crate::store::conformance::reads::a_backup_is_a_whole_database_without_leases(&empty);
}

mod conformance {
    use super::Empty;
    use tempfile::TempDir;

    crate::store::conformance::conformance_tests!(Empty(TempDir::new().unwrap()));
}
