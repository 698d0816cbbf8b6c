//! Answers of the responses format: items and their parts, in a stream as they come and
//! everything once more at the end.
//!
//! A stream repeats each text when it ends, in its item, and in the last event. So the
//! answer is kept, up to a bound; nothing waits for it.

use super::open::{Message, Open, Place, begin_event, delta_event, end_event, text};
use super::{
    Response, Status, annotation, content_part, echo, response, search_call, summary_part,
};
use crate::{
    Json, MemoryNotes, TranslationNotes,
    answer::{
        flow::Kind,
        parts::{Broken, Citation, Ending, Head, Search, ToolCall},
        text::RawText,
        write::{BlockEnd, COMMENT, Write, append, escaped, keep_logprobs},
    },
    output::Output,
};
use tollgate_types::Usage;
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
    /// Whether every page that a search found is told.
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
    ) -> Result<(), Broken> {
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

    fn delta(&mut self, piece: RawText<'_>, out: &mut Output) -> Result<(), Broken> {
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
    ) -> Result<(), Broken> {
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

    fn end(&mut self, end: BlockEnd<'_>, out: &mut Output) -> Result<(), Broken> {
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

impl ResponsesWriter {
    fn begin_part(&mut self, kind: Kind, out: &mut Output) -> (Place, u64) {
        let message = match self.message.take() {
            Some(message) => message,
            None => self.begin_message(out),
        };
        let (place, part) = (message.place.clone(), message.parts);
        self.message = Some(Message {
            parts: part.saturating_add(1),
            ..message
        });
        self.event("response.content_part.added", out, |out| {
            place.write(out);
            out.key("content_index").number(part);
            content_part(
                "",
                (kind == Kind::Text).then_some(("", "")),
                out.key("part"),
            );
        });
        (place, part)
    }

    fn begin_message(&mut self, out: &mut Output) -> Message {
        let place = self.next_place("msg");
        self.item_added(&place, out, |out| {
            super::message(&place.item_id, Status::InProgress, "", out);
        });
        Message {
            place,
            parts: 0,
            content: String::new(),
        }
    }

    fn begin_reasoning(&mut self, out: &mut Output) -> Place {
        self.end_message(Status::Completed, out);
        let place = self.next_place("rs");
        self.item_added(&place, out, |out| {
            super::reasoning(&place.item_id, None, None, out);
        });
        place
    }

    fn begin_call(&mut self, call: &ToolCall, out: &mut Output) -> Place {
        self.end_message(Status::Completed, out);
        let place = self.next_place(if call.is_custom { "ctc" } else { "fc" });
        self.item_added(&place, out, |out| {
            super::call(&place.item_id, Status::InProgress, call, "", out);
        });
        place
    }

    fn end_part(&mut self, open: &mut Open, out: &mut Output) {
        let (name, field) = match open.kind {
            Kind::Text => ("response.output_text.done", "text"),
            _ => ("response.refusal.done", "refusal"),
        };
        self.event(name, out, |out| {
            open.place.write(out);
            out.key("content_index").number(open.part);
            escaped(out.key(field), &open.text);
            if open.kind == Kind::Text {
                out.key("logprobs").begin_array();
                out.raw(open.logprobs.as_bytes());
                out.end_array();
            }
        });
        let annotations = open.entries();
        let mut part = Output::default();
        let is_text = open.kind == Kind::Text;
        let about = is_text.then_some((annotations.as_str(), open.logprobs.as_str()));
        content_part(&open.text, about, &mut part);
        self.event("response.content_part.done", out, |out| {
            open.place.write(out);
            out.key("content_index").number(open.part);
            out.key("part").raw(part.as_bytes());
        });
        self.has_refusal |= !is_text;
        if let Some(message) = &mut self.message {
            append(&mut message.content, &text(part));
        }
    }

    /// Ends the message that is open, if one is.
    fn end_message(&mut self, status: Status, out: &mut Output) {
        if let Some(message) = self.message.take() {
            let mut item = Output::default();
            super::message(&message.place.item_id, status, &message.content, &mut item);
            self.item_done(&message.place, item, out);
        }
    }

    fn end_reasoning(&mut self, open: &Open, sealed: Option<&str>, out: &mut Output) {
        let text = (!open.text.is_empty()).then_some(open.text.as_str());
        if let Some(text) = text {
            self.event("response.reasoning_summary_text.done", out, |out| {
                open.place.write(out);
                out.key("summary_index").number(0);
                escaped(out.key("text"), text);
            });
            self.event("response.reasoning_summary_part.done", out, |out| {
                open.place.write(out);
                out.key("summary_index").number(0);
                summary_part(text, out.key("part"));
            });
        }
        let item = |sealed| {
            let mut item = Output::default();
            super::reasoning(&open.place.item_id, text, sealed, &mut item);
            item
        };
        let hides_state = self.memory.is_some_and(|it| !it.shows_state);
        if hides_state && sealed.is_some() {
            self.item_ends(&open.place, item(None), Some(item(sealed)), out);
        } else {
            self.item_done(&open.place, item(sealed), out);
        }
    }

    fn end_call(&mut self, open: &Open, call: &ToolCall, end: BlockEnd<'_>, out: &mut Output) {
        let (name, field) = match call.is_custom {
            true => ("response.custom_tool_call_input.done", "input"),
            false => ("response.function_call_arguments.done", "arguments"),
        };
        self.event(name, out, |out| {
            open.place.write(out);
            if !call.is_custom {
                out.key("name").string(&call.name);
            }
            escaped(out.key(field), &open.text);
        });
        let mut item = Output::default();
        let id = &open.place.item_id;
        let status = match end {
            BlockEnd::Cut => Status::Incomplete("max_output_tokens"),
            BlockEnd::Whole | BlockEnd::Sealed(_) => Status::Completed,
        };
        super::call(id, status, call, &open.text, &mut item);
        self.item_done(&open.place, item, out);
    }

    /// Writes the item that stands for a conversation from now on.
    pub(super) fn compaction(&mut self, sealed: &str, out: &mut Output) {
        let place = self.next_place("cmp");
        let item = |content: &str, out: &mut Output| {
            out.begin_object();
            out.key("id").string(&place.item_id);
            out.key("type").string("compaction");
            out.key("encrypted_content").string(content);
            out.end_object();
        };
        self.item_added(&place, out, |out| item("", out));
        let mut whole = Output::default();
        item(sealed, &mut whole);
        self.item_done(&place, whole, out);
    }

    fn item_added(&mut self, place: &Place, out: &mut Output, item: impl FnOnce(&mut Output)) {
        self.event("response.output_item.added", out, |out| {
            out.key("output_index").number(place.output_index);
            item(out.key("item"));
        });
    }

    fn item_done(&mut self, place: &Place, item: Output, out: &mut Output) {
        self.item_ends(place, item, None, out);
    }

    /// Ends an item; `kept` is what is remembered of it, if that is more than the caller is shown.
    fn item_ends(&mut self, place: &Place, item: Output, kept: Option<Output>, out: &mut Output) {
        self.event("response.output_item.done", out, |out| {
            out.key("output_index").number(place.output_index);
            out.key("item").raw(item.as_bytes());
        });
        let item = text(item);
        match (kept.map(text), &mut self.kept) {
            (Some(more), all) => append(all.get_or_insert_with(|| self.output.clone()), &more),
            (None, Some(all)) => append(all, &item),
            (None, None) => {}
        }
        append(&mut self.output, &item);
    }

    fn response_event(
        &mut self,
        name: &str,
        status: Status,
        usage: Option<Usage>,
        searches: u64,
        out: &mut Output,
    ) {
        let sequence = self.next_sequence();
        begin_event(name, out);
        let event = out.key("response");
        self.response(status, &self.output, usage, searches, event);
        end_event(sequence, out);
    }

    fn response(
        &self,
        status: Status,
        output: &str,
        usage: Option<Usage>,
        searches: u64,
        out: &mut Output,
    ) {
        let object = Response {
            id: &self.id,
            model: &self.model,
            created: self.created,
            status,
            output,
            usage,
            searches,
            previous: self.previous.as_deref().unwrap_or("null"),
        };
        response(&object, &self.echo, out);
    }

    fn event(&mut self, name: &str, out: &mut Output, members: impl FnOnce(&mut Output)) {
        if self.is_stream {
            let sequence = self.next_sequence();
            begin_event(name, out);
            members(out);
            end_event(sequence, out);
        }
    }

    const fn next_sequence(&mut self) -> u64 {
        let sequence = self.sequence;
        self.sequence = sequence.saturating_add(1);
        sequence
    }

    fn next_place(&mut self, prefix: &str) -> Place {
        let output_index = self.items;
        self.items = output_index.saturating_add(1);
        Place {
            item_id: format!("{prefix}_{}_{output_index}", self.plain_id),
            output_index,
        }
    }
}
