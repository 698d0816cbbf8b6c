//! Types of the messages format, as far as an answer is read.

use crate::{
    answer::{
        json::{self, Raw},
        parts::{Blob, Citation, Page, Search},
        read::{self, owned},
        text::RawText,
    },
    seal::ReasoningForm,
};
use serde::Deserialize;

/// A content block, whole or as it begins in a stream.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct Block<'a> {
    #[serde(rename = "type", default)]
    pub(super) kind: RawText<'a>,
    pub(super) text: Option<RawText<'a>>,
    pub(super) thinking: Option<RawText<'a>>,
    pub(super) signature: Option<RawText<'a>>,
    pub(super) data: Option<RawText<'a>>,
    pub(super) id: Option<RawText<'a>>,
    pub(super) name: Option<RawText<'a>>,
    pub(super) input: Option<Raw<'a>>,
    pub(super) citations: Option<Vec<Raw<'a>>>,
    pub(super) caller: Option<Raw<'a>>,
    pub(super) tool_use_id: Option<RawText<'a>>,
    /// The result of a tool that the provider runs.
    content: Option<Raw<'a>>,
}

/// A page that a search of the web found.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct SearchResult<'a> {
    url: Option<RawText<'a>>,
    title: Option<RawText<'a>>,
    page_age: Option<RawText<'a>>,
}

/// `stop_details` of a refusal.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct StopDetails<'a> {
    pub(super) explanation: Option<RawText<'a>>,
}

/// The page that a citation names, where it is one: other formats have no word for places in
/// documents.
pub(super) fn cited_page(raw: Raw<'_>) -> Option<Citation> {
    read::cited_page(raw, "web_search_result_location")
}

impl Block<'_> {
    /// The results of a search for `query`, which are contents of a string.
    pub(super) fn search(&self, query: String, blob: Option<Blob>) -> Search {
        let content = self.content.map(Raw::get).unwrap_or_default();
        // An error is an object, pages are a list.
        let found: Option<Vec<SearchResult<'_>>> = json::read(content).ok();
        let failure = found.is_none().then_some("unavailable");
        let pages = found.iter().flatten().filter_map(|page| {
            let url = page.url?.as_str();
            let title = page.title.unwrap_or_default().as_str();
            Some(Page {
                url: url.to_owned(),
                title: if title.is_empty() { url } else { title }.to_owned(),
                age: page.page_age.map(|age| age.as_str().to_owned()),
            })
        });
        Search {
            query,
            is_search: true,
            pages: pages.take(Search::MOST_PAGES).collect(),
            failure,
            blob,
        }
    }

    /// The part of a thinking block that only its provider can read.
    pub(super) fn blob(&self) -> Option<Blob> {
        match self.kind.as_str() {
            "thinking" => blob(ReasoningForm::Signature, owned(self.signature)),
            "redacted_thinking" => blob(ReasoningForm::Redacted, owned(self.data)),
            _ => None,
        }
    }
}

/// The signature of a thinking block, or the data of a redacted one.
pub(super) fn blob(form: ReasoningForm, payload: String) -> Option<Blob> {
    (!payload.is_empty()).then(|| Blob::new(form, payload))
}
