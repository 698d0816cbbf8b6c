//! The number of the last commit, in a file beside the database.
//!
//! SQLite drops the end of a write-ahead log from the first damaged frame on, and reports nothing.
//! Therefore every transaction raises a number in the database (`commits`), and after the commit
//! the same number goes into this file. A database with a lower number has lost commits.
//!
//! The file lags by one commit if the process dies in between, and by a second after a power loss.
//! Its two records lie in sectors of their own and are written in turn, so that a torn write
//! leaves the other one.

use super::open::open_or_create_private;
use crate::store::StoreError;
use parking_lot::Mutex;
use std::{
    ffi::OsString,
    fs::{File, TryLockError},
    io,
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};

/// How a record begins.
const MARK: [u8; 8] = *b"TOLLSEQ1";
/// Mark, number, checksum of both.
const RECORD_LEN: usize = 20;
/// Where the two records are.
const PLACES: [u64; 2] = [0, 512];
/// How often and how long to wait for another process that writes the file.
const LOCK_TRIES: u32 = 100;
const LOCK_WAIT: Duration = Duration::from_millis(1);

/// What the file knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// There is no file, or an empty one.
    Nothing,
    /// There were at least so many commits.
    Commits(u64),
    /// Neither record can be read.
    Damaged,
}

/// The file. It is opened when the first number is written.
pub(super) struct Sequence {
    database: PathBuf,
    path: PathBuf,
    file: Mutex<Option<File>>,
    last: AtomicU64,
    is_failing: AtomicBool,
}

impl Sequence {
    /// The file beside this database.
    pub(super) fn beside(database: &Path) -> Self {
        let mut path = OsString::from(database);
        path.push(".sequence");
        Self {
            database: database.to_owned(),
            path: path.into(),
            file: Mutex::new(None),
            last: AtomicU64::new(0),
            is_failing: AtomicBool::new(false),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file.
    ///
    /// # Errors
    /// It is there and cannot be read.
    pub(super) fn read(&self) -> Result<Known, StoreError> {
        let found = match File::open(&self.path) {
            Ok(file) => records(&file),
            Err(fault) if fault.kind() == io::ErrorKind::NotFound => return Ok(Known::Nothing),
            Err(fault) => Err(fault),
        };
        let found = found.map_err(|fault| StoreError::CannotOpen {
            path: self.path.clone(),
            cause: fault.to_string(),
        })?;
        Ok(match found {
            None => Known::Nothing,
            Some(records) => records
                .into_iter()
                .flatten()
                .max()
                .map_or(Known::Damaged, Known::Commits),
        })
    }

    /// Writes the number of a commit that is in the database, unless the file knows a later one.
    /// A failure is logged: the commit stands without it.
    pub(super) fn note(&self, number: u64) {
        self.last.fetch_max(number, Ordering::Relaxed);
        self.report(self.write(number));
    }

    /// Brings the file to the disk, and makes it anew if it was removed.
    pub(super) fn sync(&self) {
        self.report(self.try_sync());
    }

    fn try_sync(&self) -> io::Result<()> {
        {
            let mut file = self.file.lock();
            match &*file {
                None => return Ok(()),
                Some(open) if open.metadata()?.nlink() > 0 => return open.sync_data(),
                Some(_) => *file = None,
            }
        }
        self.write(self.last.load(Ordering::Relaxed))
    }

    fn write(&self, number: u64) -> io::Result<()> {
        let mut file = self.file.lock();
        let open = match file.take() {
            Some(open) => open,
            None => open_or_create_private(&self.path, &self.database).map_err(io::Error::other)?,
        };
        let open = &*file.insert(open);
        lock(open)?;
        let raised = raise(open, number);
        open.unlock()?;
        raised
    }

    /// Once for a row of failures.
    fn report(&self, result: io::Result<()>) {
        let has_failed = self.is_failing.swap(result.is_err(), Ordering::Relaxed);
        if let (Err(fault), false) = (result, has_failed) {
            log::error!(
                "{}: cannot be written, so that lost commits may go unnoticed: {fault}",
                self.path.display()
            );
        }
    }
}

/// Processes write in turn. One that was stopped in the middle keeps no other waiting for long.
fn lock(file: &File) -> io::Result<()> {
    for _ in 0..LOCK_TRIES {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) => std::thread::park_timeout(LOCK_WAIT),
            Err(TryLockError::Error(fault)) => return Err(fault),
        }
    }
    Err(io::Error::other("another process has locked it"))
}

