//! The three formats, what they have in common, and faults of a request as each of
//! their vendors would put them.

use crate::{ask::Ask, chat, messages, orders::Orders, plan::Plan, responses, sse::Event, vendors};
use serde_json::Value;

/// The created time of every answer, in Unix seconds (2026-01-01): an answer must not
/// depend on the clock.
pub(crate) const CREATED: u64 = 1_767_225_600;

/// A wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Chat,
    Responses,
    Messages,
}

/// An answer in the making: the request, what it asks for and what is planned.
#[derive(Clone, Copy)]
pub(crate) struct Answering<'a> {
    pub(crate) request: &'a Value,
    pub(crate) ask: &'a Ask,
    pub(crate) plan: &'a Plan,
    pub(crate) orders: &'a Orders,
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) status: u16,
    pub(crate) message: String,
    /// The field at fault (OpenAI names it apart).
    pub(crate) param: Option<String>,
    pub(crate) code: Option<&'static str>,
}

impl Fault {
    pub(crate) fn new(status: u16, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
            param: None,
            code: None,
        }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, message)
    }

    pub(crate) fn at(mut self, param: &str) -> Self {
        self.param = Some(param.to_owned());
        self
    }

    pub(crate) fn code(mut self, code: &'static str) -> Self {
        self.code = Some(code);
        self
    }

    /// The body that this format's vendor sends.
    pub(crate) fn body(&self, format: Format, request_id: &str) -> Value {
        if format == Format::Messages {
            let kind = vendors::anthropic_kind(self.status);
            return vendors::anthropic_error(kind, &self.message, request_id);
        }
        let (kind, code) = vendors::openai_kind(self.status);
        vendors::openai_error(
            kind,
            &self.message,
            self.param.as_deref(),
            self.code.or(code),
        )
    }
}

impl Format {
    /// Reads and checks a request.
    ///
    /// # Errors
    /// The fault that the vendor would report.
    pub(crate) fn read(self, request: &Value) -> Result<Ask, Fault> {
        match self {
            Self::Chat => chat::read(request),
            Self::Responses => responses::read(request),
            Self::Messages => messages::read(request),
        }
    }

    /// The whole answer as one body.
    pub(crate) fn json(self, answering: Answering<'_>) -> Value {
        match self {
            Self::Chat => chat::json(answering),
            Self::Responses => responses::json(answering),
            Self::Messages => messages::json(answering),
        }
    }

    /// The same answer as a stream.
    pub(crate) fn events(self, answering: Answering<'_>) -> Vec<Event> {
        match self {
            Self::Chat => chat::events(answering),
            Self::Responses => responses::events(answering),
            Self::Messages => messages::events(answering),
        }
    }

    /// The events that end a stream that has failed after `sent` events.
    pub(crate) fn error_events(self, answering: Answering<'_>, sent: usize) -> Vec<Event> {
        match self {
            Self::Chat => chat::error_events(),
            Self::Responses => responses::error_events(answering, sent),
            Self::Messages => messages::error_events(),
        }
    }
}

/// Sets a field of an object.
pub(crate) fn put(object: &mut Value, name: &str, value: Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.insert(name.to_owned(), value);
    }
}
