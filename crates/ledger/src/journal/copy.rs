//! The copy of a settlement file on the disk: it bounds the loss of a power failure.

use super::{
    file::{make, remove_or_warn},
    frame::{Contents, SLOT_LEN, unframe},
    live::Live,
};
use std::{
    ffi::OsString,
    fs::File,
    io,
    ops::Range,
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
};

/// Bytes that are read and written together at most.
const MOST_AT_ONCE: usize = 128 * 1024;

/// The name of a copy is the name of its settlement file and this.
const SUFFIX: &str = ".synced";

/// Where the copy of a settlement file is.
pub(super) fn path_of_copy(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(SUFFIX);
    name.into()
}

/// The name of a settlement file, from its own or from that of its copy.
pub(crate) fn name_without_copy(name: &str) -> &str {
    name.strip_suffix(SUFFIX).unwrap_or(name)
}

/// Whether a record is on its way into a slot.
fn is_being_written(slot: &[u8]) -> bool {
    match unframe(slot) {
        Contents::Torn => true,
        Contents::Nothing => slot.iter().any(|byte| *byte != 0),
        Contents::Record(_) | Contents::Part(_) => false,
    }
}

/// The copy, under the lock of this process.
pub(super) struct DiskCopy {
    path: PathBuf,
    file: File,
}

impl DiskCopy {
    /// Makes and locks the copy of an empty settlement file of `slots` slots.
    pub(super) fn create(of: &Path, slots: u32, database: &Path) -> io::Result<Self> {
        let path = path_of_copy(of);
        let file = make(&path, slots, database)?;
        let copy = Self { path, file };
        // Once, so that later syncs have nothing but data to wait for.
        if let Err(fault) = copy.file.sync_all() {
            copy.remove();
            return Err(fault);
        }
        Ok(copy)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn remove(&self) {
        remove_or_warn(&self.path);
    }

    /// Writes what has changed to the disk, and waits until it is there. After an error it is written the
    /// next time.
    ///
    /// # Errors
    /// The disk fails, or the file was removed.
    pub(super) fn follow(&self, live: &Live) -> io::Result<()> {
        self.is_there()?;
        let changed = live.take_changed();
        let copied = changed
            .iter()
            .try_for_each(|range| self.take(live, range.clone()))
            .and_then(|()| self.file.sync_data());
        if copied.is_err() {
            live.give_back(&changed);
        }
        copied
    }

    fn is_there(&self) -> io::Result<()> {
        if self.file.metadata()?.nlink() == 0 {
            const REMOVED: &str = "it was removed, and the next process alone makes another";
            return Err(io::Error::new(io::ErrorKind::NotFound, REMOVED));
        }
        Ok(())
    }

    fn take(&self, live: &Live, range: Range<usize>) -> io::Result<()> {
        let mut room = vec![0; range.len().min(MOST_AT_ONCE)];
        for start in range.clone().step_by(MOST_AT_ONCE) {
            let len = range.end.saturating_sub(start).min(MOST_AT_ONCE);
            let bytes = room.get_mut(..len).unwrap_or_default();
            live.read(start, bytes)?;
            let mut place = u64::try_from(start).map_err(io::Error::other)?;
            let offset = place;
            for slot in bytes.chunks_mut(SLOT_LEN) {
                // The page has changed again when the record is whole. Until then, the one before it stays.
                if is_being_written(slot) {
                    self.file.read_exact_at(slot, place)?;
                }
                place = place.saturating_add(SLOT_LEN as u64);
            }
            self.file.write_all_at(bytes, offset)?;
        }
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn file(&self) -> &File {
        &self.file
    }
}
