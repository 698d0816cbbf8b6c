//! Where Converse keeps what the gateway reads. Source: the model of the service in its SDK
//! (aws-sdk-bedrockruntime 1.153).

use super::{
    super::rules::{
        Conversation, DocumentRules, Entry, EntryRules, Lack, OutputLimitRules, RequestRules,
        Roles, TextPlaces, ToolRules,
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
        location::{self, Checked, Location, Settings, Slot, Table},
        node::NodeFlags,
    },
};

pub(super) const REQUEST: RequestRules = RequestRules {
    address: Some(AddressRules {
        whole: "/model/{model}/converse",
        streamed: "/model/{model}/converse-stream",
    }),
    top,
    node: location::node,
    conversation: Conversation {
        field: "messages",
        wanted: "an array of messages",
        wanted_entry: "an array of at least one message",
        takes_text: false,
        takes_values: false,
        entry: Slot::Content,
    },
    entries: EntryRules {
        roles: Some(Roles {
            names: &[b"user", b"assistant"],
            problem: "must be 'user' or 'assistant'",
        }),
        null_role: false,
        type_is_string: false,
        null_content: false,
        object_content: false,
        lacks: message_lacks,
    },
    tools: ToolRules {
        function_is_object: false,
        kind_is_key: false,
        lacks: |_| None,
    },
    output_limit: OutputLimitRules {
        field: "inferenceConfig.maxTokens",
        is_required: false,
    },
    effort: "outputConfig.effort",
    has_thinking_budget: false,
    null_is_absent: true,
};

fn top(key: &[u8]) -> Slot {
    match key {
        b"messages" => Slot::Conversation,
        b"system" => Slot::Content,
        b"inferenceConfig" => Slot::Settings(&INFERENCE_CONFIG),
        // The address has them.
        b"model" | b"stream" => Slot::Json,
        _ => location::top(key),
    }
}

static INFERENCE_CONFIG: Settings = Settings {
    field: "inferenceConfig",
    location: Location::OutputSettings(Table(|key| match key {
        b"maxTokens" => Slot::OutputLimit,
        b"temperature" => Slot::Checked(Checked::Temperature),
        _ => Slot::Ignored,
    })),
};

fn message_lacks(message: Entry) -> Option<Lack> {
    let has = |member| message.members.contains(member);
    match () {
        () if !has(NodeFlags::ROLE) => Some(Lack::of(".role")),
        () if !has(NodeFlags::CONTENT) => Some(Lack::of(".content")),
        () => None,
    }
}

fn key(name: &[u8]) -> Key {
    match name {
        b"cacheDetails" => Key::PromptDetails,
        b"cacheReadInputTokens" => Key::CacheRead,
        b"cacheWriteInputTokens" => Key::CacheWrite,
        b"content" => Key::Content,
        b"delta" => Key::Delta,
        b"error" => Key::Error,
        b"input" => Key::Arguments,
        b"inputTokens" => Key::Input,
        b"message" => Key::Message,
        b"output" | b"outputTokens" => Key::Output,
        b"role" => Key::Role,
        b"serviceTier" => Key::ServiceTier,
        b"start" => Key::ContentBlock,
        b"stopReason" => Key::StopReason,
        b"totalTokens" => Key::Total,
        b"ttl" => Key::PartKind,
        b"type" => Key::Type,
        b"usage" => Key::Usage,
        // Ids, signatures, data, and descriptions of the text.
        b"citation" | b"citations" | b"image" | b"redactedContent" | b"signature"
        | b"toolResult" | b"toolUseId" => Key::Metadata,
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
    main_list: at::OUTPUT_CONTENT,
    text: TextPlaces {
        outer: KeySet::of(&[Key::Output]),
        inner: KeySet::of(&[Key::Message]),
    },
    whole_text: None,
    reasoning: &[],
    stored_ids: &[],
    containers: &[],
    usage_is_complete: true,
};

pub(super) const EVENT: DocumentRules = DocumentRules {
    kind: stream::event_kind,
    is_untyped: false,
    text: TextPlaces::below(KeySet::of(&[Key::Delta, Key::ContentBlock])),
    ..BODY
};
