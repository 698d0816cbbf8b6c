//! Ends an attempt over HTTP/1.1 if the provider does not read the body in time.
//!
//! If a write takes too long, Pingora stops writing and waits for an answer, because the provider may have
//! sent an error. It calls no hook in between, but it drops the piece that it was writing, which shows when
//! the write has ended. The connection may then have unread bytes that are no answer, such as the tickets of
//! TLS 1.3 (RFC 8446, section 4.6.1). So the gateway watches the connection until they are read, and shuts it
//! down if there was no answer.

use super::guarded::guarded;
use super::watch::{Socket, Watch};
use bytes::Bytes;
use parking_lot::Mutex;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long bytes that arrived before the end of a late write may take from the connection to the hooks.
/// The gateway waits longer for bytes that are still unread.
const LATE_ANSWER_WAIT: Duration = Duration::from_millis(100);

/// Whether an attempt has no answer yet. The upload and the timer of the attempt share it.
#[derive(Clone, Default)]
pub struct Unanswered(Arc<Mutex<State>>);

#[derive(Default)]
enum State {
    #[default]
    Sends,
    /// Its write has ended late.
    Late(#[expect(dead_code, reason = "it watches until it is dropped")] Watch),
    /// It has an answer, or has ended.
    Over,
}

impl Unanswered {
    /// Notes that an answer has begun or that the attempt is over: a late write then has no effect.
    pub fn end(&self) {
        *self.0.lock() = State::Over;
    }

    /// Notes that the write has ended late: the attempt ends if no answer comes within [`LATE_ANSWER_WAIT`].
    fn late(&self, socket: Socket, request_ends: Instant) {
        let mut state = self.0.lock();
        if !matches!(*state, State::Sends) {
            return;
        }
        let now = Instant::now();
        let ends = now.checked_add(LATE_ANSWER_WAIT).unwrap_or(now);
        // Without a watch, the attempt ends by its time-out.
        if let Some(watch) = Watch::begin(socket, false, None, ends, request_ends) {
            *state = State::Late(watch);
        }
    }
}

/// The socket over which this body is sent, if the provider may not take it at once. `connection` must be the
/// descriptor that Pingora passes to the current hook.
pub fn socket(body: &Bytes, connection: RawFd) -> Option<Socket> {
    /// Bytes that a connection accepts at once, even if the provider does not read.
    const AT_ONCE: usize = 16 * 1024;
    match body.len() <= AT_ONCE {
        true => None,
        false => Socket::of(connection),
    }
}

/// The body, whose write over `socket` begins now. If it is dropped after `longest` and there is no answer, the attempt
/// ends. Without a socket, it ends by its time-out.
pub fn bounded(
    body: Bytes,
    socket: Option<Socket>,
    longest: Duration,
    unanswered: Unanswered,
    request_ends: Instant,
) -> Bytes {
    match socket {
        Some(socket) => {
            let upload = Upload {
                socket: Some(socket),
                begun: Instant::now(),
                longest,
                unanswered,
                request_ends,
            };
            guarded(body, upload)
        }
        None => body,
    }
}

struct Upload {
    socket: Option<Socket>,
    begun: Instant,
    longest: Duration,
    unanswered: Unanswered,
    request_ends: Instant,
}

impl Drop for Upload {
    fn drop(&mut self) {
        if self.begun.elapsed() >= self.longest
            && let Some(socket) = self.socket.take()
        {
            self.unanswered.late(socket, self.request_ends);
        }
    }
}
