//! Bytes with a guard, and the count of pieces that the other side has yet to take.

use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Notify;

/// The bytes, with a guard that is dropped with their last copy.
pub fn guarded<G: Send + 'static>(bytes: Bytes, guard: G) -> Bytes {
    Bytes::from_owner(Guarded {
        bytes,
        _guard: guard,
    })
}

struct Guarded<G> {
    bytes: Bytes,
    _guard: G,
}

impl<G> AsRef<[u8]> for Guarded<G> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The number of pieces, or writes, that the other side has yet to take.
///
/// The gateway reads a provider's bytes ahead of the client. While the client reads slowly, the
/// provider's socket is silent although the provider is not. The backlog of a client distinguishes the two
/// cases: over HTTP/1.1 the client's connection reports a write that waits; over HTTP/2, where streams share a
/// connection, each piece of an answer reports when its last copy is dropped.
#[derive(Clone, Debug, Default)]
pub struct Backlog(Arc<Pieces>);

#[derive(Debug, Default)]
struct Pieces {
    count: AtomicUsize,
    taken: Notify,
}

/// One piece, until it is dropped.
struct Counted(Backlog);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.0.count.fetch_sub(1, Ordering::AcqRel);
        self.0.0.taken.notify_one();
    }
}

impl Backlog {
    /// Whether anything waits.
    pub fn is_any(&self) -> bool {
        self.0.count.load(Ordering::Acquire) > 0
    }

    /// Notes whether the current write waits. For a connection with one writer.
    pub fn note_write(&self, waits: bool) {
        self.0.count.store(usize::from(waits), Ordering::Release);
    }

    /// Counts this piece as waiting until its last copy is dropped.
    pub fn count(&self, piece: Bytes) -> Bytes {
        self.0.count.fetch_add(1, Ordering::AcqRel);
        guarded(piece, Counted(self.clone()))
    }

    /// Waits until nothing waits. For one task.
    pub async fn taken(&self) {
        while self.is_any() {
            self.0.taken.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_waits_until_all_of_it_is_let_go() {
        let backlog = Backlog::default();
        let mut piece = backlog.count(Bytes::from_static(b"piece"));
        let front = piece.split_to(2);
        assert_eq!((&*front, &*piece), (&b"pi"[..], &b"ece"[..]));
        drop(front);
        assert!(backlog.is_any());
        drop(piece);
        assert!(!backlog.is_any());
    }
}
