//! The process from which this one takes over: its side of the hand-over is in `successor`.

use super::handover::{self, FAILED, GO, MOST_LINE_BYTES, OVER, READY, SERVING, TAKE};
use super::listeners::Sockets;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// How long the other process may take for an answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// A gateway that runs, and has given its listening sockets to this process.
pub struct Predecessor {
    stream: BufReader<UnixStream>,
    /// The operator's socket and where it listens.
    pub(super) admin: Option<(SocketAddr, TcpListener)>,
    /// Those of callers.
    pub(super) callers: Sockets,
}

impl Predecessor {
    /// Asks the gateway behind a Unix socket.
    ///
    /// # Errors
    ///
    /// There is none, or it hands nothing over.
    pub fn behind(socket: &Path) -> io::Result<Self> {
        Self::ask(UnixStream::connect(socket)?)
    }

    /// Asks the gateway that has started this process and holds the other end of its standard
    /// input.
    ///
    /// # Errors
    ///
    /// It is none, or hands nothing over.
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
        })
    }

    /// Says that this process could serve, and waits for the word to do so.
    ///
    /// # Errors
    ///
    /// The word does not come.
    pub(super) fn ready(&mut self) -> io::Result<()> {
        self.say(READY)?;
        self.hear(GO)
    }

    /// Says that this process serves, and waits until the other does not.
    ///
    /// # Errors
    ///
    /// It does not say so.
    pub(super) fn serving(mut self, pid: u32) -> io::Result<()> {
        self.say(&format!("{SERVING} {pid}"))?;
        self.hear(OVER)
    }

    /// Says why this process cannot serve.
    pub fn fail(mut self, cause: &str) {
        let cause = cause.replace('\n', "; ");
        // It finds out by the end of the stream, too.
        let _ = self.say(&format!("{FAILED} {cause:.4000}"));
    }

    fn say(&mut self, line: &str) -> io::Result<()> {
        writeln!(self.stream.get_mut(), "{line}")
    }

    fn hear(&mut self, wanted: &str) -> io::Result<()> {
        let mut line = Vec::new();
        let most = u64::try_from(MOST_LINE_BYTES).unwrap_or(u64::MAX);
        let mut stream = (&mut self.stream).take(most);
        stream.read_until(b'\n', &mut line)?;
        match line.strip_suffix(b"\n") {
            Some(text) if text == wanted.as_bytes() => Ok(()),
            Some(_) => Err(handover::refused(&line)),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}
