//! A file for the access log, which another program may rotate.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Appends lines to a file. If the file is renamed or removed, the next write makes a new one.
pub(super) struct RotatedFile {
    path: PathBuf,
    file: File,
    /// The file ends within a line.
    is_cut: bool,
    /// What stopped the last write.
    fault: Option<io::Error>,
}

impl RotatedFile {
    /// Opens the file, or makes it.
    pub(super) fn open(path: PathBuf) -> io::Result<Self> {
        let file = open(&path)?;
        let is_cut = ends_within_line(&file, &path);
        Ok(Self {
            path,
            file,
            is_cut,
            fault: None,
        })
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

/// Whether a process before this one could not write its last line whole.
fn ends_within_line(file: &File, path: &Path) -> bool {
    let ends = || {
        let found = file.metadata()?;
        let Some(last_at) = found.len().checked_sub(1).filter(|_| found.is_file()) else {
            return Ok(false);
        };
        let mut last = [0];
        File::open(path)?.read_exact_at(&mut last, last_at)?;
        Ok::<_, io::Error>(last != *b"\n")
    };
    ends().unwrap_or(false)
}

impl Write for RotatedFile {
    /// Writes all lines, so that rotation never cuts one in two, or as much as the disk takes. The write after
    /// that returns the error, so that no line is continued.
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        if !self.is_current()? {
            self.file = open(&self.path)?;
            self.is_cut = ends_within_line(&self.file, &self.path);
        }
        if self.is_cut {
            self.file.write_all(b"\n")?;
            self.is_cut = false;
        }
        let mut left = lines;
        while !left.is_empty() && self.fault.is_none() {
            match self.file.write(left) {
                Ok(count @ 1..) => left = left.get(count..).unwrap_or_default(),
                Ok(_) => self.fault = Some(io::ErrorKind::WriteZero.into()),
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
                Err(cause) => self.fault = Some(cause),
            }
        }
        let written = lines.len().saturating_sub(left.len());
        let last = lines.get(..written).and_then(<[u8]>::last);
        match (last, self.fault.take()) {
            (None, Some(fault)) => Err(fault),
            (last, fault) => {
                self.is_cut = last.is_some_and(|byte| *byte != b'\n');
                self.fault = fault;
                Ok(written)
            }
        }
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

    #[test]
    fn a_line_that_another_process_could_not_write_whole_is_not_continued() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        for (before, after) in [("one\nha", "one\nha\ntwo\n"), ("one\n", "one\ntwo\n")] {
            std::fs::write(&path, before).unwrap();
            let mut file = RotatedFile::open(path.clone()).unwrap();
            file.write_all(b"two\n").unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), after);
        }
    }
}
