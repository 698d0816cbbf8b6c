//! Where the made-up format keeps what the gateway reads.

use super::{
    super::rules::{
        Conversation, DocumentRules, Entry, EntryRules, Lack, OutputLimitRules, RequestRules,
        TextPlaces, ToolRules,
    },
    stream,
};
use crate::{
    address::AddressRules,
    answer::{
        at,
        path::{Key, KeySet},
        text::TextClass,
    },
    peek::{
        location::{self, Checked, Location, Medium, Settings, Slot, Table},
        node::NodeFlags,
    },
};

pub(super) const REQUEST: RequestRules = RequestRules {
    address: Some(AddressRules {
        whole: "/v9/models/{model}:answer?version={version}",
        streamed: "/v9/models/{model}:stream?alt=sse&version={version}",
    }),
    top,
    node,
    conversation: Conversation {
        field: "contents",
        wanted: "an array of contents",
        wanted_entry: "an array of at least one content",
        takes_text: false,
        takes_values: false,
        entry: Slot::Content,
    },
    entries: EntryRules {
        roles: None,
        null_role: true,
        type_is_string: false,
        null_content: false,
        object_content: false,
        lacks: content_lacks,
    },
    tools: ToolRules {
        function_is_object: false,
        kind_is_key: false,
        lacks: |_| None,
    },
    output_limit: OutputLimitRules {
        field: "mostTokens",
        is_required: false,
    },
    effort: "settings.thinking",
    has_thinking_budget: false,
    null_is_absent: true,
};

fn top(key: &[u8]) -> Slot {
    match key {
        b"contents" => Slot::Conversation,
        b"mostTokens" => Slot::OutputLimit,
        b"settings" => Slot::Settings(&SETTINGS),
        // The address has them.
        b"model" | b"stream" => Slot::Json,
        _ => location::top(key),
    }
}

static SETTINGS: Settings = Settings {
    field: "settings",
    location: Location::Table(Table(|key| match key {
        b"answers" => Slot::Choices("settings.answers"),
        b"thinking" => Slot::Effort("settings.thinking"),
        b"temperature" => Slot::Checked(Checked::Temperature),
        _ => Slot::Ignored,
    })),
};

fn node(key: &[u8]) -> Slot {
    match key {
        b"parts" => Slot::NodeContent,
        b"inlineData" => Slot::Payload(Medium::Image),
        _ => location::node(key),
    }
}

fn content_lacks(content: Entry) -> Option<Lack> {
    let has_parts = content.members.contains(NodeFlags::CONTENT);
    (!has_parts).then_some(Lack::of(".parts"))
}

/// The names of the format for what the shared code reads.
fn key(name: &[u8]) -> Key {
    match name {
        b"answerId" => Key::Id,
        b"answers" => Key::Choices,
        b"error" => Key::Error,
        b"finish" => Key::FinishReason,
        b"modelVersion" => Key::Model,
        b"number" => Key::Index,
        b"parts" => Key::Delta,
        b"promptCount" => Key::Input,
        b"thoughtCount" => Key::UsageReasoning,
        b"thoughtSeal" => Key::Metadata,
        b"answerCount" => Key::Output,
        b"counts" => Key::Usage,
        b"details" => Key::CompletionDetails,
        b"kind" => Key::Type,
        _ => Key::Other,
    }
}

pub(super) const BODY: DocumentRules = DocumentRules {
    key,
    name: at::TYPE,
    kind: stream::body_kind,
    is_untyped: true,
    text_class: TextClass::piece,
    wrapper: None,
    main_list: at::CHOICES,
    text: TextPlaces {
        outer: KeySet::of(&[Key::Choices]),
        inner: KeySet::of(&[Key::Item]),
    },
    whole_text: None,
    reasoning: &[],
    stored_ids: &[],
    containers: &[],
    usage_is_complete: true,
};

pub(super) const EVENT: DocumentRules = DocumentRules {
    kind: stream::event_kind,
    ..BODY
};
