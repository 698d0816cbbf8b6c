//! Creating the files of a ledger.

use std::{
    fs::{File, OpenOptions, Permissions},
    io,
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown},
    path::Path,
};

/// Creates a file that must not exist yet. The mode of every file of the ledger is 0600, whatever the
/// umask is. A file of a database that root creates gets the owner of the database, as SQLite does
/// with its log: otherwise a command run by root would leave files that the gateway cannot open.
pub(crate) fn create_private(path: &Path, database: Option<&Path>) -> io::Result<File> {
    const PRIVATE: u32 = 0o600;
    const ROOT: u32 = 0;
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create_new(true);
    let file = options.mode(PRIVATE).open(path)?;
    file.set_permissions(Permissions::from_mode(PRIVATE))?;
    let owner = database.and_then(|database| std::fs::metadata(database).ok());
    if let Some(owner) = owner.filter(|owner| owner.uid() != ROOT)
        && file.metadata()?.uid() == ROOT
    {
        // Root in a container may not be allowed to do this; it then keeps the file.
        let _ = fchown(&file, Some(owner.uid()), Some(owner.gid()));
    }
    Ok(file)
}
