//! Reads files for this process: one that does not answer is given up, be it a pipe without
//! a writer or a file on a server that is gone.
//!
//! The system offers no such bound, so each file is read by a thread of its own. One whose file never
//! answers stays behind; there is one for each such file, and a bound on all.

use once_cell::sync::Lazy;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;
use tollgate_settings::{Environment, ProcessEnvironment};

/// The environment and the files of this process, as far as they answer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Answering;

impl Environment for Answering {
    fn variable(&self, name: &str) -> Option<String> {
        ProcessEnvironment.variable(name)
    }

    fn is_not_text(&self, name: &str) -> bool {
        ProcessEnvironment.is_not_text(name)
    }

    fn read_bytes(&self, path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
        /// How long a file may take.
        const PATIENCE: Duration = Duration::from_secs(5);
        read_within(path, max_bytes, PATIENCE)
    }
}

/// The files that have not answered yet, and were given up.
static SILENT: Lazy<Mutex<BTreeSet<PathBuf>>> = Lazy::new(Mutex::default);

fn read_within(path: &Path, max_bytes: u64, patience: Duration) -> io::Result<Vec<u8>> {
    /// Threads that may stay behind.
    const MOST_SILENT: usize = 32;
    {
        let silent = SILENT.lock();
        if silent.contains(path) || silent.len() >= MOST_SILENT {
            return Err(given_up("files of an earlier reload do not answer"));
        }
    }
    let (answer, answered) = mpsc::sync_channel(1);
    let file = path.to_owned();
    let reading = move || {
        let bytes = ProcessEnvironment.read_bytes(&file, max_bytes);
        // Under the lock: a waiter gives up before this or after it.
        let mut silent = SILENT.lock();
        if answer.send(bytes).is_err() {
            silent.remove(&file);
        }
    };
    let thread = std::thread::Builder::new().name("file".to_owned());
    thread.spawn(reading)?;
    match answered.recv_timeout(patience) {
        Ok(read) => return read,
        Err(RecvTimeoutError::Disconnected) => return Err(io::ErrorKind::Other.into()),
        Err(RecvTimeoutError::Timeout) => {}
    }
    let mut silent = SILENT.lock();
    if let Ok(read) = answered.try_recv() {
        return read;
    }
    silent.insert(path.to_owned());
    // From here on the thread notices that no caller waits.
    drop(answered);
    drop(silent);
    Err(given_up(&format!("it has not answered for {patience:?}")))
}

fn given_up(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    const SOON: Duration = Duration::from_millis(50);
    const LATE: Duration = Duration::from_secs(10);

    fn pipe() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(made.unwrap().success());
        (folder, path)
    }

    #[test]
    fn a_pipe_without_a_writer_is_given_up_and_not_waited_for_again() {
        let (_folder, path) = pipe();
        let fault = read_within(&path, 100, SOON).unwrap_err();
        assert_eq!(fault.kind(), io::ErrorKind::TimedOut);
        let begun = Instant::now();
        let fault = read_within(&path, 100, LATE).unwrap_err();
        assert_eq!(fault.kind(), io::ErrorKind::TimedOut);
        assert!(begun.elapsed() < LATE);

        // The reader still takes the result, and the next one waits again.
        std::fs::write(&path, "late").unwrap();
        let begun = Instant::now();
        while SILENT.lock().contains(&path) {
            assert!(begun.elapsed() < LATE, "the thread stays behind");
            std::thread::yield_now();
        }
        let file = path.clone();
        let writer = std::thread::spawn(move || std::fs::write(file, "secret"));
        assert_eq!(read_within(&path, 100, LATE).unwrap(), b"secret");
        writer.join().unwrap().unwrap();
    }

    #[test]
    fn no_command_waits_for_a_configuration_that_never_comes() {
        let (_folder, path) = pipe();
        let faults = crate::load(&path).unwrap_err().to_string();
        assert!(faults.contains("has not answered"), "{faults}");
    }

    #[test]
    fn a_file_is_read_as_ever() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "text").unwrap();
        assert_eq!(Answering.read(&path, 4).unwrap(), "text");
        let fault = Answering.read(&path, 3).unwrap_err();
        assert_eq!(fault.kind(), io::ErrorKind::FileTooLarge);
        let fault = Answering.read(&folder.path().join("none"), 3).unwrap_err();
        assert_eq!(fault.kind(), io::ErrorKind::NotFound);
    }
}
