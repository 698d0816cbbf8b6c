//! Types of the responses format, as far as an answer is read.

use crate::{
    answer::{
        json::{self, Raw},
        parts::{Blob, Citation, Page, Search},
        read::{self, owned},
        text::RawText,
    },
    seal::{MAX_PAYLOAD_BYTES, ReasoningForm},
};
use serde::Deserialize;
use std::borrow::Cow;

/// An output item, whole or as it begins in a stream.
#[derive(Debug, Default, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct Item<'a> {
    #[serde(rename = "type", default)]
    pub(super) kind: RawText<'a>,
    pub(super) id: Option<RawText<'a>>,
    pub(super) call_id: Option<RawText<'a>>,
    pub(super) name: Option<RawText<'a>>,
    arguments: Option<Raw<'a>>,
    input: Option<Raw<'a>>,
    pub(super) content: Option<Vec<Part<'a>>>,
    pub(super) summary: Option<Vec<Part<'a>>>,
    encrypted_content: Option<RawText<'a>>,
    status: Option<RawText<'a>>,
    action: Option<Raw<'a>>,
}

/// The action of a search of the web.
#[derive(Debug, Default, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct Action<'a> {
    #[serde(rename = "type", default)]
    kind: RawText<'a>,
    query: Option<RawText<'a>>,
    queries: Option<Vec<RawText<'a>>>,
    sources: Option<Vec<Source<'a>>>,
    url: Option<RawText<'a>>,
    pattern: Option<RawText<'a>>,
}

/// A page that a search found.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct Source<'a> {
    url: Option<RawText<'a>>,
}

/// The kind of an item, as far as other formats have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ItemKind {
    Message,
    Reasoning,
    Function,
    Custom,
    /// The provider searched the web by itself.
    Search,
    /// Something else that the provider did by itself.
    Other,
}

impl<'a> Item<'a> {
    pub(super) fn kind(&self) -> ItemKind {
        match self.kind.as_str() {
            "message" => ItemKind::Message,
            "reasoning" => ItemKind::Reasoning,
            "function_call" => ItemKind::Function,
            "custom_tool_call" => ItemKind::Custom,
            "web_search_call" => ItemKind::Search,
            _ => ItemKind::Other,
        }
    }

    /// The arguments or the input of a call, escaped.
    pub(super) fn contents(&self) -> Cow<'a, str> {
        let contents = self.arguments.or(self.input);
        contents.map(read::arguments).unwrap_or_default()
    }

    /// The texts of a reasoning item: its summary, then the reasoning itself.
    pub(super) fn thinking(&self) -> impl Iterator<Item = RawText<'a>> {
        let parts = [&self.summary, &self.content];
        let parts = parts.into_iter().flatten().flatten();
        parts
            .filter_map(|part| part.text)
            .filter(|text| !text.is_empty())
    }

    /// The search that the item reports; `raw` is the item itself.
    pub(super) fn search(&self, raw: Raw<'_>) -> Search {
        let action = self.action.map(Raw::get).unwrap_or("{}");
        // Providers report searches in forms of their own: an unknown form is left out.
        let action: Action<'_> = json::read(action).unwrap_or_default();
        let status = self.status.unwrap_or_default();
        let queries = action.queries.as_deref().unwrap_or_default();
        let words = action.query.or_else(|| queries.first().copied());
        let query = words.or(action.pattern).or(action.url);
        let sources = action.sources.iter().flatten().filter_map(|it| it.url);
        let pages = sources.chain(action.url).take(Search::MOST_PAGES);
        Search {
            query: query.unwrap_or_default().as_str().to_owned(),
            is_search: action.kind.is_empty() || action.kind.as_str() == "search",
            pages: pages.map(page).collect(),
            failure: matches!(status.as_str(), "failed" | "incomplete").then_some("unavailable"),
            blob: (raw.get().len() <= MAX_PAYLOAD_BYTES)
                .then(|| Blob::new(ReasoningForm::SearchItem, raw.get().to_owned())),
        }
    }

    /// The part of a reasoning item that only its provider can read.
    pub(super) fn blob(&self) -> Option<Blob> {
        let payload = owned(self.encrypted_content);
        (!payload.is_empty()).then(|| Blob {
            form: ReasoningForm::Encrypted,
            item_id: owned(self.id),
            payload,
        })
    }
}

fn page(url: RawText<'_>) -> Page {
    Page {
        url: url.as_str().to_owned(),
        title: url.as_str().to_owned(),
        age: None,
    }
}

/// A part of a message, of a reasoning item, or of its summary.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct Part<'a> {
    pub(super) text: Option<RawText<'a>>,
    pub(super) refusal: Option<RawText<'a>>,
    pub(super) logprobs: Option<Raw<'a>>,
    pub(super) annotations: Option<Vec<Raw<'a>>>,
}

/// The page that an annotation names, where it names one: files belong to the provider.
pub(super) fn cited_page(raw: Raw<'_>) -> Option<Citation> {
    read::cited_page(raw, "url_citation")
}
