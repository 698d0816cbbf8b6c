//! Bytes that carry a guard, and the backlog of pieces that a receiver has not read yet.

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

/// The number of pieces, or writes, that a receiver has not read yet.
///
/// While a client reads slowly, the gateway stops reading from the provider. The backlog of the client
/// distinguishes this case from a provider that sends nothing. Over HTTP/1.1 the client's connection reports
/// a pending write. Over HTTP/2 streams share a connection, so each piece reports when its last copy is dropped.
#[derive(Clone, Debug, Default)]
pub struct Backlog(Arc<Pieces>);

#[derive(Debug, Default)]
struct Pieces {
    count: AtomicUsize,
    drained: Notify,
}

/// One piece, until it is dropped.
struct Counted(Backlog);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.0.count.fetch_sub(1, Ordering::AcqRel);
        self.0.0.drained.notify_one();
    }
}

impl Backlog {
    /// Whether a piece or a write is pending.
    pub fn is_pending(&self) -> bool {
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

    /// Waits until nothing is pending. For one task.
    pub async fn drained(&self) {
        while self.is_pending() {
            self.0.drained.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_pending_until_its_last_copy_is_dropped() {
        let backlog = Backlog::default();
        let mut piece = backlog.count(Bytes::from_static(b"piece"));
        let front = piece.split_to(2);
        assert_eq!((&*front, &*piece), (&b"pi"[..], &b"ece"[..]));
        drop(front);
        assert!(backlog.is_pending());
        drop(piece);
        assert!(!backlog.is_pending());
    }
}
