//! A client's connection that can end in an unfriendly way: by a RST, or with bytes that
//! are no HTTP.
//!
//! The HTTP library owns the socket, so the end is ordered through a [`Switch`] that both
//! sides share, and carried out when the library lets go of the socket.

use bytes::Bytes;
use parking_lot::Mutex;
use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    sync::Notify,
};

/// The last thing that a peer sees of a connection.
#[derive(Debug)]
pub(crate) enum Parting {
    /// RST.
    Reset,
    /// These bytes, then the end.
    Words(Bytes),
}

/// Ends a connection from within a request.
#[derive(Debug, Default)]
pub(crate) struct Switch {
    parting: Mutex<Option<Parting>>,
    thrown: Notify,
    /// Whether the socket took less than it was given at the last write.
    blocked: AtomicBool,
}

impl Switch {
    /// Says how the connection shall end, whenever it does.
    pub(crate) fn arrange(&self, parting: Parting) {
        *self.parting.lock() = Some(parting);
    }

    /// Ends the connection now, all requests on it with it.
    pub(crate) fn end(&self, parting: Parting) {
        self.arrange(parting);
        self.thrown.notify_one();
    }

    /// Waits until either side ends the connection.
    pub(crate) async fn thrown(&self) {
        self.thrown.notified().await;
    }

    /// Whether bytes wait for the peer to read.
    pub(crate) fn blocked(&self) -> bool {
        self.blocked.load(Ordering::Relaxed)
    }

    fn note(&self, blocked: bool) {
        self.blocked.store(blocked, Ordering::Relaxed);
    }
}

/// The socket under a [`Switch`].
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    switch: Arc<Switch>,
}

impl Connection {
    pub(crate) fn new(stream: TcpStream, switch: Arc<Switch>) -> Self {
        Self { stream, switch }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Whatever fails here, the peer sees the connection end all the same.
        match self.switch.parting.lock().take() {
            None => {}
            Some(Parting::Reset) => drop(self.stream.set_zero_linger()),
            Some(Parting::Words(words)) => drop(self.stream.try_write(&words)),
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.switch.note(written.is_pending());
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.switch.note(written.is_pending());
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
