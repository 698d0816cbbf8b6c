//! Streams of the chat format: chunks of one choice.

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
        write::{BlockEnd, COMMENT, Write, escaped, keep_logprobs},
    },
    output::Output,
};

#[derive(Debug)]
pub(crate) struct ChatStream {
    /// The caller asked for a chunk of usage; then all others say that they have none.
    include_usage: bool,
    /// The beginning of every chunk, up to `choices`.
    before_choices: String,
    has_role: bool,
    open: Option<Kind>,
    /// The text before and after the contents of a delta of the open block.
    around_delta: (String, String),
    /// Of the tokens of the next piece of text.
    logprobs: String,
    calls: u64,
    sealed: u64,
    /// Characters of `content` before the open block, and with it.
    chars: (u64, u64),
    /// Entries of `annotations`, with commas between. Clients that add up chunks take a list
    /// without indexes only once, so all of them leave in one chunk, as from the format's provider.
    annotations: Output,
}

/// Bytes of annotations that are kept for the last chunk, at most; further ones are left out.
const MOST_ANNOTATIONS: usize = 1024 * 1024;

impl ChatStream {
    pub(crate) fn new(include_usage: bool) -> Self {
        Self {
            include_usage,
            before_choices: String::new(),
            has_role: false,
            open: None,
            around_delta: (String::new(), String::new()),
            logprobs: String::new(),
            calls: 0,
            sealed: 0,
            chars: (0, 0),
            annotations: Output::default(),
        }
    }
}

impl Write for ChatStream {
    fn start(&mut self, head: &Head, _: &mut Output) {
        let mut chunk = Output::default();
        chunk.begin_object();
        chunk.key("id").string(&head.answer_id("chatcmpl-"));
        chunk.key("object").string("chat.completion.chunk");
        chunk.key("created").number(head.created);
        chunk.key("model").string(&head.model);
        chunk.key("choices");
        let chunk = String::from_utf8(chunk.into_bytes()).unwrap_or_default();
        self.before_choices = format!("data: {chunk}[");
    }

