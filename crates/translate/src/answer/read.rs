//! Reads a provider's answer, whole or event by event, and hands its parts on.
//!
//! Each reader knows one format and nothing of where the answer goes. Phase, usage, stop and
//! faults are read by the wire crate; here stands what an answer says.

use crate::{
    answer::{
        flow::Flow,
        json::{self, Raw},
        parts::Broken,
        text::RawText,
    },
    formats,
};
use serde::Deserialize;
use tollgate_types::Format;

/// A reader of one answer.
#[derive(Debug)]
pub(crate) enum Reader {
    Chat(formats::chat::answer_reader::ChatReader),
    Messages(formats::messages::answer_reader::MessagesReader),
    Responses(formats::responses::answer_reader::ResponsesReader),
}

impl Reader {
    pub(crate) fn new(format: Format) -> Self {
        match format {
            Format::Chat => Self::Chat(formats::chat::answer_reader::ChatReader::default()),
            Format::Messages => {
                Self::Messages(formats::messages::answer_reader::MessagesReader::default())
            }
            Format::Responses => {
                Self::Responses(formats::responses::answer_reader::ResponsesReader::default())
            }
        }
    }

    /// Reads one event, which its stream's reader has found to be JSON.
    pub(crate) fn event(&mut self, data: &[u8], flow: &mut Flow) -> Result<(), Broken> {
        let data = std::str::from_utf8(data).map_err(|_| Broken)?;
        match self {
            Self::Chat(reader) => reader.event(data, flow),
            Self::Messages(reader) => reader.event(data, flow),
            Self::Responses(reader) => reader.event(data, flow),
        }
    }

    /// The event that ends the answer was too large to be read.
    pub(crate) const fn unread_end(&self) -> Result<(), Broken> {
        match self {
            Self::Responses(reader) => reader.unread_end(),
            Self::Chat(_) | Self::Messages(_) => Ok(()),
        }
    }

    /// Reads a whole answer, which a scanner has found to be JSON.
    pub(crate) fn body(&mut self, data: &[u8], flow: &mut Flow) -> Result<(), Broken> {
        let data = std::str::from_utf8(data).map_err(|_| Broken)?;
        match self {
            Self::Chat(reader) => reader.body(data, flow),
            Self::Messages(reader) => reader.body(data, flow),
            Self::Responses(reader) => reader.body(data, flow),
        }
    }
}

/// Reads one JSON document, borrowing from it.
pub(crate) fn document<'a, T: Deserialize<'a>>(data: &'a str) -> Result<T, Broken> {
    json::read(data).map_err(|_| Broken)
}

/// A JSON value as the contents of a string that holds it.
pub(crate) fn as_contents(value: Raw<'_>) -> String {
    let quoted = serde_json::to_string(value.get()).unwrap_or_default();
    match quoted.get(1..quoted.len().saturating_sub(1)) {
        Some(contents) => contents.to_owned(),
        None => String::new(),
    }
}

/// Whether a value is an object with members.
pub(crate) fn has_members(value: Raw<'_>) -> bool {
    let inner = value.get().strip_prefix('{');
    inner.is_some_and(|inner| !inner.trim_start().starts_with('}'))
}

/// An owned copy of what a text means; nothing where there is none.
pub(crate) fn owned(text: Option<RawText<'_>>) -> String {
    text.map(|text| text.unescape().into_owned())
        .unwrap_or_default()
}
