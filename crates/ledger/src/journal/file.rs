//! Making a settlement file that nobody takes for one of the dead.

use super::frame::SLOT_LEN;
use crate::store::{PRIVATE, make_private};
use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::Path,
};

/// Makes and locks a file of so many empty slots. Where that fails, it leaves none: who makes one
/// beside a process that serves must not take the last of the disk from it.
pub(super) fn make(path: &Path, slots: u32) -> io::Result<File> {
    let file = make_locked(path)?;
    if let Err(fault) = fill(&file, slots) {
        take_away(path);
        return Err(fault);
    }
    Ok(file)
}

/// Takes a file away that nobody needs any more.
pub(super) fn take_away(path: &Path) {
    if let Err(fault) = std::fs::remove_file(path) {
        log::warn!("{}: cannot be removed: {fault}", path.display());
    }
}

/// Zeros, not holes: a write into allocated blocks changes no metadata, so that a sync has nothing
/// but the data to wait for, and the disk cannot be full then.
fn fill(file: &File, slots: u32) -> io::Result<()> {
    let blank = [0; SLOT_LEN];
    let mut blanks = io::BufWriter::with_capacity(64 * SLOT_LEN, file);
    for _ in 0..slots {
        io::Write::write_all(&mut blanks, &blank)?;
    }
    io::Write::flush(&mut blanks)
}

/// Makes an empty file and locks it. Another process that begins may find it before it is locked,
/// take it for one of the dead, and take it away: then it is made again.
fn make_locked(path: &Path) -> io::Result<File> {
    loop {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(PRIVATE)
            .open(path)
            .and_then(make_private)?;
        file.lock()?;
        if file.metadata()?.nlink() > 0 {
            return Ok(file);
        }
    }
}
