//! An answer to a request for compaction: its text is a summary, and leaves as one sealed
//! `compaction` item that the client sends back in place of the conversation.

use super::ResponsesWriter;
use crate::{
    answer::{
        flow::Kind,
        parts::{
            Citation, Ending,
            Failure::{self, Broken},
            Head, ToolCall,
        },
        text::RawText,
        write::{BlockEnd, Write},
    },
    output::Output,
    seal::{self, Backend, MAX_PAYLOAD_BYTES, ReasoningForm},
};
use tollgate_wire::render::StreamTail;

#[derive(Debug)]
pub(crate) struct CompactionWriter {
    inner: ResponsesWriter,
    /// The summary so far, escaped.
    summary: String,
    is_summary_open: bool,
    pieces: u32,
}

impl CompactionWriter {
    /// A writer of the item within the answer that `inner` writes.
    pub(crate) const fn new(inner: ResponsesWriter) -> Self {
        Self {
            inner,
            summary: String::new(),
            is_summary_open: false,
            pieces: 0,
        }
    }
}

impl Write for CompactionWriter {
    fn start(&mut self, head: &Head, out: &mut Output) {
        self.inner.start(head, out);
    }

    fn begin(&mut self, kind: Kind, _: Option<&ToolCall>, _: &mut Output) -> Result<(), Failure> {
        if matches!(kind, Kind::Tool | Kind::Search) {
            return Err(Broken);
        }
        self.is_summary_open = kind == Kind::Text;
        Ok(())
    }

    fn delta(&mut self, piece: RawText<'_>, out: &mut Output) -> Result<(), Failure> {
        /// The client sees nothing until the end, so that it needs signs of life.
        const PIECES_A_SIGN: u32 = 32;
        self.pieces = self.pieces.wrapping_add(1);
        if self.pieces.is_multiple_of(PIECES_A_SIGN) {
            self.keep_alive(out);
        }
        if !self.is_summary_open {
            return Ok(());
        }
        if self.summary.len().saturating_add(piece.as_str().len()) > MAX_PAYLOAD_BYTES {
            return Err(Broken);
        }
        self.summary.push_str(piece.as_str());
        Ok(())
    }

    fn cite(&mut self, _: &Citation, _: Option<&str>, _: &mut Output) {}

    fn end(&mut self, _: BlockEnd<'_>, _: &mut Output) -> Result<(), Failure> {
        self.is_summary_open = false;
        Ok(())
    }

    fn has_form(&self) -> bool {
        !self.summary.trim().is_empty()
    }

    fn finish(&mut self, ending: &Ending, out: &mut Output) {
        let summary = std::mem::take(&mut self.summary);
        let summary = RawText::escaped(&summary).unescape();
        if let Some(sealed) = seal::seal(Backend::ANY, ReasoningForm::Summary, "", &summary) {
            self.inner.compaction(&sealed, out);
        }
        self.inner.finish(ending, out);
    }

    fn keep_alive(&mut self, out: &mut Output) {
        self.inner.keep_alive(out);
    }

    fn tail(&self) -> StreamTail<'_> {
        self.inner.tail()
    }

    fn kept_bytes(&self) -> usize {
        self.inner.kept_bytes().saturating_add(self.summary.len())
    }
}
