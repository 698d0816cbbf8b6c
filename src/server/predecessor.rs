//! The process from which this one takes over. `successor` is the other side of the hand-over.

use super::handover::{
    self, ACKNOWLEDGE, COMMIT, FAILED, GO, MOST_LINE_BYTES, READY, SERVING, TAKE,
};
use super::listeners::Sockets;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// The time limit for an answer of the other process.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

/// A running gateway that has handed its listening sockets to this process.
pub struct Predecessor {
    stream: BufReader<UnixStream>,
    /// The received part of a line.
    line: Vec<u8>,
    /// The operator's socket and its address.
    pub(super) admin: Option<(SocketAddr, TcpListener)>,
    /// The sockets for clients.
    pub(super) callers: Sockets,
}

/// Which process serves from now on.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// This process.
    Ours,
    /// The predecessor, and why.
    Theirs(String),
}

impl Predecessor {
    /// Asks the gateway at a Unix socket.
    ///
    /// # Errors
    ///
    /// There is none, or it hands nothing over.
    pub fn behind(socket: &Path) -> io::Result<Self> {
        Self::ask(UnixStream::connect(socket)?)
    }

    /// Asks the gateway that has started this process and has the other end of its standard input.
    ///
    /// # Errors
    ///
    /// It is no gateway, or hands nothing over.
    pub fn at_standard_input() -> io::Result<Self> {
        let stream = io::stdin().as_fd().try_clone_to_owned()?;
        Self::ask(UnixStream::from(stream))
    }

    fn ask(mut stream: UnixStream) -> io::Result<Self> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        writeln!(stream, "{TAKE}")?;
        let (addresses, sockets) = handover::receive(&stream)?;
        let mut sockets = sockets.into_iter();
        let admin = sockets.next().map(TcpListener::from);
        Ok(Self {
            admin: admin.map(|listener| (addresses.admin, listener)),
            callers: Sockets::inherited(addresses.callers.into_iter().zip(sockets)),
            stream: BufReader::new(stream),
            line: Vec::new(),
        })
    }

    /// Reports that this process is ready, and waits for `go`. It also serves if the other process has crashed,
    /// because only this one has the sockets then.
    ///
    /// # Errors
    ///
    /// `go` does not arrive, or the other process has refused.
    pub(super) fn ready(&mut self) -> io::Result<()> {
        // The answer shows whether it has arrived.
        let _ = self.say(READY);
        match self.hear() {
            Ok(line) if line == GO => Ok(()),
            Ok(line) => Err(handover::refused(line.as_bytes())),
            Err(fault) if is_late(&fault) => Err(fault),
            Err(_) => {
                log::warn!("the old process has crashed: this one takes over");
                Ok(())
            }
        }
    }

    /// Reports that this process serves, and waits without limit until the other one has decided which
    /// process does.
    pub(super) fn serving(mut self, pid: u32) -> Verdict {
        // A line that was sent before the end of the stream counts.
        let _ = self.say(&format!("{SERVING} {pid}"));
        loop {
            match self.hear() {
                Ok(line) if line == COMMIT => {
                    // A crashed process does not wait for it.
                    let _ = self.say(ACKNOWLEDGE);
                    // The other process sends a line when it accepts no more connections.
                    let _ = self.hear();
                    return Verdict::Ours;
                }
                Ok(line) => return Verdict::Theirs(handover::refused(line.as_bytes()).to_string()),
                Err(fault) if is_late(&fault) => {}
                Err(fault) => {
                    log::warn!("the old process did not report that it ends: {fault}");
                    return Verdict::Ours;
                }
            }
        }
    }

    /// Reports why this process cannot serve.
    pub fn fail(mut self, cause: &str) {
        let cause = cause.replace('\n', "; ");
        // The end of the stream shows it, too.
        let _ = self.say(&format!("{FAILED} {cause:.4000}"));
    }

    fn say(&mut self, line: &str) -> io::Result<()> {
        writeln!(self.stream.get_mut(), "{line}")
    }

    /// The next line. A part that arrives before an error is kept for the next call.
    fn hear(&mut self) -> io::Result<String> {
        let left = MOST_LINE_BYTES.saturating_sub(self.line.len());
        let most = u64::try_from(left).unwrap_or(u64::MAX);
        let mut stream = (&mut self.stream).take(most);
        stream.read_until(b'\n', &mut self.line)?;
        let line = std::mem::take(&mut self.line);
        match line.strip_suffix(b"\n") {
            Some(text) => Ok(String::from_utf8_lossy(text).into_owned()),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// No line arrived in time.
fn is_late(fault: &io::Error) -> bool {
    matches!(
        fault.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}
