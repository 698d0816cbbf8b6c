//! How long each phase of an attempt can take. Reads no clock; `watch.rs` does while a provider is silent.

use std::time::{Duration, Instant};
use tollgate_routing::AnswerTimeouts;

/// The longest time that comments, pings and the body of an error are held.
pub const LONGEST_HELD: Duration = Duration::from_secs(10);

/// How long a stream can take to end after its last event: the client only waits for that end.
const LONGEST_END: Duration = Duration::from_secs(2);

/// The deadlines of the current attempt.
#[derive(Clone, Copy, Debug)]
pub struct Deadlines {
    bounds: AnswerTimeouts,
    /// The request asks for a stream.
    streams: bool,
    /// How long the client may take for the next piece of a body that is forwarded while it arrives.
    upload: Option<Duration>,
    /// When the connection to the provider was made.
    began: Instant,
    /// When the request times out.
    request_ends: Instant,
    phase: Phase,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// No head has arrived.
    Head,
    /// A stream has begun, and has no content yet.
    Token,
    /// Content flows: the time of the last content, and the number of its event.
    Flow(Instant, u64),
    /// A rest that is not needed has begun at this time.
    Rest(Instant),
    /// The last event of a stream came at this time.
    Ended(Instant),
}

/// How far an answer has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// A piece of an answer that is not a stream.
    Piece,
    /// A part of an answer whose rest is not needed: an error, whose status is known, or an answer that the client
    /// has.
    Rest,
    /// A stream without content so far.
    Preamble,
    /// A stream with this many events, without pings.
    Events(u64),
    /// A stream whose last event has come.
    Ended,
}

impl Deadlines {
    /// The deadlines of an attempt that was connected at `began`; the request times out at `request_ends`.
    pub const fn new(
        bounds: AnswerTimeouts,
        streams: bool,
        upload: Option<Duration>,
        began: Instant,
        request_ends: Instant,
    ) -> Self {
        Self {
            bounds,
            streams,
            upload,
            began,
            request_ends,
            phase: Phase::Head,
        }
    }

    /// Restarts the time of the attempt at `now`, because connecting has its own time-out.
    pub const fn connected(&mut self, now: Instant) {
        self.began = now;
    }

    /// A piece of the body has passed, perhaps the last.
    pub const fn body_passed(&mut self, now: Instant, is_last: bool) {
        self.began = now;
        if is_last {
            self.upload = None;
        }
    }

    /// When the time of the attempt began.
    pub const fn began(&self) -> Instant {
        self.began
    }

    /// Notes how far the answer has come. Pings and comments do not extend a deadline.
    pub const fn note(&mut self, progress: Progress, now: Instant) {
        self.phase = match (progress, self.phase) {
            (Progress::Preamble, Phase::Head) => Phase::Token,
            (Progress::Preamble, phase) => phase,
            (Progress::Events(count), Phase::Flow(since, seen)) if count == seen => {
                Phase::Flow(since, seen)
            }
            (Progress::Events(count), _) => Phase::Flow(now, count),
            (Progress::Piece, _) => Phase::Flow(now, 0),
            (Progress::Rest, Phase::Rest(since)) => Phase::Rest(since),
            (Progress::Rest, _) => Phase::Rest(now),
            (Progress::Ended, Phase::Ended(since)) => Phase::Ended(since),
            (Progress::Ended, _) => Phase::Ended(now),
        };
    }

    /// The deadline of the current phase.
    pub fn end(&self) -> Instant {
        let AnswerTimeouts {
            first_byte,
            first_token,
            between_events,
        } = self.bounds;
        let (since, bound) = match self.phase {
            Phase::Head if self.streams => (self.began, first_byte.min(first_token)),
            Phase::Head => (
                self.began,
                self.upload.unwrap_or(first_byte).min(first_byte),
            ),
            Phase::Token => (self.began, first_token),
            Phase::Flow(since, _) => (since, between_events),
            Phase::Rest(since) if self.streams => {
                let taken = since.saturating_duration_since(self.began);
                (since, LONGEST_HELD.min(first_token.saturating_sub(taken)))
            }
            Phase::Rest(since) => (since, LONGEST_HELD.min(between_events)),
            Phase::Ended(since) => (since, LONGEST_END.min(between_events)),
        };
        let end = since.checked_add(bound);
        end.map_or(self.request_ends, |end| end.min(self.request_ends))
    }

    /// Whether a piece that is forwarded now has arrived too late. Once content flows, this is unknown here:
    /// the piece can have waited for a client that did not read. An error is never too late for its class.
    pub fn are_over(&self, now: Instant) -> bool {
        match self.phase {
            Phase::Flow(..) | Phase::Rest(_) | Phase::Ended(_) => now >= self.request_ends,
            Phase::Head | Phase::Token => now >= self.end(),
        }
    }

    /// When the request times out.
    pub const fn request_ends(&self) -> Instant {
        self.request_ends
    }

    /// The longest silence that any phase allows: no read waits longer.
    pub fn longest_silence(&self, now: Instant) -> Duration {
        let first = match self.streams {
            true => self.bounds.first_token,
            false => self.bounds.first_byte,
        };
        let left = self.request_ends.saturating_duration_since(now);
        first.max(self.bounds.between_events).min(left)
    }

    /// Whether the time-out of a single read cannot replace these deadlines.
    pub fn need_a_watch(&self, now: Instant) -> bool {
        let bounds = &self.bounds;
        let left = self.request_ends.saturating_duration_since(now);
        self.streams
            || self.upload.is_some()
            || bounds.first_byte != bounds.between_events
            || left < bounds.first_byte.saturating_mul(2)
    }
}

#[cfg(test)]
mod tests;
