//! The timer of the current attempt: its deadlines, and the watch over its connection.

use super::deadlines::{Deadlines, Progress};
use super::guarded::Backlog;
use super::upload_progress::{self, Unanswered};
use super::watch::{Socket, Watch};
use bytes::Bytes;
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

/// The timer of an attempt.
#[derive(Default)]
pub struct AttemptTimer {
    deadlines: Option<Deadlines>,
    /// When the request was about to be sent.
    sent: Option<Instant>,
    /// The descriptor of the connection, until it is watched.
    connection: Option<RawFd>,
    /// The connection was kept unused before, and can be replaced by another one.
    may_be_stale: bool,
    /// The same connection, after it was checked for unread bytes.
    socket: Option<Socket>,
    /// The descriptor of an HTTP/1.1 connection over which a body is yet to be sent.
    sends_over: Option<RawFd>,
    /// Notifies the upload that an answer has begun, if the upload has a deadline.
    unanswered: Option<Unanswered>,
    watch: Option<Watch>,
    /// Counts pieces that the caller has not read, if the pieces report that.
    pieces: Option<Backlog>,
    has_fired: bool,
    was_the_callers: bool,
    /// Only the watch ends a silence.
    relies_on_watch: bool,
    /// An attempt of this request could not be watched.
    is_unwatched: bool,
    is_http2: bool,
}

/// Shows whether a client does not read, so that its provider is not blamed for the delay.
pub enum BacklogSource {
    /// The caller's connection.
    Connection(Backlog),
    /// The pieces that go to the caller's stream.
    Stream,
}

impl AttemptTimer {
    /// The timer of an attempt that begins. `earlier`: the timer of the previous attempt.
    pub fn begin(deadlines: Deadlines, now: Instant, earlier: &Self) -> Self {
        let is_unwatched = earlier.is_unwatched;
        Self {
            deadlines: Some(deadlines),
            relies_on_watch: deadlines.need_a_watch(now) && !is_unwatched,
            is_unwatched,
            ..Self::default()
        }
    }

    /// Notes the descriptor of the connection to the provider.
    pub const fn connected(&mut self, connection: RawFd, may_be_stale: bool) {
        self.connection = Some(connection);
        self.may_be_stale = may_be_stale;
    }

    /// Closes that HTTP/2 connection if it was kept and has unread bytes, and returns whether it did. Bytes
    /// are read at once, unless the connection has just ended or is flooded by a provider that does not read
    /// the replies.
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

    /// The request is about to be sent over that connection: from here on, the silence of the provider is
    /// watched. `source` shows whether the client still has to read; the provider's connection shows only
    /// bytes that have arrived and were not read.
    ///
    /// Returns `false` if the attempt needs a watch but no descriptor is left: the attempt must then be
    /// repeated with the time-out of each read.
    pub fn watch(&mut self, source: BacklogSource, is_http2: bool) -> bool {
        let now = Instant::now();
        self.sent = Some(now);
        // Over HTTP/2 a write that takes too long ends the attempt by itself.
        self.sends_over = self.connection.filter(|_| !is_http2);
        self.is_http2 = is_http2;
        let Some(deadlines) = &mut self.deadlines else {
            return true;
        };
        deadlines.connected(now);
        let needs_a_watch = deadlines.need_a_watch(now);
        if is_http2 {
            // Pingora can close this connection before the hooks of its answer run.
            self.socket = self.take_socket();
        }
        if !needs_a_watch {
            return true;
        }
        let backlog = match source {
            BacklogSource::Connection(backlog) => Some(backlog),
            BacklogSource::Stream => {
                self.pieces = Some(Backlog::default());
                self.pieces.clone()
            }
        };
        self.begin_watch(backlog);
        self.is_unwatched = self.watch.is_none();
        !(self.is_unwatched && self.relies_on_watch)
    }

    fn take_socket(&mut self) -> Option<Socket> {
        let connection = self.connection.take();
        let looked_at = self.socket.take();
        looked_at.or_else(|| connection.and_then(Socket::of))
    }

    fn begin_watch(&mut self, backlog: Option<Backlog>) {
        let Some(deadlines) = self.deadlines else {
            return;
        };
        let (silence, request) = (deadlines.end(), deadlines.request_ends());
        let is_http2 = self.is_http2;
        let socket = self.take_socket();
        self.watch = socket.and_then(|it| Watch::begin(it, is_http2, backlog, silence, request));
    }

    /// Wraps the body that is about to be sent. If the provider does not take it within `longest`, which must
    /// be Pingora's write time-out, the attempt ends, unless it is answered.
    pub fn send(&mut self, body: Bytes, longest: Duration) -> Bytes {
        match (self.sends_over.take(), &self.deadlines) {
            (Some(connection), Some(deadlines)) => {
                let unanswered = Unanswered::default();
                self.unanswered = Some(unanswered.clone());
                let request_ends = deadlines.request_ends();
                let socket = upload_progress::socket(&body, connection);
                upload_progress::bounded(body, socket, longest, unanswered, request_ends)
            }
            _ => body,
        }
    }

