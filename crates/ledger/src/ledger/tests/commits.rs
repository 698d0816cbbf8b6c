//! Commits that the file has lost, and rows that are not what was committed.

use super::*;
use std::{fs, path::PathBuf};

impl House {
    fn file(&self, suffix: &str) -> PathBuf {
        self.folder.path().join(format!("ledger.db{suffix}"))
    }

    /// Settles a request of 10 tokens and closes.
    async fn spend_ten(&self, key: &KeyId) {
        let ledger = self.ledger();
        let held = self.eventually(&ledger, key, 10).await;
        held.settle(&completed(10));
        assert!(ledger.close(PATIENCE));
    }

    fn refusal(&self) -> String {
        let hasher = KeyHasher::new(b"a pepper for tests").unwrap();
        let opened = Store::open(self.file(""), hasher, self.clock.clone());
        opened.unwrap_err().to_string()
    }

    fn accept_loss(&self) -> Store {
        let hasher = KeyHasher::new(b"a pepper for tests").unwrap();
        Store::accept_loss(self.file(""), hasher, self.clock.clone()).unwrap()
    }
}

#[tokio::test]
async fn after_a_clean_stop_the_file_alone_has_everything() {
    let house = House::new();
    let key = house.key(100);
    // Another connection of the process, as the program has them, keeps the log.
    let reader = house.store();
    house.spend_ten(&key).await;
    let log = fs::metadata(house.file("-wal")).unwrap().len();
    assert_eq!(log, 0, "bytes in the log");
    let copy = House::new();
    fs::copy(house.file(""), copy.file("")).unwrap();
    copy.check(1);
    assert_eq!(copy.used(&key), 10);
    drop(reader);
}

#[tokio::test]
async fn a_process_whose_writer_panics_is_fenced_and_loses_nothing() {
    let house = House::new();
    let key = house.key(100);
    let ledger = house.ledger();
    let held = house.eventually(&ledger, &key, 10).await;
    ledger.0.send(Command::Panic);
    tokio::time::timeout(PATIENCE, ledger.fenced())
        .await
        .unwrap();
    held.settle(&completed(10));
    let refused = house.reserve(&ledger, &key, 1).await.unwrap_err();
    assert_eq!(refused, Shortage::Unavailable(Unavailable::Fenced));
    assert!(!ledger.close(PATIENCE));
    let next = house.ledger();
    assert!(next.close(PATIENCE));
    assert_eq!(house.used(&key), 10);
}

#[tokio::test]
async fn a_reader_does_not_keep_a_ledger_from_closing() {
    let house = House::new();
    let key = house.key(100);
    let reader = testing::Other::read(&house.path());
    house.spend_ten(&key).await;
    reader.end();
    house.check(1);
}

#[tokio::test]
async fn a_log_that_has_lost_commits_is_refused_and_left_as_it_is() {
    let house = House::new();
    let key = house.key(100);
    let ledger = house.ledger();
    let held = house.reserve(&ledger, &key, 10).await.unwrap();
    held.settle(&completed(10));
    assert!(ledger.caught_up(PATIENCE).await);
    // What a killed process leaves: the log, and nothing of it in the file.
    let killed = House::new();
    for entry in fs::read_dir(house.folder.path()).unwrap() {
        let name = entry.unwrap().file_name();
        let (from, to) = (house.folder.path(), killed.folder.path());
        fs::copy(from.join(&name), to.join(&name)).unwrap();
    }
    let log = killed.file("-wal");
    let mut bytes = fs::read(&log).unwrap();
    bytes[200] ^= 1;
    fs::write(&log, &bytes).unwrap();
    for _ in 0..2 {
        let reported = killed.refusal();
        for part in [
            " lacks ",
            "ledger.db.sequence",
            "ledger.db-wal",
            "accept-loss",
        ] {
            assert!(reported.contains(part), "{reported}");
        }
        assert_eq!(fs::read(&log).unwrap(), bytes, "the log was touched");
    }
    let store = killed.accept_loss();
    assert!(store.verify().unwrap().holds());
    drop(store);
    drop(killed.store());
}

#[tokio::test]
async fn an_older_copy_is_refused_where_the_newer_file_was_and_accepted_on_demand() {
    let house = House::new();
    let key = house.key(100);
    house.spend_ten(&key).await;
    let older = fs::read(house.file("")).unwrap();
    house.spend_ten(&key).await;
    fs::write(house.file(""), older).unwrap();
    let reported = house.refusal();
    assert!(
        reported.contains("an older copy is in its place"),
        "{reported}"
    );
    drop(house.accept_loss());
    house.check(1);
    house.spend_ten(&key).await;
    house.check(2);

    // Without the number beside it, as on another machine, it is taken as it is.
    let elsewhere = House::new();
    fs::copy(house.file(""), elsewhere.file("")).unwrap();
    elsewhere.check(2);
    elsewhere.spend_ten(&key).await;
    assert!(elsewhere.file(".sequence").exists());
}

