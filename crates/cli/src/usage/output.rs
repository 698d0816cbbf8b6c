//! Where an export goes: standard output, or a file that appears when it is complete.

use crate::partial::Partial;
use crate::{Failure, Outcome};
use std::io::{self, BufWriter, ErrorKind, Stdout, Write};
use std::path::Path;

/// Where an export goes.
pub(super) enum Output {
    Standard(BufWriter<Stdout>),
    File(Partial),
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
        if target.metadata().is_ok_and(|it| !it.is_file()) {
            // A device would be replaced.
            return Err(format!("{} is not a regular file", target.display()).into());
        }
        let file = Partial::of(target)
            .map_err(|fault| format!("{} cannot be written: {fault}", target.display()))?;
        Ok(Self::File(file))
    }

    /// Completes it.
    pub(super) fn end(&mut self) -> Outcome {
        match self {
            Self::Standard(out) => Ok(out.flush().map_err(|fault| failure(&fault))?),
            Self::File(partial) => {
                let completed = partial.complete();
                let target = partial.target().display();
                Ok(completed.map_err(|fault| format!("{target} cannot be written: {fault}"))?)
            }
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Standard(out) => out.write(bytes),
            Self::File(partial) => partial.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Standard(out) => out.flush(),
            Self::File(partial) => partial.flush(),
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
