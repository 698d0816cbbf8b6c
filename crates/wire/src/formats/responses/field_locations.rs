//! Where responses keep what the gateway reads.

use super::{
    super::rules::{
        Conversation, DocumentRules, Entry, EntryRules, Lack, OutputLimitRules, RequestRules,
        TextPlaces, ToolRules, Wrapper,
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
        field: "input",
        wanted: "a string or an array of items",
        wanted_entry: "a string or an array of at least one item",
        takes_text: true,
        takes_values: false,
        entry: Slot::Item,
    },
    entries: EntryRules {
        roles: None,
        null_role: true,
        type_is_string: true,
        null_content: true,
        object_content: true,
        lacks: item_lacks,
    },
    tools: ToolRules {
        function_is_object: false,
        kind_is_key: false,
        lacks: tool_lacks,
    },
    output_limit: OutputLimitRules {
        field: "max_output_tokens",
        is_required: false,
    },
    effort: "reasoning.effort",
    has_thinking_budget: false,
    null_is_absent: true,
};

fn top(key: &[u8]) -> Slot {
    match key {
        b"input" => Slot::Conversation,
        b"instructions" => Slot::Content,
        b"max_output_tokens" => Slot::OutputLimit,
        b"reasoning" => Slot::Settings(&location::REASONING),
        b"text" => Slot::Settings(&TEXT_SETTINGS),
        b"background" => Slot::Background,
        b"store" => Slot::Store,
        b"previous_response_id" | b"conversation" => Slot::Reference,
        b"prompt" => Slot::Prompt,
        b"context_management" => location::CHANGE,
        b"stream_options" => Slot::Settings(&location::STREAM_OPTIONS),
        b"prompt_cache_key" => Slot::CacheKey,
        b"tool_choice" => Slot::Checked(Checked::ToolChoice),
        b"parallel_tool_calls" => Slot::Checked(Checked::ParallelToolCalls),
        _ => location::top(key),
    }
}

static TEXT_SETTINGS: Settings = Settings {
    field: "text",
    location: Location::Table(Table(|key| match key {
        b"format" => Slot::Settings(&TEXT_FORMAT),
        _ => Slot::Ignored,
    })),
};

static TEXT_FORMAT: Settings = Settings {
    field: "text.format",
    location: Location::AnswerFormat,
};

fn node(key: &[u8]) -> Slot {
    match key {
        b"result" => Slot::MaybePayload,
        b"encrypted_content" => Slot::Seal,
        // A tool search.
        b"arguments" => Slot::Json,
        _ => location::openai_node(key),
    }
}

fn item_lacks(item: Entry) -> Option<Lack> {
    let has = |member| item.members.contains(member);
    let is_known = item.has_id || has(NodeFlags::TYPED) || has(NodeFlags::ROLE);
    (!is_known).then_some(Lack {
        field: "",
        problem: "must have a 'type' or a 'role'",
    })
}

fn tool_lacks(tool: NodeFlags) -> Option<&'static str> {
    let has = |member| tool.contains(member);
    let is_unnamed = !has(NodeFlags::FUNCTION) && !has(NodeFlags::NAMED);
    (has(NodeFlags::IS_FUNCTION) && is_unnamed).then_some(".name")
}

const OUTPUT: TextPlaces = TextPlaces::below(KeySet::of(&[Key::Output]));

pub(super) const BODY: DocumentRules = DocumentRules {
    key: Key::of,
    name: at::OBJECT,
    kind: stream::body_kind,
    is_untyped: false,
    text_class: TextClass::piece,
    wrapper: None,
    main_list: at::OUTPUT,
    text: OUTPUT,
    whole_text: None,
    reasoning: &[],
    stored_ids: &[at::ITEM_ID, at::OUTPUT_ID, at::CONVERSATION_ID],
    containers: &[at::ITEM_CONTAINER, at::OUTPUT_CONTAINER],
    usage_is_complete: false,
};

pub(super) const EVENT: DocumentRules = DocumentRules {
    name: at::TYPE,
    kind: stream::event_kind,
    text_class: stream::text_class,
    wrapper: Some(Wrapper {
        key: Key::Response,
        text: OUTPUT,
        has_identity: true,
        usage_is_early: false,
    }),
    // Events keep their content in members of many names.
    text: TextPlaces::below(KeySet::ANY),
    ..BODY
};
