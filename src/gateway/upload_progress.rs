//! Ends an attempt over HTTP/1.1 whose provider does not take the body in time.
//!
//! When a write takes too long Pingora gives the body up, and goes on to wait for an answer: a
//! provider may have said why it wants no more. One that says nothing would be waited for until the
//! time for its answer is over, too. Pingora calls nobody in between, but lets go of the piece that it
//! has written: by that is known here that the write has ended, and when. What has come until then
//! it reads now, and under TLS that need not be an answer: the tickets of TLS 1.3 lie unread before
//! it (RFC 8446, section 4.6.1). So the connection is watched until all of it is read, and shut down
//! if there was no answer.

use super::watch::{Socket, Watch};
use bytes::Bytes;
use parking_lot::Mutex;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long what has come by the end of a late write may take from the connection to the hooks. What
/// nobody has read yet is waited for beyond it.
const MOMENT: Duration = Duration::from_millis(100);

/// Whether an attempt has no answer yet, which its sender and its timer share.
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
    /// An answer has begun, or the attempt is over: whatever the write does, the connection stays.
    pub fn end(&self) {
        *self.0.lock() = State::Over;
    }

    /// The write has ended late: an attempt that is not answered in a moment ends.
    fn late(&self, socket: Socket, request_ends: Instant) {
        let mut state = self.0.lock();
        if !matches!(*state, State::Sends) {
            return;
        }
        let now = Instant::now();
        let ends = now.checked_add(MOMENT).unwrap_or(now);
        // Without a thread that watches, the time for the answer has to do.
        if let Some(watch) = Watch::begin(socket, false, None, ends, request_ends) {
            *state = State::Late(watch);
        }
    }
}

/// The body, which ends its attempt if it is let go when its write, which begins now, has taken as
/// long as `longest`, and there is no answer. The connection of this number must be one that Pingora
/// lends to the hook under way.
pub fn bounded(
    body: Bytes,
    connection: RawFd,
    longest: Duration,
    unanswered: Unanswered,
    request_ends: Instant,
) -> Bytes {
    /// In bytes: what a connection takes at once, whoever reads at its other end. No descriptor and
    /// no copies of counters for these.
    const AT_ONCE: usize = 16 * 1024;
    if body.len() <= AT_ONCE {
        return body;
    }
    // Without a descriptor the time for the answer has to do.
    match Socket::of(connection) {
        Some(socket) => Bytes::from_owner(Upload {
            body,
            socket: Some(socket),
            begun: Instant::now(),
            longest,
            unanswered,
            request_ends,
        }),
        None => body,
    }
}

struct Upload {
    body: Bytes,
    socket: Option<Socket>,
    begun: Instant,
    longest: Duration,
    unanswered: Unanswered,
    request_ends: Instant,
}

impl AsRef<[u8]> for Upload {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
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
