//! Types of the messages format, as far as an answer is read.

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

/// A content block, whole or as it begins in a stream.
#[derive(Debug, Deserialize)]
pub(super) struct Block<'a> {
    #[serde(rename = "type", borrow, default)]
    pub(super) kind: RawText<'a>,
    #[serde(borrow, default)]
    pub(super) text: Option<RawText<'a>>,
    #[serde(borrow, default)]
    pub(super) thinking: Option<RawText<'a>>,
    #[serde(borrow, default)]
    pub(super) signature: Option<RawText<'a>>,
    #[serde(borrow, default)]
    pub(super) data: Option<RawText<'a>>,
    #[serde(borrow, default)]
    pub(super) id: Option<RawText<'a>>,
    #[serde(borrow, default)]
    pub(super) name: Option<RawText<'a>>,
    #[serde(borrow, default)]
    pub(super) input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) citations: Option<Vec<TextCitation<'a>>>,
}

/// A citation of a text block.
#[derive(Debug, Deserialize)]
pub(super) struct TextCitation<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: RawText<'a>,
    #[serde(borrow, default)]
    url: Option<RawText<'a>>,
    #[serde(borrow, default)]
    title: Option<RawText<'a>>,
}

/// `stop_details` of a refusal.
#[derive(Debug, Deserialize)]
pub(super) struct StopDetails<'a> {
    #[serde(borrow, default)]
    pub(super) explanation: Option<RawText<'a>>,
}

impl TextCitation<'_> {
    /// The page, where it is one: other formats have no word for places in documents.
    pub(super) fn page(&self) -> Option<Citation> {
        match self.kind.as_str() {
            "web_search_result_location" => Citation::new(self.url?, self.title, None),
            _ => None,
        }
    }
}

impl Block<'_> {
    /// What of a thinking block only its provider can read.
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
    (!payload.is_empty()).then(|| Blob {
        form,
        item_id: String::new(),
        payload,
    })
}
