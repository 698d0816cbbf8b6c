//! What an answer says of itself: its identity, its usage, how it ended, and whether it is
//! an answer at all.
//!
//! Decides for whole bodies, fed in borrowed chunks; `stream` decides for event streams with
//! the same reader. Keeps a few facts and never the body.

mod at;
mod facts;
pub(crate) mod kind;
mod path;
pub(crate) mod reader;
mod sample;
pub(crate) mod text;

use crate::{json::Lexer, usage::ReportedUsage};
use kind::EventKind;
use reader::{Mode, Reader};
use tollgate_types::Format;

pub use facts::{AnswerFacts, StopReason};
pub use kind::StreamEvents;

/// What a body with a success status turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerKind {
    /// An answer.
    Answer,
    /// An error object, whatever its status said: hand the body to
    /// [`classify_body`](crate::fault::classify_body).
    Error,
    /// Not a JSON object, not a whole one, one without the list that every answer of the
    /// format has (`choices`, `output`, `content`), or one that calls itself something else.
    Broken,
}

/// Reads a whole answer as it passes by.
#[derive(Debug)]
pub struct AnswerScanner {
    format: Format,
    lexer: Lexer,
    reader: Reader,
    broken: bool,
}

impl AnswerScanner {
    /// A scanner for one answer in `format`.
    pub fn new(format: Format) -> Self {
        Self {
            format,
            lexer: Lexer::new(),
            reader: Reader::new(Mode::Body(format)),
            broken: false,
        }
    }

    /// Reads the next chunk of the body.
    pub fn push(&mut self, chunk: &[u8]) {
        if !self.broken {
            self.broken = self.lexer.feed(chunk, &mut self.reader).is_err();
        }
    }

    /// What the body is, as soon as that is certain: an error as soon as its error object
    /// begins, an answer once its first choice, item or block began. `None`: read on.
    /// [`finish`](Self::finish) has the last word.
    pub const fn kind_so_far(&self) -> Option<AnswerKind> {
        if self.is_error() {
            Some(AnswerKind::Error)
        } else if self.broken || self.is_foreign() {
            Some(AnswerKind::Broken)
        } else if self.reader.event.main_item {
            Some(AnswerKind::Answer)
        } else {
            None
        }
    }

    const fn is_error(&self) -> bool {
        let event = &self.reader.event;
        event.error || matches!(event.kind, EventKind::Error)
    }

    const fn is_foreign(&self) -> bool {
        matches!(self.reader.event.kind, EventKind::Foreign)
    }

    /// Whether the body calls itself an answer of the format, be its list to come.
    pub const fn is_named(&self) -> bool {
        matches!(self.reader.event.kind, EventKind::Content)
    }

    /// Whether the answer has come to its end: nothing but white space may follow.
    pub const fn is_whole(&self) -> bool {
        !self.broken && self.lexer.is_complete()
    }

    /// Ends the body and says what it was.
    pub fn finish(&mut self) -> AnswerKind {
        if !self.broken {
            self.broken = self.lexer.finish(&mut self.reader).is_err();
        }
        let event = &self.reader.event;
        if self.is_error() {
            AnswerKind::Error
        } else if self.broken || self.is_foreign() || !event.object || !event.main_list {
            AnswerKind::Broken
        } else {
            AnswerKind::Answer
        }
    }

    /// What the body said so far.
    pub const fn facts(&self) -> &AnswerFacts {
        &self.reader.facts
    }

    /// The usage reported so far.
    pub fn usage(&self) -> ReportedUsage {
        self.reader.usage.reported(self.format)
    }

    /// Bytes of text so far, of every kind: what output is estimated from where no usage
    /// is reported.
    pub fn text_bytes(&self) -> u64 {
        self.reader.text_so_far(&self.lexer)
    }

    /// A sample of that text, about a KiB of it.
    pub fn text_sample(&self) -> String {
        self.reader.text_sample()
    }
}

#[cfg(test)]
mod tests;
