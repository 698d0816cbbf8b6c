//! The access log: one JSON line for each request, on standard output, in a file or in the journal.
//!
//! Requests append to a buffer and never wait; a thread writes it out. A reader that is
//! too slow costs lines, which are counted, and never a request's time.

mod common;
mod fields;
mod file;
mod journal;

pub use fields::Fields;

use crate::events;
use file::RotatedFile;
use journal::Journal;
use parking_lot::{Condvar, Mutex};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

/// Bytes of lines that wait at most.
const MOST_WAITING: usize = 4 * 1024 * 1024;
/// Bytes at which the writer is woken before its time.
const WAKE_AT: usize = 256 * 1024;
/// How long a line waits at most.
const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// The form of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A JSON object.
    Json,
    /// The Common Log Format of web servers.
    Common,
}

/// Where requests leave their lines.
#[derive(Clone)]
pub struct AccessLog(Option<Arc<Shared>>);

struct Shared {
    waiting: Mutex<Waiting>,
    wake: Condvar,
}

#[derive(Default)]
struct Waiting {
    lines: Vec<u8>,
    closed: bool,
}

/// The writing thread; dropping it writes what waits and ends it.
pub struct Writer {
    shared: Arc<Shared>,
    /// Closed by the thread's end.
    end: Receiver<()>,
}

impl AccessLog {
    /// A log that is not written: lines cost nothing.
    pub const fn off() -> Self {
        Self(None)
    }

    /// A log that is written to `out`.
    ///
    /// # Errors
    ///
    /// When no thread can be had.
    pub fn to(out: impl Write + Send + 'static, format: Format) -> io::Result<(Self, Writer)> {
        let shared = Arc::new(Shared {
            waiting: Mutex::default(),
            wake: Condvar::new(),
        });
        let writing = Arc::clone(&shared);
        let (at_its_end, end) = mpsc::channel();
        std::thread::Builder::new()
            .name("access-log".to_owned())
            .spawn(move || {
                write_out(&writing, out, format);
                drop::<Sender<()>>(at_its_end);
            })?;
        Ok((Self(Some(Arc::clone(&shared))), Writer { shared, end }))
    }

    /// A log that is written to a file.
    ///
    /// # Errors
    ///
    /// The file cannot be opened, or there is no thread.
    pub fn to_file(path: PathBuf, format: Format) -> io::Result<(Self, Writer)> {
        Self::to(RotatedFile::open(path)?, format)
    }

    /// A log that is sent to the journal of systemd at this socket.
    ///
    /// # Errors
    ///
    /// There is no journal, or no thread.
    pub fn to_journal(socket: PathBuf, format: Format) -> io::Result<(Self, Writer)> {
        Self::to(Journal::open(socket, format)?, Format::Json)
    }

    /// Leaves a line, written only when someone reads it.
    pub fn line(&self, write: impl FnOnce(&mut Fields<'_>)) {
        let Some(shared) = &self.0 else { return };
        let mut waiting = shared.waiting.lock();
        let begin = waiting.lines.len();
        if begin >= MOST_WAITING {
            events::access_lines_lost(1);
            return;
        }
        let mut fields = Fields::begin(&mut waiting.lines);
        write(&mut fields);
        fields.end();
        waiting.lines.push(b'\n');
        if begin < WAKE_AT && waiting.lines.len() >= WAKE_AT {
            shared.wake.notify_one();
        }
    }
}

fn write_out(shared: &Shared, mut out: impl Write, format: Format) {
    let mut writing = Vec::new();
    loop {
        let closed = {
            let mut waiting = shared.waiting.lock();
            if !waiting.closed && waiting.lines.len() < WAKE_AT {
                shared.wake.wait_for(&mut waiting, LONGEST_WAIT);
            }
            std::mem::swap(&mut waiting.lines, &mut writing);
            waiting.closed
        };
        if format == Format::Common {
            writing = common::lines(&writing);
        }
        // A reader that has gone, or a full disk, is no reason to stop serving.
        let mut lost = unwritten(&mut out, &writing);
        if out.flush().is_err() {
            lost = &writing;
        }
        events::access_lines_lost(lost.iter().filter(|byte| **byte == b'\n').count());
        writing.clear();
        if closed {
            return;
        }
    }
}

/// Writes lines. Returns those that could not be written.
fn unwritten<'a>(out: &mut impl Write, mut lines: &'a [u8]) -> &'a [u8] {
    while !lines.is_empty() {
        match out.write(lines) {
            Ok(count @ 1..) => lines = lines.get(count..).unwrap_or_default(),
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Ok(_) | Err(_) => break,
        }
    }
    lines
}

impl Drop for Writer {
    /// Waits until every line is written, but not for ever if the reader is stuck.
    fn drop(&mut self) {
        const PATIENCE: Duration = Duration::from_secs(2);
        self.shared.waiting.lock().closed = true;
        self.shared.wake.notify_one();
        if self.end.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            log::warn!("the access log is not read: its last lines are lost");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, piece: &[u8]) -> std::io::Result<usize> {
            self.0.lock().extend_from_slice(piece);
            Ok(piece.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_is_stuck_blocks_no_request_for_ever() {
        struct Stuck(std::sync::mpsc::Receiver<()>);

        impl Write for Stuck {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                let _ = self.0.recv();
                Ok(0)
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }

        let (_reader, stuck) = std::sync::mpsc::channel();
        let (log, writer) = AccessLog::to(Stuck(stuck), Format::Json).unwrap();
        log.line(|fields| fields.number("n", 1));
        // Joining its thread would wait until the reader is dropped, behind this line.
        drop(writer);
    }

    #[test]
    fn every_line_is_written_before_the_writer_is_gone() {
        let sink = Sink::default();
        let (log, writer) = AccessLog::to(sink.clone(), Format::Json).unwrap();
        for number in 0..1000 {
            log.line(|fields| fields.number("n", number));
        }
        drop(writer);
        let text = String::from_utf8(sink.0.lock().clone()).unwrap();
        assert_eq!(text.lines().count(), 1000);
        assert_eq!(text.lines().last(), Some("{\"n\":999}"));
    }
}
