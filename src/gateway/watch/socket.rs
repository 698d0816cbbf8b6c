//! A second handle of a provider's connection, so that the gateway can shut it down.
//!
//! Pingora lends only the number of a descriptor, which can name another connection after Pingora has closed
//! this one. A duplicate of the descriptor cannot; making it from a number is the only `unsafe` line of the
//! program.

#![expect(
    unsafe_code,
    reason = "Pingora lends descriptors as numbers, and only `unsafe` makes a descriptor of one"
)]

use std::io::ErrorKind;
use std::net::{Shutdown, TcpStream};
use std::os::fd::{BorrowedFd, RawFd};

/// A duplicate descriptor of a connection. The connection stays open until it is dropped.
pub struct Socket(TcpStream);

impl Socket {
    /// Duplicates a descriptor that Pingora has just lent, in a hook for the attempt that it carries. `None`
    /// if the system has no descriptor left.
    pub fn of(lent: RawFd) -> Option<Self> {
        if lent < 0 {
            return None;
        }
        // SAFETY: Pingora lends the number from `connected_to_upstream` on and keeps the connection, which
        // owns the descriptor, borrowed until the attempt's hooks have returned. The borrow ends with this
        // statement, so the descriptor is open and names this connection.
        let own = unsafe { BorrowedFd::borrow_raw(lent) }.try_clone_to_owned();
        own.ok().map(|it| Self(it.into()))
    }

    /// Whether unread bytes, or the end, have arrived.
    pub fn has_more(&self) -> bool {
        let looked = self.0.peek(&mut [0]);
        // This does not block: both descriptors share the non-blocking mode.
        !matches!(looked, Err(fault) if fault.kind() == ErrorKind::WouldBlock)
    }

    /// Acknowledges segments in pairs, not one by one, until a pause of 40 ms.
    ///
    /// A side that only receives acknowledges each small segment when it reads it. In a stream, this is a
    /// packet for every event, an eighth of the event's cost. Linux acknowledges in pairs by itself on
    /// connections with alternating requests and answers.
    pub fn acknowledge_in_pairs(&self) {
        // A failure costs only packets.
        let _ = rustix::net::sockopt::set_tcp_quickack(&self.0, false);
    }

    /// Ends the connection for its reader and its writer.
    pub fn shut_down(self) {
        // This fails if the provider has closed the connection meanwhile.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}
