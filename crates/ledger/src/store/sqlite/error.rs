//! The errors of SQLite, as errors of the store that name the file.

use super::open::BUSY_TIMEOUT;
use crate::store::StoreError;
use rusqlite::ErrorCode;
use std::path::Path;

/// Turns errors of SQLite into ones that name the file.
pub(super) trait Described<T> {
    fn described(self, path: &Path) -> Result<T, StoreError>;
}

impl<T> Described<T> for rusqlite::Result<T> {
    fn described(self, path: &Path) -> Result<T, StoreError> {
        self.map_err(|error| describe(&error, path))
    }
}

fn describe(error: &rusqlite::Error, path: &Path) -> StoreError {
    let path = path.to_owned();
    let cause = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => StoreError::NotALedger { path },
        Some(ErrorCode::DatabaseCorrupt) => StoreError::Damaged { path, cause },
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Locked {
            path,
            waited: BUSY_TIMEOUT,
        },
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => StoreError::ReadOnly { path },
        Some(ErrorCode::CannotOpen) => StoreError::CannotOpen { path, cause },
        Some(ErrorCode::DiskFull) => StoreError::DiskFull { path },
        _ => StoreError::Other { path, cause },
    }
}
