//! The part of the walk that checks the entries of the conversation and of the tools, and the
//! types and ranges of a few settings.
//!
//! Each rule refuses only what every provider of the format refuses as well. The provider checks
//! the values that it may know and the gateway does not: a role, the type of an item or a tool.

use super::{
    super::{
        PeekError,
        location::{Checked, Location, Slot},
        node::NodeFlags,
    },
    Frame, Value, Walk,
};
use crate::{
    formats::rules::{Entry, Lack},
    json::{Container, Span},
};

/// Open containers around an entry of a top-level list: the body and the list.
const IN_LIST: usize = 2;
/// Open containers around a member of such an entry.
const IN_ENTRY: usize = 3;

impl Checked {
    const fn field(self) -> &'static str {
        match self {
            Self::Temperature => "temperature",
            Self::TopP => "top_p",
            Self::PresencePenalty => "presence_penalty",
            Self::FrequencyPenalty => "frequency_penalty",
            Self::ParallelToolCalls => "parallel_tool_calls",
            Self::ToolChoice | Self::ToolChoiceObject => "tool_choice",
            Self::Stop => "stop",
            Self::StopSequences => "stop_sequences",
        }
    }

    const fn wanted(self) -> &'static str {
        match self {
            Self::Temperature => "a number from 0 to 2",
            Self::TopP => "a number from 0 to 1",
            Self::PresencePenalty | Self::FrequencyPenalty => "a number from -2 to 2",
            Self::ParallelToolCalls => "true or false",
            Self::ToolChoice => "a string or an object",
            Self::ToolChoiceObject => "an object",
            Self::Stop => "a string or an array of strings",
            Self::StopSequences => "an array of strings",
        }
    }

    fn accepts(self, value: Value<'_>) -> bool {
        let is_within = |least: f64, most: f64| match value {
            // A number that was cut cannot be checked.
            Value::Number(number) => number
                .as_f64()
                .is_none_or(|number| (least..=most).contains(&number)),
            _ => false,
        };
        match self {
            _ if matches!(value, Value::Null) => true,
            Self::Temperature => is_within(0.0, 2.0),
            Self::TopP => is_within(0.0, 1.0),
            Self::PresencePenalty | Self::FrequencyPenalty => is_within(-2.0, 2.0),
            Self::ParallelToolCalls => matches!(value, Value::Bool(_)),
            Self::ToolChoice => {
                matches!(value, Value::Text(_) | Value::Open(Container::Object))
            }
            Self::ToolChoiceObject => matches!(value, Value::Open(Container::Object)),
            Self::Stop => matches!(value, Value::Text(_) | Value::Open(Container::Array)),
            Self::StopSequences => matches!(value, Value::Open(Container::Array)),
        }
    }
}

impl Walk {
    /// A field that is only checked.
    pub(super) fn checked(
        &mut self,
        checked: Checked,
        value: Value<'_>,
        span: Span,
    ) -> Result<(), PeekError> {
        let field = checked.field();
        if !checked.accepts(value) {
            return super::fault(field, checked.wanted(), span);
        }
        // No model reads it (`tollgate_types::is_free_of_tokens`).
        self.opaque(Slot::Ignored, value, span);
        Ok(())
    }

    /// Counts and checks a value that stands directly in a top-level field.
    #[inline]
    pub(super) fn entry(&mut self, value: Value<'_>, span: Span) -> Result<(), PeekError> {
        if self.frames.len() != IN_LIST {
            return Ok(());
        }
        self.entries = self.entries.saturating_add(1);
        let is_list = self
            .frames
            .last()
            .is_some_and(|list| list.location == Location::Array);
        let is_object = matches!(value, Value::Open(Container::Object));
        let takes_values =
            self.is_in(Slot::Conversation) && self.format.request.conversation.takes_values;
        match is_list && !is_object && !takes_values && self.list().is_some() {
            true => self.entry_fault("", "must be an object", span.start),
            false => Ok(()),
        }
    }

