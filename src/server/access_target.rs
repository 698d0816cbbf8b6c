//! Where the access log of a configuration goes: whether it can be opened, and opening it.

use rustix::fs::{Mode, OFlags};
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use tollgate_config::{AccessFormat, AccessLog as AccessLogTarget, LogSettings};
use tollgate_telemetry::access_log::{AccessLog, Format, Writer};

/// Opens the access log.
///
/// # Errors
///
/// The file or the journal cannot be opened, or there is no thread.
pub fn open(settings: &LogSettings) -> io::Result<(AccessLog, Option<Writer>)> {
    let format = match settings.access_format {
        AccessFormat::Json => Format::Json,
        AccessFormat::Common => Format::Common,
    };
    let (log, writer) = match (&settings.access_file, settings.access) {
        (Some(file), _) => open_file(file, format).map_err(|cause| of_file(file, &cause))?,
        (None, AccessLogTarget::None) => return Ok((AccessLog::off(), None)),
        (None, AccessLogTarget::Stdout) => AccessLog::to(io::stdout(), format)?,
        (None, AccessLogTarget::Stderr) => AccessLog::to(io::stderr(), format)?,
        (None, AccessLogTarget::Journald) => {
            let socket = &settings.journal_socket;
            let opened = AccessLog::to_journal(socket.clone(), format);
            opened.map_err(|cause| of_journal(socket, &cause))?
        }
    };
    Ok((log, Some(writer)))
}

/// Checks that the access log can be opened. Makes no file.
///
/// # Errors
///
/// The file or the journal cannot be opened.
pub fn check(settings: &LogSettings) -> io::Result<()> {
    match (&settings.access_file, settings.access) {
        (Some(file), _) => check_file(file).map_err(|cause| of_file(file, &cause)),
        (None, AccessLogTarget::Journald) => {
            let socket = &settings.journal_socket;
            let connected = UnixDatagram::unbound().and_then(|it| it.connect(socket));
            connected.map_err(|cause| of_journal(socket, &cause))
        }
        (None, _) => Ok(()),
    }
}

fn open_file(file: &Path, format: Format) -> io::Result<(AccessLog, Writer)> {
    // Without this, opening a pipe waits for its reader.
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let probe = is_pipe(file).then(|| rustix::fs::open(file, flags, Mode::empty()));
    let _probe = probe
        .transpose()
        .map_err(|cause| io::Error::other(format!("no process reads this pipe ({cause})")))?;
    AccessLog::to_file(file.to_owned(), format)
}

fn check_file(file: &Path) -> io::Result<()> {
    // Its reader would see an end when the check closes it.
    if is_pipe(file) {
        return Ok(());
    }
    let Err(cause) = OpenOptions::new().append(true).open(file) else {
        return Ok(());
    };
    match (cause.kind(), file.parent()) {
        // The start creates it in its folder.
        (io::ErrorKind::NotFound, Some(folder)) => match folder.as_os_str().is_empty() {
            true => Ok(()),
            false => folder.metadata().map(drop),
        },
        // The check may run as another user.
        (io::ErrorKind::PermissionDenied, _) => Ok(()),
        _ => Err(cause),
    }
}

fn is_pipe(file: &Path) -> bool {
    file.metadata().is_ok_and(|it| it.file_type().is_fifo())
}

fn of_file(file: &Path, cause: &io::Error) -> io::Error {
    io::Error::other(format!("log.access_file: {}: {cause}", file.display()))
}

fn of_journal(socket: &Path, cause: &io::Error) -> io::Error {
    io::Error::other(format!("log.journal_socket: {}: {cause}", socket.display()))
}
