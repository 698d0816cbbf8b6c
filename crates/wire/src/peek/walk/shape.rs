//! The part of the walk that checks what no provider accepts otherwise: the entries of the
//! conversation and of the tools, and the types and ranges of a few settings.
//!
//! Each rule refuses only what the providers of the format refuse as well. Values that one of
//! them may know (a role, the type of an item or of a tool) are left to the provider.

use super::{
    super::{
        PeekError,
        node::Marks,
        place::{Place, Slot},
    },
    Frame, Value, Walk,
};
use crate::json::{Container, Span};
use tollgate_types::Format;

/// So many containers are open around an entry of a top-level list: the body and the list.
const IN_LIST: usize = 2;
/// The same around a member of such an entry.
const IN_ENTRY: usize = 3;

/// A top-level field that is checked and otherwise not acted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::peek) enum Checked {
    Temperature,
    TopP,
    PresencePenalty,
    FrequencyPenalty,
    ParallelToolCalls,
    ToolChoice,
    Stop,
    StopSequences,
}

impl Checked {
    /// The field of that name in the format, if it is checked.
    pub(in crate::peek) fn of(format: Format, key: &[u8]) -> Option<Self> {
        Some(match (format, key) {
            (_, b"temperature") => Self::Temperature,
            (_, b"top_p") => Self::TopP,
            (_, b"tool_choice") => Self::ToolChoice,
            (Format::Chat, b"presence_penalty") => Self::PresencePenalty,
            (Format::Chat, b"frequency_penalty") => Self::FrequencyPenalty,
            (Format::Chat, b"stop") => Self::Stop,
            (Format::Chat | Format::Responses, b"parallel_tool_calls") => Self::ParallelToolCalls,
            (Format::Messages, b"stop_sequences") => Self::StopSequences,
            _ => return None,
        })
    }

    const fn field(self) -> &'static str {
        match self {
            Self::Temperature => "temperature",
            Self::TopP => "top_p",
            Self::PresencePenalty => "presence_penalty",
            Self::FrequencyPenalty => "frequency_penalty",
            Self::ParallelToolCalls => "parallel_tool_calls",
            Self::ToolChoice => "tool_choice",
            Self::Stop => "stop",
            Self::StopSequences => "stop_sequences",
        }
    }

    const fn wanted(self, format: Format) -> &'static str {
        match (self, format) {
            (Self::Temperature, _) => "a number from 0 to 2",
            (Self::TopP, _) => "a number from 0 to 1",
            (Self::PresencePenalty | Self::FrequencyPenalty, _) => "a number from -2 to 2",
            (Self::ParallelToolCalls, _) => "true or false",
            (Self::ToolChoice, Format::Messages) => "an object",
            (Self::ToolChoice, Format::Chat | Format::Responses) => "a string or an object",
            (Self::Stop, _) => "a string or an array of strings",
            (Self::StopSequences, _) => "an array of strings",
        }
    }

    fn accepts(self, format: Format, value: Value<'_>) -> bool {
        let is_within = |least: f64, most: f64| match value {
            // A number that is cut cannot be judged here.
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
            Self::ToolChoice => match value {
                Value::Text(_) => format != Format::Messages,
                _ => matches!(value, Value::Open(Container::Object)),
            },
            Self::Stop => matches!(value, Value::Text(_) | Value::Open(Container::Array)),
            Self::StopSequences => matches!(value, Value::Open(Container::Array)),
        }
    }
}

impl Walk {
    /// A field that is checked and passed over.
    pub(super) fn checked(
        &mut self,
        checked: Checked,
        value: Value<'_>,
        span: Span,
    ) -> Result<(), PeekError> {
        let field = checked.field();
        if !checked.accepts(self.format, value) {
            let wanted = checked.wanted(self.format);
            return super::fault(field, wanted, span);
        }
        // None of them is read by a model (`tollgate_types::is_free_of_tokens`).
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
            .is_some_and(|list| list.place == Place::Array);
        let is_object = matches!(value, Value::Open(Container::Object));
        match is_list && !is_object && self.list().is_some() {
            true => self.entry_fault("", "must be an object", span.start),
            false => Ok(()),
        }
    }

