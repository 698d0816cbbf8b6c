//! A request body that is forwarded while it arrives. It takes no memory, and can be sent once.

use super::body::{too_large, took_too_long};
use super::guarded::Backlog;
use crate::limits::BodyLimits;
use bytes::Bytes;
use std::time::{Duration, Instant};
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
    /// The pieces that wait for the provider.
    backlog: Backlog,
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
            backlog: Backlog::default(),
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
        Ok(self.backlog.count(piece))
    }

    /// Waits until the provider has taken all pieces so far, at most a second. After the last piece, Pingora
    /// watches the client only if its queue of pieces has room. But as long as this waits, Pingora forwards
    /// nothing of an early answer, and a provider can stop reading until its answer was read.
    pub async fn wait_until_taken(&self) {
        const LONGEST: Duration = Duration::from_secs(1);
        let _ = tokio::time::timeout(LONGEST, self.backlog.drained()).await;
    }

    /// Whether the provider has yet to take a piece.
    pub fn waits_for_provider(&self) -> bool {
        self.backlog.is_pending()
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
