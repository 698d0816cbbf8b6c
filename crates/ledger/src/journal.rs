//! The settlement file: where a charge is written before the answer's last bytes leave.
//!
//! A preallocated file of slots of half a KiB. A reservation owns a slot from its
//! beginning, so that a settlement always has a place; the record is one `pwrite` into
//! the page cache, which survives the process. A thread syncs the file while something
//! was written, which bounds what a power failure can take. What a record says is
//! decided in `entry`; when it has reached the database, in `ledger::writer`.
//!
//! The process holds an exclusive lock on its file for as long as it lives. The lock is
//! the proof of life: the kernel lets go of it however the process ends.

mod chain;
mod marks;

use crate::directory::spawn;
use crate::store::StoreError;
use marks::{Holds, Marks};
use parking_lot::Mutex;
use std::{
    fs::{File, OpenOptions, TryLockError},
    io,
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    time::Duration,
};
use tollgate_types::RequestId;

/// Bytes of a slot: an eighth of a page, so that no record crosses one and a sync has few pages
/// to write.
const SLOT_LEN: usize = 512;
/// Bytes of a slot in files of programs that wrote records as JSON.
const OLD_SLOT_LEN: usize = 1024;
const HEADER_LEN: usize = 12;
/// Slots that are emptied by one write at most.
const MOST_WIPED: usize = 128;
/// The longest record in one slot.
pub(crate) const MAX_RECORD: usize = SLOT_LEN - HEADER_LEN;
/// How a slot begins that holds something.
const MARK: [u8; 4] = *b"TOL2";
/// How one of [`OLD_SLOT_LEN`] does.
const OLD_MARK: [u8; 4] = *b"TOLS";
/// How long what was written may stay unsynced.
const SYNC_AFTER: Duration = Duration::from_millis(25);

/// A slot that somebody owns, with further ones where a record may not fit into one. Not
/// copied, so that it has one owner.
#[derive(Debug)]
pub(crate) struct Slot(u32, Vec<u32>);

impl Slot {
    const fn one(number: u32) -> Self {
        Self(number, Vec::new())
    }

    /// How many slots they are.
    pub(crate) fn count(&self) -> usize {
        self.1.len().saturating_add(1)
    }

    /// Each by itself.
    fn apart(self) -> impl Iterator<Item = Self> {
        std::iter::once(self.0).chain(self.1).map(Self::one)
    }
}

/// The longest record that so many slots hold, in bytes.
pub(crate) const fn room_in(slots: usize) -> usize {
    if slots <= 1 {
        MAX_RECORD
    } else {
        chain::room_in(slots)
    }
}

/// How many slots a record of at most so many bytes needs.
pub(crate) const fn slots_for(bytes: usize) -> usize {
    if bytes <= MAX_RECORD {
        1
    } else {
        chain::parts(bytes)
    }
}

/// The settlement file of this process.
pub(crate) struct Journal {
    file: File,
    path: PathBuf,
    /// Last in, first out: a few pages stay warm.
    free: Mutex<Vec<Slot>>,
    marks: Marks,
    slots: u32,
    dirty: AtomicBool,
    nudge: SyncSender<()>,
}

impl Journal {
    /// Makes and locks a file of `slots` slots.
    pub(crate) fn create(path: PathBuf, slots: u32) -> Result<Arc<Self>, StoreError> {
        let fault = |fault: io::Error| StoreError::CannotOpen {
            path: path.clone(),
            cause: fault.to_string(),
        };
        let file = make(&path, slots).map_err(fault)?;
        let (nudge, nudges) = sync_channel(1);
        let journal = Arc::new(Self {
            file,
            free: Mutex::new((0..slots).rev().map(Slot::one).collect()),
            marks: Marks::of_empty(slots),
            slots,
            dirty: AtomicBool::new(false),
            nudge,
            path,
        });
        let synced = Arc::downgrade(&journal);
        spawn("ledger-sync", &journal.path, move || {
            while wait_for_writes(&nudges) {
                let Some(journal) = synced.upgrade() else {
                    return;
                };
                journal.sync();
            }
        })?;
        Ok(journal)
    }

    /// A free slot, if there is one.
    pub(crate) fn take(&self) -> Option<Slot> {
        self.free.lock().pop()
    }

    /// Adds slots to one until they are `count`; `false`: so many are not free, and nothing
    /// was added.
    pub(crate) fn widen(&self, slot: &mut Slot, count: usize) -> bool {
        let missing = count.saturating_sub(slot.count());
        if missing == 0 {
            return true;
        }
        let mut free = self.free.lock();
        let Some(rest) = free.len().checked_sub(missing) else {
            return false;
        };
        slot.1.extend(free.drain(rest..).map(|more| more.0));
        true
    }

