//! A request body that is forwarded while it arrives. It takes no memory, and can be sent once.

use super::body::{too_large, took_too_long};
use crate::limits::BodyLimits;
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tollgate_types::PublicError;

/// A body that is forwarded while it arrives.
pub struct StreamedBody {
    /// Its length, if the head has it.
    pub length: Option<u64>,
    most: u64,
    limits: BodyLimits,
    forwarded: u64,
    begun: Option<Instant>,
    is_done: bool,
    refusal: Option<PublicError>,
    in_flight: Arc<InFlight>,
}

/// Counts the pieces that wait for the provider.
#[derive(Default)]
struct InFlight {
    pieces: AtomicUsize,
    taken: Notify,
}

/// A piece that is counted until it is dropped.
struct Piece {
    bytes: Bytes,
    in_flight: Arc<InFlight>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.in_flight.pieces.fetch_sub(1, Ordering::AcqRel);
        self.in_flight.taken.notify_one();
    }
}

impl StreamedBody {
    /// A body of more bytes is streamed. A smaller one can be sent again with another credential.
    pub const FROM: u64 = 1024 * 1024;

    /// A body that has not begun. `most`: its most bytes.
    pub fn new(length: Option<u64>, most: u64, limits: BodyLimits) -> Self {
        Self {
            length,
            most,
            limits: BodyLimits {
                // The provider decides how fast it reads the body, so only the rate is limited.
                time: Duration::MAX,
                ..limits
            },
            forwarded: 0,
            begun: None,
            is_done: false,
            refusal: None,
            in_flight: Arc::default(),
        }
    }

    /// Notes a piece that is about to be forwarded.
    ///
    /// # Errors
    ///
    /// The body is too large, or arrives too slowly: [`Self::take_refusal`] has the error.
    pub fn pass(&mut self, piece: Bytes, end: bool, now: Instant) -> Result<Bytes, ()> {
        let begun = *self.begun.get_or_insert(now);
        let size = u64::try_from(piece.len()).unwrap_or(u64::MAX);
        self.forwarded = self.forwarded.saturating_add(size);
        self.is_done = end;
        let taken = now.saturating_duration_since(begun);
        self.refusal = match () {
            () if self.forwarded > self.most => Some(too_large(self.most)),
            () if !end && self.limits.left(self.forwarded, taken).is_zero() => {
                Some(took_too_long())
            }
            () => None,
        };
        if self.refusal.is_some() {
            return Err(());
        }
        self.in_flight.pieces.fetch_add(1, Ordering::AcqRel);
        let in_flight = Arc::clone(&self.in_flight);
        Ok(Bytes::from_owner(Piece {
            bytes: piece,
            in_flight,
        }))
    }

    /// Waits until the provider has taken all pieces so far, at most a second. After the last piece, Pingora
    /// watches the client only if its queue of pieces has room. But as long as this waits, Pingora forwards
    /// nothing of an early answer, and a provider can stop reading until its answer was read.
    pub async fn wait_until_taken(&self) {
        const LONGEST: Duration = Duration::from_secs(1);
        let all_taken = async {
            while self.waits_for_provider() {
                self.in_flight.taken.notified().await;
            }
        };
        let _ = tokio::time::timeout(LONGEST, all_taken).await;
    }

    /// Whether the provider has yet to take a piece.
    pub fn waits_for_provider(&self) -> bool {
        self.in_flight.pieces.load(Ordering::Acquire) > 0
    }

    /// Bytes that were forwarded.
    pub const fn forwarded(&self) -> u64 {
        self.forwarded
    }

    /// Whether its end has not arrived.
    pub const fn is_awaited(&self) -> bool {
        !self.is_done
    }

    /// Whether an attempt can send it: nothing was forwarded.
    pub const fn can_be_sent(&self) -> bool {
        self.begun.is_none()
    }

    /// Why it was refused.
    pub const fn take_refusal(&mut self) -> Option<PublicError> {
        self.refusal.take()
    }
}