    /// The open top-level list, if its entries are checked.
    fn list(&self) -> Option<&'static str> {
        match self.frames.first()?.slot {
            Slot::Conversation => Some(self.format.request.conversation.field),
            Slot::Tools => Some("tools"),
            _ => None,
        }
    }

    /// Whether the open container is an entry of the conversation.
    pub(super) fn is_in_message(&self) -> bool {
        self.frames.len() == IN_ENTRY && self.is_in(Slot::Conversation)
    }

    /// Whether the open container is a tool of the top-level list.
    fn is_in_tool(&self) -> bool {
        self.frames.len() == IN_ENTRY && self.is_in(Slot::Tools)
    }

    /// Whether the open top-level field has this meaning.
    fn is_in(&self, slot: Slot) -> bool {
        self.frames.first().is_some_and(|top| top.slot == slot)
    }

    pub(super) fn entry_fault<T>(
        &self,
        field: &'static str,
        problem: &'static str,
        at: u64,
    ) -> Result<T, PeekError> {
        Err(PeekError::Entry {
            list: self.list().unwrap_or_default(),
            index: self.entries.saturating_sub(1),
            field,
            problem,
            at,
        })
    }

    /// Checks a word that says what an entry of the conversation is.
    pub(super) fn check_word(
        &mut self,
        slot: Slot,
        value: Value<'_>,
        at: u64,
    ) -> Result<(), PeekError> {
        if !self.is_in_message() {
            return Ok(());
        }
        let rules = &self.format.request.entries;
        match (slot, value) {
            (Slot::Role, Value::Text(role)) if role.len > 0 => {
                let roles = rules.roles.as_ref();
                if let Some(roles) = roles.filter(|it| !it.names.contains(&role.bytes)) {
                    return self.entry_fault(".role", roles.problem, at);
                }
            }
            (Slot::Role, Value::Null) if rules.null_role => {}
            (Slot::Role, _) => {
                return self.entry_fault(".role", "must be a string that is not empty", at);
            }
            (Slot::Type, Value::Text(_)) => self.mark(NodeFlags::TYPED),
            (Slot::Type, Value::Null) => {}
            (Slot::Type, _) if rules.type_is_string => {
                return self.entry_fault(".type", "must be a string", at);
            }
            _ => {}
        }
        Ok(())
    }

    /// The `content` of a node: that of a message is a text or a list.
    pub(super) fn node_content(&mut self, value: Value<'_>, span: Span) -> Result<(), PeekError> {
        if self.is_in_message() {
            let rules = &self.format.request.entries;
            let is_right = match value {
                Value::Text(_) | Value::Open(Container::Array) => true,
                Value::Null => rules.null_content,
                Value::Open(Container::Object) => rules.object_content,
                Value::Number(_) | Value::Bool(_) => false,
            };
            if !is_right {
                let problem = "must be a string or an array of content parts";
                return self.entry_fault(".content", problem, span.start);
            }
            self.mark(NodeFlags::CONTENT);
        }
        self.content(Slot::Content, value, span.start);
        Ok(())
    }

    /// The list of tools that the request offers, or one of them.
    pub(super) fn offered(&mut self, value: Value<'_>, span: Span) -> Result<(), PeekError> {
        let is_top = self.frames.len() == 1;
        if is_top && !matches!(value, Value::Null | Value::Open(Container::Array)) {
            return super::fault("tools", "an array of tools", span);
        }
        self.tools(Slot::Tools, value, span.start);
        Ok(())
    }

    /// The `function` of a tool.
    pub(super) fn function(&mut self, value: Value<'_>, span: Span) -> Result<(), PeekError> {
        if matches!(value, Value::Open(Container::Object)) {
            self.mark(NodeFlags::FUNCTION);
            self.push(Location::Function, Slot::Ignored, span.start);
            return Ok(());
        }
        let is_object = self.format.request.tools.function_is_object;
        if self.is_in_tool() && is_object && !matches!(value, Value::Null) {
            return self.entry_fault(".function", "must be an object", span.start);
        }
        self.content(Slot::Tool, value, span.start);
        Ok(())
    }

    /// The name of a tool.
    pub(super) fn tool_name(&mut self, value: Value<'_>, start: u64) {
        if matches!(value, Value::Text(name) if name.len > 0) {
            self.mark(NodeFlags::NAMED);
        }
        self.content(Slot::Tool, value, start);
    }

    /// Notes what the `type` of a tool requires of its other members.
    pub(super) fn note_tool_type(&mut self, kind: &[u8]) {
        self.mark(NodeFlags::TYPED);
        match kind {
            b"function" => self.mark(NodeFlags::IS_FUNCTION),
            b"custom" => self.mark(NodeFlags::IS_CUSTOM),
            _ => {}
        }
    }

    /// Checks a container that has closed: does it have its required members?
    #[inline]
    pub(super) fn check_closed(&mut self, closed: &Frame) -> Result<(), PeekError> {
        match (self.frames.len(), closed.location) {
            (1, Location::Array) if self.is_in(Slot::Conversation) => {
                match self.entries {
                    0 => self.empty_input = Some(closed.start),
                    // The entries of conversations are not documents.
                    entries if self.format.request.conversation.takes_values => {
                        self.found.facts.documents = entries.into();
                    }
                    _ => {}
                }
                Ok(())
            }
            (IN_LIST, Location::Node | Location::Item) if self.is_in(Slot::Conversation) => {
                self.check_message(closed)
            }
            (IN_LIST, Location::Offered) if self.is_in(Slot::Tools) => self.check_tool(closed),
            (IN_ENTRY, Location::Function) if closed.members.contains(NodeFlags::NAMED) => {
                self.mark(NodeFlags::NAMED);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Checks that the conversation is not empty, unless something stored replaces it.
    pub(super) const fn check_has_entries(&self) -> Result<(), PeekError> {
        let (Some(at), false) = (self.empty_input, self.has_stored_input) else {
            return Ok(());
        };
        let conversation = &self.format.request.conversation;
        Err(PeekError::Field {
            field: conversation.field,
            wanted: conversation.wanted_entry,
            at,
        })
    }

    fn check_message(&self, message: &Frame) -> Result<(), PeekError> {
        let entry = Entry {
            members: message.members,
            has_id: self.item_id.is_some(),
        };
        match (self.format.request.entries.lacks)(entry) {
            Some(Lack { field, problem }) => self.entry_fault(field, problem, message.start),
            None => Ok(()),
        }
    }

    fn check_tool(&self, tool: &Frame) -> Result<(), PeekError> {
        match (self.format.request.tools.lacks)(tool.members) {
            Some(field) => self.entry_fault(field, "is required", tool.start),
            None => Ok(()),
        }
    }
}