    /// Gives back a slot into which nothing was written.
    pub(crate) fn give_back(&self, slot: Slot) {
        self.free.lock().extend(slot.apart());
    }

    /// Writes the record of a request, which `record` puts together and which is no longer than
    /// the slot. From here on it survives the process.
    pub(crate) fn write(
        &self,
        slot: &Slot,
        request: RequestId,
        record: impl FnOnce(&mut &mut [u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        self.mark(slot, Holds::Open);
        if slot.1.is_empty() {
            let mut frame = [0; SLOT_LEN];
            let frame = framed(&mut frame, MARK, record)?;
            self.file.write_all_at(frame, offset(slot.0))?;
        } else {
            self.write_long(slot, request, record)?;
        }
        if !self.dirty.swap(true, Ordering::AcqRel) {
            // Full: the thread has been told already.
            let _ = self.nudge.try_send(());
        }
        Ok(())
    }

    /// Writes a record for which a slot may be too short.
    fn write_long(
        &self,
        slot: &Slot,
        request: RequestId,
        record: impl FnOnce(&mut &mut [u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut room = [0; chain::MOST_BYTES];
        // No more than there are slots for: it is then written without what can be left out.
        let room = room.get_mut(..room_in(slot.count())).unwrap_or_default();
        let mut left = &mut *room;
        record(&mut left)?;
        let unused = left.len();
        let record = room.get(..room.len().saturating_sub(unused));
        let record = record.unwrap_or_default();
        let mut numbers = std::iter::once(slot.0).chain(slot.1.iter().copied());
        let mut frame = [0; SLOT_LEN];
        let mut put = |mark, bytes: &dyn Fn(&mut &mut [u8]) -> io::Result<()>| {
            let frame = framed(&mut frame, mark, bytes)?;
            let number = numbers.next().ok_or(io::ErrorKind::InvalidInput)?;
            self.file.write_all_at(frame, offset(number))
        };
        if record.len() <= MAX_RECORD {
            return put(MARK, &|out| io::Write::write_all(out, record));
        }
        if chain::parts(record.len()) > slot.count() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        chain::cut(slot.0, request, record, |part| put(chain::MARK, part))
    }

    /// Frees slots whose records are in the database. What stands in one stays there until it is
    /// written over, as under load it is in a moment, or [`Journal::tidy`] empties them: should
    /// the process die before, it is entered again, and its request id makes it nothing.
    pub(crate) fn release(&self, slots: impl IntoIterator<Item = Slot>) {
        let mut free: Vec<Slot> = Vec::new();
        for slot in slots {
            if slot.1.is_empty() {
                self.mark(&slot, Holds::Spent);
                free.push(slot);
            } else {
                free.extend(slot.apart().filter(|slot| self.empty(slot)));
            }
        }
        free.sort_unstable_by_key(|slot| std::cmp::Reverse(slot.0));
        // The lowest is taken next, so that neighbours stay together.
        self.free.lock().append(&mut free);
    }

    /// Empties a slot of several, since the next owners may not write over all of them together:
    /// a part that is left alone would be told as torn. One that cannot be emptied is not used
    /// again.
    fn empty(&self, slot: &Slot) -> bool {
        self.mark(slot, Holds::Nothing);
        let emptied = self.file.write_all_at(&[0; SLOT_LEN], offset(slot.0));
        if let Err(fault) = &emptied {
            log::error!("{}: cannot empty a slot: {fault}", self.path.display());
        }
        emptied.is_ok()
    }

    /// Empties the slots, whoever owns them, whose records were in the database at the last call
    /// already and have not been written over. To be called once in a while, by one thread: an
    /// old record must not outlive the memory of its request id.
    pub(crate) fn tidy(&self) {
        const ZEROS: &[u8] = &[0; MOST_WIPED * SLOT_LEN];
        self.marks.tidy(MOST_WIPED, |run| {
            let zeros = ZEROS.get(..run.len().saturating_mul(SLOT_LEN));
            let first = u32::try_from(run.start).unwrap_or(u32::MAX);
            let wiped = self
                .file
                .write_all_at(zeros.unwrap_or_default(), offset(first));
            if let Err(fault) = &wiped {
                log::error!("{}: cannot empty slots: {fault}", self.path.display());
            }
            wiped.is_ok()
        });
    }

    fn mark(&self, slot: &Slot, holds: Holds) {
        for number in std::iter::once(slot.0).chain(slot.1.iter().copied()) {
            self.marks.set(number, holds);
        }
    }

    /// How many slots there are.
    pub(crate) fn slots(&self) -> usize {
        usize::try_from(self.slots).unwrap_or(usize::MAX)
    }

    /// How many slots are owned.
    pub(crate) fn in_use(&self) -> usize {
        self.slots().saturating_sub(self.free.lock().len())
    }

    /// Fewer than half of the slots are free.
    pub(crate) fn is_scarce(&self) -> bool {
        self.in_use() > self.slots() / 2
    }

    /// Takes the file away, at the end of a process that has nothing left in it.
    pub(crate) fn remove(&self) {
        if let Err(fault) = std::fs::remove_file(&self.path) {
            log::warn!("{}: cannot be removed: {fault}", self.path.display());
        }
    }

    fn sync(&self) {
        self.dirty.store(false, Ordering::Release);
        if let Err(fault) = self.file.sync_data() {
            log::error!("{}: cannot be synced: {fault}", self.path.display());
        }
    }

    /// Lets go of the lock, as the death of the process would.
    #[cfg(test)]
    pub(crate) fn die(&self) {
        self.file.unlock().unwrap();
    }
}

/// Waits until something was written and has gathered for a while. `false`: the journal
/// is gone.
fn wait_for_writes(nudges: &Receiver<()>) -> bool {
    if nudges.recv().is_err() {
        return false;
    }
    // Nothing comes here while the file is dirty: this is the wait itself.
    let _ = nudges.recv_timeout(SYNC_AFTER);
    true
}

fn make(path: &Path, slots: u32) -> io::Result<File> {
    let file = make_locked(path)?;
    // Zeros, not holes: a write into allocated blocks changes no metadata, so that a sync
    // has nothing but the data to wait for, and the disk cannot be full then.
    let blank = [0; SLOT_LEN];
    let mut blanks = io::BufWriter::with_capacity(64 * SLOT_LEN, &file);
    for _ in 0..slots {
        io::Write::write_all(&mut blanks, &blank)?;
    }
    io::Write::flush(&mut blanks)?;
    drop(blanks);
    file.sync_all()?;
    Ok(file)
}

/// Makes an empty file and locks it. Another process that begins may find it before it is locked,
/// take it for one of the dead, and take it away: then it is made again.
fn make_locked(path: &Path) -> io::Result<File> {
    loop {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        file.lock()?;
        if file.metadata()?.nlink() > 0 {
            return Ok(file);
        }
    }
}

/// What became of another process's settlement file.
#[derive(Debug)]
pub(crate) enum Other {
    /// Its process lives.
    Alive,
    /// Its process is dead; this is what it left.
    Dead(Remains),
    /// The file is not there.
    Missing,
}

/// What a dead process left. Holds the lock, so that nobody else takes it up.
#[derive(Debug)]
pub(crate) struct Remains {
    _file: File,
    path: PathBuf,
    /// The records, each whole.
    pub(crate) records: Vec<Vec<u8>>,
    /// The slots that held something that is no whole record: written while the power
    /// failed, or by another program.
    pub(crate) torn: Vec<Remnant>,
}

/// What a slot held that is no whole record.
#[derive(Debug)]
pub(crate) struct Remnant {
    pub(crate) bytes: Vec<u8>,
    /// The request of which it is a part, where it says so. The rest of its record was not written
    /// before the crash; or it was emptied already, because the record had been entered.
    pub(crate) request: Option<RequestId>,
}

impl Remnant {
    fn unknown(slot: &[u8]) -> Self {
        Self {
            bytes: slot.to_vec(),
            request: None,
        }
    }
}

impl Remains {
    /// Takes the file away, once its records are in the database.
    pub(crate) fn remove(self) {
        if let Err(fault) = std::fs::remove_file(&self.path) {
            log::warn!("{}: cannot be removed: {fault}", self.path.display());
        }
    }
}

/// Looks whether the owner of a settlement file lives, and reads what it left if not.
pub(crate) fn examine(path: &Path) -> io::Result<Other> {
    let file = match OpenOptions::new().read(true).write(true).open(path) {
        Ok(file) => file,
        Err(fault) if fault.kind() == io::ErrorKind::NotFound => return Ok(Other::Missing),
        Err(fault) => return Err(fault),
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(Other::Alive),
        Err(TryLockError::Error(fault)) => return Err(fault),
    }
    // It was taken away since it was opened: its path may lead to another one by now.
    if file.metadata()?.nlink() == 0 {
        return Ok(Other::Missing);
    }
    let (records, torn) = read_all(&file)?;
    Ok(Other::Dead(Remains {
        _file: file,
        path: path.to_owned(),
        records,
        torn,
    }))
}

/// Bytes, one after the other.
type ByteStrings = Vec<Vec<u8>>;

/// The records, and the slots that hold something else.
fn read_all(mut file: &File) -> io::Result<(ByteStrings, Vec<Remnant>)> {
    let (mut records, mut torn) = (Vec::new(), Vec::new());
    let mut parts = chain::Parts::default();
    let mut slots = io::BufReader::with_capacity(64 * SLOT_LEN, &mut file);
    let mut room = [0; OLD_SLOT_LEN];
    while let Some(slot) = read_slot(&mut slots, &mut room)? {
        match unframe(slot) {
            Contents::Nothing => {}
            Contents::Record(record) => records.push(record.to_vec()),
            Contents::Part { bytes, is_named } if parts.take(bytes, is_named, slot) => {}
            Contents::Part { .. } | Contents::Torn => torn.push(Remnant::unknown(slot)),
        }
    }
    let (whole, missing) = parts.join();
    records.extend(whole);
    torn.extend(missing);
    Ok((records, torn))
}

/// The next slot, in whichever form, or what there is of it; `None` at the end of the file.
fn read_slot<'a>(
    slots: &mut impl io::Read,
    room: &'a mut [u8; OLD_SLOT_LEN],
) -> io::Result<Option<&'a [u8]>> {
    let (slot, rest) = room.split_at_mut(SLOT_LEN);
    let mut len = fill(slots, slot)?;
    if len == SLOT_LEN && slot.starts_with(&OLD_MARK) {
        len = len.saturating_add(fill(slots, rest)?);
    }
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

fn offset(slot: u32) -> u64 {
    u64::from(slot).saturating_mul(SLOT_LEN as u64)
}

/// Mark, length, CRC-32 of the record, the record: as much of `frame` as that takes.
fn framed(
    frame: &mut [u8; SLOT_LEN],
    mark: [u8; 4],
    record: impl FnOnce(&mut &mut [u8]) -> io::Result<()>,
) -> io::Result<&[u8]> {
    let (header, room) = frame
        .split_first_chunk_mut::<HEADER_LEN>()
        .ok_or(io::ErrorKind::InvalidInput)?;
    let mut left = &mut *room;
    record(&mut left)?;
    let unused = left.len();
    let used = room.len().saturating_sub(unused);
    let written = room.get(..used).unwrap_or_default();
    let len = u32::try_from(used).map_err(|_| io::ErrorKind::InvalidInput)?;
    let crc = crc32fast::hash(written);
    let [m0, m1, m2, m3] = mark;
    let [l0, l1, l2, l3] = len.to_le_bytes();
    let [c0, c1, c2, c3] = crc.to_le_bytes();
    *header = [m0, m1, m2, m3, l0, l1, l2, l3, c0, c1, c2, c3];
    let end = HEADER_LEN.saturating_add(used);
    Ok(frame.get(..end).unwrap_or_default())
}

#[derive(Debug, PartialEq, Eq)]
enum Contents<'a> {
    Nothing,
    Record(&'a [u8]),
    /// Of a record that is longer than a slot.
    Part {
        bytes: &'a [u8],
        /// It says of which request it is.
        is_named: bool,
    },
    Torn,
}

fn unframe(slot: &[u8]) -> Contents<'_> {
    let Some((header, rest)) = slot.split_first_chunk::<HEADER_LEN>() else {
        let is_blank = slot.iter().all(|byte| *byte == 0);
        return if is_blank {
            Contents::Nothing
        } else {
            Contents::Torn
        };
    };
    let [m0, m1, m2, m3, l0, l1, l2, l3, c0, c1, c2, c3] = *header;
    let mark = [m0, m1, m2, m3];
    if ![MARK, OLD_MARK, chain::MARK, chain::NAMELESS_MARK].contains(&mark) {
        return if *header == [0; HEADER_LEN] {
            Contents::Nothing
        } else {
            Contents::Torn
        };
    }
    let len = usize::try_from(u32::from_le_bytes([l0, l1, l2, l3])).unwrap_or(usize::MAX);
    match rest.get(..len) {
        Some(record) if crc32fast::hash(record).to_le_bytes() == [c0, c1, c2, c3] => match mark {
            chain::MARK | chain::NAMELESS_MARK => Contents::Part {
                bytes: record,
                is_named: mark == chain::MARK,
            },
            _ => Contents::Record(record),
        },
        _ => Contents::Torn,
    }
}

#[cfg(test)]
mod tests;
