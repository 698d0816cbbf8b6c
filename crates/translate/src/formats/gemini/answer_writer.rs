//! Fields of the answers of Gemini, streamed or whole: parts of the one candidate.
//!
//! Reasoning is sealed in the signature of the part behind it, with its text: clients return that
//! part, and some of them drop texts of thoughts.

use super::seals;
use crate::{
    answer::{
        flow::Kind,
        parts::{
            Citation, Ending,
            Failure::{self, Broken},
            Head, Stop, ToolCall,
        },
        text::RawText,
        write::{BlockEnd, Write, escaped},
    },
    output::Output,
    seal::MAX_PAYLOAD_BYTES,
};
use serde_json::value::RawValue;
use tollgate_types::Usage;

/// Bytes that are held until a part can be written, at most.
const MOST_KEPT: usize = 16 * 1024 * 1024;

/// A writer of one answer. Each event of a stream is a response with the next part; calls come whole.
#[derive(Debug, Default)]
pub(crate) struct GeminiWriter {
    is_stream: bool,
    head: Identity,
    parts: Parts,
    /// The parts for the next response, with commas between.
    list: Output,
}

impl GeminiWriter {
    pub(crate) fn new(is_stream: bool) -> Self {
        Self {
            is_stream,
            ..Self::default()
        }
    }

    /// Writes a response with the parts of the list.
    fn response(&mut self, ending: Option<&Ending>, out: &mut Output) {
        if self.is_stream {
            out.raw(b"data: ");
        }
        begin_response(out);
        out.raw(self.list.as_bytes());
        self.list.clear();
        end_response(&self.head, ending, out);
        if self.is_stream {
            out.raw(b"\n\n");
        }
    }
}

