//! The journal that another process has left: its settlement file and the copy of it on the disk.

use super::{
    chain,
    copy::path_of_copy,
    file::remove_or_warn,
    frame::{Contents, SLOT_LEN, unframe},
};
use std::{
    collections::HashSet,
    fs::{File, OpenOptions, TryLockError},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};
use tollgate_types::RequestId;

/// The state of another process's settlement file.
#[derive(Debug)]
pub(crate) enum JournalState {
    /// Its process is running.
    Running,
    /// Its process has crashed; this is what it left.
    Crashed(LeftoverJournal),
    /// The file does not exist.
    Missing,
}

/// The journal of a crashed process. It keeps the locks, so that no other process recovers it too.
#[derive(Debug)]
pub(crate) struct LeftoverJournal {
    files: Vec<(File, PathBuf)>,
    /// The records, each whole.
    pub(crate) records: Vec<Vec<u8>>,
    /// The slots without a whole record: they were being written when the power failed.
    pub(crate) torn: Vec<LostSlot>,
}

/// A slot without a whole record.
#[derive(Debug)]
pub(crate) struct LostSlot {
    pub(crate) bytes: Vec<u8>,
    /// The request of which it is a part, if it says so. The rest of the record was not written
    /// before the crash; or it was emptied already, because the record had been entered.
    pub(crate) request: Option<RequestId>,
}

impl LostSlot {
    fn unknown(slot: &[u8]) -> Self {
        Self {
            bytes: slot.to_vec(),
            request: None,
        }
    }
}

impl LeftoverJournal {
    /// Removes the files, once their records are in the database.
    pub(crate) fn remove(self) {
        for (_, path) in &self.files {
            remove_or_warn(path);
        }
    }
}

/// Finds out whether the process of a settlement file is running, and reads what it left if not.
pub(crate) fn examine(path: &Path) -> io::Result<JournalState> {
    use LockAttempt::{Locked, Missing, Own};
    let copy = path_of_copy(path);
    let found = match (open_and_lock(path)?, open_and_lock(&copy)?) {
        (Locked, _) => return Ok(JournalState::Running),
        (Missing, Missing | Locked) => return Ok(JournalState::Missing),
        // Another process is about to read the copy.
        (Own(_), Locked) => return Ok(JournalState::Running),
        (Own(live), Own(synced)) => vec![(live, path.to_owned()), (synced, copy)],
        (Own(live), Missing) => vec![(live, path.to_owned())],
        (Missing, Own(synced)) => vec![(synced, copy)],
    };
    let mut read = LeftoverReader::default();
    for (file, _) in &found {
        read.add(file)?;
    }
    Ok(JournalState::Crashed(LeftoverJournal {
        files: found,
        torn: read.torn(),
        records: read.records,
    }))
}

/// The result of opening and locking a file.
enum LockAttempt {
    Own(File),
    /// Another process has it.
    Locked,
    Missing,
}

fn open_and_lock(path: &Path) -> io::Result<LockAttempt> {
    let file = match OpenOptions::new().read(true).write(true).open(path) {
        Ok(file) => file,
        Err(fault) if fault.kind() == io::ErrorKind::NotFound => return Ok(LockAttempt::Missing),
        Err(fault) => return Err(fault),
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(LockAttempt::Locked),
        Err(TryLockError::Error(fault)) => return Err(fault),
    }
    // It was removed since it was opened: its path may lead to another one by now.
    if file.metadata()?.nlink() == 0 {
        return Ok(LockAttempt::Missing);
    }
    Ok(LockAttempt::Own(file))
}

/// The contents of a settlement file and of its copy.
#[derive(Default)]
pub(super) struct LeftoverReader {
    pub(super) records: Vec<Vec<u8>>,
    /// The contents of `records`. Most records are in both files, and each is taken once.
    known: HashSet<Vec<u8>>,
    /// Slots that one of them has whole.
    whole: HashSet<usize>,
    /// Slots that hold something else, by their numbers.
    pub(super) torn: Vec<(usize, LostSlot)>,
    /// The remaining parts of longer records.
    parts: Vec<LostSlot>,
}

impl LeftoverReader {
    /// Reads a file to its end.
    pub(super) fn add(&mut self, mut file: &File) -> io::Result<()> {
        let mut slots = io::BufReader::with_capacity(64 * SLOT_LEN, &mut file);
        let mut room = [0; SLOT_LEN];
        let mut parts = chain::Parts::default();
        let mut number = 0_usize;
        while let Some(slot) = read_slot(&mut slots, &mut room)? {
            match unframe(slot) {
                Contents::Nothing => {}
                Contents::Record(record) => {
                    self.take(record.to_vec());
                    self.whole.insert(number);
                }
                Contents::Part(part) if parts.take(part, slot) => {
                    self.whole.insert(number);
                }
                Contents::Part(_) | Contents::Torn => {
                    self.torn.push((number, LostSlot::unknown(slot)));
                }
            }
            number = number.saturating_add(1);
        }
        let (whole, missing) = parts.join();
        whole.into_iter().for_each(|record| self.take(record));
        self.parts.extend(missing);
        Ok(())
    }

    fn take(&mut self, record: Vec<u8>) {
        if self.known.insert(record.clone()) {
            self.records.push(record);
        }
    }

    /// The slots that hold something that is no record, each once, and are whole in neither file: a
    /// page that was copied, or written by the kernel, while a record came into it is torn there alone.
    /// A record that is not in the copy, but an older one in its place, was of the last moments.
    pub(super) fn torn(&mut self) -> Vec<LostSlot> {
        let torn = std::mem::take(&mut self.torn).into_iter();
        let torn = torn.filter(|(number, _)| !self.whole.contains(number));
        let torn = torn.map(|(number, slot)| (Some(number), slot));
        let parts = std::mem::take(&mut self.parts).into_iter();
        let mut known = HashSet::new();
        torn.chain(parts.map(|slot| (None, slot)))
            .filter(|(number, slot)| known.insert((*number, slot.bytes.clone())))
            .map(|(_, slot)| slot)
            .collect()
    }
}

/// The next slot, or what there is of it; `None` at the end of the file.
fn read_slot<'a>(
    slots: &mut impl io::Read,
    room: &'a mut [u8; SLOT_LEN],
) -> io::Result<Option<&'a [u8]>> {
    let len = fill(slots, room)?;
    Ok(room.get(..len).filter(|slot| !slot.is_empty()))
}

/// Reads until `room` is full or the file at its end. How much.
fn fill(from: &mut impl io::Read, room: &mut [u8]) -> io::Result<usize> {
    let mut len = 0_usize;
    while let Some(rest) = room.get_mut(len..).filter(|rest| !rest.is_empty()) {
        match from.read(rest) {
            Ok(0) => break,
            Ok(more) => len = len.saturating_add(more),
            Err(fault) if fault.kind() == io::ErrorKind::Interrupted => {}
            Err(fault) => return Err(fault),
        }
    }
    Ok(len)
}
