//! The timer of the attempt under way: its deadlines, and the watch over its connection.

use super::deadlines::{Deadlines, Progress};
use super::downstream_backlog::DownstreamBacklog;
use super::upload_progress::{self, Unanswered};
use super::watch::{Socket, Watch};
use bytes::Bytes;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

/// The timer of one attempt after the other.
#[derive(Default)]
pub struct AttemptTimer {
    deadlines: Option<Deadlines>,
    /// When the request was about to be sent.
    sent: Option<Instant>,
    /// The number of the connection, from when it is made until it is watched.
    connection: Option<RawFd>,
    /// It was kept unused before, and can be given up for another one.
    may_be_stale: bool,
    /// The same connection, once it was looked at.
    socket: Option<Socket>,
    /// The number of a connection of HTTP/1.1 over which a body is yet to be sent.
    sends_over: Option<RawFd>,
    /// The same connection, where it holds the head back for the body.
    holds_head: Option<Socket>,
    /// Notifies the sending of the body that an answer has begun, where that matters to it.
    unanswered: Option<Unanswered>,
    watch: Option<Watch>,
    /// What notes that a caller has taken a piece, where the pieces have to report it.
    pieces: Option<DownstreamBacklog>,
    has_fired: bool,
    /// Nothing but the watch ends a silence.
    relies_on_watch: bool,
    /// An attempt of this request could not be watched.
    is_unwatched: bool,
}

/// Shows whether a client does not read, so that its provider is not blamed for the delay.
pub enum Reader {
    /// The caller's connection.
    Connection(DownstreamBacklog),
    /// The pieces that the caller's stream is handed.
    Stream,
}

impl AttemptTimer {
    /// An attempt begins; `earlier` was the timer of the one before.
    pub fn begin(deadlines: Deadlines, now: Instant, earlier: &Self) -> Self {
        let is_unwatched = earlier.is_unwatched;
        Self {
            deadlines: Some(deadlines),
            relies_on_watch: deadlines.need_a_watch(now) && !is_unwatched,
            is_unwatched,
            ..Self::default()
        }
    }

    /// The provider is connected to, by the connection of this number.
    pub const fn connected(&mut self, connection: RawFd, may_be_stale: bool) {
        self.connection = Some(connection);
        self.may_be_stale = may_be_stale;
    }

    /// Closes that connection, of HTTP/2, if it was kept and bytes lie unread on it, and returns
    /// whether it did. Nothing can have come that is not read at once, unless the connection has
    /// just ended, or is flooded by a provider that does not read the replies.
    pub fn gives_up_kept(&mut self) -> bool {
        let kept = self.connection.filter(|_| self.may_be_stale);
        self.socket = kept.and_then(Socket::of);
        let ended = self.socket.take_if(|it| it.has_more());
        let gives_up = ended.is_some();
        if let Some(socket) = ended {
            socket.shut_down();
        }
        gives_up
    }

    /// The request is about to be sent over that connection: from here on its silence is
    /// counted, and watched. `reader` shows what the client has not read yet; the provider's connection
    /// shows only what has arrived and was not read.
    ///
    /// `false` where it cannot be, for want of a descriptor, and relies on it: the attempt is to
    /// be made anew, and the time-out of a single read must do.
    pub fn watch(&mut self, reader: Reader, is_http2: bool) -> bool {
        let now = Instant::now();
        self.sent = Some(now);
        // Over HTTP/2 a write that takes too long ends the attempt by itself.
        self.sends_over = self.connection.filter(|_| !is_http2);
        let Some(deadlines) = &mut self.deadlines else {
            return true;
        };
        deadlines.connected(now);
        if !deadlines.need_a_watch(now) {
            return true;
        }
        let looked_at = self.socket.take();
        let socket = looked_at.or_else(|| self.connection.take().and_then(Socket::of));
        let backlog = match reader {
            Reader::Connection(backlog) => Some(backlog),
            Reader::Stream => {
                self.pieces = Some(DownstreamBacklog::default());
                self.pieces.clone()
            }
        };
        let (silence, request) = (deadlines.end(), deadlines.request_ends());
        self.watch = socket.and_then(|it| Watch::begin(it, is_http2, backlog, silence, request));
        self.is_unwatched = self.watch.is_none();
        !(self.is_unwatched && self.relies_on_watch)
    }

    /// The head is about to be written, and the body, which is there, right after it: they leave together. To send
    /// each by itself would cost a tenth of a small request.
    pub fn join_head_and_body(&mut self) {
        let socket = self.sends_over.and_then(Socket::of);
        self.holds_head = socket.filter(Socket::hold_back);
    }

