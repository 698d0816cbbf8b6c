//! The body of a request that passes to its provider while it arrives. It takes no memory, and can be sent
//! once.

use super::body::{too_large, took_too_long};
use crate::limits::BodyLimits;
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tollgate_types::PublicError;

/// A body that passes to the provider.
pub struct StreamedBody {
    /// Its length, if the head has it.
    pub length: Option<u64>,
    most: u64,
    limits: BodyLimits,
    passed: u64,
    begun: Option<Instant>,
    is_done: bool,
    refusal: Option<PublicError>,
    on_the_way: Arc<OnTheWay>,
}

/// Counts the pieces that wait for the provider.
#[derive(Default)]
struct OnTheWay {
    pieces: AtomicUsize,
    taken: Notify,
}

/// A piece that is counted until it is dropped.
struct Piece {
    bytes: Bytes,
    on_the_way: Arc<OnTheWay>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.on_the_way.pieces.fetch_sub(1, Ordering::AcqRel);
        self.on_the_way.taken.notify_one();
    }
}

impl StreamedBody {
    /// A body of more bytes is streamed. A smaller one can be sent again with another credential.
    pub const FROM: u64 = 1024 * 1024;

    /// A body of which nothing has passed. `most`: its most bytes.
    pub fn new(length: Option<u64>, most: u64, limits: BodyLimits) -> Self {
        Self {
            length,
            most,
            limits: BodyLimits {
                // The provider decides how fast it reads the body, so only the rate is limited.
                time: Duration::MAX,
                ..limits
            },
            passed: 0,
            begun: None,
            is_done: false,
            refusal: None,
            on_the_way: Arc::default(),
        }
    }

    /// Notes a piece that is about to pass.
    ///
    /// # Errors
    ///
    /// The body is too large, or comes too slowly: [`Self::take_refusal`] says which.
    pub fn pass(&mut self, piece: Bytes, end: bool, now: Instant) -> Result<Bytes, ()> {
        let begun = *self.begun.get_or_insert(now);
        let size = u64::try_from(piece.len()).unwrap_or(u64::MAX);
        self.passed = self.passed.saturating_add(size);
        self.is_done = end;
        let taken = now.saturating_duration_since(begun);
        self.refusal = match () {
            () if self.passed > self.most => Some(too_large(self.most)),
            () if !end && self.limits.left(self.passed, taken).is_zero() => Some(took_too_long()),
            () => None,
        };
        if self.refusal.is_some() {
            return Err(());
        }
        self.on_the_way.pieces.fetch_add(1, Ordering::AcqRel);
        let on_the_way = Arc::clone(&self.on_the_way);
        Ok(Bytes::from_owner(Piece {
            bytes: piece,
            on_the_way,
        }))
    }

    /// Waits until the provider has taken all pieces so far. After the last piece, Pingora watches the client only
    /// if its queue of pieces has room.
    pub async fn all_taken(&self) {
        while self.on_the_way.pieces.load(Ordering::Acquire) > 0 {
            self.on_the_way.taken.notified().await;
        }
    }

    /// Bytes that have passed.
    pub const fn passed(&self) -> u64 {
        self.passed
    }

    /// Whether its end has not arrived.
    pub const fn is_awaited(&self) -> bool {
        !self.is_done
    }

    /// Whether an attempt can send it: nothing of it has passed.
    pub const fn can_be_sent(&self) -> bool {
        self.begun.is_none()
    }

    /// Why it does not pass.
    pub const fn take_refusal(&mut self) -> Option<PublicError> {
        self.refusal.take()
    }
}
