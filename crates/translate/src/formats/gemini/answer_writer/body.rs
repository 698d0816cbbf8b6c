//! Whole answers of Gemini: one candidate with a list of parts.

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
pub(super) struct GeminiBody {
    head: Identity,
    parts: Parts,
    /// The parts that have ended, with commas between.
    list: Output,
}

impl Write for GeminiBody {
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

    fn delta(&mut self, piece: RawText<'_>, _: &mut Output) -> Result<(), Failure> {
        self.parts.contents.push_str(piece.as_str());
        Ok(())
    }

    fn cite(&mut self, _: &Citation, _: Option<&str>, _: &mut Output) {}

    fn end(&mut self, end: BlockEnd<'_>, _: &mut Output) -> Result<(), Failure> {
        match self.parts.end(end)? {
            (Kind::Tool, Some(call)) => drop(self.parts.call(&call, &mut self.list)),
            (Kind::Tool | Kind::Search, _) => return Err(Broken),
            (kind, _) => {
                let text = std::mem::take(&mut self.parts.contents);
                if !text.is_empty() {
                    self.parts.text(kind, &text, &mut self.list);
                }
            }
        }
        Ok(())
    }

    fn finish(&mut self, ending: &Ending, out: &mut Output) {
        if self.list.as_bytes().is_empty() || !self.parts.lines.is_empty() {
            // Clients reject a content without parts.
            self.parts.text(Kind::Text, "", &mut self.list);
        }
        begin_response(out);
        out.raw(self.list.as_bytes());
        end_response(&self.head, Some(ending), out);
    }
}
