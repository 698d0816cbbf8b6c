//! A look at a file that writes nothing and ends in bounded time.

use super::{
    commits,
    error::Described,
    open::open_reader,
    schema,
    sequence::{Known, Sequence},
};
use crate::{key::KeyHasher, store::StoreError};
use rusqlite::{Connection, ErrorCode};
use std::{
    path::Path,
    sync::mpsc::{self, RecvTimeoutError},
    time::Duration,
};

/// What a look at a file found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Glance {
    /// Keys, those that do not work included.
    pub keys: u64,
    /// Records in quarantine.
    pub quarantined: u64,
    /// Whether the structure of the whole file was checked, or only as much as there was time for.
    pub is_whole: bool,
}

/// Looks at the file of a ledger: its format, its pepper, the number of its commits and, as far as
/// there is time, its structure. Writes nothing and blocks no writer. [`Store::verify`] checks the sums.
///
/// [`Store::verify`]: crate::Store::verify
///
/// # Errors
/// There is no file, it cannot be used, or something is wrong with it.
pub fn glance(path: &Path, hasher: &KeyHasher, patience: Duration) -> Result<Glance, StoreError> {
    schema::check_pepper(path, hasher)?;
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let sequence = Sequence::beside(&real);
    // Read before the number in the file, which is never behind it.
    let known = sequence.read()?;
    let file = open_reader(path)?;
    let version = schema::check(&file, path)?;
    let held = commits::held(&file, version).described(path)?;
    if let Known::Commits(known) = known
        && known > held
    {
        return Err(StoreError::CommitsMissing {
            path: path.to_owned(),
            sequence: sequence.path().to_owned(),
            held,
            known,
        });
    }
    let count = |table: &str| {
        let sql = format!("SELECT count(*) FROM {table}");
        let count = file.query_row(&sql, [], |row| row.get::<_, i64>(0));
        count.map(i64::unsigned_abs).described(path)
    };
    let (keys, quarantined) = match version {
        0 => (0, 0),
        _ => (count("keys")?, count("quarantine")?),
    };
    let is_whole = match structure(&file, patience).described(path)? {
        Structure::Sound => true,
        Structure::Unfinished => false,
        Structure::Damaged(cause) => {
            let path = path.to_owned();
            return Err(StoreError::Damaged { path, cause });
        }
    };
    Ok(Glance {
        keys,
        quarantined,
        is_whole,
    })
}

enum Structure {
    Sound,
    Unfinished,
    Damaged(String),
}

fn structure(file: &Connection, patience: Duration) -> rusqlite::Result<Structure> {
    let (done, is_done) = mpsc::channel::<()>();
    let interrupt = file.get_interrupt_handle();
    let timer = std::thread::spawn(move || {
        if is_done.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
            interrupt.interrupt();
        }
    });
    let checked = file.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0));
    drop(done);
    // It ends by itself; a panic in it is impossible.
    let _ = timer.join();
    match checked {
        Ok(line) if line == "ok" => Ok(Structure::Sound),
        Ok(line) => Ok(Structure::Damaged(line)),
        Err(fault) if fault.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) => {
            Ok(Structure::Unfinished)
        }
        Err(fault) => Err(fault),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Clock, NewKey, Store};
    use std::fs;
    use tempfile::TempDir;

    #[test]
    fn a_look_says_what_there_is_and_writes_nothing() {
        const PATIENCE: Duration = Duration::from_secs(60);
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("ledger.db");
        let hasher = || KeyHasher::new(b"a pepper for tests").unwrap();
        assert!(glance(&path, &hasher(), PATIENCE).is_err());
        assert!(!path.exists());
        let store = Store::open(&path, hasher(), Clock::system()).unwrap();
        store.create_key(&NewKey::named("one")).unwrap();
        drop(store);
        let before = fs::read(&path).unwrap();
        let found = glance(&path, &hasher(), PATIENCE).unwrap();
        let expected = Glance {
            keys: 1,
            quarantined: 0,
            is_whole: true,
        };
        assert_eq!(found, expected);
        assert_eq!(fs::read(&path).unwrap(), before);
        let other = KeyHasher::new(b"another pepper of tests").unwrap();
        let fault = glance(&path, &other, PATIENCE).unwrap_err();
        assert!(matches!(fault, StoreError::WrongPepper), "{fault}");

        // An older copy in the place of the file.
        let sequence = folder.path().join("ledger.db.sequence");
        let store = Store::open(&path, hasher(), Clock::system()).unwrap();
        store.create_key(&NewKey::named("two")).unwrap();
        drop(store);
        assert!(sequence.exists());
        fs::write(&path, before).unwrap();
        let fault = glance(&path, &hasher(), PATIENCE).unwrap_err();
        assert!(
            matches!(fault, StoreError::CommitsMissing { .. }),
            "{fault}"
        );

        fs::write(&path, "no database").unwrap();
        let fault = glance(&path, &hasher(), PATIENCE).unwrap_err();
        assert!(matches!(fault, StoreError::NotALedger { .. }), "{fault}");
    }
}