/// Writes the number over the record with the lower one.
fn raise(file: &File, number: u64) -> io::Result<()> {
    let known = records(file)?.unwrap_or_default();
    if known.into_iter().flatten().max() >= Some(number) {
        return Ok(());
    }
    // A record that cannot be read is below every number.
    let older = PLACES
        .into_iter()
        .zip(known)
        .min_by_key(|(_, known)| *known);
    let place = older.map_or(0, |(place, _)| place);
    file.write_all_at(&record(number), place)
}

fn record(number: u64) -> Vec<u8> {
    let mut record = Vec::with_capacity(RECORD_LEN);
    record.extend(MARK);
    record.extend(number.to_le_bytes());
    let crc = crc32fast::hash(&record);
    record.extend(crc.to_le_bytes());
    record
}

/// The numbers of both records, as far as they can be read; `None` if the file is empty.
fn records(file: &File) -> io::Result<Option<[Option<u64>; 2]>> {
    if file.metadata()?.len() == 0 {
        return Ok(None);
    }
    let mut found = [None; 2];
    for (found, place) in found.iter_mut().zip(PLACES) {
        let mut bytes = [0; RECORD_LEN];
        *found = match file.read_exact_at(&mut bytes, place) {
            Ok(()) => number_in(&bytes),
            Err(fault) if fault.kind() == io::ErrorKind::UnexpectedEof => None,
            Err(fault) => return Err(fault),
        };
    }
    Ok(Some(found))
}

fn number_in(bytes: &[u8]) -> Option<u64> {
    let number = bytes.get(MARK.len()..)?.first_chunk()?;
    let number = u64::from_le_bytes(*number);
    (record(number) == bytes).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn sequence(folder: &TempDir) -> Sequence {
        Sequence::beside(&folder.path().join("ledger.db"))
    }

    #[test]
    fn the_highest_number_that_any_process_has_written_is_known() {
        let folder = TempDir::new().unwrap();
        let (one, two) = (sequence(&folder), sequence(&folder));
        assert_eq!(one.read().unwrap(), Known::Nothing);
        for number in [1, 2, 5] {
            one.note(number);
            assert_eq!(two.read().unwrap(), Known::Commits(number));
        }
        two.note(4);
        assert_eq!(one.read().unwrap(), Known::Commits(5));
        two.note(6);
        assert_eq!(one.read().unwrap(), Known::Commits(6));
    }

    #[test]
    fn one_damaged_record_leaves_the_other_and_two_are_reported() {
        let folder = TempDir::new().unwrap();
        let one = sequence(&folder);
        one.note(7);
        one.note(8);
        let whole = std::fs::read(one.path()).unwrap();
        let known = |bytes: &[u8]| {
            std::fs::write(one.path(), bytes).unwrap();
            one.read().unwrap()
        };
        for bit in 0..8 * whole.len() {
            let mut bytes = whole.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let known = known(&bytes);
            assert!(matches!(known, Known::Commits(7 | 8)), "{bit}: {known:?}");
        }
        assert_eq!(known(&whole[..100]), Known::Commits(7));
        assert_eq!(known(&whole[..10]), Known::Damaged);
        assert_eq!(known(b""), Known::Nothing);
    }

    #[test]
    fn a_file_that_was_removed_is_made_again() {
        let folder = TempDir::new().unwrap();
        let one = sequence(&folder);
        one.note(3);
        std::fs::remove_file(one.path()).unwrap();
        one.sync();
        assert_eq!(one.read().unwrap(), Known::Commits(3));
    }
}
