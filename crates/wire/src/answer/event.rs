//! What one event of a stream, or one whole answer, says about itself.

use super::{kind::EventKind, text::EventText};

/// What one event, or one body, says about itself.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EventFacts {
    /// The document is an object.
    pub(crate) object: bool,
    /// That object has a member.
    pub(crate) member: bool,
    /// By its `type` or its `object`.
    pub(crate) kind: EventKind,
    /// It has an error object.
    pub(crate) error: bool,
    /// It is an error because the model wrote a malformed answer or tool call.
    pub(crate) unfit: bool,
    /// A choice has a delta that is not empty, or a finish reason.
    pub(crate) content: bool,
    /// It has the list that every answer of the format has: `choices`, `output`, `content`.
    pub(crate) main_list: bool,
    /// An element of that list began.
    pub(crate) main_item: bool,
    /// A list of searches came.
    pub(crate) has_searches: bool,
    /// It is a response that its provider has not finished, or will not finish.
    pub(crate) unfinished: bool,
    /// It has a usage object.
    pub(crate) usage: bool,
    /// Its text and the arguments of its tool calls.
    pub(crate) text: EventText,
    /// Its `sequence_number`.
    pub(crate) sequence: Option<u64>,
    /// The choices in it.
    pub(crate) choices: Choices,
}

/// Which choices have begun and which have ended, by index.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Choices {
    /// The index of the choice that is being read.
    pub(super) index: u64,
    /// That choice has a finish reason.
    pub(super) has_reason: bool,
    begun: u128,
    pub(super) finished: u128,
}

impl Choices {
    /// Adds what an event said, once it has left.
    pub(crate) const fn merge(&mut self, event: Self) {
        self.begun |= event.begun;
        self.finished |= event.finished;
    }

    /// Whether every choice that began has a finish reason.
    pub(crate) const fn are_finished(&self) -> bool {
        self.begun != 0 && self.begun == self.finished
    }

    /// Takes the choice that has ended, and returns its index. Indexes beyond the last bit share that bit.
    pub(super) fn take(&mut self) -> u64 {
        let bit = 1 << self.index.min(127);
        self.begun |= bit;
        if std::mem::take(&mut self.has_reason) {
            self.finished |= bit;
        }
        std::mem::take(&mut self.index)
    }
}
