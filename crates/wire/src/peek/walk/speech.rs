//! The part of the walk that notes texts for `auto`. It decides nothing about the request.

use super::{super::texts::Part, Frame, Location, Walk};
use crate::json::Span;

/// A message is open when so many containers are: the body, the list, the message.
const IN_MESSAGE: usize = 3;

impl Frame {
    /// Decides by a key whether the texts of its value are noted.
    pub(super) fn begin_value(&mut self, key: &[u8]) {
        if self.location == Location::Top {
            self.part = Part::Instructions;
            self.is_noted = matches!(key, b"system" | b"instructions");
            return;
        }
        self.is_noted = matches!(key, b"content" | b"text");
    }
}

impl Walk {
    /// The list of messages is open.
    pub(super) fn begin_conversation(&mut self, start: u64) {
        self.found.spans.beginning = Some(Span { start, end: start });
        if let (Some(frame), Some(_)) = (self.frames.last_mut(), &self.found.texts) {
            frame.part = Part::Conversation;
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
    pub(super) fn note_only_message(&mut self, span: Span) {
        if let Some(texts) = &mut self.found.texts {
            texts.note_only_message(span);
        }
    }

    /// A text was met.
    #[inline]
    pub(super) fn note_text(&mut self, span: Span) {
        if let (Some(frame), Some(texts)) = (self.frames.last(), &mut self.found.texts)
            && frame.is_noted
        {
            texts.note(span, frame.part);
        }
    }

    /// An object is open: is it a message?
    #[inline]
    pub(super) fn begin_message(&mut self) {
        if self.frames.len() != IN_MESSAGE {
            return;
        }
        if let (Some(frame), Some(texts)) = (self.frames.last_mut(), &mut self.found.texts)
            && frame.part == Part::Conversation
        {
            texts.begin_message();
            frame.noted_before = 0;
        }
    }

    /// A container has ended: was it a message?
    #[inline]
    pub(super) fn end_message(&mut self) {
        if let ([_, list], Some(texts)) = (self.frames.as_slice(), &mut self.found.texts)
            && list.part == Part::Conversation
        {
            texts.end_message();
        }
    }

    /// The role of what is open.
    pub(super) fn note_role(&mut self, role: &[u8]) {
        if self.frames.len() != IN_MESSAGE {
            return;
        }
        let beginning = self.found.spans.beginning;
        self.user_begins |= role == b"user" && beginning.is_some_and(Span::is_empty);
        if let Some(texts) = &mut self.found.texts {
            texts.note_role(role);
        }
    }

    /// What is open is a tool call or its result: no text of it is the user's.
    pub(super) fn note_tool_traffic(&mut self) {
        if let (Some(frame), Some(texts)) = (self.frames.last_mut(), &mut self.found.texts)
            && frame.part == Part::Conversation
        {
            texts.forget_from(frame.noted_before);
            frame.part = Part::Other;
        }
    }
}
