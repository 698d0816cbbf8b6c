//! The sums of a file that an older version wrote.

use super::*;

#[test]
fn a_file_is_sealed_once_however_many_programs_verify_it() {
    let home = Home::new();
    let store = home.store();
    store.create_key(&NewKey::named("ci")).unwrap();
    drop(store);
    home.sql("DELETE FROM settings WHERE name = 'commits'; PRAGMA user_version = 8");
    fs::remove_file(home.folder.path().join("ledger.db.sequence")).unwrap();
    let store = home.store();
    // Both have read the file before either seals it.
    let both: Vec<_> = (0..2).map(|_| store.unsealed().unwrap().unwrap()).collect();
    for unsealed in &both {
        store.seal_by(unsealed).unwrap();
    }
    assert_eq!(store.verify().unwrap().faults, [""; 0]);
    home.sql("UPDATE keys SET name = 'other'");
    assert!(!store.verify().unwrap().holds());
}
