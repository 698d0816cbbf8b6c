//! Grants, limits, verification and backup.

use super::*;
use testing::edit;

#[test]
fn extending_a_key_extends_its_grants_begun_or_not() {
    let home = Home::new();
    let store = home.store();
    let mut new = NewKey::named("ci");
    new.expires_at = Some(home.clock.now().plus(Duration::from_secs(10)));
    let id = store.create_key(&new).unwrap().record.id().clone();
    let key = KeySelector::Id(id.clone());
    store.top_up(&key, &terms(1000, 60)).unwrap();
    store.top_up(&key, &terms(1000, 60)).unwrap();
    home.sql("UPDATE grants SET first_used_at = 1000, expires_at = 61000 WHERE number = 1");
    let record = store
        .extend_key(&key, Duration::from_secs(30), None)
        .unwrap();
    assert_eq!(
        record.expires_at,
        Some(home.clock.now().plus(Duration::from_secs(40)))
    );
    let grants = store.grants(&id).unwrap();
    assert_eq!(grants[0].valid_until, Some(Timestamp::from_unix_ms(91_000)));
    assert_eq!(
        (grants[1].valid_until, grants[1].validity_seconds),
        (None, 90)
    );
    assert!(store.extend_key(&key, Duration::MAX, None).is_ok());
}

#[test]
fn a_key_has_no_more_grants_to_spend_than_a_request_is_paid_from() {
    let home = Home::new();
    let store = home.store();
    let made = store.create_key(&NewKey::named("ci")).unwrap();
    let key = KeySelector::Id(made.record.id().clone());
    let order = OrderName::new("order-1").unwrap();
    let first = store.top_up_once(&key, &terms(10, 60), &order).unwrap();
    for _ in 1..64 {
        store.top_up(&key, &terms(10, 60)).unwrap();
    }
    let refused = || store.top_up(&key, &terms(10, 60)).unwrap_err().to_string();
    assert!(
        refused().contains("64 grants with something left"),
        "{}",
        refused()
    );
    // What an order has made is shown, however many there are and however they were extended.
    assert_eq!(
        store.top_up_once(&key, &terms(10, 60), &order).unwrap(),
        first
    );
    store
        .extend_key(&key, Duration::from_secs(60), None)
        .unwrap();
    let again = store.top_up_once(&key, &terms(10, 60), &order).unwrap();
    let shown = (&again[0].id, again[0].validity_seconds);
    assert_eq!(shown, (&first[0].id, 120));
    // What is spent or over makes room.
    let number =
        |place: u32| format!("(SELECT number FROM grants ORDER BY number LIMIT 1 OFFSET {place})");
    let fifth = number(4);
    home.sql(&format!(
        "UPDATE grants SET spent = tokens WHERE number = {fifth}"
    ));
    store.top_up(&key, &terms(10, 60)).unwrap();
    refused();
    let seventh = number(6);
    home.sql(&format!(
        "UPDATE grants SET first_used_at = 1, expires_at = 2 WHERE number = {seventh}"
    ));
    store.top_up(&key, &terms(10, 60)).unwrap();
    refused();
}

#[test]
fn of_more_than_a_thousand_grants_the_newest_are_shown_and_an_order_is_known_still() {
    let home = Home::new();
    let store = home.store();
    let made = store.create_key(&NewKey::named("ci")).unwrap();
    let id = made.record.id();
    let key = KeySelector::Id(id.clone());
    let fill = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1100)
        INSERT INTO grants (id, key, tokens, spent, validity_ms, created_at)
        SELECT 'g' || i || '-' || (SELECT count(*) FROM grants), 1, 10, 10, 1000, 1 FROM n";
    home.sql(fill);
    let order = OrderName::new("order-1").unwrap();
    let ordered = store.top_up_once(&key, &terms(10, 60), &order).unwrap();
    let shown = store.grants(id).unwrap();
    assert_eq!((shown.len(), shown.last()), (1000, ordered.first()));
    home.sql(fill);
    assert_eq!(
        store.top_up_once(&key, &terms(10, 60), &order).unwrap(),
        ordered
    );
}

#[test]
fn a_keys_own_limits_are_kept_and_taken_back() {
    let home = Home::new();
    let store = home.store();
    let key = KeySelector::Id(
        store
            .create_key(&NewKey::named("ci"))
            .unwrap()
            .record
            .id()
            .clone(),
    );
    let own = tollgate_types::Limits {
        requests: std::num::NonZeroU32::new(7),
        ..Default::default()
    };
    assert_eq!(store.set_limits(&key, &own).unwrap().identity.limits, own);
    assert_eq!(home.store().find_key(&key).unwrap().identity.limits, own);
    let none = tollgate_types::Limits::default();
    assert_eq!(store.set_limits(&key, &none).unwrap().identity.limits, none);
    home.sql("UPDATE keys SET requests_per_minute = -5");
    let odd = store.find_key(&key).unwrap().identity.limits.requests;
    assert_eq!(odd, std::num::NonZeroU32::new(1));
}

