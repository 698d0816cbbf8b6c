//! Making a settlement file that nobody takes for one of the dead.

use super::frame::SLOT_LEN;
use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::Path,
};

/// Makes and locks a file of so many empty slots.
pub(super) fn make(path: &Path, slots: u32) -> io::Result<File> {
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
