//! Embeddings in the API of OpenAI, as many servers speak it. Answers have no output tokens, and no
//! stream.

use super::{
    chat,
    rules::{Conversation, DocumentRules, EntryRules, FormatRules, RequestRules, UsageRules},
};
use crate::{
    answer::{at, kind::EventKind, path::Key},
    peek::location::{self, Slot},
    usage::Counting,
};

pub(super) const RULES: FormatRules = FormatRules {
    request: REQUEST,
    body: BODY,
    event: BODY,
    usage: UsageRules {
        counting: Counting::InputAlone,
        is_on_request: false,
    },
    // Clients are those of chat.
    ..chat::RULES
};

pub(super) const REQUEST: RequestRules = RequestRules {
    top,
    conversation: Conversation {
        field: "input",
        wanted: "a string or an array",
        wanted_entry: "an array of at least one text",
        takes_text: true,
        takes_values: true,
        entry: Slot::Content,
    },
    entries: EntryRules {
        null_role: true,
        null_content: true,
        object_content: true,
        ..EntryRules::STRICT
    },
    ..RequestRules::USUAL
};

fn top(key: &[u8]) -> Slot {
    match key {
        b"input" => Slot::Conversation,
        // Settings of the vectors. Servers that cut texts to a length call it so.
        b"dimensions" | b"encoding_format" | b"truncate_prompt_tokens" => Slot::Ignored,
        // There are no streams.
        b"stream" => Slot::Json,
        _ => location::top(key),
    }
}

pub(super) const BODY: DocumentRules = DocumentRules {
    key,
    name: at::OBJECT,
    kind: |object| match object {
        b"list" => EventKind::Content,
        _ => EventKind::of_any_body(object),
    },
    ..DocumentRules::PLAIN
};

pub(super) fn key(name: &[u8]) -> Key {
    match name {
        b"data" | b"results" => Key::Choices,
        b"error" => Key::Error,
        b"id" => Key::Id,
        b"model" => Key::Model,
        b"object" => Key::Object,
        b"usage" => Key::Usage,
        b"prompt_tokens" | b"input_tokens" => Key::Input,
        b"total_tokens" => Key::Total,
        _ => Key::Other,
    }
}
