//! The facts in an answer: its identity, its usage, its end, and whether it is an answer at all.
//!
//! This file decides for whole bodies, fed in borrowed chunks; `stream` decides for event streams
//! with the same reader. It keeps a few facts and never the body.

pub(crate) mod at;
pub(crate) mod event;
mod facts;
pub(crate) mod kind;
pub(crate) mod part;
pub(crate) mod path;
pub(crate) mod reader;
mod sample;
pub(crate) mod text;

use crate::{
    fault::{UpstreamFault, classify_body},
    formats::{self, rules::FormatRules},
    json::{JsonError, Lexer},
    usage::ReportedUsage,
};
use kind::EventKind;
use reader::Reader;
use tollgate_types::Format;

pub use facts::{AnswerFacts, StopReason};
pub use kind::StreamEvents;
pub use sample::Sample;

/// The kind of a body with a success status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerKind {
    /// An answer.
    Answer,
    /// An error, whatever the status.
    Error,
    /// Not a complete JSON object, or one without the list that every answer of the format has
    /// (`choices`, `output`, `content`), or with an empty one and no end, or one that calls itself something
    /// else.
    Broken,
}

/// What an answer has reported so far.
pub trait AnswerReport {
    /// Its facts.
    fn facts(&self) -> &AnswerFacts;

    /// Its usage.
    fn usage(&self) -> ReportedUsage;

    /// Bytes of text, of every kind and each once. They estimate the output if no usage is reported.
    fn text_bytes(&self) -> u64;

    /// A sample of that text, about 1 KiB.
    fn text_sample(&self) -> String;
}

/// Reads a whole answer as it passes by.
#[derive(Debug)]
pub struct AnswerScanner {
    rules: &'static FormatRules,
    lexer: Lexer,
    reader: Reader,
    broken: Option<JsonError>,
}

impl AnswerScanner {
    /// A scanner for one answer in `format`.
    pub fn new(format: Format) -> Self {
        let rules = formats::rules(format);
        Self {
            rules,
            lexer: Lexer::new(),
            reader: Reader::new(&rules.body),
            broken: None,
        }
    }

    /// Reads the next chunk of the body.
    pub fn push(&mut self, chunk: &[u8]) {
        if self.broken.is_none() {
            self.broken = self.lexer.feed(chunk, &mut self.reader).err();
        }
    }

    /// The kind of the body, once it is certain: an error when its error object begins, an answer
    /// when its first choice, item or block begins. `None`: read on. [`finish`](Self::finish)
    /// decides.
    pub const fn kind_so_far(&self) -> Option<AnswerKind> {
        if self.is_error() {
            Some(AnswerKind::Error)
        } else if self.broken.is_some() || self.is_foreign() {
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

    /// Whether the list of every answer has come. An empty one belongs to an answer only if that says how it
    /// ended, or that it did not.
    const fn has_list(&self) -> bool {
        let event = &self.reader.event;
        let is_answer = event.main_item || event.unfinished || self.reader.facts.stop.is_some();
        event.main_list && is_answer
    }

    /// Whether the body calls itself an answer of the format, even if its list has not come yet.
    pub const fn is_named(&self) -> bool {
        matches!(self.reader.event.kind, EventKind::Content)
    }

    /// Whether the answer has ended: only white space may follow.
    pub const fn is_whole(&self) -> bool {
        self.broken.is_none() && self.lexer.is_complete()
    }

    /// Ends the body and returns what it was.
    pub fn finish(&mut self) -> AnswerKind {
        if self.broken.is_none() {
            self.broken = self.lexer.finish(&mut self.reader).err();
        }
        let event = &self.reader.event;
        if self.is_error() {
            AnswerKind::Error
        } else if self.broken.is_some() || self.is_foreign() || !event.object || !self.has_list() {
            AnswerKind::Broken
        } else {
            AnswerKind::Answer
        }
    }

    /// The failure that the body is, if it is no answer. `body` has its bytes so far.
    pub fn fault(&self, body: &[u8]) -> UpstreamFault {
        let event = &self.reader.event;
        let is_too_deep = || self.broken.is_some_and(|error| error.is_too_deep());
        match self.is_error() {
            true if event.unfit => UpstreamFault::unfit_answer(),
            true => classify_body(body),
            // The caller's words can cause that, as they can cause a malformed tool call.
            false if event.main_item && is_too_deep() => UpstreamFault::unfit_answer(),
            false => UpstreamFault::broken_answer(),
        }
    }
}

impl AnswerReport for AnswerScanner {
    fn facts(&self) -> &AnswerFacts {
        &self.reader.facts
    }

    fn usage(&self) -> ReportedUsage {
        self.reader.usage.reported(self.rules.usage.counting)
    }

    fn text_bytes(&self) -> u64 {
        self.reader.text_so_far(&self.lexer)
    }

    fn text_sample(&self) -> String {
        self.reader.text_sample()
    }
}

#[cfg(test)]
mod tests;
