//! The part of an answer that was sent to the client: head, bytes, and the error that ended it.

use std::time::Instant;
use tollgate_types::ErrorCode;

/// The status in the log if the client disconnected before it got one.
const CLIENT_CLOSED: u16 = 499;

/// What the client has got of its answer.
#[derive(Default)]
pub struct Sent {
    /// The status, and the error code if the gateway answers with an error.
    head: Option<(u16, Option<ErrorCode>)>,
    /// When the head of a provider's answer was sent.
    first_byte: Option<Instant>,
    /// The error that ended the answer after its head.
    broken: Option<ErrorCode>,
    /// Bytes of the body.
    pub bytes: usize,
}

impl Sent {
    /// The head of an answer of the gateway itself is sent. `code`: its error, if it is one.
    pub const fn begin_own(&mut self, status: u16, code: Option<ErrorCode>) {
        self.head = Some((status, code));
    }

    /// The head of a provider's answer is sent.
    pub const fn begin_upstream(&mut self, status: u16, now: Instant) {
        self.head = Some((status, None));
        self.first_byte = Some(now);
    }

    /// The answer ends with this error, after its head.
    pub const fn break_off(&mut self, code: ErrorCode) {
        self.broken = Some(code);
    }

    /// Whether the head was sent.
    pub const fn has_head(&self) -> bool {
        self.head.is_some()
    }

    /// Whether the head is that of an answer, not of an error.
    pub const fn is_answer(&self) -> bool {
        matches!(self.head, Some((_, None)))
    }

    /// Whether the answer ended with an error after its head.
    pub const fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// When the head of a provider's answer was sent.
    pub const fn first_byte(&self) -> Option<Instant> {
        self.first_byte
    }

    /// The HTTP status; 499 if the client disconnected before it got one.
    pub fn status(&self) -> u16 {
        self.head.map_or(CLIENT_CLOSED, |(status, _)| status)
    }

    /// The code of the error that the client got, before or after the head.
    pub fn code(&self) -> Option<ErrorCode> {
        self.broken.or(self.head.and_then(|(_, code)| code))
    }
}
