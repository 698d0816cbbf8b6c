//! Whether a caller has yet to take what it was handed.
//!
//! A provider's bytes are read ahead of the caller, over HTTP/1.1 a few pieces of them and over
//! HTTP/2 all that its window lets through, so that silence at the provider's socket says nothing of
//! the provider while its answer waits for the caller. Of a caller's connection of HTTP/1.1 the
//! connection itself tells that a write waits. Streams of HTTP/2 share theirs, and wait each for a
//! window of its own: there each piece of an answer tells by its end that it was taken.

use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many pieces, or writes, wait for a caller.
#[derive(Clone, Debug, Default)]
pub struct DownstreamBacklog(Arc<AtomicUsize>);

impl DownstreamBacklog {
    /// Whether anything waits.
    pub fn is_any(&self) -> bool {
        self.0.load(Ordering::Acquire) > 0
    }

    /// Notes whether the one write under way waits; for a connection that is written to by one alone.
    pub fn note_write(&self, waits: bool) {
        self.0.store(usize::from(waits), Ordering::Release);
    }

    /// The same piece, which waits until the last of its copies is let go.
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
