//! Documents in the order of their relevance, in the API that Cohere, Jina, Voyage, vLLM and others
//! have in common.

use super::{
    embeddings,
    rules::{Conversation, DocumentRules, FormatRules, RequestRules},
};
use crate::{
    answer::path::Key,
    peek::location::{self, Slot},
};

pub(super) const RULES: FormatRules = FormatRules {
    request: RequestRules {
        top,
        conversation: Conversation {
            field: "documents",
            wanted: "an array of documents",
            wanted_entry: "an array of at least one document",
            takes_text: false,
            takes_values: true,
            entry: Slot::Content,
        },
        ..embeddings::REQUEST
    },
    body: BODY,
    event: BODY,
    ..embeddings::RULES
};

const BODY: DocumentRules = DocumentRules {
    key,
    ..embeddings::BODY
};

/// Cohere reports searches (`meta.billed_units.search_units`), and no tokens.
fn key(name: &[u8]) -> Key {
    match name {
        b"meta" => Key::Usage,
        b"search_units" => Key::SearchUnits,
        _ => embeddings::key(name),
    }
}

fn top(key: &[u8]) -> Slot {
    match key {
        b"documents" => Slot::Conversation,
        b"query" => Slot::Query,
        b"top_n" | b"top_k" | b"return_documents" | b"max_tokens_per_doc" | b"truncation" => {
            Slot::Ignored
        }
        b"stream" => Slot::Json,
        _ => location::top(key),
    }
}
