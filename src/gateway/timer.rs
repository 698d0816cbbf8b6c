//! The timer of the attempt under way: its deadlines, and the watch over its connection.

use super::deadlines::{Deadlines, Progress};
use super::watch::{Socket, Watch};
use std::os::fd::RawFd;
use std::time::{Duration, Instant};

/// The timer of one attempt after the other.
#[derive(Default)]
pub struct AttemptTimer {
    deadlines: Option<Deadlines>,
    /// The number of the connection, from when it is made until it is watched.
    connection: Option<RawFd>,
    watch: Option<Watch>,
    has_fired: bool,
}

impl AttemptTimer {
    /// An attempt begins.
    pub fn begin(deadlines: Deadlines) -> Self {
        Self {
            deadlines: Some(deadlines),
            ..Self::default()
        }
    }

    /// The provider is connected to, by the connection of this number.
    pub const fn connected(&mut self, connection: RawFd) {
        self.connection = Some(connection);
    }

    /// The request is about to be sent over that connection: from here on its silence is
    /// counted, and watched. Where the system has no descriptor left, the time-out of a single
    /// read must do.
    pub fn watch(&mut self) {
        let now = Instant::now();
        let Some(deadlines) = &mut self.deadlines else {
            return;
        };
        deadlines.connected(now);
        if !deadlines.need_a_watch(now) {
            return;
        }
        self.watch = self
            .connection
            .take()
            .and_then(Socket::of)
            .map(|socket| Watch::begin(socket, deadlines.end(), deadlines.request_ends()));
    }

    /// Whether what is handed on now has come too late. What was read before the watch has
    /// fired is not: the broken connection comes behind it.
    pub fn is_over(&self, now: Instant) -> bool {
        self.deadlines.is_some_and(|it| it.are_over(now))
    }

    /// Notes how far the answer has come.
    pub fn note(&mut self, progress: Progress, now: Instant) {
        let Some(deadlines) = &mut self.deadlines else {
            return;
        };
        deadlines.note(progress, now);
        if let Some(watch) = &self.watch {
            watch.set(deadlines.end());
        }
    }

    /// The attempt is over: its connection is no longer its own.
    pub fn stop(&mut self) {
        self.has_fired = self.has_fired();
        self.watch = None;
        self.connection = None;
    }

    /// Whether the clock has ended the attempt.
    pub fn has_fired(&self) -> bool {
        self.has_fired || self.watch.as_ref().is_some_and(Watch::has_fired)
    }

    /// The longest silence of the attempt that the time-out of a read is to allow.
    pub fn longest_silence(&self) -> Option<Duration> {
        let deadlines = self.deadlines?;
        Some(deadlines.longest_silence(Instant::now()))
    }
}
