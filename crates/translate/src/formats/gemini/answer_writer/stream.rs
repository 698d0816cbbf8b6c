//! Streams of Gemini: each event is a response with the next part. Calls come whole.

use super::{Identity, Parts, begin_response, end_response};
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
};

#[derive(Debug, Default)]
pub(super) struct GeminiStream {
    head: Identity,
    parts: Parts,
}

impl Write for GeminiStream {
    fn start(&mut self, head: &Head, _: &mut Output) {
        self.head = Identity::of(head);
    }

    fn begin(
        &mut self,
        kind: Kind,
        call: Option<&ToolCall>,
        _: &mut Output,
    ) -> Result<(), Failure> {
        self.parts.begin(kind, call);
        Ok(())
    }

    fn delta(&mut self, piece: RawText<'_>, out: &mut Output) -> Result<(), Failure> {
        let kind = self.parts.kind()?;
        if matches!(kind, Kind::Tool | Kind::Thinking) {
            self.parts.keep(kind, piece)?;
        }
        if kind != Kind::Tool {
            self.event(None, out, |parts, out| {
                parts.text(kind, piece.as_str(), out);
            });
        }
        Ok(())
    }

    fn cite(&mut self, _: &Citation, _: Option<&str>, _: &mut Output) {}

    fn end(&mut self, end: BlockEnd<'_>, out: &mut Output) -> Result<(), Failure> {
        match self.parts.end(end)? {
            (Kind::Tool, Some(call)) => {
                let mut list = Output::default();
                if self.parts.call(&call, &mut list) {
                    self.event(None, out, |_, out| out.raw(list.as_bytes()));
                }
                Ok(())
            }
            (Kind::Tool | Kind::Search, _) => Err(Broken),
            _ => Ok(()),
        }
    }

    fn finish(&mut self, ending: &Ending, out: &mut Output) {
        // Clients reject a content without parts.
        self.event(Some(ending), out, |parts, out| {
            parts.text(Kind::Text, "", out);
        });
    }

    /// An empty line: Google's SDKs take a comment for a broken event.
    fn keep_alive(&mut self, out: &mut Output) {
        out.raw(b"\n");
    }

    fn kept_bytes(&self) -> usize {
        self.parts.kept_bytes()
    }
}

impl GeminiStream {
    /// Writes an event, its parts by `write`.
    fn event(
        &mut self,
        ending: Option<&Ending>,
        out: &mut Output,
        write: impl FnOnce(&mut Parts, &mut Output),
    ) {
        out.raw(b"data: ");
        begin_response(out);
        write(&mut self.parts, out);
        end_response(&self.head, ending, out);
        out.raw(b"\n\n");
    }
}
