//! Making a settlement file that no other process takes for one of a crashed process.

use super::frame::SLOT_LEN;
use crate::file::create_private;
use std::{fs::File, io, os::unix::fs::MetadataExt, path::Path};

/// Creates and locks a file of `slots` empty slots, with the owner of the database if root creates it.
/// Removes the file if it cannot be filled: another process may need the rest of the disk.
pub(super) fn make(path: &Path, slots: u32, database: &Path) -> io::Result<File> {
    let file = make_locked(path, database)?;
    if let Err(fault) = fill(&file, slots) {
        remove_or_warn(path);
        return Err(fault);
    }
    Ok(file)
}

/// Removes a file that is not needed any more.
pub(super) fn remove_or_warn(path: &Path) {
    if let Err(fault) = std::fs::remove_file(path) {
        log::warn!("{}: cannot be removed: {fault}", path.display());
    }
}

/// Zeros, not holes: a write into allocated blocks changes no metadata, so that a sync waits for the data
/// alone, and a full disk cannot fail it.
fn fill(file: &File, slots: u32) -> io::Result<()> {
    let blank = [0; SLOT_LEN];
    let mut blanks = io::BufWriter::with_capacity(64 * SLOT_LEN, file);
    for _ in 0..slots {
        io::Write::write_all(&mut blanks, &blank)?;
    }
    io::Write::flush(&mut blanks)
}

/// Creates an empty file and locks it. A process that starts may find the file before it is locked and
/// remove it as that of a crashed process; then the file is created again.
fn make_locked(path: &Path, database: &Path) -> io::Result<File> {
    loop {
        let file = create_private(path, Some(database))?;
        file.lock()?;
        if file.metadata()?.nlink() > 0 {
            return Ok(file);
        }
    }
}
