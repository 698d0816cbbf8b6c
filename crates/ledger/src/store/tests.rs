use super::*;
use crate::{
    clock::Timestamp,
    key::ApiKey,
    record::{KeyState, NewKey, allowance},
};
use std::{fs, time::Duration};
use tempfile::TempDir;
use tollgate_types::Allowance;

mod grants;
mod orders;
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
fn a_key_is_found_by_id_by_prefix_and_by_itself_after_reopening() {
    let home = Home::new();
    let mut new = NewKey::named("Zoë's laptop");
    new.plan = Some("pro".into());
    new.groups = allowance(["opus", "codex"]);
    new.endpoints = allowance(["/v1/models/{id}"]);
    new.expires_at = Some(home.clock.now().plus(Duration::from_secs(60)));
    let made = home.store().create_key(&new).unwrap();

    let store = home.store();
    for name in [
        made.record.id().as_str(),
        made.key.prefix(),
        &made.key.prefix()[..6],
        made.key.expose(),
    ] {
        assert_eq!(
            store.find_key(&select(name)).unwrap(),
            made.record,
            "{name}"
        );
    }
    assert_eq!(made.record.identity.groups, allowance(["codex", "opus"]));
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
fn of_orders_of_one_name_that_come_together_one_makes_a_key_and_the_others_are_told_of_it() {
    const CALLERS: usize = 8;
    let home = Home::new();
    let store = home.store();
    for round in 0..20 {
        let order = OrderName::new(&format!("order-{round}")).unwrap();
        let together = std::sync::Barrier::new(CALLERS);
        let create = || {
            together.wait();
            store.create_key_once(&NewKey::named("twin"), &order)
        };
        let answers: Vec<_> = std::thread::scope(|scope| {
            let callers: Vec<_> = (0..CALLERS).map(|_| scope.spawn(create)).collect();
            callers.into_iter().map(|it| it.join().unwrap()).collect()
        });
        let (made, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
        assert_eq!(made.len(), 1, "{refused:?}");
        let made = made.into_iter().next().unwrap().unwrap().record;
        for answer in refused {
            let told =
                matches!(&answer, Err(StoreError::KeyMade { id, .. }) if id == made.id().as_str());
            assert!(told, "round {round}: {answer:?}");
        }
    }
    assert_eq!(store.list_keys(None, 1000).unwrap().len(), 20);
}

#[test]
fn an_order_that_is_sent_again_after_its_key_has_expired_is_told_of_the_key() {
    let home = Home::new();
    let store = home.store();
    let order = OrderName::new("order-1").unwrap();
    let mut new = NewKey::named("ci");
    new.expires_at = Some(home.clock.now().plus(Duration::from_secs(60)));
    let made = store.create_key_once(&new, &order).unwrap().record;
    let again = |new: &NewKey| store.create_key_once(new, &order).unwrap_err().to_string();
    let told = again(&new);
    assert!(
        told.contains(made.id().as_str()) && told.contains("it is active"),
        "{told}"
    );
    home.clock.advance(Duration::from_secs(60));
    let told = again(&new);
    assert!(
        told.contains(made.id().as_str()) && told.contains("it is expired"),
        "{told}"
    );
    assert!(!told.contains("revoke"), "{told}");

    // Another order of that name is told so, and one that never was that it comes too late.
    let other = NewKey {
        name: "cd".to_owned(),
        ..new.clone()
    };
    let told = again(&other);
    assert!(
        told.contains("another order") && told.contains(made.id().as_str()),
        "{told}"
    );
    let late = store.create_key_once(&new, &OrderName::new("order-2").unwrap());
    let late = late.unwrap_err().to_string();
    assert!(late.contains("has already passed"), "{late}");
    assert_eq!(store.list_keys(None, 9).unwrap().len(), 1);
}

#[test]
fn keys_are_listed_in_order_page_by_page() {
    let store = Home::new();
    let store = store.store();
    let made: Vec<_> = (0..5)
        .map(|n| {
            store
                .create_key(&NewKey::named(format!("key {n}")))
                .unwrap()
        })
        .map(|made| made.record)
        .collect();
    assert_eq!(store.list_keys(None, 2).unwrap(), made[..2]);
    let after = made[1].id();
    assert_eq!(store.list_keys(Some(after), 100).unwrap(), made[2..]);
    assert_eq!(store.list_keys(Some(made[4].id()), 100).unwrap(), []);
}

#[test]
fn keys_are_filtered_by_what_they_are_and_no_wildcard_counts() {
    let home = Home::new();
    let store = home.store();
    let make = |name: &str, plan: Option<&str>, seconds: Option<u64>| {
        let mut new = NewKey::named(name);
        new.plan = plan.map(str::to_owned);
        let end = |seconds| home.clock.now().plus(Duration::from_secs(seconds));
        new.expires_at = seconds.map(end);
        store.create_key(&new).unwrap().record.id().clone()
    };
    make("Zoë's laptop", Some("pro"), None);
    make("visitor_1%", None, Some(60));
    let gone = make("visitor 2", Some("pro"), None);
    store.revoke_key(&KeySelector::Id(gone)).unwrap();
    home.clock.advance(Duration::from_secs(60));
    let found = |filter: KeyFilter| -> Vec<String> {
        let keys = store.filter_keys(&filter, None, 9).unwrap();
        keys.iter().map(|key| key.identity.name.clone()).collect()
    };
    let state = |state| KeyFilter {
        state: Some(state),
        ..KeyFilter::default()
    };
    let name = |name: &str| KeyFilter {
        name: Some(name.to_owned()),
        ..KeyFilter::default()
    };
    let plan = |plan: &str| KeyFilter {
        plan: Some(plan.to_owned()),
        ..state(KeyState::Active)
    };
    for (filter, wanted) in [
        (state(KeyState::Active), &["Zoë's laptop"][..]),
        (state(KeyState::Expired), &["visitor_1%"]),
        (state(KeyState::Revoked), &["visitor 2"]),
        (name("visitor"), &["visitor_1%", "visitor 2"]),
        (name("r_1%"), &["visitor_1%"]),
        (name("%"), &["visitor_1%"]),
        (name("r_2"), &[]),
        (name("zoë"), &[]),
        (name("' OR 1=1 --"), &[]),
        (plan("pro"), &["Zoë's laptop"]),
        (plan("p_o"), &[]),
    ] {
        assert_eq!(found(filter.clone()), wanted, "{filter:?}");
    }
}

#[test]
fn revoking_twice_keeps_the_first_time() {
    let home = Home::new();
    let store = home.store();
    let made = store.create_key(&NewKey::named("ci")).unwrap();
    let first = store.revoke_key(&select(made.key.prefix())).unwrap();
    assert!(!first.already_revoked);
    assert_eq!(first.record.revoked_at, Some(home.clock.now()));

    home.clock.advance(Duration::from_secs(5));
    let again = store
        .revoke_key(&select(made.record.id().as_str()))
        .unwrap();
    assert!(again.already_revoked);
    assert_eq!(again.record, first.record);
    assert_eq!(again.record.state(home.clock.now()), KeyState::Revoked);
}

#[test]
fn a_key_expires_at_its_time_and_not_before() {
    let home = Home::new();
    let mut new = NewKey::named("day pass");
    new.expires_at = Some(home.clock.now().plus(Duration::from_millis(2)));
    let record = home.store().create_key(&new).unwrap().record;
    home.clock.advance(Duration::from_millis(1));
    assert_eq!(record.state(home.clock.now()), KeyState::Active);
    home.clock.advance(Duration::from_millis(1));
    assert_eq!(record.state(home.clock.now()), KeyState::Expired);
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
    let all = store.list_keys(None, 9).unwrap();
    assert!(all.iter().all(|record| record.revoked_at.is_none()));
}

#[test]
fn wildcards_and_quotes_name_no_key() {
    let store = Home::new();
    let store = store.store();
    store
        .create_key(&NewKey::named("%_'\"; DROP TABLE keys;--"))
        .unwrap();
    for text in [
        "",
        "%",
        "sk-",
        "sk-%",
        "sk-_______",
        "sk-*",
        "sk-[a-z]",
        "sk-'--",
        "sk-\" OR 1=1",
        "key_%",
        "key_",
        "key_0123456789abcdefghi'",
        "KEY_0123456789abcdefghij",
        "sk-é",
        "sk-0123456789",
    ] {
        let fault = KeySelector::parse(text).unwrap_err();
        assert!(matches!(fault, StoreError::Selector), "{text}: {fault}");
    }
    assert_eq!(store.list_keys(None, 9).unwrap().len(), 1);
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
    for (change, what) in [
        ("model_groups = '[]'", "its groups"),
        ("model_groups = 'opus'", "its groups"),
        ("model_groups = NULL, expires_at = -1", "its expiry"),
    ] {
        home.sql(&format!("UPDATE keys SET {change}"));
        let shown = store.list_keys(None, 9).unwrap_err().to_string();
        assert!(shown.contains(made.record.id().as_str()), "{shown}");
        assert!(shown.contains(what), "{shown}");
    }
}

#[test]
fn a_file_locked_by_another_process_says_so_after_a_bounded_wait() {
    let home = Home::new();
    let store = home.store();
    store
        .connection
        .lock()
        .busy_timeout(Duration::from_millis(10))
        .unwrap();
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
    let store = home.store();
    // Permissions do not stop root, so the connection is made read-only instead.
    store
        .connection
        .lock()
        .pragma_update(None, "query_only", true)
        .unwrap();
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
fn many_programs_may_make_one_file_at_the_same_moment() {
    let home = Home::new();
    std::thread::scope(|scope| {
        let made: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| home.store().create_key(&NewKey::named("racer"))))
            .collect();
        for thread in made {
            thread.join().unwrap().unwrap();
        }
    });
    assert_eq!(home.store().list_keys(None, 99).unwrap().len(), 8);
}

/// In write-ahead mode a lock on the file says that somebody uses its log. Closing any
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

#[test]
fn what_everything_means_survives_storage() {
    let home = Home::new();
    let store = home.store();
    let record = store.create_key(&NewKey::named("all")).unwrap().record;
    let found = store.find_key(&select(record.id().as_str())).unwrap();
    assert_eq!(found.identity.groups, Allowance::All);
    assert_eq!(found.identity.endpoints, Allowance::All);
}

fn terms(tokens: u64, seconds: u64) -> GrantTerms {
    GrantTerms {
        plan: Some("pro".into()),
        tokens,
        validity: Duration::from_secs(seconds),
    }
}
