//! Server-sent events: one event and how it is written.

use bytes::Bytes;
use serde_json::Value;

/// One event of a stream.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Event {
    /// The `event:` line; chat completions have none.
    pub(crate) name: Option<&'static str>,
    pub(crate) data: Data,
}

/// The `data:` line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Data {
    Json(Value),
    /// A word that is no JSON, `[DONE]` say.
    Word(&'static str),
}

impl Event {
    pub(crate) fn named(name: &'static str, data: Value) -> Self {
        Self {
            name: Some(name),
            data: Data::Json(data),
        }
    }

    pub(crate) fn unnamed(data: Value) -> Self {
        Self {
            name: None,
            data: Data::Json(data),
        }
    }

    pub(crate) fn word(word: &'static str) -> Self {
        Self {
            name: None,
            data: Data::Word(word),
        }
    }

    /// The event as it goes over the wire, with the blank line behind it.
    pub(crate) fn to_bytes(&self) -> Bytes {
        let name = self
            .name
            .map(|name| format!("event: {name}\n"))
            .unwrap_or_default();
        Bytes::from(match &self.data {
            Data::Json(value) => format!("{name}data: {value}\n\n"),
            Data::Word(word) => format!("{name}data: {word}\n\n"),
        })
    }
}
