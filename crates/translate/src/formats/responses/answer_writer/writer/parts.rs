//! Writes the items of an answer and their parts, and the events about them.

use super::ResponsesWriter;
use crate::{
    answer::{
        flow::Kind,
        parts::ToolCall,
        write::{BlockEnd, append, escaped},
    },
    formats::responses::answer_writer::{
        self, Response, Status, content_part,
        open::{Message, Open, Place, begin_event, end_event, text},
        response, summary_part,
    },
    output::Output,
};
use tollgate_types::Usage;

impl ResponsesWriter {
    pub(super) fn begin_part(&mut self, kind: Kind, out: &mut Output) -> (Place, u64) {
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

    pub(super) fn begin_message(&mut self, out: &mut Output) -> Message {
        let place = self.next_place("msg");
        self.item_added(&place, out, |out| {
            answer_writer::message(&place.item_id, Status::InProgress, "", out);
        });
        Message {
            place,
            parts: 0,
            content: String::new(),
        }
    }

    pub(super) fn begin_reasoning(&mut self, out: &mut Output) -> Place {
        self.end_message(Status::Completed, out);
        let place = self.next_place("rs");
        self.item_added(&place, out, |out| {
            answer_writer::reasoning(&place.item_id, None, None, out);
        });
        place
    }

    pub(super) fn begin_call(&mut self, call: &ToolCall, out: &mut Output) -> Place {
        self.end_message(Status::Completed, out);
        let place = self.next_place(if call.is_custom { "ctc" } else { "fc" });
        self.item_added(&place, out, |out| {
            answer_writer::call(&place.item_id, Status::InProgress, call, "", out);
        });
        place
    }

    pub(super) fn end_part(&mut self, open: &mut Open, out: &mut Output) {
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
    pub(super) fn end_message(&mut self, status: Status, out: &mut Output) {
        if let Some(message) = self.message.take() {
            let mut item = Output::default();
            answer_writer::message(&message.place.item_id, status, &message.content, &mut item);
            self.item_done(&message.place, item, out);
        }
    }

    pub(super) fn end_reasoning(&mut self, open: &Open, sealed: Option<&str>, out: &mut Output) {
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
            answer_writer::reasoning(&open.place.item_id, text, sealed, &mut item);
            item
        };
        let hides_state = self.memory.is_some_and(|it| !it.shows_state);
        if hides_state && sealed.is_some() {
            self.item_ends(&open.place, item(None), Some(item(sealed)), out);
        } else {
            self.item_done(&open.place, item(sealed), out);
        }
    }

    pub(super) fn end_call(
        &mut self,
        open: &Open,
        call: &ToolCall,
        end: BlockEnd<'_>,
        out: &mut Output,
    ) {
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
        answer_writer::call(id, status, call, &open.text, &mut item);
        self.item_done(&open.place, item, out);
    }

    /// Writes the item that stands for a conversation from now on.
    pub(crate) fn compaction(&mut self, sealed: &str, out: &mut Output) {
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

    pub(super) fn item_added(
        &mut self,
        place: &Place,
        out: &mut Output,
        item: impl FnOnce(&mut Output),
    ) {
        self.event("response.output_item.added", out, |out| {
            out.key("output_index").number(place.output_index);
            item(out.key("item"));
        });
    }

    pub(super) fn item_done(&mut self, place: &Place, item: Output, out: &mut Output) {
        self.item_ends(place, item, None, out);
    }

    /// Ends an item; `kept` is what is remembered of it, if that is more than the caller is shown.
    pub(super) fn item_ends(
        &mut self,
        place: &Place,
        item: Output,
        kept: Option<Output>,
        out: &mut Output,
    ) {
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

    pub(super) fn response_event(
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

    pub(super) fn response(
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

    pub(super) fn event(
        &mut self,
        name: &str,
        out: &mut Output,
        members: impl FnOnce(&mut Output),
    ) {
        if self.is_stream {
            let sequence = self.next_sequence();
            begin_event(name, out);
            members(out);
            end_event(sequence, out);
        }
    }

    pub(super) const fn next_sequence(&mut self) -> u64 {
        let sequence = self.sequence;
        self.sequence = sequence.saturating_add(1);
        sequence
    }

    pub(super) fn next_place(&mut self, prefix: &str) -> Place {
        let output_index = self.items;
        self.items = output_index.saturating_add(1);
        Place {
            item_id: format!("{prefix}_{}_{output_index}", self.plain_id),
            output_index,
        }
    }
}
