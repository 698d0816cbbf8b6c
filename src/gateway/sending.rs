//! Ends an attempt over HTTP/1.1 whose provider does not take the body.
//!
//! When a write takes too long Pingora gives the body up, and goes on to wait for an answer: a
//! provider may have said why it wants no more. One that takes nothing and says nothing would be waited
//! for until the time for its answer is over, too. Pingora calls nobody in between, but lets go of the
//! piece that it has written: by that is known here that the write has ended, and when.

use super::watch::Socket;
use bytes::Bytes;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Whether something of the answer has come.
#[derive(Clone, Default)]
pub struct Answered(Arc<AtomicBool>);

impl Answered {
    /// Something has come.
    pub fn note(&self) {
        self.0.store(true, Ordering::Release);
    }
}

/// The body, which shuts the connection of this number down when it is let go and its write, which
/// begins now, has taken as long as `longest` without an answer. The connection must be one that
/// Pingora lends to the hook under way.
pub fn bounded(body: Bytes, connection: RawFd, longest: Duration, is_answered: Answered) -> Bytes {
    /// In bytes: what a connection takes at once, whoever reads at its other end. No descriptor and
    /// no copies of counters for these.
    const AT_ONCE: usize = 16 * 1024;
    if body.len() <= AT_ONCE {
        return body;
    }
    // Without a descriptor the time for the answer has to do.
    match Socket::of(connection) {
        Some(socket) => Bytes::from_owner(Sending {
            body,
            socket: Some(socket),
            begun: Instant::now(),
            longest,
            is_answered,
        }),
        None => body,
    }
}

struct Sending {
    body: Bytes,
    socket: Option<Socket>,
    begun: Instant,
    longest: Duration,
    is_answered: Answered,
}

impl AsRef<[u8]> for Sending {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        let is_late = self.begun.elapsed() >= self.longest;
        let is_answered = self.is_answered.0.load(Ordering::Acquire);
        if is_late
            && !is_answered
            && let Some(socket) = self.socket.take()
            // What has come is the answer, or the end: either is read.
            && !socket.has_more()
        {
            socket.shut_down();
        }
    }
}