    fn begin(
        &mut self,
        kind: Kind,
        call: Option<&ToolCall>,
        out: &mut Output,
    ) -> Result<(), Failure> {
        self.open = Some(kind);
        self.write_role(kind == Kind::Text, out);
        let (before, after) = match (kind, call) {
            (Kind::Text, _) => (r#""content":""#.to_owned(), "\""),
            (Kind::Refusal, _) => (r#""refusal":""#.to_owned(), "\""),
            (Kind::Thinking, _) => (r#""reasoning_content":""#.to_owned(), "\""),
            (Kind::Tool, Some(call)) => {
                self.begin_call(call, out);
                let index = self.calls;
                self.calls = self.calls.saturating_add(1);
                let (kind, field) = match call.is_custom {
                    true => ("custom", "input"),
                    false => ("function", "arguments"),
                };
                let before = format!(r#""tool_calls":[{{"index":{index},"{kind}":{{"{field}":""#);
                (before, "\"}}]")
            }
            (Kind::Tool | Kind::Search, _) => return Err(Broken),
        };
        self.chars.0 = self.chars.1;
        self.around_delta = (
            [&self.before_choices, DELTA, &before].concat(),
            [after, END_DELTA, self.no_usage(), "}\n\n"].concat(),
        );
        Ok(())
    }

    fn delta(&mut self, piece: RawText<'_>, out: &mut Output) -> Result<(), Failure> {
        if self.open == Some(Kind::Text) {
            self.chars.1 = self.chars.1.saturating_add(piece.chars());
        }
        out.raw(self.around_delta.0.as_bytes());
        out.raw(piece.as_str().as_bytes());
        if self.logprobs.is_empty() || self.open != Some(Kind::Text) {
            out.raw(self.around_delta.1.as_bytes());
            return Ok(());
        }
        out.raw(b"\"},\"logprobs\":{\"content\":[");
        out.raw(self.logprobs.as_bytes());
        out.raw(b"],\"refusal\":null},\"finish_reason\":null}]");
        out.raw(self.no_usage().as_bytes());
        out.raw(b"}\n\n");
        self.logprobs.clear();
        Ok(())
    }

    fn logprobs(&mut self, entries: &str) {
        keep_logprobs(&mut self.logprobs, entries);
    }

    fn cite(&mut self, citation: &Citation, _: Option<&str>, _: &mut Output) {
        let range = match citation.range {
            None => self.chars,
            Some((from, to)) => (
                self.chars.0.saturating_add(from),
                self.chars.0.saturating_add(to),
            ),
        };
        if self.kept_bytes() < MOST_ANNOTATIONS {
            annotation(citation, range, self.annotations.item());
        }
    }

    fn end(&mut self, end: BlockEnd<'_>, out: &mut Output) -> Result<(), Failure> {
        self.open = None;
        if let Some(sealed) = end.sealed() {
            let index = self.sealed;
            self.chunk(out, |delta| {
                delta.key("reasoning_details").begin_array();
                sealed_reasoning(sealed, index, delta);
                delta.end_array();
            });
            self.sealed = self.sealed.saturating_add(1);
        }
        Ok(())
    }

    fn keep_alive(&mut self, out: &mut Output) {
        out.raw(COMMENT);
    }

    fn kept_bytes(&self) -> usize {
        self.annotations.as_bytes().len()
    }

    fn finish(&mut self, ending: &Ending, out: &mut Output) {
        self.write_role(true, out);
        if self.kept_bytes() > 0 {
            self.chunk(out, |delta| {
                delta.key("annotations").begin_array();
                delta.raw(self.annotations.as_bytes());
                delta.end_array();
            });
        }
        out.raw(self.before_choices.as_bytes());
        out.raw(br#"{"index":0,"delta":{},"logprobs":null,"finish_reason":""#);
        out.raw(finish_reason(ending.stop).as_bytes());
        out.raw(b"\"}]");
        out.raw(self.no_usage().as_bytes());
        out.raw(b"}\n\n");
        if let (true, Some(tokens)) = (self.include_usage, &ending.usage) {
            out.raw(self.before_choices.as_bytes());
            out.raw(b"],\"usage\":");
            usage(tokens, out);
            out.raw(b"}\n\n");
        }
        out.raw(b"data: [DONE]\n\n");
    }
}

impl ChatStream {
    /// The first chunk, with the role.
    fn write_role(&mut self, is_text: bool, out: &mut Output) {
        if !std::mem::replace(&mut self.has_role, true) {
            self.chunk(out, |delta| {
                delta.key("role").string("assistant");
                delta
                    .key("content")
                    .raw(if is_text { b"\"\"" } else { b"null" });
                delta.key("refusal").raw(b"null");
            });
        }
    }

    /// The chunk that names the function of a call.
    fn begin_call(&self, call: &ToolCall, out: &mut Output) {
        self.chunk(out, |delta| {
            delta.key("tool_calls").begin_array();
            delta.item().begin_object();
            delta.key("index").number(self.calls);
            delta.key("id").string(&call.id);
            let (kind, field) = match call.is_custom {
                true => ("custom", "input"),
                false => ("function", "arguments"),
            };
            delta.key("type").string(kind);
            delta.key(kind).begin_object();
            delta.key("name").string(&call.name);
            escaped(delta.key(field), "");
            delta.end_object();
            delta.end_object();
            delta.end_array();
        });
    }

    /// A chunk whose delta has these members.
    fn chunk(&self, out: &mut Output, members: impl FnOnce(&mut Output)) {
        out.raw(self.before_choices.as_bytes());
        out.raw(DELTA.as_bytes());
        members(out);
        out.raw(END_DELTA.as_bytes());
        out.raw(self.no_usage().as_bytes());
        out.raw(b"}\n\n");
    }

    const fn no_usage(&self) -> &'static str {
        match self.include_usage {
            true => ",\"usage\":null",
            false => "",
        }
    }
}

const DELTA: &str = "{\"index\":0,\"delta\":{";
const END_DELTA: &str = "},\"logprobs\":null,\"finish_reason\":null}]";
