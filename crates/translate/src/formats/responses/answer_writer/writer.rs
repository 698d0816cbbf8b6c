//! Answers of the responses format: items and their parts, in a stream as they come and
//! everything once more at the end.
//!
//! A stream repeats each text when it ends, in its item, and in the last event. So the
//! answer is kept, up to a bound; nothing waits for it.

mod parts;

use super::{
    Status, annotation, echo,
    open::{Message, Open, Place, delta_event, text},
    search_call, summary_part,
};
use crate::{
    Json, MemoryNotes, TranslationNotes,
    answer::{
        flow::Kind,
        parts::{
            Citation, Ending,
            Failure::{self, Broken},
            Head, Search, ToolCall,
        },
        text::RawText,
        write::{BlockEnd, COMMENT, Write, append, keep_logprobs},
    },
    output::Output,
};
use tollgate_wire::render::StreamTail;

/// Bytes of an answer that are kept to be repeated, at most.
const MOST_KEPT: usize = 16 * 1024 * 1024;

#[derive(Debug)]
pub(crate) struct ResponsesWriter {
    /// A whole answer has the items without the events.
    is_stream: bool,
    /// The members that repeat the request.
    echo: String,
    id: String,
    /// The answer's id without its prefix, of which those of the items are made.
    plain_id: String,
    model: String,
    created: u64,
    sequence: u64,
    /// Items that began.
    items: u64,
    /// The items that ended, with commas between.
    output: String,
    /// The id of the answer that the request goes on from, as JSON.
    previous: Option<Json>,
    /// The answer is to be remembered.
    memory: Option<MemoryNotes>,
    /// The items as they are remembered, where they hold more than the caller is shown.
    kept: Option<String>,
    /// The answer as it is remembered.
    remembered: Option<Vec<u8>>,
    message: Option<Message>,
    open: Option<Open>,
    has_refusal: bool,
    /// Of the tokens of the next piece of text.
    logprobs: String,
    /// Whether every page that a search found is listed.
    has_sources: bool,
    /// The search that has begun.
    search: Option<Place>,
}

impl ResponsesWriter {
    /// A writer of an event stream, or of a whole answer.
    pub(crate) fn new(is_stream: bool, notes: &TranslationNotes) -> Self {
        Self {
            is_stream,
            echo: echo(notes.echo.as_deref()),
            previous: notes
                .echo
                .as_ref()
                .and_then(|it| it.previous_response_id.clone()),
            memory: notes.memory,
            kept: None,
            remembered: None,
            id: String::new(),
            plain_id: String::new(),
            model: String::new(),
            created: 0,
            sequence: 0,
            items: 0,
            output: String::new(),
            message: None,
            open: None,
            has_refusal: false,
            logprobs: String::new(),
            has_sources: notes.search.is_some_and(|search| search.sources),
            search: None,
        }
    }
}

impl Write for ResponsesWriter {
    fn start(&mut self, head: &Head, out: &mut Output) {
        self.id = head.answer_id("resp_");
        self.plain_id.clone_from(&head.id);
        self.model.clone_from(&head.model);
        self.created = head.created;
        if self.is_stream {
            for name in ["response.created", "response.in_progress"] {
                self.response_event(name, Status::InProgress, None, 0, out);
            }
        }
    }

    fn begin(
        &mut self,
        kind: Kind,
        call: Option<&ToolCall>,
        out: &mut Output,
    ) -> Result<(), Failure> {
        let (place, part) = match (kind, call) {
            (Kind::Text | Kind::Refusal, _) => self.begin_part(kind, out),
            (Kind::Thinking, _) => (self.begin_reasoning(out), 0),
            (Kind::Tool, Some(call)) => (self.begin_call(call, out), 0),
            (Kind::Tool | Kind::Search, _) => return Err(Broken),
        };
        let is_custom = call.is_some_and(|call| call.is_custom);
        let name = delta_event(kind, is_custom);
        let mut before = Output::default();
        before.raw(b"event: ");
        before.raw(name.as_bytes());
        before.raw(b"\ndata: ");
        before.begin_object();
        before.key("type").string(name);
        place.write(&mut before);
        match kind {
            Kind::Text | Kind::Refusal => before.key("content_index").number(part),
            Kind::Thinking => before.key("summary_index").number(0),
            Kind::Tool | Kind::Search => {}
        }
        before.key("delta").begin_string();
        self.open = Some(Open {
            kind,
            place,
            part,
            call: call.cloned(),
            text: String::new(),
            logprobs: String::new(),
            annotations: Vec::new(),
            cited: 0,
            counted: (0, 0),
            before_delta: text(before),
        });
        Ok(())
    }

