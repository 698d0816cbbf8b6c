//! Opening connections: what is checked before the first byte is written, and the
//! settings that every connection runs under.

use super::{
    commits,
    error::Described,
    schema,
    sequence::{Known, Sequence},
    write::WriteConnection,
};
use crate::{file::create_private, store::StoreError};
use rusqlite::{Connection, OpenFlags, config::DbConfig};
use std::{
    fs::{File, OpenOptions},
    io::{self, ErrorKind},
    path::Path,
    time::Duration,
};

/// How long a writer waits for another process's write lock.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a reader waits. In WAL mode it waits only while another process opens or recovers the file.
const READER_BUSY_TIMEOUT: Duration = Duration::from_millis(500);

/// Statements that a writer keeps prepared: more than it has.
const KEPT_STATEMENTS: usize = 64;

/// Pages that the writer of settlements keeps, in KiB: as many as a transaction of a thousand requests of
/// as many keys touches. SQLite's own 2 MB are written and read again before such a transaction ends.
const SETTLING_CACHE_KIB: i32 = 4 * 1024;

/// What to do with a file that lacks commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    Refuse,
    Accept,
}

/// Opens the file for reading and writing, makes or migrates it.
///
/// # Errors
/// Also [`StoreError::CommitsMissing`]; the file and its log are left as they are then.
pub(super) fn open_writer(path: &Path) -> Result<WriteConnection, StoreError> {
    open_despite(path, Loss::Refuse)
}

/// The same. If the loss is accepted, the count of commits continues from the highest known number.
pub(super) fn open_despite(path: &Path, loss: Loss) -> Result<WriteConnection, StoreError> {
    let _gate = enter_gate(path)?;
    // The number is beside the file itself, whatever links lead to it.
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let sequence = Sequence::beside(&real);
    // Read first: a writer raises the number in the database before the one in this file.
    let known = sequence.read()?;
    if loss == Loss::Refuse && std::fs::metadata(path).map_or(0, |it| it.len()) == 0 {
        // SQLite would create an empty database and remove the log of the missing one.
        refuse_loss(path, &sequence, known, 0)?;
    }
    create_database(path)?;
    let mut connection = connect(path, BUSY_TIMEOUT).described(path)?;
    connection.set_prepared_statement_cache_capacity(KEPT_STATEMENTS);
    // Nothing is changed before the checks: a newer or foreign file stays as it is. So does the log of
    // a file that lacks commits, which the last connection would otherwise checkpoint when it closes.
    let keep_log =
        |keep| connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keep);
    keep_log(true).described(path)?;
    let version = schema::check(&connection, path)?;
    let held = commits::held(&connection, version).described(path)?;
    if loss == Loss::Refuse {
        refuse_loss(path, &sequence, known, held)?;
    }
    keep_log(false).described(path)?;
    prepare(&connection).described(path)?;
    schema::migrate(&mut connection, path)?;
    let file = WriteConnection::new(connection, Some(sequence), BUSY_TIMEOUT).described(path)?;
    if loss == Loss::Accept {
        file.go_on_from(known).described(path)?;
    }
    Ok(file)
}

fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "foreign_keys", true)
}

/// Refuses a file that holds fewer commits than are known.
fn refuse_loss(
    path: &Path,
    sequence: &Sequence,
    known: Known,
    held: u64,
) -> Result<(), StoreError> {
    match known {
        Known::Commits(known) if known > held => Err(StoreError::CommitsMissing {
            path: path.to_owned(),
            sequence: sequence.path().to_owned(),
            held,
            known,
        }),
        Known::Damaged => {
            log::error!(
                "{} is damaged and is written anew: commits that were lost before now go unnoticed",
                sequence.path().display()
            );
            Ok(())
        }
        Known::Commits(_) | Known::Nothing => Ok(()),
    }
}

/// As [`open_writer`], for the writer of settlements. `settle` checks once in a transaction
/// that the referenced keys and grants exist; SQLite would check each reference of each row.
pub(super) fn open_settling_writer(path: &Path) -> Result<WriteConnection, StoreError> {
    let connection = open_writer(path)?;
    let prepare = || {
        connection.pragma_update(None, "foreign_keys", false)?;
        connection.pragma_update(None, "cache_size", -SETTLING_CACHE_KIB)
    };
    prepare().described(path)?;
    Ok(connection)
}