#[test]
fn a_backup_is_a_whole_ledger_without_leases() {
    let home = Home::new();
    let store = home.store();
    let made = store.create_key(&NewKey::named("ci")).unwrap();
    let key = KeySelector::Id(made.record.id().clone());
    store.top_up(&key, &terms(1000, 60)).unwrap();
    edit(
        &home.path(),
        "INSERT INTO processes (number, settlements, started_at) VALUES (1, 'x', 1);
         INSERT INTO leases VALUES (1, 1, 1000)",
    );
    let target = home.folder.path().join("backup.db");
    store.backup(&target).unwrap();
    let copy = Store::open(&target, hasher(), clock()).unwrap();
    assert_eq!(copy.find_key(&key).unwrap(), made.record);
    let found = copy.verify().unwrap();
    assert_eq!((found.granted, found.leased), (1000, 0));
    assert_eq!(found.faults, [""; 0]);
    let again = store.backup(&target).unwrap_err().to_string();
    assert!(again.contains("backup.db exists already"), "{again}");
}

#[test]
fn a_backup_that_fails_leaves_nothing_behind() {
    let home = Home::new();
    let store = home.store();
    home.sql("ALTER TABLE lease_requests RENAME TO elsewhere");
    let target = home.folder.path().join("backup.db");
    store.backup(&target).unwrap_err();
    assert!(!target.exists());
}

#[test]
fn a_verification_reports_damaged_answers_and_wrong_sums_of_their_bytes() {
    let home = Home::new();
    let store = home.store();
    let answer = Remembered {
        id: RequestId::from_parts(1, 1),
        key: KeyId::new("key_a"),
        previous: None,
        input: "[]".into(),
        response: "{}".into(),
    };
    let limits = Some(MemoryLimits {
        bytes_per_key: 1000,
        bytes: 1000,
        time: Duration::from_secs(60),
    });
    let changes = [AnswerChange::Remember(&answer)];
    let database = store.database();
    let changed = database.change_answers(&changes, limits, u64::MAX, home.clock.now());
    assert_eq!(changed.unwrap().done, [true]);
    let found = store.verify().unwrap();
    assert_eq!((found.faults, found.warnings), (vec![], vec![]));
    home.sql("UPDATE memory SET input = x'5b7d'");
    let warnings = store.verify().unwrap().warnings;
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].starts_with("1 remembered answers are damaged"));
    home.sql("UPDATE memory_bytes SET bytes = bytes + 1 WHERE key = ''");
    let faults = store.verify().unwrap().faults;
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(faults[0].contains("do not add up"), "{faults:?}");
}

#[test]
fn a_verification_names_what_does_not_add_up() {
    let home = Home::new();
    let store = home.store();
    let id = store
        .create_key(&NewKey::named("ci"))
        .unwrap()
        .record
        .id()
        .clone();
    let grant = store
        .top_up(&KeySelector::Id(id), &terms(1000, 60))
        .unwrap();
    assert_eq!(store.verify().unwrap().faults, [""; 0]);
    home.sql("UPDATE grants SET spent = 5");
    let faults = store.verify().unwrap().faults;
    assert_eq!(faults.len(), 3, "{faults:?}");
    assert!(faults[2].starts_with("a row of grants is not as it was committed"));
    assert!(faults[0].contains(&grant[0].id), "{faults:?}");
    assert!(faults[0].contains("0 charged, 5 spent"), "{faults:?}");
    assert!(
        faults[1].contains("0 tokens and 0 of money by model, 5 and 0 spent"),
        "{faults:?}"
    );
}

#[test]
fn what_was_given_adds_up_beyond_63_bits() {
    let home = Home::new();
    let store = home.store();
    let new = NewKey {
        grant: Some(terms(1000, 60)),
        ..NewKey::named("ci")
    };
    for _ in 0..3 {
        store.create_key(&new).unwrap();
    }
    home.sql("UPDATE grants SET tokens = 5000000000000000001");
    let found = store.verify().unwrap();
    assert_eq!(found.granted, 15_000_000_000_000_000_003);
}

#[test]
fn the_file_refuses_to_lease_more_than_is_left() {
    let home = Home::new();
    let store = home.store();
    let id = store
        .create_key(&NewKey::named("ci"))
        .unwrap()
        .record
        .id()
        .clone();
    store
        .top_up(&KeySelector::Id(id), &terms(1000, 60))
        .unwrap();
    home.sql(
        "INSERT INTO processes (number, settlements, started_at) VALUES (1, 'x', 1), (2, 'y', 1);
         INSERT INTO leases VALUES (1, 1, 600)",
    );
    let file = Connection::open(home.path()).unwrap();
    for sql in [
        "INSERT INTO leases VALUES (1, 2, 401)",
        "UPDATE leases SET tokens = 1001",
    ] {
        let fault = file.execute(sql, []).unwrap_err().to_string();
        assert!(fault.contains("leases exceed the grant"), "{fault}");
    }
    home.sql("INSERT INTO leases VALUES (1, 2, 400)");
}
