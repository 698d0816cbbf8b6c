//! Opening connections: what is checked before the first byte is written, and the
//! settings that every connection runs under.

use super::{
    error::{Described, StoreError},
    schema,
};
use rusqlite::{Connection, OpenFlags};
use std::{
    fs::{File, OpenOptions},
    io::ErrorKind,
    path::Path,
    time::Duration,
};

/// How long a writer waits for another process's write lock.
pub(super) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a reader waits. In WAL mode readers wait for nobody, apart from the
/// moments in which another process opens or recovers the file.
const READER_BUSY_TIMEOUT: Duration = Duration::from_millis(500);

/// Statements that a writer keeps prepared: more than it has.
const KEPT_STATEMENTS: usize = 64;

/// Pages that the writer of settlements keeps, in KiB, where it has that much to do: those that
/// a transaction of a thousand requests of as many keys touches. SQLite's own 2 MB are written
/// and read again before such a one is over.
const SETTLING_CACHE_KIB: i32 = 4 * 1024;

/// Opens the file for reading and writing, makes or migrates it.
pub(crate) fn open_writer(path: &Path) -> Result<Connection, StoreError> {
    let _gate = enter_gate(path)?;
    create_private(path)?;
    let mut connection = connect(path, BUSY_TIMEOUT).described(path)?;
    connection.set_prepared_statement_cache_capacity(KEPT_STATEMENTS);
    // Before anything is changed: a newer or foreign file stays as it is.
    schema::check(&connection, path)?;
    let prepare = |connection: &mut Connection| {
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "synchronous", "full")?;
        connection.pragma_update(None, "foreign_keys", true)
    };
    prepare(&mut connection).described(path)?;
    schema::migrate(&mut connection, path)?;
    Ok(connection)
}

/// The same for who enters settlements, by the thousand: `ledger::books` looks up once for a
/// transaction that the keys and grants are there which its rows refer to. SQLite would do it
/// for each row and each reference.
pub(crate) fn open_settling_writer(path: &Path) -> Result<Connection, StoreError> {
    let connection = open_writer(path)?;
    let prepare = || {
        connection.pragma_update(None, "foreign_keys", false)?;
        connection.pragma_update(None, "cache_size", -SETTLING_CACHE_KIB)
    };
    prepare().described(path)?;
    Ok(connection)
}

/// Opens a file that [`open_writer`] has prepared, for reading alone.
pub(crate) fn open_reader(path: &Path) -> Result<Connection, StoreError> {
    let connection = connect(path, READER_BUSY_TIMEOUT).described(path)?;
    connection
        .pragma_update(None, "query_only", true)
        .described(path)?;
    Ok(connection)
}

/// A number that is another one as soon as another connection has committed. Asked several times
/// a second for as long as a process lives.
pub(crate) fn data_version(file: &Connection) -> rusqlite::Result<i64> {
    file.prepare_cached("PRAGMA data_version")?
        .query_row([], |row| row.get(0))
}

/// A reader too has to write the WAL's index, so every connection opens for writing.
pub(super) fn connect(path: &Path, patience: Duration) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(patience)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    Ok(connection)
}

/// Lets one program at a time through the making of a file: SQLite gives up at once, instead
/// of waiting, when two switch it to its write-ahead log together. The lock ends with the
/// handle, or with the process. A file of its own, since closing a handle of the database
/// would take SQLite's locks away.
fn enter_gate(path: &Path) -> Result<File, StoreError> {
    let mut name = path.as_os_str().to_owned();
    name.push("-opening");
    let mut options = OpenOptions::new();
    let gate = match private(Path::new(&name), options.append(true).create(true)) {
        Ok(gate) => gate,
        // What is wrong with the folder is better told of the file that was asked for.
        Err(fault) => return create_private(path).and(Err(fault)),
    };
    gate.lock().map_err(|fault| StoreError::CannotOpen {
        path: path.to_owned(),
        cause: fault.to_string(),
    })?;
    Ok(gate)
}

/// Makes the file where there is none; its WAL inherits the permissions. One that is there
/// is not even opened: closing any handle of it would drop the locks by which this
/// process's other connections say that they use it (POSIX locks belong to the process).
fn create_private(path: &Path) -> Result<(), StoreError> {
    match create_new_private(path) {
        Ok(_) | Err(StoreError::Exists { .. }) => Ok(()),
        Err(fault) => Err(fault),
    }
}

/// Makes a file that must not be there yet.
pub(super) fn create_new_private(path: &Path) -> Result<File, StoreError> {
    private(path, OpenOptions::new().write(true).create_new(true))
}

/// Opens a file that, if it is made, is its owner's alone.
fn private(path: &Path, options: &mut OpenOptions) -> Result<File, StoreError> {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options.open(path).map_err(|fault| {
        let path = path.to_owned();
        match fault.kind() {
            ErrorKind::AlreadyExists => StoreError::Exists { path },
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                StoreError::ReadOnly { path }
            }
            _ => StoreError::CannotOpen {
                path,
                cause: fault.to_string(),
            },
        }
    })
}
