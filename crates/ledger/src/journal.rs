//! The settlement file: a charge is written there before the last bytes of the answer are sent.
//!
//! A preallocated file of slots of half a KiB. A reservation owns a slot from its beginning, so that a
//! settlement always has room. The record is stored into the file's pages in the page cache (`live`),
//! which survive the process. A thread writes changes to a copy on the disk (`copy`), which bounds the
//! loss of a power failure. `entry` decides what a record says, `ledger::writer` when it is committed.
//!
//! The process has an exclusive lock on both files as long as it runs. The kernel releases the lock
//! however the process ends. `leftover` reads what a crashed process has left.

mod chain;
mod copy;
mod file;
mod frame;
mod leftover;
mod live;
mod slot_states;

use crate::directory::spawn;
use crate::store::StoreError;
pub(crate) use copy::name_without_copy;
use copy::{DiskCopy, path_of_copy};
use file::remove_or_warn;
pub(crate) use frame::MAX_RECORD;
use frame::{MARK, SLOT_LEN, framed};
pub(crate) use leftover::{JournalState, LeftoverJournal, LostSlot, examine};
use live::Live;
use parking_lot::Mutex;
use slot_states::{SlotState, SlotStates};
use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    time::Duration,
};
use tollgate_types::RequestId;

/// How long a settlement may stay unsynced.
const SYNC_AFTER: Duration = Duration::from_millis(25);
/// How long progress may stay unsynced if nothing is settled.
const SYNC_PROGRESS_AFTER: Duration = Duration::from_millis(200);

/// A slot with an owner, and further slots if a record may not fit into one. Not `Clone`, so that it has
/// one owner.
#[derive(Debug)]
pub(crate) struct Slot {
    first: u32,
    further: Vec<u32>,
}

impl Slot {
    const fn one(number: u32) -> Self {
        Self {
            first: number,
            further: Vec::new(),
        }
    }

    /// How many slots they are.
    pub(crate) fn count(&self) -> usize {
        self.further.len().saturating_add(1)
    }

    /// The slots, each by itself.
    fn apart(self) -> impl Iterator<Item = Self> {
        std::iter::once(self.first)
            .chain(self.further)
            .map(Self::one)
    }
}

/// The longest record in so many slots, in bytes.
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
    live: Live,
    copy: DiskCopy,
    path: PathBuf,
    /// Last in, first out: a few pages stay warm.
    free: Mutex<Vec<Slot>>,
    states: SlotStates,
    slots: u32,
    dirty: AtomicBool,
    /// Progress was written that the copy may not have.
    has_progress: AtomicBool,
    wake: SyncSender<()>,
    failed_syncs: AtomicU64,
    /// The last sync has failed.
    is_behind: AtomicBool,
    /// Its files have been removed.
    is_over: AtomicBool,
}

impl Journal {
    /// Creates and locks a settlement file of `slots` slots for a process on `database`.
    pub(crate) fn create(
        path: PathBuf,
        slots: u32,
        database: &Path,
    ) -> Result<Arc<Self>, StoreError> {
        let fault = |path: PathBuf, fault: io::Error| StoreError::CannotOpen {
            path,
            cause: fault.to_string(),
        };
        let live = Live::create(&path, slots, database);
        let live = live.map_err(|cause| fault(path.clone(), cause))?;
        let copy = DiskCopy::create(&path, slots, database).map_err(|cause| {
            remove_or_warn(&path);
            fault(path_of_copy(&path), cause)
        })?;
        let (wake, wakes) = sync_channel(1);
        let journal = Arc::new(Self {
            live,
            copy,
            free: Mutex::new((0..slots).rev().map(Slot::one).collect()),
            states: SlotStates::of_empty(slots),
            slots,
            dirty: AtomicBool::new(false),
            has_progress: AtomicBool::new(false),
            wake,
            failed_syncs: AtomicU64::new(0),
            is_behind: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            path,
        });
        let synced = Arc::downgrade(&journal);
        let spawned = spawn("ledger-sync", &journal.path, move || {
            while let Some(wrote) = wait_for_writes(&wakes) {
                let Some(journal) = synced.upgrade() else {
                    return;
                };
                if wrote || journal.has_progress.load(Ordering::Acquire) {
                    journal.sync();
                }
            }
        });
        if let Err(fault) = spawned {
            journal.remove();
            return Err(fault);
        }
        Ok(journal)
    }

