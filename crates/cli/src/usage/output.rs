//! Where an export goes: standard output, or a file that appears when it is complete.

use crate::{Failure, Outcome};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Stdout, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Where an export goes.
pub(super) enum Output {
    Standard(BufWriter<Stdout>),
    File(Partial),
}

/// A file that is being written, beside the place where it will be.
pub(super) struct Partial {
    file: BufWriter<File>,
    path: PathBuf,
    target: PathBuf,
    is_complete: bool,
}

impl Output {
    /// To a file, else to the standard output.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub(super) fn to(target: Option<&Path>) -> Result<Self, Failure> {
        let Some(target) = target else {
            return Ok(Self::Standard(BufWriter::new(io::stdout())));
        };
        let failed = |fault: io::Error| format!("{} cannot be written: {fault}", target.display());
        if target.metadata().is_ok_and(|it| !it.is_file()) {
            // A device would be replaced.
            return Err(format!("{} is not a regular file", target.display()).into());
        }
        let mut path = target.as_os_str().to_owned();
        path.push(format!(".{}", std::process::id()));
        let path = PathBuf::from(path);
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(&path);
        Ok(Self::File(Partial {
            file: BufWriter::new(file.map_err(failed)?),
            path,
            target: target.to_owned(),
            is_complete: false,
        }))
    }

    /// Completes it.
    pub(super) fn end(&mut self) -> Outcome {
        match self {
            Self::Standard(out) => Ok(out.flush().map_err(|fault| failure(&fault))?),
            Self::File(partial) => {
                let file = &mut partial.file;
                let written = file.flush().and_then(|()| file.get_ref().sync_all());
                let renamed = written.and_then(|()| fs::rename(&partial.path, &partial.target));
                let target = partial.target.display();
                renamed.map_err(|fault| format!("{target} cannot be written: {fault}"))?;
                partial.is_complete = true;
                Ok(())
            }
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Standard(out) => out.write(bytes),
            Self::File(partial) => partial.file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Standard(out) => out.flush(),
            Self::File(partial) => partial.file.flush(),
        }
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

/// The failure of a write.
pub(super) fn failure(fault: &io::Error) -> Failure {
    match fault.kind() {
        ErrorKind::BrokenPipe => Failure::ReaderLeft,
        _ => format!("the output cannot be written: {fault}").into(),
    }
}
