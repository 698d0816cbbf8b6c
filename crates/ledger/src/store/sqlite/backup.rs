//! Copying the file while gateways run.

use super::{
    Sqlite,
    error::Described,
    open::{BUSY_TIMEOUT, connect, create_new_private},
    write::WriteConnection,
};
use crate::store::StoreError;
use std::{
    fs::{self, File},
    io,
    path::Path,
};

impl Sqlite {
    pub(super) fn copy_file(&self, target: &Path) -> Result<(), StoreError> {
        let fault = |cause: io::Error| StoreError::CannotOpen {
            path: target.to_owned(),
            cause: cause.to_string(),
        };
        // Absolute, so that SQLite takes no name for an address of its own (`file:`).
        let place = std::path::absolute(target).map_err(fault)?;
        let name = place.to_str().ok_or_else(|| {
            let cause = "its name is not UTF-8".to_owned();
            let path = target.to_owned();
            StoreError::CannotOpen { path, cause }
        })?;
        let copy = create_new_private(target)?;
        let written = self
            .copy_to(name)
            .and_then(|()| release(&place))
            .and_then(|()| sync(&copy, &place).map_err(fault));
        if written.is_err() {
            // A part of a copy must not be taken for a backup.
            let _ = fs::remove_file(&place);
        }
        written
    }

    /// Over a connection of its own, so that a long copy does not delay the administration of keys.
    fn copy_to(&self, name: &str) -> Result<(), StoreError> {
        let copy = || {
            // Not the backup interface of SQLite: it starts over whenever another process
            // commits, and under load it would never end.
            connect(&self.path, BUSY_TIMEOUT)?.execute("VACUUM INTO ?1", [name])
        };
        copy().described(&self.path).map(|_| ())
    }
}

/// Ends leases and processes in the copy, which only the original has.
fn release(copy: &Path) -> Result<(), StoreError> {
    let release = || {
        let file = WriteConnection::new(connect(copy, BUSY_TIMEOUT)?, None, BUSY_TIMEOUT)?;
        file.change(|transaction| {
            transaction.execute_batch(
                "DELETE FROM leases; DELETE FROM lease_requests;
                 UPDATE processes SET ended_at = started_at WHERE ended_at IS NULL",
            )
        })
    };
    release().described(copy)
}

/// The file, and its name in the folder.
fn sync(copy: &File, place: &Path) -> io::Result<()> {
    copy.sync_all()?;
    match place.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}
