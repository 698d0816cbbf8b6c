//! Opening connections: what is checked before the first byte is written, and the
//! settings that every connection runs under.

use super::{
    commits,
    error::{Described, StoreError},
    schema,
    sequence::{Known, Sequence},
    write::WriteConnection,
};
use rusqlite::{Connection, OpenFlags, config::DbConfig};
use std::{
    fs::{File, OpenOptions, Permissions},
    io::{self, ErrorKind},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
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

/// What to do with a file that lacks commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    Refuse,
    Accept,
}

/// Opens the file for reading and writing, makes or migrates it.
///
/// # Errors
/// Also [`StoreError::CommitsMissing`]; the file and its log are left as they are then.
pub(crate) fn open_writer(path: &Path) -> Result<WriteConnection, StoreError> {
    open_despite(path, Loss::Refuse)
}

/// The same of a file whose loss is accepted: it counts on from the last commit that is known.
pub(super) fn open_despite(path: &Path, loss: Loss) -> Result<WriteConnection, StoreError> {
    let _gate = enter_gate(path)?;
    // By whatever name the file is opened, the number of its commits stands beside the file itself.
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let sequence = Sequence::beside(&real);
    // Before the database is read: a process that writes raises the number there first.
    let known = sequence.read()?;
    if loss == Loss::Refuse && std::fs::metadata(path).map_or(0, |it| it.len()) == 0 {
        // SQLite would make an empty database, and remove the log of the one that is gone.
        refuse_loss(path, &sequence, known, 0)?;
    }
    create_private(path)?;
    let mut connection = connect(path, BUSY_TIMEOUT).described(path)?;
    connection.set_prepared_statement_cache_capacity(KEPT_STATEMENTS);
    // Before anything is changed: a newer or foreign file stays as it is, and so does the log of
    // one that lacks commits, which the last connection would fold into it at its end.
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

/// The same as [`open_writer`] for who enters settlements, by the thousand: `ledger::books` looks
/// up once for a transaction that the keys and grants are there which its rows refer to. SQLite
/// would do it for each row and each reference.
pub(crate) fn open_settling_writer(path: &Path) -> Result<WriteConnection, StoreError> {
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
    let gate = match open_or_create_private(Path::new(&name)) {
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

/// Makes a file that must not be there yet, its owner's alone.
pub(super) fn create_new_private(path: &Path) -> Result<File, StoreError> {
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create_new(true);
    let file = options.mode(PRIVATE).open(path);
    file.and_then(make_private)
        .map_err(|fault| cannot_open(path, &fault))
}

/// Opens a file, and makes it as [`create_new_private`] does where there is none.
pub(super) fn open_or_create_private(path: &Path) -> Result<File, StoreError> {
    match create_new_private(path) {
        Err(StoreError::Exists { .. }) => {
            let file = OpenOptions::new().read(true).write(true).open(path);
            file.map_err(|fault| cannot_open(path, &fault))
        }
        made => made,
    }
}

/// The mode of every file of the ledger.
pub(crate) const PRIVATE: u32 = 0o600;

/// Gives a new file its mode, from which the umask may have taken something.
pub(crate) fn make_private(file: File) -> io::Result<File> {
    file.set_permissions(Permissions::from_mode(PRIVATE))?;
    Ok(file)
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
