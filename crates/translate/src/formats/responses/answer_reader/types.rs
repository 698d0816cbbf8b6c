//! Types of the responses format, as far as an answer is read.

use crate::{
    answer::{
        json::{self, Raw},
        parts::{Blob, Citation, Page, Search},
        read::owned,
        text::RawText,
    },
    seal::{MAX_PAYLOAD_BYTES, ReasoningForm},
};
use serde::Deserialize;

/// An output item, whole or as it begins in a stream.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Item<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(super) kind: RawText<'a>,
    #[serde(borrow, default)]
    pub(super) id: Option<RawText<'a>>,
    #[serde(borrow, default)]
    pub(super) call_id: Option<RawText<'a>>,
    #[serde(borrow, default)]
    pub(super) name: Option<RawText<'a>>,
    #[serde(borrow, default)]
    arguments: Option<Raw<'a>>,
    #[serde(borrow, default)]
    input: Option<Raw<'a>>,
    #[serde(borrow, default)]
    pub(super) content: Option<Vec<Part<'a>>>,
    #[serde(borrow, default)]
    pub(super) summary: Option<Vec<Part<'a>>>,
    #[serde(borrow, default)]
    encrypted_content: Option<RawText<'a>>,
    #[serde(borrow, default)]
    status: Option<RawText<'a>>,
    #[serde(borrow, default)]
    action: Option<Raw<'a>>,
}

/// What a search of the web did.
#[derive(Debug, Default, Deserialize)]
struct Action<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: RawText<'a>,
    #[serde(borrow, default)]
    query: Option<RawText<'a>>,
    #[serde(borrow, default)]
    queries: Option<Vec<RawText<'a>>>,
    #[serde(borrow, default)]
    sources: Option<Vec<Source<'a>>>,
    #[serde(borrow, default)]
    url: Option<RawText<'a>>,
    #[serde(borrow, default)]
    pattern: Option<RawText<'a>>,
}

/// A page that a search found.
#[derive(Debug, Deserialize)]
struct Source<'a> {
    #[serde(borrow, default)]
    url: Option<RawText<'a>>,
}

/// What an item is, as far as other formats have it.
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

    /// The arguments or the input of a call. Items of other kinds have objects there.
    pub(super) fn contents(&self) -> RawText<'a> {
        let contents = self.arguments.or(self.input);
        contents.and_then(RawText::of).unwrap_or_default()
    }

    /// The texts of a reasoning item: its summary, then the reasoning itself.
    pub(super) fn thinking(&self) -> impl Iterator<Item = RawText<'a>> {
        let parts = [&self.summary, &self.content];
        let parts = parts.into_iter().flatten().flatten();
        parts
            .filter_map(|part| part.text)
            .filter(|text| !text.is_empty())
    }

    /// The search that the item tells of; `raw` is the item itself.
    pub(super) fn search(&self, raw: Raw<'_>) -> Search {
        let action = self.action.map(Raw::get).unwrap_or("{}");
        // A provider may tell of its searches as it likes: what is not understood is not told.
        let action: Action<'_> = json::read(action).unwrap_or_default();
        let status = self.status.unwrap_or_default();
        let queries = action.queries.as_deref().unwrap_or_default();
        let words = action.query.or_else(|| queries.first().copied());
        let told = words.or(action.pattern).or(action.url);
        let sources = action.sources.iter().flatten().filter_map(|it| it.url);
        let pages = sources.chain(action.url).take(Search::MOST_PAGES);
        Search {
            query: told.unwrap_or_default().as_str().to_owned(),
            is_search: action.kind.is_empty() || action.kind.as_str() == "search",
            pages: pages.map(page).collect(),
            failure: matches!(status.as_str(), "failed" | "incomplete").then_some("unavailable"),
            blob: (raw.get().len() <= MAX_PAYLOAD_BYTES).then(|| Blob {
                form: ReasoningForm::SearchItem,
                item_id: String::new(),
                payload: raw.get().to_owned(),
            }),
        }
    }

    /// What of a reasoning item only its provider can read.
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
pub(super) struct Part<'a> {
    #[serde(borrow, default)]
    pub(super) text: Option<RawText<'a>>,
    #[serde(borrow, default)]
    pub(super) refusal: Option<RawText<'a>>,
    #[serde(borrow, default)]
    pub(super) logprobs: Option<Raw<'a>>,
    #[serde(borrow, default)]
    pub(super) annotations: Option<Vec<Raw<'a>>>,
}

/// An annotation of a text.
#[derive(Debug, Deserialize)]
struct Annotation<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: RawText<'a>,
    #[serde(borrow, default)]
    url: Option<RawText<'a>>,
    #[serde(borrow, default)]
    title: Option<RawText<'a>>,
    #[serde(default)]
    start_index: Option<u64>,
    #[serde(default)]
    end_index: Option<u64>,
}

/// The page that an annotation names, where it names one: files belong to the provider.
pub(super) fn cited_page(raw: Raw<'_>) -> Option<Citation> {
    let annotation: Annotation<'_> = json::read(raw.get()).ok()?;
    let range = annotation.start_index.zip(annotation.end_index);
    match annotation.kind.as_str() {
        "url_citation" => Citation::new(annotation.url?, annotation.title, range),
        _ => None,
    }
}