    fn delta(&mut self, piece: RawText<'_>, out: &mut Output) -> Result<(), Failure> {
        if self.kept_bytes().saturating_add(piece.as_str().len()) > MOST_KEPT {
            return Err(Broken);
        }
        let Some(mut open) = self.open.take() else {
            return Err(Broken);
        };
        if open.kind == Kind::Thinking && open.text.is_empty() {
            self.event("response.reasoning_summary_part.added", out, |out| {
                open.place.write(out);
                out.key("summary_index").number(0);
                summary_part("", out.key("part"));
            });
        }
        let logprobs = match open.kind {
            Kind::Text => std::mem::take(&mut self.logprobs),
            _ => String::new(),
        };
        if self.is_stream {
            out.raw(open.before_delta.as_bytes());
            out.raw(piece.as_str().as_bytes());
            if open.kind == Kind::Text {
                out.raw(b"\",\"logprobs\":[");
                out.raw(logprobs.as_bytes());
                out.raw(b"],\"sequence_number\":");
            } else {
                out.raw(b"\",\"sequence_number\":");
            }
            out.number(self.next_sequence());
            out.raw(b"}\n\n");
        }
        if !logprobs.is_empty() {
            append(&mut open.logprobs, &logprobs);
        }
        open.text.push_str(piece.as_str());
        self.open = Some(open);
        Ok(())
    }

    fn logprobs(&mut self, entries: &str) {
        keep_logprobs(&mut self.logprobs, entries);
    }

    fn begin_search(&mut self, _: &str, out: &mut Output) {
        self.end_message(Status::Completed, out);
        let place = self.next_place("ws");
        self.item_added(&place, out, |out| {
            search_call(&place.item_id, None, false, out);
        });
        for name in [
            "response.web_search_call.in_progress",
            "response.web_search_call.searching",
        ] {
            self.event(name, out, |out| place.write(out));
        }
        self.search = Some(place);
    }

    fn end_search(
        &mut self,
        search: &Search,
        _: Option<&str>,
        out: &mut Output,
    ) -> Result<(), Failure> {
        let Some(place) = self.search.take() else {
            return Ok(());
        };
        if self.kept_bytes().saturating_add(search.size()) > MOST_KEPT {
            return Err(Broken);
        }
        if search.failure.is_none() {
            let name = "response.web_search_call.completed";
            self.event(name, out, |out| place.write(out));
        }
        let mut item = Output::default();
        search_call(&place.item_id, Some(search), self.has_sources, &mut item);
        self.item_done(&place, item, out);
        Ok(())
    }

    fn cite(&mut self, citation: &Citation, _: Option<&str>, out: &mut Output) {
        let Some(mut open) = self.open.take() else {
            return;
        };
        if open.kind == Kind::Text {
            let index = open.annotations.len();
            let range = open.range(citation);
            self.event("response.output_text.annotation.added", out, |out| {
                open.place.write(out);
                out.key("content_index").number(open.part);
                out.key("annotation_index")
                    .number(u64::try_from(index).unwrap_or(u64::MAX));
                annotation(citation, range, out.key("annotation"));
            });
            open.cited = open.cited.saturating_add(citation.size());
            open.annotations.push(citation.clone());
        }
        self.open = Some(open);
    }

    fn end(&mut self, end: BlockEnd<'_>, out: &mut Output) -> Result<(), Failure> {
        let Some(mut open) = self.open.take() else {
            return Err(Broken);
        };
        if self.kept_bytes() > MOST_KEPT {
            return Err(Broken);
        }
        match (open.kind, &open.call) {
            (Kind::Text | Kind::Refusal, _) => self.end_part(&mut open, out),
            (Kind::Thinking, _) => self.end_reasoning(&open, end.sealed(), out),
            (Kind::Tool, Some(call)) => self.end_call(&open, call, end, out),
            (Kind::Tool | Kind::Search, _) => return Err(Broken),
        }
        Ok(())
    }

    fn finish(&mut self, ending: &Ending, out: &mut Output) {
        let status = Status::of(ending.stop, self.has_refusal);
        self.end_message(status, out);
        let name = match status {
            Status::Incomplete(_) => "response.incomplete",
            _ => "response.completed",
        };
        match self.is_stream {
            true => self.response_event(name, status, ending.usage, ending.searches, out),
            false => {
                self.response(status, &self.output, ending.usage, ending.searches, out);
            }
        }
        if self.memory.is_some() {
            let mut kept = Output::default();
            let output = self.kept.as_ref().unwrap_or(&self.output);
            self.response(status, output, ending.usage, ending.searches, &mut kept);
            self.remembered = Some(kept.into_bytes());
        }
    }

    fn take_remembered(&mut self) -> Option<Vec<u8>> {
        self.remembered.take()
    }

    fn keep_alive(&mut self, out: &mut Output) {
        out.raw(COMMENT);
    }

    fn tail(&self) -> StreamTail<'_> {
        StreamTail {
            event_is_open: false,
            response_id: (!self.id.is_empty()).then_some(self.id.as_str()),
            model: (!self.model.is_empty()).then_some(self.model.as_str()),
            created_at: Some(self.created),
            next_sequence: self.sequence,
        }
    }

    fn kept_bytes(&self) -> usize {
        let open = self.open.as_ref().map_or(0, Open::size);
        let message = self.message.as_ref().map_or(0, |it| it.content.len());
        let kept = self.kept.as_ref().map_or(0, String::len);
        self.output
            .len()
            .saturating_add(kept)
            .saturating_add(message)
            .saturating_add(open)
    }
}
