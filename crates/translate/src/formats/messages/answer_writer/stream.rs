//! Streams of the messages format: strictly one block after the other.

use super::{
    citation, delta_usage, is_blank, search_call, search_id, search_input, search_result,
    stop_fields, usage,
};
use crate::{
    answer::{
        flow::Kind,
        parts::{
            Citation, Ending,
            Failure::{self, Broken},
            Head, Search, ToolCall,
        },
        text::RawText,
        write::{BlockEnd, COMMENT, Write},
    },
    output::Output,
};
use tollgate_types::Usage;

#[derive(Debug, Default)]
pub(crate) struct MessagesStream {
    is_started: bool,
    open: Option<Kind>,
    /// The white space at the beginning of a text, kept until another character arrives: Anthropic refuses
    /// blank texts in the history.
    blank: Option<String>,
    /// The index of the open block, or of the next.
    index: u64,
    /// The text before and after a piece of the open block.
    around_delta: (String, &'static [u8]),
    /// The usage that is shown if the provider reports none.
    input: Usage,
    /// The answer's id, and the search that has begun.
    id: String,
    search: String,
}

impl Write for MessagesStream {
    fn start(&mut self, head: &Head, out: &mut Output) {
        self.is_started = true;
        self.id.clone_from(&head.id);
        self.input = head.input;
        out.raw(b"event: message_start\ndata: ");
        out.begin_object();
        out.key("type").string("message_start");
        out.key("message").begin_object();
        out.key("id").string(&head.answer_id("msg_"));
        out.key("type").string("message");
        out.key("role").string("assistant");
        out.key("model").string(&head.model);
        out.key("content").raw(b"[]");
        stop_fields(None, out);
        out.key("container").raw(b"null");
        out.key("diagnostics").raw(b"null");
        // The totals come at the end. Some clients take the input from here.
        usage(&head.input, 0, out);
        out.end_object();
        end_event(out);
    }

    fn begin(
        &mut self,
        kind: Kind,
        call: Option<&ToolCall>,
        out: &mut Output,
    ) -> Result<(), Failure> {
        self.open = Some(kind);
        if matches!(kind, Kind::Text | Kind::Refusal) && self.blank.is_none() {
            self.blank = Some(String::new());
            return Ok(());
        }
        self.begin_block(out);
        out.key("content_block").begin_object();
        let (delta, field) = match (kind, call) {
            (Kind::Text | Kind::Refusal, _) => {
                out.raw(br#""type":"text","text":"""#);
                ("text_delta", "text")
            }
            (Kind::Thinking, _) => {
                out.raw(br#""type":"thinking","thinking":"","signature":"""#);
                ("thinking_delta", "thinking")
            }
            (Kind::Tool, Some(call)) => {
                out.raw(br#""type":"tool_use""#);
                out.key("id").string(&call.id);
                out.key("name").string(&call.name);
                out.raw(br#","input":{},"caller":{"type":"direct"}"#);
                ("input_json_delta", "partial_json")
            }
            (Kind::Tool | Kind::Search, _) => return Err(Broken),
        };
        out.end_object();
        end_event(out);
        self.around_delta.0.clear();
        let before = [
            "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":",
            &self.index.to_string(),
            ",\"delta\":{\"type\":\"",
            delta,
            "\",\"",
            field,
            "\":\"",
        ];
        self.around_delta.0.extend(before);
        self.around_delta.1 = b"\"}}\n\n";
        Ok(())
    }

    fn delta(&mut self, piece: RawText<'_>, out: &mut Output) -> Result<(), Failure> {
        if let Some(blank) = &mut self.blank {
            /// More white space begins the block: the client gets a sign of life.
            const MOST_BLANK: usize = 4096;
            blank.push_str(piece.as_str());
            if is_blank(piece.as_str()) && blank.len() <= MOST_BLANK {
                return Ok(());
            }
            self.begin(Kind::Text, None, out)?;
            let text = self.blank.take().unwrap_or_default();
            return self.delta(RawText::escaped(&text), out);
        }
        out.raw(self.around_delta.0.as_bytes());
        out.raw(piece.as_str().as_bytes());
        out.raw(self.around_delta.1);
        Ok(())
    }

    /// A citation of this format names a place in what the provider searched: without a search
    /// there is none.
    fn cite(&mut self, cited: &Citation, sealed: Option<&str>, out: &mut Output) {
        if let Some(sealed) = sealed.filter(|_| self.blank.is_none()) {
            self.begin_delta("citations_delta", out);
            citation(cited, sealed, out.key("citation"));
            out.end_object();
            end_event(out);
        }
    }

    /// Writes the call at once, and its query when the provider reports it.
    fn begin_search(&mut self, id: &str, out: &mut Output) {
        self.search = search_id(id, &self.id, self.index);
        self.begin_block(out);
        out.key("content_block").begin_object();
        search_call(&self.search, out);
        out.key("input").raw(b"{}");
        out.end_object();
        end_event(out);
    }

    fn end_search(
        &mut self,
        search: &Search,
        sealed: Option<&str>,
        out: &mut Output,
    ) -> Result<(), Failure> {
        self.begin_delta("input_json_delta", out);
        out.key("partial_json").string(&search_input(search));
        out.end_object();
        end_event(out);
        self.end_block(out);
        self.begin_block(out);
        search_result(&self.search, search, sealed, out.key("content_block"));
        end_event(out);
        self.end_block(out);
        Ok(())
    }

    fn end(&mut self, end: BlockEnd<'_>, out: &mut Output) -> Result<(), Failure> {
        if self.blank.take().is_some() {
            return Ok(());
        }
        if self.open.take() == Some(Kind::Thinking) {
            self.begin_delta("signature_delta", out);
            out.key("signature")
                .string(end.sealed().unwrap_or_default());
            out.end_object();
            end_event(out);
        }
        self.end_block(out);
        Ok(())
    }

    fn finish(&mut self, ending: &Ending, out: &mut Output) {
        out.raw(b"event: message_delta\ndata: ");
        out.begin_object();
        out.key("type").string("message_delta");
        out.key("delta").begin_object();
        stop_fields(Some(ending), out);
        out.end_object();
        delta_usage(ending, &self.input, out);
        end_event(out);
        out.raw(b"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
    }

    fn keep_alive(&mut self, out: &mut Output) {
        // Nothing may precede the start of a message.
        out.raw(match self.is_started {
            true => b"event: ping\ndata: {\"type\":\"ping\"}\n\n",
            false => COMMENT,
        });
    }

    fn kept_bytes(&self) -> usize {
        self.blank.as_ref().map_or(0, String::len)
    }
}

impl MessagesStream {
    /// Begins the event that begins a block.
    fn begin_block(&self, out: &mut Output) {
        out.raw(b"event: content_block_start\ndata: ");
        out.begin_object();
        out.key("type").string("content_block_start");
        out.key("index").number(self.index);
    }

    /// Begins an event that adds to the open block, and its delta.
    fn begin_delta(&self, kind: &str, out: &mut Output) {
        out.raw(b"event: content_block_delta\ndata: ");
        out.begin_object();
        out.key("type").string("content_block_delta");
        out.key("index").number(self.index);
        out.key("delta").begin_object();
        out.key("type").string(kind);
    }

    fn end_block(&mut self, out: &mut Output) {
        out.raw(b"event: content_block_stop\ndata: ");
        out.begin_object();
        out.key("type").string("content_block_stop");
        out.key("index").number(self.index);
        end_event(out);
        self.index = self.index.saturating_add(1);
    }
}

fn end_event(out: &mut Output) {
    out.end_object();
    out.raw(b"\n\n");
}
