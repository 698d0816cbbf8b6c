//! The socket of a provider's connection, held beside Pingora, so that it can be shut down.
//!
//! Pingora lends a connection's number alone, which means another connection once Pingora has
//! closed this one. A descriptor of one's own does not; to make it, the number has to be
//! taken for the open descriptor that it is. That is the one `unsafe` line of the program.

#![expect(
    unsafe_code,
    reason = "Pingora lends descriptors as numbers, and only `unsafe` makes a descriptor of one"
)]

use std::io::ErrorKind;
use std::net::{Shutdown, TcpStream};
use std::os::fd::{BorrowedFd, RawFd};

/// A second descriptor of a connection. The connection stays open as long as it lives.
pub struct Socket(TcpStream);

impl Socket {
    /// For the connection of this number, which must be one that Pingora has just lent, in a
    /// hook for the attempt that it carries. `None` where the system has no descriptor left.
    pub fn of(lent: RawFd) -> Option<Self> {
        if lent < 0 {
            return None;
        }
        // SAFETY: Pingora lends the number from `connected_to_upstream` on and keeps the
        // connection, which owns the descriptor, borrowed until the attempt's hooks have
        // returned: it is open, and is this connection, for as long as the borrow lives, which
        // is this statement.
        let own = unsafe { BorrowedFd::borrow_raw(lent) }.try_clone_to_owned();
        own.ok().map(|it| Self(it.into()))
    }

    /// Whether unread bytes, or the end, have arrived.
    pub fn has_more(&self) -> bool {
        let looked = self.0.peek(&mut [0]);
        // It does not block: the descriptors share the mode in which the runtime set it.
        !matches!(looked, Err(fault) if fault.kind() == ErrorKind::WouldBlock)
    }

    /// Acknowledges what comes in pairs of segments, not one by one, until a pause of 40 ms.
    ///
    /// A side that only receives acknowledges each small segment when it reads it. In a stream that is
    /// a packet for every event, an eighth of the event's cost. Linux acknowledges in pairs by itself on
    /// connections with alternating requests and answers.
    pub fn acknowledge_in_pairs(&self) {
        // A failure costs only packets.
        let _ = rustix::net::sockopt::set_tcp_quickack(&self.0, false);
    }

    /// Holds back what is written from here on, until [`Socket::let_go`] or for 200 ms at most. Full packets leave.
    /// Returns whether it does.
    pub fn hold_back(&self) -> bool {
        rustix::net::sockopt::set_tcp_cork(&self.0, true).is_ok()
    }

    /// Sends what was held back.
    pub fn let_go(&self) {
        // What fails here was closed meanwhile.
        let _ = rustix::net::sockopt::set_tcp_cork(&self.0, false);
    }

    /// Ends the connection for its reader and its writer.
    pub fn shut_down(self) {
        // One that the provider has closed meanwhile has nothing to end.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}
