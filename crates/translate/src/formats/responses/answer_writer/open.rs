//! The open items of a stream of the responses format, and the frames of its events.

use super::annotation;
use crate::{
    answer::{
        flow::Kind,
        parts::{Citation, ToolCall},
        text::RawText,
    },
    output::Output,
};

/// The message that is open. Texts that follow each other are parts of one.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) place: Place,
    pub(super) parts: u64,
    /// The parts that ended, with commas between.
    pub(super) content: String,
}

/// An item's id and index, as its events repeat them.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) item_id: String,
    pub(super) output_index: u64,
}

/// The block that is open.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) kind: Kind,
    pub(super) place: Place,
    /// The index of the part in the message.
    pub(super) part: u64,
    pub(super) call: Option<ToolCall>,
    /// Escaped, as it came.
    pub(super) text: String,
    pub(super) logprobs: String,
    pub(super) annotations: Vec<Citation>,
    /// Bytes that they hold.
    pub(super) cited: usize,
    /// Bytes of the text of which the characters are counted, and how many these are: most
    /// texts cite nothing, and are not counted.
    pub(super) counted: (usize, u64),
    /// The event up to the delta.
    pub(super) before_delta: String,
}

impl Open {
    /// Bytes of it that are kept.
    pub(super) fn size(&self) -> usize {
        let text = self.text.len().saturating_add(self.logprobs.len());
        text.saturating_add(self.cited)
    }

    /// The entries of `annotations`, with commas between.
    pub(super) fn entries(&mut self) -> String {
        let mut entries = Output::default();
        for citation in std::mem::take(&mut self.annotations) {
            annotation(&citation, self.range(&citation), entries.item());
        }
        text(entries)
    }

    /// The characters that a citation is about: the whole text so far where its provider does not
    /// say. However many ask, each piece of the text is counted once.
    pub(super) fn range(&mut self, citation: &Citation) -> (u64, u64) {
        citation.range.unwrap_or_else(|| (0, self.chars()))
    }

    fn chars(&mut self) -> u64 {
        let (done, chars) = self.counted;
        let more = self.text.get(done..).unwrap_or_default();
        let chars = chars.saturating_add(RawText::escaped(more).chars());
        self.counted = (self.text.len(), chars);
        chars
    }
}

impl Place {
    pub(super) fn write(&self, out: &mut Output) {
        out.key("item_id").string(&self.item_id);
        out.key("output_index").number(self.output_index);
    }
}

pub(super) const fn delta_event(kind: Kind, is_custom: bool) -> &'static str {
    match (kind, is_custom) {
        (Kind::Text, _) => "response.output_text.delta",
        (Kind::Refusal, _) => "response.refusal.delta",
        (Kind::Thinking, _) => "response.reasoning_summary_text.delta",
        (Kind::Tool | Kind::Search, true) => "response.custom_tool_call_input.delta",
        (Kind::Tool | Kind::Search, false) => "response.function_call_arguments.delta",
    }
}

pub(super) fn begin_event(name: &str, out: &mut Output) {
    out.raw(b"event: ");
    out.raw(name.as_bytes());
    out.raw(b"\ndata: ");
    out.begin_object();
    out.key("type").string(name);
}

pub(super) fn end_event(sequence: u64, out: &mut Output) {
    out.key("sequence_number").number(sequence);
    out.end_object();
    out.raw(b"\n\n");
}

/// The written text: always UTF-8.
pub(super) fn text(written: Output) -> String {
    String::from_utf8(written.into_bytes()).unwrap_or_default()
}
