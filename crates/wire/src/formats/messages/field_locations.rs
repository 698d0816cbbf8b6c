//! Where messages keep what the gateway reads.

use super::{
    super::rules::{
        Conversation, DocumentRules, Entry, EntryRules, Lack, OutputLimitRules, RequestRules,
        Roles, TextPlaces, ToolRules, Wrapper,
    },
    stream,
};
use crate::{
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
    address: None,
    top,
    node,
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
            names: &[b"user", b"assistant", b"system"],
            problem: "must be 'user', 'assistant' or 'system'",
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
        lacks: tool_lacks,
    },
    output_limit: OutputLimitRules {
        field: "max_tokens",
        is_required: true,
    },
    effort: "output_config.effort",
    has_thinking_budget: true,
    // The types of the format have no `null`.
    null_is_absent: false,
};

fn top(key: &[u8]) -> Slot {
    match key {
        b"messages" => Slot::Conversation,
        b"system" => Slot::Content,
        b"max_tokens" => Slot::OutputLimit,
        b"thinking" => Slot::Settings(&THINKING),
        b"output_config" => Slot::Settings(&OUTPUT_CONFIG),
        // An older location for the same.
        b"output_format" => Slot::Settings(&OUTPUT_FORMAT),
        b"container" => Slot::Container,
        b"thread" => Slot::Thread,
        b"mcp_servers" => Slot::HostedTools,
        b"context_management" => CONTEXT_MANAGEMENT,
        b"tool_choice" => Slot::Checked(Checked::ToolChoiceObject),
        b"stop_sequences" => Slot::Checked(Checked::StopSequences),
        _ => location::top(key),
    }
}

const CONTEXT_MANAGEMENT: Slot = Slot::Within(Location::Table(Table(|key| match key {
    b"edits" => location::CHANGE,
    _ => Slot::Json,
})));

static THINKING: Settings = Settings {
    field: "thinking",
    location: Location::Thinking,
};

static OUTPUT_FORMAT: Settings = Settings {
    field: "output_format",
    location: Location::AnswerFormat,
};

static OUTPUT_CONFIG: Settings = Settings {
    field: "output_config",
    location: Location::Table(Table(|key| match key {
        b"effort" => Slot::Effort("output_config.effort"),
        b"format" => Slot::Settings(&CONFIGURED_FORMAT),
        _ => Slot::Ignored,
    })),
};

static CONFIGURED_FORMAT: Settings = Settings {
    field: "output_config.format",
    location: Location::AnswerFormat,
};

fn node(key: &[u8]) -> Slot {
    match key {
        b"source" => Slot::Source,
        // What only the provider can read or verify.
        b"signature" | b"data" | b"encrypted_content" | b"encrypted_index" => Slot::Seal,
        // A tool call.
        b"input" => Slot::Json,
        _ => location::node(key),
    }
}

fn message_lacks(message: Entry) -> Option<Lack> {
    let has = |member| message.members.contains(member);
    match () {
        () if !has(NodeFlags::ROLE) => Some(Lack::of(".role")),
        () if !has(NodeFlags::CONTENT) => Some(Lack::of(".content")),
        () => None,
    }
}

fn tool_lacks(tool: NodeFlags) -> Option<&'static str> {
    let has = |member| tool.contains(member);
    let is_custom = !has(NodeFlags::TYPED) || has(NodeFlags::IS_CUSTOM);
    (is_custom && !has(NodeFlags::NAMED)).then_some(".name")
}

const CONTENT: TextPlaces = TextPlaces::below(KeySet::of(&[Key::Content]));

pub(super) const BODY: DocumentRules = DocumentRules {
    key: Key::of,
    name: at::TYPE,
    kind: stream::body_kind,
    is_untyped: false,
    text_class: TextClass::piece,
    wrapper: None,
    main_list: at::CONTENT,
    text: CONTENT,
    whole_text: None,
    reasoning: &[],
    stored_ids: &[],
    containers: &[at::CONTAINER, at::DELTA_CONTAINER],
    // A stream reports its tokens in several events.
    usage_is_complete: false,
};

pub(super) const EVENT: DocumentRules = DocumentRules {
    kind: stream::event_kind,
    text_class: stream::text_class,
    // `message_start` reports one token of output or more, and `message_delta` how many there
    // were.
    wrapper: Some(Wrapper {
        key: Key::Message,
        text: CONTENT,
        has_identity: true,
        usage_is_early: true,
    }),
    text: TextPlaces::below(KeySet::of(&[Key::Delta, Key::ContentBlock])),
    ..BODY
};