    /// Whether a body goes to the provider over HTTP/1.1, and no answer has begun.
    pub const fn sends_body(&self) -> bool {
        self.unanswered.is_some()
    }

    /// How long the attempt has run; zero before it begins.
    pub fn ran(&self) -> Duration {
        let began = self.deadlines.map(|it| it.began().elapsed());
        began.unwrap_or_default()
    }

    /// The time since the request was sent; `None` if it was not.
    pub fn since_sent(&self) -> Option<Duration> {
        self.sent.map(|sent| sent.elapsed())
    }

    /// Whether bytes that are forwarded now have arrived too late. Bytes that were read before the watch
    /// fired are in time.
    pub fn is_over(&self, now: Instant) -> bool {
        self.deadlines.is_some_and(|it| it.are_over(now))
    }

    /// A piece of the body passes, perhaps the last: restarts the silence of the provider.
    pub fn restart(&mut self, now: Instant, is_last: bool) {
        if let Some(deadlines) = &mut self.deadlines {
            deadlines.body_passed(now, is_last);
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
        let silence_ends = deadlines.end();
        if let Some(unanswered) = self.unanswered.take() {
            unanswered.end();
        }
        match &self.watch {
            Some(watch) => watch.set(silence_ends),
            // The time-out of a read is longer. Nothing of an error goes to the client unread.
            None if progress == Progress::Rest => self.begin_watch(None),
            None => {}
        }
    }

    /// The answer is a stream of events.
    pub fn expect_events(&self) {
        if let Some(watch) = &self.watch {
            watch.expect_events();
        }
    }

    /// Wraps a piece of the answer that goes to the caller.
    pub fn hand_over(&self, piece: Bytes) -> Bytes {
        match &self.pieces {
            Some(pieces) if !piece.is_empty() => pieces.count(piece),
            _ => piece,
        }
    }

    /// Shuts the connection down, so that no other request gets it.
    pub fn shut_down(&mut self) {
        if let Some(watch) = &self.watch {
            watch.shut_down();
        }
        if let Some(socket) = self.socket.take() {
            socket.shut_down();
        }
    }

    /// Ends the attempt: its connection no longer belongs to it.
    pub fn stop(&mut self) {
        self.has_fired = self.has_fired();
        self.was_the_callers = self.was_the_callers();
        self.watch = None;
        if let Some(unanswered) = self.unanswered.take() {
            unanswered.end();
        }
        self.connection = None;
        self.socket = None;
        self.sends_over = None;
    }

    /// Whether the clock has ended the attempt.
    pub fn has_fired(&self) -> bool {
        self.has_fired || self.watch.as_ref().is_some_and(Watch::has_fired)
    }

    /// Whether the request has timed out while its caller did not read.
    pub fn was_the_callers(&self) -> bool {
        self.was_the_callers || self.watch.as_ref().is_some_and(Watch::was_the_callers)
    }

    /// How long a single read can wait: the longest allowed silence. `None` if the watch ends it, so that no
    /// timer for each piece is needed.
    pub fn read_timeout(&self, now: Instant) -> Option<Duration> {
        let deadlines = self.deadlines.filter(|_| !self.relies_on_watch)?;
        Some(deadlines.longest_silence(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use tollgate_routing::AnswerTimeouts;

    const SECOND: Duration = Duration::from_secs(1);

    fn stream(now: Instant) -> Deadlines {
        let bounds = AnswerTimeouts {
            first_byte: SECOND,
            first_token: SECOND,
            between_events: 2 * SECOND,
        };
        Deadlines::new(bounds, true, None, now, now + 60 * SECOND)
    }

    #[test]
    fn an_error_is_watched_even_if_nothing_before_it_is() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let ours = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let now = Instant::now();
        let bounds = AnswerTimeouts {
            first_byte: SECOND,
            first_token: SECOND,
            between_events: SECOND,
        };
        for is_http2 in [false, true] {
            let deadlines = Deadlines::new(bounds, false, None, now, now + 60 * SECOND);
            let mut timer = AttemptTimer::begin(deadlines, now, &AttemptTimer::default());
            timer.connected(ours.as_raw_fd(), false);
            assert!(timer.watch(BacklogSource::Stream, is_http2));
            timer.note(Progress::Piece, now);
            assert!(timer.watch.is_none());
            timer.note(Progress::Rest, now);
            assert!(timer.watch.is_some());
        }
    }

    #[test]
    fn an_attempt_that_cannot_be_watched_is_made_anew_with_a_timeout_for_each_read() {
        /// No connection has this descriptor, so none can be watched.
        const NONE: RawFd = -1;
        let now = Instant::now();
        let mut timer = AttemptTimer::begin(stream(now), now, &AttemptTimer::default());
        assert_eq!(timer.read_timeout(now), None);
        timer.connected(NONE, false);
        assert!(!timer.watch(BacklogSource::Stream, false));
        timer.stop();
        let mut again = AttemptTimer::begin(stream(now), now, &timer);
        assert_eq!(again.read_timeout(now), Some(2 * SECOND));
        again.connected(NONE, true);
        assert!(again.watch(BacklogSource::Stream, false));
    }
}
