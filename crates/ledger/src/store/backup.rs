//! Copying the file while gateways run.

use super::{
    Store,
    error::{Described, StoreError},
    open::{connect, create_new_private},
};
use std::path::Path;

impl Store {
    /// Writes a copy of the ledger to `target`, which must not exist. One snapshot; blocks
    /// nobody, and needs no stop however much is written meanwhile. Settlements of the last
    /// moments that are only in a settlement file are not in it.
    ///
    /// The copy holds no lease: nobody spends from it, and whoever opens it begins anew.
    ///
    /// # Errors
    /// `target` exists or cannot be written, or the file cannot be read.
    pub fn backup(&self, target: &Path) -> Result<(), StoreError> {
        let copy = create_new_private(target)?;
        let name = target.to_string_lossy();
        // Not the backup interface of SQLite: it starts over whenever another process
        // commits, and under load it would never end.
        self.read(|file| file.execute("VACUUM INTO ?1", [&name]))?;
        let prepare = || {
            let file = connect(target, super::open::BUSY_TIMEOUT)?;
            file.execute_batch(
                "BEGIN; DELETE FROM leases; DELETE FROM wants;
                 UPDATE processes SET ended_at = started_at WHERE ended_at IS NULL; COMMIT",
            )
        };
        prepare().described(target)?;
        copy.sync_all().map_err(|fault| StoreError::CannotOpen {
            path: target.to_owned(),
            cause: fault.to_string(),
        })
    }
}