impl Write for GeminiWriter {
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
        if !self.is_stream {
            self.parts.contents.push_str(piece.as_str());
            return Ok(());
        }
        let kind = self.parts.kind()?;
        if matches!(kind, Kind::Tool | Kind::Thinking) {
            self.parts.keep(kind, piece)?;
        }
        if kind != Kind::Tool {
            self.parts.text(kind, piece.as_str(), &mut self.list);
            self.response(None, out);
        }
        Ok(())
    }

    fn cite(&mut self, _: &Citation, _: Option<&str>, _: &mut Output) {}

    fn end(&mut self, end: BlockEnd<'_>, out: &mut Output) -> Result<(), Failure> {
        match self.parts.end(end)? {
            (Kind::Tool, Some(call)) => {
                let is_written = self.parts.call(&call, &mut self.list);
                if is_written && self.is_stream {
                    self.response(None, out);
                }
            }
            (Kind::Tool | Kind::Search, _) => return Err(Broken),
            (kind, _) if !self.is_stream => {
                let text = std::mem::take(&mut self.parts.contents);
                if !text.is_empty() {
                    self.parts.text(kind, &text, &mut self.list);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn finish(&mut self, ending: &Ending, out: &mut Output) {
        if self.list.as_bytes().is_empty() || !self.parts.lines.is_empty() {
            // Clients reject a content without parts.
            self.parts.text(Kind::Text, "", &mut self.list);
        }
        self.response(Some(ending), out);
    }

    /// An empty line: Google's SDKs take a comment for a broken event.
    fn keep_alive(&mut self, out: &mut Output) {
        if self.is_stream {
            out.raw(b"\n");
        }
    }

    fn kept_bytes(&self) -> usize {
        match self.is_stream {
            true => self.parts.kept_bytes(),
            // It does not leave before the end.
            false => 0,
        }
    }
}

/// The open block, and the reasoning that waits for the next part.
#[derive(Debug, Default)]
struct Parts {
    open: Option<(Kind, Option<ToolCall>)>,
    /// Of the open block, escaped.
    contents: String,
    /// Seals and texts of reasoning, as lines.
    lines: String,
    has_call: bool,
}

impl Parts {
    fn begin(&mut self, kind: Kind, call: Option<&ToolCall>) {
        self.open = Some((kind, call.cloned()));
        self.contents.clear();
    }

    /// Keeps a piece of the open block. Thinking that is too long to be sealed is not kept.
    fn keep(&mut self, kind: Kind, piece: RawText<'_>) -> Result<(), Failure> {
        if kind == Kind::Thinking && self.contents.len() > MAX_PAYLOAD_BYTES {
            return Ok(());
        }
        self.check(piece.as_str().len())?;
        self.contents.push_str(piece.as_str());
        Ok(())
    }

    /// Checks that so many bytes more may be kept.
    fn check(&self, bytes: usize) -> Result<(), Failure> {
        match self.kept_bytes().saturating_add(bytes) <= MOST_KEPT {
            true => Ok(()),
            false => Err(Broken),
        }
    }

    fn kind(&self) -> Result<Kind, Failure> {
        self.open.as_ref().map(|(kind, _)| *kind).ok_or(Broken)
    }

    /// Ends the open block; returns what it was.
    fn end(&mut self, end: BlockEnd<'_>) -> Result<(Kind, Option<ToolCall>), Failure> {
        let (kind, call) = self.open.take().ok_or(Broken)?;
        if let Some(sealed) = end.sealed()
            && self.contents.len() <= MAX_PAYLOAD_BYTES
        {
            self.check(sealed.len())?;
            let text = RawText::escaped(&self.contents).unescape();
            seals::append(&mut self.lines, sealed, &text);
        }
        Ok((kind, call))
    }

    /// Writes the members of a part that the reasoning before it is sealed in.
    fn signature(&mut self, out: &mut Output) {
        if !self.lines.is_empty() {
            let signature = seals::encode(&self.lines);
            self.lines.clear();
            out.key("thoughtSignature").string(&signature);
        }
    }

    /// Writes a part that holds a text.
    fn text(&mut self, kind: Kind, text: &str, out: &mut Output) {
        out.item().begin_object();
        escaped(out.key("text"), text);
        match kind {
            Kind::Thinking => out.key("thought").bool(true),
            _ => self.signature(out),
        }
        out.end_object();
    }

    /// Writes the call whose arguments have come. What a limit has cut is no call.
    fn call(&mut self, call: &ToolCall, out: &mut Output) -> bool {
        let text = RawText::escaped(&self.contents).unescape();
        let args = match text.trim_ascii() {
            "" => "{}",
            text => match serde_json::from_str::<&RawValue>(text) {
                Ok(args) if args.get().starts_with('{') => args.get(),
                _ => return false,
            },
        };
        out.item().begin_object();
        out.key("functionCall").begin_object();
        out.key("id").string(&call.id);
        out.key("name").string(&call.name);
        // Line ends stand between tokens alone. They would break an event.
        let args = args.replace(['\n', '\r'], " ");
        out.key("args").raw(args.as_bytes());
        out.end_object();
        let is_first = !std::mem::replace(&mut self.has_call, true);
        if is_first && self.lines.is_empty() {
            // The client can send it to a model that refuses calls without a signature.
            self.lines.push_str(seals::NOTHING);
        }
        self.signature(out);
        out.end_object();
        true
    }

    fn kept_bytes(&self) -> usize {
        self.contents.len().saturating_add(self.lines.len())
    }
}

/// The value of `finishReason`.
const fn finish_reason(stop: Stop) -> &'static str {
    match stop {
        Stop::Done | Stop::Declined | Stop::ToolCalls => "STOP",
        Stop::MaxTokens => "MAX_TOKENS",
        Stop::Refused => "SAFETY",
    }
}

/// Begins a response and the list of its parts.
fn begin_response(out: &mut Output) {
    out.begin_object();
    out.key("candidates").begin_array();
    out.item().begin_object();
    out.key("content").begin_object();
    out.key("parts").begin_array();
}

/// Ends the list of parts and the response.
fn end_response(head: &Identity, ending: Option<&Ending>, out: &mut Output) {
    out.end_array();
    out.key("role").string("model");
    out.end_object();
    if let Some(ending) = ending {
        out.key("finishReason").string(finish_reason(ending.stop));
    }
    out.key("index").number(0);
    out.end_object();
    out.end_array();
    if let Some(tokens) = ending.and_then(|ending| ending.usage) {
        usage(&tokens, out.key("usageMetadata"));
    }
    out.key("modelVersion").string(&head.model);
    out.key("responseId").string(&head.id);
    out.end_object();
}

/// The fields that every response of an answer repeats.
#[derive(Debug, Default)]
struct Identity {
    id: String,
    model: String,
}

impl Identity {
    fn of(head: &Head) -> Self {
        Self {
            id: head.id.clone(),
            model: head.model.clone(),
        }
    }
}

/// The value of `usageMetadata`: thoughts count apart from the candidates, cached tokens do not
/// count apart from the prompt.
fn usage(usage: &Usage, out: &mut Output) {
    out.begin_object();
    out.key("promptTokenCount").number(usage.total_input());
    let candidates = usage.output.saturating_sub(usage.reasoning);
    out.key("candidatesTokenCount").number(candidates);
    out.key("totalTokenCount").number(usage.total());
    for (name, tokens) in [
        ("cachedContentTokenCount", usage.cache_read),
        ("thoughtsTokenCount", usage.reasoning),
    ] {
        if tokens > 0 {
            out.key(name).number(tokens);
        }
    }
    out.end_object();
}
