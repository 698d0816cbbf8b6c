//! Whether a client still has to read what the gateway has sent it.
//!
//! The gateway reads a provider's bytes ahead of the client. While the client reads slowly, the
//! provider's socket is silent although the provider is not. The backlog distinguishes the two cases: over
//! HTTP/1.1 the client's connection reports a write that waits; over HTTP/2, where streams share a
//! connection, each piece of an answer reports when its last copy is dropped.

use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of pieces, or writes, that wait for the client.
#[derive(Clone, Debug, Default)]
pub struct DownstreamBacklog(Arc<AtomicUsize>);

impl DownstreamBacklog {
    /// Whether anything waits.
    pub fn is_any(&self) -> bool {
        self.0.load(Ordering::Acquire) > 0
    }

    /// Notes whether the current write waits. For a connection with one writer.
    pub fn note_write(&self, waits: bool) {
        self.0.store(usize::from(waits), Ordering::Release);
    }

    /// Counts this piece as waiting until its last copy is dropped.
    pub fn wait_for(&self, piece: Bytes) -> Bytes {
        if piece.is_empty() {
            return piece;
        }
        self.0.fetch_add(1, Ordering::AcqRel);
        Bytes::from_owner(Piece {
            bytes: piece,
            backlog: self.clone(),
        })
    }
}

struct Piece {
    bytes: Bytes,
    backlog: DownstreamBacklog,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.backlog.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_waits_until_all_of_it_is_let_go() {
        let backlog = DownstreamBacklog::default();
        assert!(backlog.wait_for(Bytes::new()).is_empty() && !backlog.is_any());
        let mut piece = backlog.wait_for(Bytes::from_static(b"piece"));
        let front = piece.split_to(2);
        assert_eq!((&*front, &*piece), (&b"pi"[..], &b"ece"[..]));
        drop(front);
        assert!(backlog.is_any());
        drop(piece);
        assert!(!backlog.is_any());
    }
}
