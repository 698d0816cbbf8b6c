//! A file that its owner alone can read, and that appears when it is complete.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A file that is being written, beside the place where it will be.
pub(super) struct Partial {
    file: BufWriter<File>,
    path: PathBuf,
    target: PathBuf,
    is_complete: bool,
}

impl Partial {
    /// Begins to write `target`.
    ///
    /// # Errors
    ///
    /// The file beside it cannot be created.
    pub(super) fn of(target: &Path) -> io::Result<Self> {
        let mut path = target.as_os_str().to_owned();
        path.push(format!(".{}", std::process::id()));
        let path = PathBuf::from(path);
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(&path);
        Ok(Self {
            file: BufWriter::new(file?),
            path,
            target: target.to_owned(),
            is_complete: false,
        })
    }

    /// The place where it will be.
    pub(super) fn target(&self) -> &Path {
        &self.target
    }

    /// Puts it there, instead of a file that is there already.
    ///
    /// # Errors
    ///
    /// It cannot be written or renamed.
    pub(super) fn complete(&mut self) -> io::Result<()> {
        self.file.flush()?;
        self.file.get_ref().sync_all()?;
        fs::rename(&self.path, &self.target)?;
        self.is_complete = true;
        Ok(())
    }
}

impl Write for Partial {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.is_complete {
            // A part must not be taken for the whole.
            let _ = fs::remove_file(&self.path);
        }
    }
}