    /// The whole body, about to be sent: an attempt whose body is not taken within `longest`, which
    /// Pingora's own time-out of the write must be, ends then unless it is answered.
    pub fn send(&mut self, body: Bytes, longest: Duration) -> Bytes {
        match (self.sends_over.take(), &self.deadlines) {
            (Some(connection), Some(deadlines)) => {
                let unanswered = Unanswered::default();
                self.unanswered = Some(unanswered.clone());
                let request_ends = deadlines.request_ends();
                let socket = self.holds_head.take();
                let socket = socket.or_else(|| upload_progress::socket(&body, connection));
                upload_progress::bounded(body, socket, longest, unanswered, request_ends)
            }
            _ => body,
        }
    }

    /// How long ago its request was about to be sent; nothing where it was not.
    pub fn ran(&self) -> Duration {
        let began = self.deadlines.map(|it| it.began().elapsed());
        began.unwrap_or_default()
    }

    /// How long ago the request was about to be sent; `None` where it was not.
    pub fn since_sent(&self) -> Option<Duration> {
        self.sent.map(|sent| sent.elapsed())
    }

    /// Whether bytes that are handed on now have come too late. Bytes read before the watch has
    /// fired are not: the broken connection comes behind it.
    pub fn is_over(&self, now: Instant) -> bool {
        self.deadlines.is_some_and(|it| it.are_over(now))
    }

    /// A piece of the body passes: the silence of the provider begins behind it.
    pub fn restart(&mut self, now: Instant) {
        if let Some(deadlines) = &mut self.deadlines {
            deadlines.connected(now);
            if let Some(watch) = &self.watch {
                watch.set(deadlines.end());
            }
        }
    }

    /// Notes how far the answer has come.
    pub fn note(&mut self, progress: Progress, now: Instant) {
        let Some(deadlines) = &mut self.deadlines else {
            return;
        };
        deadlines.note(progress, now);
        if let Some(unanswered) = self.unanswered.take() {
            unanswered.end();
        }
        if let Some(watch) = &self.watch {
            watch.set(deadlines.end());
        }
    }

    /// The answer is a stream of events.
    pub fn expect_events(&self) {
        if let Some(watch) = &self.watch {
            watch.expect_events();
        }
    }

    /// A piece of the answer that is handed to the caller.
    pub fn hand_over(&self, piece: Bytes) -> Bytes {
        match &self.pieces {
            Some(pieces) => pieces.wait_for(piece),
            None => piece,
        }
    }

    /// The attempt is over: its connection is no longer its own.
    pub fn stop(&mut self) {
        self.has_fired = self.has_fired();
        self.watch = None;
        if let Some(unanswered) = self.unanswered.take() {
            unanswered.end();
        }
        self.connection = None;
        self.socket = None;
        self.sends_over = None;
        if let Some(socket) = self.holds_head.take() {
            socket.let_go();
        }
    }

    /// Whether the clock has ended the attempt.
    pub fn has_fired(&self) -> bool {
        self.has_fired || self.watch.as_ref().is_some_and(Watch::has_fired)
    }

    /// How long a single read may wait: as long as the longest silence that is allowed.
    /// `None` where the watch ends it, and a timer for every piece would be for nothing.
    pub fn read_timeout(&self, now: Instant) -> Option<Duration> {
        let deadlines = self.deadlines.filter(|_| !self.relies_on_watch)?;
        Some(deadlines.longest_silence(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_routing::AnswerTimeouts;

    const SECOND: Duration = Duration::from_secs(1);

    fn stream(now: Instant) -> Deadlines {
        let bounds = AnswerTimeouts {
            first_byte: SECOND,
            first_token: SECOND,
            between_events: 2 * SECOND,
        };
        Deadlines::new(bounds, true, now, now + 60 * SECOND)
    }

    #[test]
    fn an_attempt_that_cannot_be_watched_is_made_anew_with_a_timeout_for_each_read() {
        /// No connection has this number, so none can be watched.
        const NONE: RawFd = -1;
        let now = Instant::now();
        let mut timer = AttemptTimer::begin(stream(now), now, &AttemptTimer::default());
        assert_eq!(timer.read_timeout(now), None);
        timer.connected(NONE, false);
        assert!(!timer.watch(Reader::Stream, false));
        timer.stop();
        let mut again = AttemptTimer::begin(stream(now), now, &timer);
        assert_eq!(again.read_timeout(now), Some(2 * SECOND));
        again.connected(NONE, true);
        assert!(again.watch(Reader::Stream, false));
    }
}
