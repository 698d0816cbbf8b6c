//! The copy of a settlement file that is on the disk: it bounds what a power failure can take.

use super::{file::make, live::Live};
use std::{
    ffi::OsString,
    fs::File,
    io,
    ops::Range,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

/// Bytes that are read and written together at most.
const MOST_AT_ONCE: usize = 128 * 1024;

/// Where the copy of a settlement file is: its name begins as that of any settlement file, so that
/// a program which knows of no copies reads it as one.
pub(super) fn path_of_copy(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".synced");
    name.into()
}

pub(super) struct Copy {
    file: File,
}

impl Copy {
    /// Makes and locks the copy of an empty file of `slots` slots.
    pub(super) fn create(path: &Path, slots: u32) -> io::Result<Self> {
        let file = make(path, slots)?;
        // Once, so that later syncs have nothing but data to wait for.
        file.sync_all()?;
        Ok(Self { file })
    }

    /// Brings what has changed to the disk, and waits until it is there. What has not come there is
    /// taken along the next time.
    ///
    /// # Errors
    /// The disk does not take it.
    pub(super) fn follow(&self, live: &Live) -> io::Result<()> {
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

    fn take(&self, live: &Live, range: Range<usize>) -> io::Result<()> {
        let mut room = vec![0; range.len().min(MOST_AT_ONCE)];
        for start in range.clone().step_by(MOST_AT_ONCE) {
            let len = range.end.saturating_sub(start).min(MOST_AT_ONCE);
            let bytes = room.get_mut(..len).unwrap_or_default();
            live.read(start, bytes)?;
            let offset = u64::try_from(start).map_err(io::Error::other)?;
            self.file.write_all_at(bytes, offset)?;
        }
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn file(&self) -> &File {
        &self.file
    }
}
