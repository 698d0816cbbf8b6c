//! Writes an answer in the caller's format, as an event stream or whole.
//!
//! Decides nothing but the bytes: the parts come in order, one block after the other.

use crate::{
    answer::{
        flow::Kind,
        parts::{Citation, Ending, Failure, Head, Search, ToolCall},
        text::RawText,
    },
    output::Output,
};
use std::fmt::Debug;
use tollgate_wire::render::StreamTail;

/// How a block ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockEnd<'a> {
    /// As it should.
    Whole,
    /// Thinking, with its sealed state.
    Sealed(&'a str),
    /// A call, before its arguments were complete.
    Cut,
}

impl<'a> BlockEnd<'a> {
    pub(crate) const fn sealed(self) -> Option<&'a str> {
        match self {
            Self::Sealed(sealed) => Some(sealed),
            Self::Whole | Self::Cut => None,
        }
    }
}

/// A writer of one answer.
pub(crate) trait Write: Debug + Send + Sync {
    /// The answer begins.
    fn start(&mut self, head: &Head, out: &mut Output);

    /// A block begins; a tool's with its call.
    fn begin(
        &mut self,
        kind: Kind,
        call: Option<&ToolCall>,
        out: &mut Output,
    ) -> Result<(), Failure>;

    /// A piece of the open block; never an empty one.
    fn delta(&mut self, piece: RawText<'_>, out: &mut Output) -> Result<(), Failure>;

    /// How likely the tokens of the next piece were: entries with commas between.
    fn logprobs(&mut self, _: &str) {}

    /// A page that the open text refers to; sealed, where its provider wants it back.
    fn cite(&mut self, citation: &Citation, sealed: Option<&str>, out: &mut Output);

    /// A search of the web begins, known to its provider by this id.
    fn begin_search(&mut self, _id: &str, _: &mut Output) {}

    /// The search that has begun ends; sealed, where its provider wants it back.
    fn end_search(
        &mut self,
        _: &Search,
        _sealed: Option<&str>,
        _: &mut Output,
    ) -> Result<(), Failure> {
        Ok(())
    }

    /// The open block ends.
    fn end(&mut self, end: BlockEnd<'_>, out: &mut Output) -> Result<(), Failure>;

    /// Whether the answer is what the request asks for, now that it ends.
    fn has_form(&self) -> bool {
        true
    }

    /// The answer ends.
    fn finish(&mut self, ending: &Ending, out: &mut Output);

    /// The answer as it is remembered, once it has ended; nothing the second time.
    fn take_remembered(&mut self) -> Option<Vec<u8>> {
        None
    }

    /// A sign of life; whole answers have none.
    fn keep_alive(&mut self, _: &mut Output) {}

    /// Where the stream stands, for an error that ends it.
    fn tail(&self) -> StreamTail<'_> {
        StreamTail::default()
    }

    /// Bytes kept of what has left, because the format repeats it.
    fn kept_bytes(&self) -> usize {
        0
    }
}

/// A comment, for streams without a ping of their own.
pub(crate) const COMMENT: &[u8] = b": ping\n\n";

/// Writes a string whose contents are escaped.
pub(crate) fn escaped(out: &mut Output, contents: &str) {
    out.begin_string();
    out.escaped(contents.as_bytes());
    out.end_string();
}

/// Keeps log probabilities for the next piece, within bounds: tokens without text may come
/// first, but not for ever.
pub(crate) fn keep_logprobs(kept: &mut String, entries: &str) {
    const MOST_KEPT: usize = 256 * 1024;
    if kept.len() < MOST_KEPT {
        append(kept, entries);
    }
}

/// Appends to a list with commas between.
pub(crate) fn append(list: &mut String, entries: &str) {
    if !list.is_empty() {
        list.push(',');
    }
    list.push_str(entries);
}
