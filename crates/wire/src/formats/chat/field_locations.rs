//! Where chat keeps what the gateway reads.

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
        location::{self, Checked, Location, Medium, Settings, Slot},
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
        roles: None,
        null_role: false,
        type_is_string: false,
        null_content: true,
        object_content: false,
        lacks: message_lacks,
    },
    tools: ToolRules {
        function_is_object: true,
        kind_is_key: false,
        lacks: tool_lacks,
    },
    output_limit: OutputLimitRules {
        field: "max_completion_tokens",
        is_required: false,
    },
    effort: "reasoning_effort",
    has_thinking_budget: false,
    null_is_absent: true,
};

fn top(key: &[u8]) -> Slot {
    match key {
        b"messages" => Slot::Conversation,
        b"functions" => Slot::Functions,
        b"max_completion_tokens" => Slot::OutputLimit,
        b"max_tokens" => Slot::OlderOutputLimit("max_tokens"),
        b"n" => Slot::Choices("n"),
        b"reasoning_effort" => Slot::Effort("reasoning_effort"),
        b"reasoning" => Slot::Settings(&location::REASONING),
        b"response_format" => Slot::Settings(&RESPONSE_FORMAT),
        b"modalities" => Slot::Modalities,
        b"audio" => Slot::AudioOutput,
        b"prediction" => Slot::Content,
        b"stream_options" => Slot::Settings(&location::STREAM_OPTIONS),
        b"prompt_cache_key" => Slot::CacheKey,
        b"tool_choice" => Slot::Checked(Checked::ToolChoice),
        b"parallel_tool_calls" => Slot::Checked(Checked::ParallelToolCalls),
        b"presence_penalty" => Slot::Checked(Checked::PresencePenalty),
        b"frequency_penalty" => Slot::Checked(Checked::FrequencyPenalty),
        b"stop" => Slot::Checked(Checked::Stop),
        _ => location::top(key),
    }
}

static RESPONSE_FORMAT: Settings = Settings {
    field: "response_format",
    location: Location::AnswerFormat,
};

fn node(key: &[u8]) -> Slot {
    match key {
        b"file" => Slot::Payload(Medium::Document),
        b"tool_calls" | b"function_call" => Slot::ToolCalls,
        // An answer in sound that the provider stores, named by its id.
        b"audio" => Slot::Reference,
        // Encrypted reasoning.
        b"data" => Slot::Seal,
        _ => location::openai_node(key),
    }
}

fn message_lacks(message: Entry) -> Option<Lack> {
    let has_role = message.members.contains(NodeFlags::ROLE);
    (!has_role).then_some(Lack::of(".role"))
}

fn tool_lacks(tool: NodeFlags) -> Option<&'static str> {
    if tool.contains(NodeFlags::FUNCTION) {
        let is_named = tool.contains(NodeFlags::NAMED);
        return (!is_named).then_some(".function.name");
    }
    tool.contains(NodeFlags::IS_FUNCTION).then_some(".function")
}

/// The same in a whole answer and in a chunk of a stream.
const TEXT: TextPlaces = TextPlaces {
    outer: KeySet::of(&[Key::Choices]),
    inner: KeySet::of(&[Key::Item]),
};

pub(super) const BODY: DocumentRules = DocumentRules {
    key: Key::of,
    name: at::OBJECT,
    kind: stream::body_kind,
    is_untyped: true,
    text_class: TextClass::piece,
    wrapper: None,
    main_list: at::CHOICES,
    text: TEXT,
    whole_text: None,
    reasoning: &[Key::Reasoning, Key::ReasoningContent, Key::ReasoningDetails],
    stored_ids: &[],
    containers: &[],
    usage_is_complete: true,
};

pub(super) const EVENT: DocumentRules = DocumentRules {
    kind: stream::chunk_kind,
    // Groq reports usage in an object of its own, with an id of its own.
    wrapper: Some(Wrapper {
        key: Key::XGroq,
        text: TextPlaces::NONE,
        has_identity: false,
        usage_is_early: false,
    }),
    // Some servers repeat the whole message in the last chunk.
    whole_text: Some(at::MESSAGE),
    ..BODY
};
