//! A file for the access log, which another program may rotate.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Appends to a file. If the file is renamed or removed, the next write makes a new one.
pub(super) struct RotatedFile {
    path: PathBuf,
    file: File,
}

impl RotatedFile {
    /// Opens the file, or makes it.
    pub(super) fn open(path: PathBuf) -> io::Result<Self> {
        let file = open(&path)?;
        Ok(Self { path, file })
    }

    /// Whether the path still leads to the open file.
    fn is_current(&self) -> io::Result<bool> {
        let identity = |it: std::fs::Metadata| (it.dev(), it.ino());
        match std::fs::metadata(&self.path) {
            Ok(found) => Ok(identity(found) == identity(self.file.metadata()?)),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(cause) => Err(cause),
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    // Lines have addresses of clients and names of models.
    const OWNER_ONLY: u32 = 0o600;
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(OWNER_ONLY);
    options.open(path)
}

impl Write for RotatedFile {
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        if !self.is_current()? {
            self.file = open(&self.path)?;
        }
        // Rotation never cuts a line in two.
        self.file.write_all(lines)?;
        Ok(lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_renamed_or_removed_is_followed_by_a_new_one() {
        let folder = tempfile::tempdir().unwrap();
        let (path, old) = (folder.path().join("log"), folder.path().join("log.1"));
        let mut file = RotatedFile::open(path.clone()).unwrap();
        file.write_all(b"one\n").unwrap();
        std::fs::rename(&path, &old).unwrap();
        file.write_all(b"two\n").unwrap();
        assert_eq!(std::fs::read(&old).unwrap(), b"one\n");
        assert_eq!(std::fs::read(&path).unwrap(), b"two\n");
        std::fs::remove_file(&path).unwrap();
        file.write_all(b"three\n").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"three\n");
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    }
}
