//! Whole answers of the chat format: one choice with one message.

use super::{annotation, finish_reason, sealed_reasoning, usage};
use crate::{
    answer::{
        flow::Kind,
        parts::{
            Citation, Ending,
            Failure::{self, Broken},
            Head, ToolCall,
        },
        text::RawText,
        write::{BlockEnd, Write, append, escaped},
    },
    output::Output,
};

#[derive(Debug, Default)]
pub(crate) struct ChatBody {
    id: String,
    model: String,
    created: u64,
    open: Option<Kind>,
    /// Texts, escaped; nothing where there is none.
    content: Option<String>,
    refusal: Option<String>,
    reasoning: Option<String>,
    /// Entries of lists, with commas between.
    reasoning_details: Output,
    annotations: Output,
    logprobs: String,
    calls: Output,
    sealed: u64,
    /// Bytes of the content before the open block.
    open_at: usize,
    /// Characters of the same, once a citation needs them.
    chars_before: Option<u64>,
    /// How much of the content was counted: bytes of it, and characters that they mean.
    counted: (usize, u64),
}

impl Write for ChatBody {
    fn start(&mut self, head: &Head, _: &mut Output) {
        self.id = head.answer_id("chatcmpl-");
        self.model.clone_from(&head.model);
        self.created = head.created;
    }

    fn begin(
        &mut self,
        kind: Kind,
        call: Option<&ToolCall>,
        _: &mut Output,
    ) -> Result<(), Failure> {
        self.open = Some(kind);
        self.open_at = self.content.as_ref().map_or(0, String::len);
        self.chars_before = None;
        match (kind, call) {
            (Kind::Tool, Some(call)) => self.begin_call(call),
            (Kind::Tool | Kind::Search, _) => return Err(Broken),
            _ => {}
        }
        Ok(())
    }

    fn delta(&mut self, piece: RawText<'_>, _: &mut Output) -> Result<(), Failure> {
        let text = match self.open.ok_or(Broken)? {
            Kind::Tool => {
                self.calls.escaped(piece.as_str().as_bytes());
                return Ok(());
            }
            Kind::Text => &mut self.content,
            Kind::Refusal => &mut self.refusal,
            Kind::Thinking => &mut self.reasoning,
            Kind::Search => return Err(Broken),
        };
        text.get_or_insert_default().push_str(piece.as_str());
        Ok(())
    }

    fn logprobs(&mut self, entries: &str) {
        append(&mut self.logprobs, entries);
    }

    fn cite(&mut self, citation: &Citation, _: Option<&str>, _: &mut Output) {
        let from = match self.chars_before {
            Some(chars) => chars,
            None => self.count_to(self.open_at),
        };
        self.chars_before = Some(from);
        let range = match citation.range {
            Some((start, end)) => (from.saturating_add(start), from.saturating_add(end)),
            None => (from, self.count_to(usize::MAX)),
        };
        annotation(citation, range, self.annotations.item());
    }

    fn end(&mut self, end: BlockEnd<'_>, _: &mut Output) -> Result<(), Failure> {
        if self.open.take() == Some(Kind::Tool) {
            self.calls.end_string();
            self.calls.end_object();
            self.calls.end_object();
        }
        if let Some(sealed) = end.sealed() {
            sealed_reasoning(sealed, self.sealed, self.reasoning_details.item());
            self.sealed = self.sealed.saturating_add(1);
        }
        Ok(())
    }

    fn finish(&mut self, ending: &Ending, out: &mut Output) {
        out.begin_object();
        out.key("id").string(&self.id);
        out.key("object").string("chat.completion");
        out.key("created").number(self.created);
        out.key("model").string(&self.model);
        out.key("choices").begin_array();
        out.item().begin_object();
        out.key("index").number(0);
        self.message(out.key("message"));
        match self.logprobs.as_str() {
            "" => out.key("logprobs").raw(b"null"),
            entries => {
                out.key("logprobs").begin_object();
                out.key("content").begin_array();
                out.raw(entries.as_bytes());
                out.end_array();
                out.key("refusal").raw(b"null");
                out.end_object();
            }
        }
        out.key("finish_reason").string(finish_reason(ending.stop));
        out.end_object();
        out.end_array();
        if let Some(tokens) = &ending.usage {
            usage(tokens, out.key("usage"));
        }
        out.end_object();
    }
}

impl ChatBody {
    /// Characters of the content up to a place behind what was counted before: most answers
    /// cite nothing, and are not counted.
    fn count_to(&mut self, end: usize) -> u64 {
        let (done, chars) = self.counted;
        let content = self.content.as_deref().unwrap_or_default();
        let end = end.min(content.len());
        if let Some(more) = content.get(done..end) {
            let more = RawText::escaped(more).chars();
            self.counted = (end, chars.saturating_add(more));
        }
        self.counted.1
    }

    fn begin_call(&mut self, call: &ToolCall) {
        let (kind, field) = match call.is_custom {
            true => ("custom", "input"),
            false => ("function", "arguments"),
        };
        let out = self.calls.item();
        out.begin_object();
        out.key("id").string(&call.id);
        out.key("type").string(kind);
        out.key(kind).begin_object();
        out.key("name").string(&call.name);
        out.key(field).begin_string();
    }

    fn message(&self, out: &mut Output) {
        out.begin_object();
        out.key("role").string("assistant");
        for (name, text) in [("content", &self.content), ("refusal", &self.refusal)] {
            match text {
                Some(text) => escaped(out.key(name), text),
                None => out.key(name).raw(b"null"),
            }
        }
        if let Some(reasoning) = &self.reasoning {
            escaped(out.key("reasoning_content"), reasoning);
        }
        list("annotations", &self.annotations, out);
        for (name, entries) in [
            ("reasoning_details", &self.reasoning_details),
            ("tool_calls", &self.calls),
        ] {
            if !entries.as_bytes().is_empty() {
                list(name, entries, out);
            }
        }
        out.end_object();
    }
}

fn list(name: &str, entries: &Output, out: &mut Output) {
    out.key(name).begin_array();
    out.raw(entries.as_bytes());
    out.end_array();
}
