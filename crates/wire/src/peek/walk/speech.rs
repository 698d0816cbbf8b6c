//! The part of the walk that notes who says what, and where, in bodies of which somebody
//! wants to know. It decides nothing about the request.

use super::{
    super::{place::Slot, texts::Voice},
    Frame, Place, Walk,
};
use crate::json::Span;

/// A message is open where so many containers are: the body, the list, the message.
const IN_MESSAGE: usize = 3;

impl Frame {
    /// A key was met: is its value something that is said?
    pub(super) fn begin_value(&mut self, key: &[u8]) {
        if self.place == Place::Top {
            self.voice = Voice::Instructions;
            self.speaks = matches!(key, b"system" | b"instructions");
            return;
        }
        self.speaks = matches!(
            key,
            b"content" | b"text" | b"output" | b"thinking" | b"reasoning_content" | b"summary"
        );
    }
}

impl Walk {
    /// The list of messages is open.
    pub(super) fn begin_conversation(&mut self, start: u64) {
        self.found.spans.beginning = Some(Span { start, end: start });
        if let (Some(frame), Some(_)) = (self.frames.last_mut(), &self.found.texts) {
            frame.voice = Voice::Someone;
        }
    }

    /// A message or a part of one has ended.
    pub(super) fn end_beginning(&mut self, end: u64) {
        if self.frames.len() < IN_MESSAGE {
            self.user_begins = false;
            if let Some(beginning) = &mut self.found.spans.beginning {
                beginning.end = end;
            }
        }
    }

    /// The whole input is one text.
    pub(super) fn note_question(&mut self, span: Span) {
        if let Some(texts) = &mut self.found.texts {
            texts.messages = 1;
            texts.user_messages = 1;
            texts.note(span, Voice::User);
        }
    }

    /// A text was met.
    #[inline]
    pub(super) fn note_text(&mut self, span: Span) {
        if let (Some(frame), Some(texts)) = (self.frames.last(), &mut self.found.texts)
            && frame.speaks
        {
            texts.note(span, frame.voice);
        }
    }

    /// An object is open: is it a message?
    #[inline]
    pub(super) fn note_message(&mut self) {
        let is_message = self.frames.len() == IN_MESSAGE
            && self
                .frames
                .last()
                .is_some_and(|it| it.voice == Voice::Someone);
        if let (true, Some(texts)) = (is_message, &mut self.found.texts) {
            texts.messages = texts.messages.saturating_add(1);
        }
    }

    /// The role of what is open.
    pub(super) fn note_role(&mut self, role: &[u8]) {
        if self.frames.len() != IN_MESSAGE {
            return;
        }
        let beginning = self.found.spans.beginning;
        self.user_begins |= role == b"user" && beginning.is_some_and(Span::is_empty);
        let voice = Voice::of_role(role);
        if let (Voice::User, Some(texts)) = (voice, &mut self.found.texts) {
            texts.user_messages = texts.user_messages.saturating_add(1);
        }
        self.attribute(voice);
    }

    /// The type of what is open.
    pub(super) fn note_kind(&mut self, kind: &[u8], is_tool_traffic: bool) {
        let Some(texts) = &mut self.found.texts else {
            return;
        };
        if is_tool_traffic {
            texts.tool_traffic = texts.tool_traffic.saturating_add(1);
        }
        let is_result = kind.ends_with(b"_result") || kind.ends_with(b"_output");
        if is_tool_traffic && is_result {
            self.attribute(Voice::Tool);
        } else if is_tool_traffic || matches!(kind, b"thinking" | b"reasoning") {
            self.attribute(Voice::Assistant);
        }
    }

    /// A tool is offered, or called.
    pub(super) fn note_tool(&mut self, slot: Slot) {
        if let Some(texts) = &mut self.found.texts {
            let count = match slot {
                Slot::Tools => &mut texts.tools,
                _ => &mut texts.tool_traffic,
            };
            *count = count.saturating_add(1);
        }
    }

    /// It has become known who speaks in the object that is open.
    fn attribute(&mut self, voice: Voice) {
        let (Some(frame), Some(texts)) = (self.frames.last_mut(), &mut self.found.texts) else {
            return;
        };
        if frame.voice != Voice::None {
            frame.voice = voice;
            texts.attribute(frame.since, voice);
        }
    }
}