/// Opens a file that [`open_writer`] has prepared, for the rows of remembered answers: no sums are kept
/// of them and their commits are not numbered, so that none has to be on the disk at once. Deleted
/// rows are overwritten, because they hold conversations.
pub(super) fn open_memory_writer(path: &Path) -> Result<Connection, StoreError> {
    let connection = connect(path, BUSY_TIMEOUT).described(path)?;
    let prepare = || {
        // The log of a file that lacks commits must stay as it is.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        connection.pragma_update(None, "synchronous", "normal")?;
        connection.pragma_update(None, "secure_delete", true)?;
        connection.pragma_update(None, "cell_size_check", true)
    };
    prepare().described(path)?;
    Ok(connection)
}

/// Opens a file that [`open_writer`] has prepared, for reading alone.
pub(super) fn open_reader(path: &Path) -> Result<Connection, StoreError> {
    let connection = connect(path, READER_BUSY_TIMEOUT).described(path)?;
    let prepare = || {
        // The log of a file that lacks commits must stay as it is.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        connection.pragma_update(None, "query_only", true)
    };
    prepare().described(path)?;
    Ok(connection)
}

/// A number that is another one as soon as another connection has committed. Asked several times
/// a second for as long as a process lives.
pub(super) fn data_version(file: &Connection) -> rusqlite::Result<i64> {
    file.prepare_cached("PRAGMA data_version")?
        .query_row([], |row| row.get(0))
}

/// A reader too has to write the WAL's index, so every connection opens for writing.
pub(super) fn connect(path: &Path, patience: Duration) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    #[cfg_attr(not(test), expect(unused_mut, reason = "tests count steps"))]
    let mut connection = Connection::open_with_flags(path, flags)?;
    #[cfg(test)]
    super::testing::count_steps(&mut connection)?;
    connection.busy_timeout(patience)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    Ok(connection)
}

/// Takes the lock under which one program at a time creates or opens a database: SQLite fails at
/// once, instead of waiting, if two programs switch a file to the write-ahead log together. The lock
/// ends with the handle or the process. It is on a file of its own, because closing a handle of the
/// database would release SQLite's locks.
fn enter_gate(path: &Path) -> Result<File, StoreError> {
    let mut name = path.as_os_str().to_owned();
    name.push("-opening");
    let gate = match open_or_create_private(Path::new(&name), path) {
        Ok(gate) => gate,
        // The error for a folder that cannot be used names the file that the caller asked for.
        Err(fault) => return create_database(path).and(Err(fault)),
    };
    gate.lock().map_err(|fault| StoreError::CannotOpen {
        path: path.to_owned(),
        cause: fault.to_string(),
    })?;
    Ok(gate)
}

/// Creates the database if there is none. An existing one is not opened: closing any handle of it
/// would release the locks of this process's other connections (POSIX locks belong to the process).
fn create_database(path: &Path) -> Result<(), StoreError> {
    match create_new_private(path) {
        Ok(_) | Err(StoreError::Exists { .. }) => Ok(()),
        Err(fault) => Err(fault),
    }
}

/// Creates a file that must not exist yet. Its owner alone can read and write it.
pub(super) fn create_new_private(path: &Path) -> Result<File, StoreError> {
    create_private(path, None).map_err(|fault| cannot_open(path, &fault))
}

/// Opens a file of the database, or creates it.
pub(super) fn open_or_create_private(path: &Path, database: &Path) -> Result<File, StoreError> {
    let file = match create_private(path, Some(database)) {
        Err(fault) if fault.kind() == ErrorKind::AlreadyExists => {
            OpenOptions::new().read(true).write(true).open(path)
        }
        made => made,
    };
    file.map_err(|fault| cannot_open(path, &fault))
}

fn cannot_open(path: &Path, fault: &io::Error) -> StoreError {
    let path = path.to_owned();
    match fault.kind() {
        ErrorKind::AlreadyExists => StoreError::Exists { path },
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            StoreError::ReadOnly { path }
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => StoreError::DiskFull { path },
        _ => StoreError::CannotOpen {
            path,
            cause: fault.to_string(),
        },
    }
}
