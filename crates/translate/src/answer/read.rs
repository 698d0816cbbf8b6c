//! Reads a provider's answer, whole or event by event, and hands its parts on.
//!
//! Each reader knows one format and nothing of where the answer goes. Phase, usage, stop and
//! faults are read by the wire crate; here stands what an answer says.

use crate::answer::{
    flow::Flow,
    json::{self, Raw},
    parts::{
        Citation,
        Failure::{self, Broken},
    },
    text::RawText,
};
use serde::Deserialize;
use std::{borrow::Cow, fmt::Debug};

/// A reader of one answer.
pub(crate) trait ReadAnswer: Debug + Send + Sync {
    /// Reads one event, which its stream's reader has found to be JSON.
    fn event(&mut self, data: &str, flow: &mut Flow) -> Result<(), Failure>;

    /// Reads a whole answer, which a scanner has found to be JSON.
    fn body(&mut self, data: &str, flow: &mut Flow) -> Result<(), Failure>;

    /// The event that ends the answer was too large to be read.
    fn unread_end(&self) -> Result<(), Failure> {
        Ok(())
    }
}

/// The text of an answer or of an event.
pub(crate) fn utf8(data: &[u8]) -> Result<&str, Failure> {
    std::str::from_utf8(data).map_err(|_| Broken)
}

/// Reads one JSON document, borrowing from it.
pub(crate) fn document<'a, T: Deserialize<'a>>(data: &'a str) -> Result<T, Failure> {
    json::read(data).map_err(|_| Broken)
}

/// The entries of a list that can be read; none if it is no list. The answer does not depend on them.
pub(crate) fn entries<'a, T: Deserialize<'a>>(list: Option<Raw<'a>>) -> impl Iterator<Item = T> {
    let list: Option<Vec<Raw<'a>>> = list.and_then(|list| json::read(list.get()).ok());
    let list = list.into_iter().flatten();
    list.filter_map(|entry| json::read(entry.get()).ok())
}

/// A JSON value as the contents of a string that holds it.
pub(crate) fn as_contents(value: Raw<'_>) -> String {
    let quoted = serde_json::to_string(value.get()).unwrap_or_default();
    match quoted.get(1..quoted.len().saturating_sub(1)) {
        Some(contents) => contents.to_owned(),
        None => String::new(),
    }
}

/// The arguments of a call as contents of a string. Some providers write the value itself, and an empty one where there
/// are none.
pub(crate) fn arguments(value: Raw<'_>) -> Cow<'_, str> {
    let inner = value.get().strip_prefix(['{', '[']);
    let is_empty = |inner: &str| inner.trim_start().starts_with(['}', ']']);
    match RawText::of(value) {
        Some(text) => Cow::Borrowed(text.as_str()),
        None if inner.is_some_and(is_empty) => Cow::Borrowed(""),
        None => Cow::Owned(as_contents(value)),
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

/// A citation of a text block, or an annotation of a text.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(crate) struct CitedPage<'a> {
    #[serde(rename = "type", default)]
    kind: RawText<'a>,
    url: Option<RawText<'a>>,
    title: Option<RawText<'a>>,
    start_index: Option<Raw<'a>>,
    end_index: Option<Raw<'a>>,
}

impl CitedPage<'_> {
    /// The page that it names, if it names one.
    pub(crate) fn citation(&self) -> Option<Citation> {
        let index = |index: Option<Raw<'_>>| index?.get().parse().ok();
        let range = index(self.start_index).zip(index(self.end_index));
        Citation::new(self.url?, self.title, range)
    }
}

/// The page that a citation or an annotation names, if it is of this kind.
pub(crate) fn cited_page(raw: Raw<'_>, kind: &str) -> Option<Citation> {
    let page: CitedPage<'_> = json::read(raw.get()).ok()?;
    page.citation().filter(|_| page.kind.as_str() == kind)
}