    /// A free slot, if there is one.
    pub(crate) fn take(&self) -> Option<Slot> {
        self.free.lock().pop()
    }

    /// Adds slots until there are `count`. `false`: so many are not free, and none was added.
    pub(crate) fn widen(&self, slot: &mut Slot, count: usize) -> bool {
        let missing = count.saturating_sub(slot.count());
        if missing == 0 {
            return true;
        }
        let mut free = self.free.lock();
        let Some(rest) = free.len().checked_sub(missing) else {
            return false;
        };
        slot.further
            .extend(free.drain(rest..).map(|more| more.first));
        true
    }

    /// Whether so many slots are free.
    pub(crate) fn has_room(&self, slots: usize) -> bool {
        self.free.lock().len() >= slots
    }

    /// Gives back a slot into which nothing was written.
    pub(crate) fn give_back(&self, slot: Slot) {
        self.free.lock().extend(slot.apart());
    }

    /// Gives back a slot whose record is to be forgotten.
    pub(crate) fn discard(&self, slot: Slot) {
        let emptied: Vec<Slot> = slot.apart().filter(|slot| self.empty(slot)).collect();
        self.free.lock().extend(emptied);
    }

    /// Writes the record of a request, which is no longer than the slot. From here on it survives the
    /// process.
    pub(crate) fn write(
        &self,
        slot: &Slot,
        request: RequestId,
        record: impl FnOnce(&mut &mut [u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        self.store(slot, request, record)?;
        self.has_changed();
        Ok(())
    }

    /// The same for a request that goes on. It wakes no thread, because that is a system call: the copy
    /// follows with the next settlement, or after [`SYNC_PROGRESS_AFTER`].
    pub(crate) fn write_progress(
        &self,
        slot: &Slot,
        request: RequestId,
        record: impl FnOnce(&mut &mut [u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        self.store(slot, request, record)?;
        self.has_progress.store(true, Ordering::Release);
        Ok(())
    }

    fn store(
        &self,
        slot: &Slot,
        request: RequestId,
        record: impl FnOnce(&mut &mut [u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        self.mark(slot, SlotState::Open);
        if slot.further.is_empty() {
            let mut frame = [0; SLOT_LEN];
            let frame = framed(&mut frame, MARK, record)?;
            self.live.put(slot.first, frame)?;
        } else {
            self.write_long(slot, request, record)?;
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
        // No more than fits into the slots: the optional parts of the record are left out then.
        let room = room.get_mut(..room_in(slot.count())).unwrap_or_default();
        let mut left = &mut *room;
        record(&mut left)?;
        let unused = left.len();
        let record = room.get(..room.len().saturating_sub(unused));
        let record = record.unwrap_or_default();
        let mut numbers = std::iter::once(slot.first).chain(slot.further.iter().copied());
        let mut frame = [0; SLOT_LEN];
        let mut put = |mark, bytes: &dyn Fn(&mut &mut [u8]) -> io::Result<()>| {
            let frame = framed(&mut frame, mark, bytes)?;
            let number = numbers.next().ok_or(io::ErrorKind::InvalidInput)?;
            self.live.put(number, frame)
        };
        if record.len() <= MAX_RECORD {
            return put(MARK, &|out| io::Write::write_all(out, record));
        }
        if chain::parts(record.len()) > slot.count() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        chain::cut(slot.first, request, record, |part| put(chain::MARK, part))
    }

    /// Frees slots whose records are in the database. A record stays in its slot until another one
    /// overwrites it, or [`Journal::tidy`] empties the slot. If the process crashes before, the record is
    /// entered again, and its request id makes it nothing.
    pub(crate) fn release(&self, slots: impl IntoIterator<Item = Slot>) {
        let mut free: Vec<Slot> = Vec::new();
        for slot in slots {
            if slot.further.is_empty() {
                self.mark(&slot, SlotState::Spent);
                free.push(slot);
            } else {
                free.extend(slot.apart().filter(|slot| self.empty(slot)));
            }
        }
        free.sort_unstable_by_key(|slot| std::cmp::Reverse(slot.first));
        // The lowest is taken next, so that neighbours stay together.
        self.free.lock().append(&mut free);
    }

    /// Empties a slot of several: the next owner may not overwrite all of them, and a part that is left
    /// alone would be reported as torn. A slot that cannot be emptied is not used again.
    fn empty(&self, slot: &Slot) -> bool {
        self.mark(slot, SlotState::Empty);
        self.wipe(slot.first)
    }

    fn wipe(&self, slot: u32) -> bool {
        let emptied = self.live.empty(slot);
        if let Err(fault) = &emptied {
            log::error!("{}: cannot empty a slot: {fault}", self.path.display());
        }
        self.has_changed();
        emptied.is_ok()
    }

    /// Empties the slots whose records were in the database at the last call already and were not
    /// overwritten since. Called once in a while, by one thread: an old record must not outlive the row
    /// of its request id.
    pub(crate) fn tidy(&self) {
        self.states.tidy(|slot| self.wipe(slot));
    }

    fn mark(&self, slot: &Slot, state: SlotState) {
        for number in std::iter::once(slot.first).chain(slot.further.iter().copied()) {
            self.states.set(number, state);
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

    /// Removes the files, at the end of a process that has nothing left in them.
    pub(crate) fn remove(&self) {
        self.is_over.store(true, Ordering::Release);
        remove_or_warn(&self.path);
        self.copy.remove();
    }

    fn sync(&self) {
        self.dirty.store(false, Ordering::Release);
        self.has_progress.store(false, Ordering::Release);
        let synced = self.copy.follow(&self.live);
        let Err(fault) = synced else {
            if self.is_behind.swap(false, Ordering::Relaxed) {
                log::info!("{}: synced again", self.copy.path().display());
            }
            return;
        };
        if self.is_over.load(Ordering::Acquire) {
            return;
        }
        self.failed_syncs.fetch_add(1, Ordering::Relaxed);
        // Not for each of the forty attempts a second that follow.
        if !self.is_behind.swap(true, Ordering::Relaxed) {
            let path = self.copy.path().display();
            log::error!("{path} cannot be synced; retrying: {fault}");
        }
        self.has_changed();
    }

    /// How many syncs to the disk have failed.
    pub(crate) fn failed_syncs(&self) -> u64 {
        self.failed_syncs.load(Ordering::Relaxed)
    }

    /// Has the copy brought up to date in the background.
    fn has_changed(&self) {
        if !self.dirty.swap(true, Ordering::AcqRel) {
            // If it is full, the thread wakes anyway.
            let _ = self.wake.try_send(());
        }
    }

    /// Brings the copy up to date now.
    #[cfg(test)]
    pub(crate) fn follow(&self) {
        self.copy.follow(&self.live).unwrap();
    }

    /// Releases the locks, as a crash does.
    #[cfg(test)]
    pub(crate) fn die(&self) {
        self.live.file().unlock().unwrap();
        self.copy.file().unlock().unwrap();
    }
}

/// Waits until a settlement was written and further ones have gathered. `Some(false)`: none was within
/// [`SYNC_PROGRESS_AFTER`]. `None`: the journal is gone.
fn wait_for_writes(wakes: &Receiver<()>) -> Option<bool> {
    match wakes.recv_timeout(SYNC_PROGRESS_AFTER) {
        Err(RecvTimeoutError::Timeout) => return Some(false),
        Err(RecvTimeoutError::Disconnected) => return None,
        Ok(()) => {}
    }
    // No wake-up comes while the file is dirty, so that this is the wait itself.
    let _ = wakes.recv_timeout(SYNC_AFTER);
    Some(true)
}

#[cfg(test)]
mod tests;