    /// The top-level list that is open, where its entries are checked.
    fn list(&self) -> Option<&'static str> {
        match self.frames.first()?.slot {
            Slot::Messages => Some("messages"),
            Slot::Input => Some("input"),
            Slot::Tools => Some("tools"),
            _ => None,
        }
    }

    /// Whether what is open is a message or an item of the conversation itself.
    pub(super) fn is_in_message(&self) -> bool {
        self.frames.len() == IN_ENTRY
            && self
                .frames
                .first()
                .is_some_and(|top| matches!(top.slot, Slot::Messages | Slot::Input))
    }

    /// Whether what is open is a tool of the top-level list.
    fn is_in_tool(&self) -> bool {
        self.frames.len() == IN_ENTRY && self.list() == Some("tools")
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

    /// Checks a word that says what a message or an item is.
    pub(super) fn check_word(
        &mut self,
        slot: Slot,
        value: Value<'_>,
        at: u64,
    ) -> Result<(), PeekError> {
        if !self.is_in_message() {
            return Ok(());
        }
        match (slot, value) {
            (Slot::Role, Value::Text(role)) if role.len > 0 => {
                let is_known = matches!(role.bytes, b"user" | b"assistant" | b"system");
                if self.format == Format::Messages && !is_known {
                    let problem = "must be 'user', 'assistant' or 'system'";
                    return self.entry_fault(".role", problem, at);
                }
            }
            (Slot::Role, Value::Null) if self.format == Format::Responses => {}
            (Slot::Role, _) => {
                return self.entry_fault(".role", "must be a string that is not empty", at);
            }
            (Slot::Type, Value::Text(_)) => self.mark(Marks::TYPED),
            (Slot::Type, Value::Null) => {}
            (Slot::Type, _) if self.format == Format::Responses => {
                return self.entry_fault(".type", "must be a string", at);
            }
            _ => {}
        }
        Ok(())
    }

    /// The `content` of a node: that of a message is a text or a list.
    pub(super) fn said(&mut self, value: Value<'_>, span: Span) -> Result<(), PeekError> {
        if self.is_in_message() {
            let is_right = match value {
                Value::Text(_) | Value::Open(Container::Array) => true,
                Value::Null => self.format != Format::Messages,
                // An item of a kind that is not known here may have an object.
                Value::Open(Container::Object) => self.format == Format::Responses,
                Value::Number(_) | Value::Bool(_) => false,
            };
            if !is_right {
                let problem = "must be a string or an array of content parts";
                return self.entry_fault(".content", problem, span.start);
            }
            self.mark(Marks::SAID);
        }
        self.content(Slot::Content, value, span.start);
        Ok(())
    }

    /// The list of tools that are offered, or one of them.
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
            self.mark(Marks::FUNCTION);
            self.push(Place::Function, Slot::Ignored, span.start);
            return Ok(());
        }
        if self.is_in_tool() && self.format == Format::Chat && !matches!(value, Value::Null) {
            return self.entry_fault(".function", "must be an object", span.start);
        }
        self.content(Slot::Tool, value, span.start);
        Ok(())
    }

    /// The name of a tool.
    pub(super) fn tool_name(&mut self, value: Value<'_>, start: u64) {
        if matches!(value, Value::Text(name) if name.len > 0) {
            self.mark(Marks::NAMED);
        }
        self.content(Slot::Tool, value, start);
    }

    /// Marks what the `type` of a tool means to its other members.
    pub(super) fn mark_tool_type(&mut self, kind: &[u8]) {
        self.mark(Marks::TYPED);
        match kind {
            b"function" => self.mark(Marks::IS_FUNCTION),
            b"custom" => self.mark(Marks::IS_CUSTOM),
            _ => {}
        }
    }

    /// Checks a container that has closed: are its required members there?
    #[inline]
    pub(super) fn check_closed(&mut self, closed: &Frame) -> Result<(), PeekError> {
        match (self.frames.len(), closed.place) {
            (1, Place::Array) if self.entries == 0 && self.is_conversation() => {
                self.empty_input = Some(closed.start);
                Ok(())
            }
            (IN_LIST, Place::Node | Place::Item) if self.is_conversation() => {
                self.check_message(closed)
            }
            (IN_LIST, Place::Offered) if self.list() == Some("tools") => self.check_tool(closed),
            (IN_ENTRY, Place::Function) if closed.marks.contains(Marks::NAMED) => {
                self.mark(Marks::NAMED);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Checks that the conversation is not empty, unless something stored stands in for it.
    pub(super) const fn check_has_entries(&self) -> Result<(), PeekError> {
        let (Some(at), false) = (self.empty_input, self.has_stored_input) else {
            return Ok(());
        };
        let (field, wanted) = match self.format {
            Format::Chat | Format::Messages => ("messages", "an array of at least one message"),
            Format::Responses => ("input", "a string or an array of at least one item"),
        };
        Err(PeekError::Field { field, wanted, at })
    }

    fn is_conversation(&self) -> bool {
        matches!(self.list(), Some("messages" | "input"))
    }

    fn check_message(&self, message: &Frame) -> Result<(), PeekError> {
        let (marks, at) = (message.marks, message.start);
        if self.format == Format::Responses {
            let is_named = self.item_id.is_some();
            let says_what = marks.contains(Marks::TYPED) || marks.contains(Marks::ROLE);
            return match is_named || says_what {
                true => Ok(()),
                false => self.entry_fault("", "must have a 'type' or a 'role'", at),
            };
        }
        if !marks.contains(Marks::ROLE) {
            return self.entry_fault(".role", "is required", at);
        }
        if self.format == Format::Messages && !marks.contains(Marks::SAID) {
            return self.entry_fault(".content", "is required", at);
        }
        Ok(())
    }

    fn check_tool(&self, tool: &Frame) -> Result<(), PeekError> {
        let has = |mark: Marks| tool.marks.contains(mark);
        let (is_function, is_named) = (has(Marks::IS_FUNCTION), has(Marks::NAMED));
        let missing = match self.format {
            Format::Chat if is_function && !has(Marks::FUNCTION) => ".function",
            Format::Chat if has(Marks::FUNCTION) && !is_named => ".function.name",
            Format::Responses if is_function && !has(Marks::FUNCTION) && !is_named => ".name",
            Format::Messages if (!has(Marks::TYPED) || has(Marks::IS_CUSTOM)) && !is_named => {
                ".name"
            }
            _ => return Ok(()),
        };
        self.entry_fault(missing, "is required", tool.start)
    }
}