#[tokio::test]
async fn a_file_that_is_gone_or_empty_is_not_made_anew() {
    let house = House::new();
    let key = house.key(100);
    house.spend_ten(&key).await;
    let whole = fs::read(house.file("")).unwrap();
    fs::write(house.file(""), b"").unwrap();
    assert!(house.refusal().contains("at commit 0"));
    fs::remove_file(house.file("")).unwrap();
    assert!(house.refusal().contains("at commit 0"));
    assert!(!house.file("").exists());
    fs::write(house.file(""), whole).unwrap();
    house.check(1);
}

#[tokio::test]
async fn verify_reports_a_missing_or_damaged_number_and_accept_loss_writes_it() {
    let house = House::new();
    let key = house.key(100);
    house.spend_ten(&key).await;
    let sequence = house.file(".sequence");
    for damaged in [false, true] {
        match damaged {
            true => fs::write(&sequence, [0; 600]).unwrap(),
            false => fs::remove_file(&sequence).unwrap(),
        }
        let found = house.store().verify().unwrap();
        assert_eq!(found.holds(), !damaged, "{found:?}");
        let reports = if damaged {
            found.faults
        } else {
            found.warnings
        };
        let [report] = &reports[..] else {
            panic!("{reports:?}");
        };
        for part in [".sequence is ", "accept-loss"] {
            assert!(report.contains(part), "{report}");
        }
        drop(house.accept_loss());
        let found = house.store().verify().unwrap();
        assert!(found.holds() && found.warnings.is_empty(), "{found:?}");
    }
    // A start writes it as well.
    fs::write(&sequence, [0; 600]).unwrap();
    house.spend_ten(&key).await;
    house.check(2);
}

#[tokio::test]
async fn a_process_keeps_the_sums_that_a_later_version_has_added() {
    let house = House::new();
    let key = house.key(100);
    let ledger = house.ledger();
    let held = house.eventually(&ledger, &key, 10).await;
    let row = || -> Vec<u8> { house.sql("SELECT value FROM settings WHERE name = 'commits'") };
    let later = [7; 16];
    let mut longer = row();
    longer.truncate(longer.len() - 4);
    longer.extend(later);
    longer.extend(crc32fast::hash(&longer).to_le_bytes());
    let hex: String = longer.iter().map(|byte| format!("{byte:02x}")).collect();
    let update = format!("UPDATE settings SET value = x'{hex}' WHERE name = 'commits'");
    testing::execute(&house.path(), &update);
    held.settle(&completed(10));
    assert!(ledger.close(PATIENCE));
    let found = row();
    assert_ne!(found, longer);
    assert_eq!(found[found.len() - 20..found.len() - 4], later);
    house.check(1);
}

#[tokio::test]
async fn verify_names_the_table_of_a_row_that_no_commit_has_changed() {
    let house = House::new();
    let key = house.key(100);
    house.spend_ten(&key).await;
    for (table, change) in [
        ("usage", "UPDATE usage SET model_served = 'beta'"),
        ("grants", "UPDATE grants SET tokens = tokens + 64"),
        ("keys", "UPDATE keys SET revoked_at = NULL, name = 'other'"),
        (
            "settings",
            "UPDATE settings SET value = x'00' WHERE name = 'latest_record'",
        ),
    ] {
        let whole = fs::read(house.file("")).unwrap();
        testing::execute(&house.path(), change);
        let faults = house.store().verify().unwrap().faults;
        let words = format!("a row of {table} is not as it was committed");
        assert!(faults.iter().any(|it| it.starts_with(&words)), "{faults:?}");
        drop(house.accept_loss());
        house.check(1);
        fs::write(house.file(""), whole).unwrap();
        let _ = fs::remove_file(house.file("-wal"));
        let _ = fs::remove_file(house.file(".sequence"));
    }
    testing::edit(&house.file(""), "UPDATE keys SET name = 'other'");
    house.check(1);
}

#[tokio::test]
async fn a_file_whose_format_number_is_too_low_is_refused() {
    let house = House::new();
    let key = house.key(100);
    house.spend_ten(&key).await;
    // A migration from there would compute the sums again, and hide this damage.
    testing::execute(
        &house.path(),
        "PRAGMA user_version = 0; UPDATE grants SET tokens = tokens + 64",
    );
    let refusal = house.refusal();
    assert!(refusal.contains("the number of its format"), "{refusal}");
}
