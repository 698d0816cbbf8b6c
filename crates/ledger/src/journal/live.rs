//! The settlement file as memory that it shares with the page cache.
//!
//! A record stored here survives the process, as after `pwrite`, and costs the request no system call.
//! The file is never synced: a sync makes the pages read-only, and the next store into each of them a
//! page fault. Records that must survive the machine are copied from here (`copy`).
//!
//! The file has all its blocks, and a lock. A failing disk, or a program that shortens the file, ends the
//! process, as with the shared memory of SQLite's write-ahead log. Earlier records are in the
//! page cache or in the copy.

use super::{
    file::{make, remove_or_warn},
    frame::{HEADER_LEN, SLOT_LEN},
};
use std::{
    io,
    num::NonZeroUsize,
    ops::Range,
    path::Path,
    sync::atomic::{Ordering, fence},
};
use vm_memory::{
    Bytes, FileOffset, MmapRegion, VolatileMemory, VolatileSlice, bitmap::AtomicBitmap,
};

/// Bytes that are copied together.
const PAGE: NonZeroUsize = NonZeroUsize::new(4096).expect("not zero");
/// The first bytes of a slot: what it holds, and how long that is.
const HEAD_LEN: usize = size_of::<u64>();
const _: () = assert!(HEAD_LEN < HEADER_LEN && PAGE.get().is_multiple_of(SLOT_LEN));

/// The file, mapped, under the lock of this process.
pub(super) struct Live {
    /// With the file, whose lock lasts as long.
    memory: MmapRegion,
    /// The pages that the copy does not have yet.
    changed: AtomicBitmap,
}

impl Live {
    /// Makes and locks a file of `slots` slots.
    pub(super) fn create(path: &Path, slots: u32, database: &Path) -> io::Result<Self> {
        let file = make(path, slots, database)?;
        let len = offset_of(slots);
        let memory = MmapRegion::from_file(FileOffset::new(file, 0), len);
        Ok(Self {
            memory: memory.map_err(|fault| {
                remove_or_warn(path);
                io::Error::other(fault)
            })?,
            changed: AtomicBitmap::new(len, PAGE),
        })
    }

    /// Puts a frame into a slot, for its owner. If the process ends meanwhile, the slot is empty.
    ///
    /// # Errors
    /// There is no such slot, or the frame is no frame.
    pub(super) fn put(&self, number: u32, frame: &[u8]) -> io::Result<()> {
        let offset = offset_of(number);
        let slot = self.bytes(offset, SLOT_LEN)?;
        let (head, rest) = frame
            .split_first_chunk::<HEAD_LEN>()
            .filter(|_| frame.len() <= SLOT_LEN)
            .ok_or(io::ErrorKind::InvalidInput)?;
        // The head comes last, so that a part of a frame is nothing.
        slot.store(0_u64, 0, Ordering::Relaxed)
            .map_err(io::Error::other)?;
        fence(Ordering::Release);
        slot.offset(HEAD_LEN)
            .map_err(io::Error::other)?
            .copy_from(rest);
        slot.store(u64::from_ne_bytes(*head), 0, Ordering::Release)
            .map_err(io::Error::other)?;
        self.changed.set_addr_range(offset, SLOT_LEN);
        Ok(())
    }

    /// Empties a slot.
    ///
    /// # Errors
    /// There is no such slot.
    pub(super) fn empty(&self, number: u32) -> io::Result<()> {
        self.put(number, &[0; SLOT_LEN])
    }

    /// The bytes that have changed since the last call.
    pub(super) fn take_changed(&self) -> Vec<Range<usize>> {
        let mut ranges: Vec<Range<usize>> = Vec::new();
        let words = self.changed.get_and_reset().into_iter();
        let bits = words.flat_map(|word| (0..u64::BITS).map(move |bit| word >> bit & 1 == 1));
        for (page, _) in bits.enumerate().filter(|(_, is_changed)| *is_changed) {
            let start = page.saturating_mul(PAGE.get());
            let end = start.saturating_add(PAGE.get()).min(self.memory.len());
            match ranges.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => ranges.push(start..end),
            }
        }
        ranges
    }

    /// Marks bytes as changed again, because they could not be copied.
    pub(super) fn give_back(&self, ranges: &[Range<usize>]) {
        for range in ranges {
            self.changed.set_addr_range(range.start, range.len());
        }
    }

    /// Reads the bytes as they are now. A record may be half in its slot; then the slot changes again.
    ///
    /// # Errors
    /// The file is shorter.
    pub(super) fn read(&self, offset: usize, room: &mut [u8]) -> io::Result<()> {
        self.bytes(offset, room.len())?.copy_to(room);
        Ok(())
    }

    fn bytes(&self, offset: usize, len: usize) -> io::Result<VolatileSlice<'_>> {
        self.memory.get_slice(offset, len).map_err(io::Error::other)
    }

    #[cfg(test)]
    pub(super) fn file(&self) -> &std::fs::File {
        self.memory.file_offset().unwrap().file()
    }
}

fn offset_of(slot: u32) -> usize {
    usize::try_from(slot)
        .unwrap_or(usize::MAX)
        .saturating_mul(SLOT_LEN)
}
