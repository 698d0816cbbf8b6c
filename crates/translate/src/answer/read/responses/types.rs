//! Types of the responses format, as far as an answer is read.

use crate::{
    answer::{
        parts::{Blob, Citation},
        read::owned,
        text::RawText,
    },
    seal::ReasoningForm,
};
use serde::Deserialize;
use serde_json::value::RawValue;

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
    arguments: Option<&'a RawValue>,
    #[serde(borrow, default)]
    input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) content: Option<Vec<Part<'a>>>,
    #[serde(borrow, default)]
    pub(super) summary: Option<Vec<Part<'a>>>,
    #[serde(borrow, default)]
    encrypted_content: Option<RawText<'a>>,
}

/// What an item is, as far as other formats have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ItemKind {
    Message,
    Reasoning,
    Function,
    Custom,
    /// Something that the provider did by itself.
    Other,
}

impl<'a> Item<'a> {
    pub(super) fn kind(&self) -> ItemKind {
        match self.kind.as_str() {
            "message" => ItemKind::Message,
            "reasoning" => ItemKind::Reasoning,
            "function_call" => ItemKind::Function,
            "custom_tool_call" => ItemKind::Custom,
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

/// A part of a message, of a reasoning item, or of its summary.
#[derive(Debug, Deserialize)]
pub(super) struct Part<'a> {
    #[serde(borrow, default)]
    pub(super) text: Option<RawText<'a>>,
    #[serde(borrow, default)]
    pub(super) refusal: Option<RawText<'a>>,
    #[serde(borrow, default)]
    pub(super) logprobs: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) annotations: Option<Vec<Annotation<'a>>>,
}

/// An annotation of a text.
#[derive(Debug, Deserialize)]
pub(super) struct Annotation<'a> {
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

impl Annotation<'_> {
    /// The page that it names, where it names one: files belong to the provider.
    pub(super) fn page(&self) -> Option<Citation> {
        let range = self.start_index.zip(self.end_index);
        match self.kind.as_str() {
            "url_citation" => Citation::new(self.url?, self.title, range),
            _ => None,
        }
    }
}
