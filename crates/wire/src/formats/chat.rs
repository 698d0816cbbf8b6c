//! OpenAI Chat Completions, as its many servers speak it.

use super::rules::{
    DocumentRules, Entry, EntryRules, ErrorRules, FormatRules, Lack, OutputLimitRules,
    RequestRules, StreamRules, TextPlaces, ToolRules, UsageRules, Wrapper,
};
use crate::{
    answer::{
        at,
        kind::EventKind,
        path::{Key, KeySet},
    },
    headers::HeaderRules,
    peek::{
        location::{self, Checked, Location, Medium, Settings, Slot},
        node::NodeFlags,
    },
    render::{ErrorBody, event},
    usage::Counting,
};

pub(super) const RULES: FormatRules = FormatRules {
    request: RequestRules {
        top,
        node,
        entries: EntryRules {
            null_content: true,
            lacks: message_lacks,
            ..EntryRules::STRICT
        },
        tools: ToolRules {
            function_is_object: true,
            lacks: tool_lacks,
            ..ToolRules::ANY
        },
        output_limit: OutputLimitRules {
            field: "max_completion_tokens",
            is_required: false,
        },
        ..RequestRules::USUAL
    },
    body: BODY,
    event: DocumentRules {
        kind: chunk_kind,
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
    },
    stream: StreamRules {
        ends_with_marker: true,
        // Some providers close without `[DONE]`.
        ends_with_choices: true,
    },
    usage: UsageRules {
        counting: Counting::Inclusive,
        is_on_request: true,
    },
    errors: ErrorRules {
        body: |error, _| ErrorBody::plain(error).to_json(),
        end_stream: |out, _, error, _| event(out, None, &ErrorBody::plain(error)),
    },
    headers: HeaderRules {
        request_id: None,
        version: None,
        vendor: "openai-",
    },
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
        b"prediction" => Slot::Prediction,
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

const BODY: DocumentRules = DocumentRules {
    name: at::OBJECT,
    kind: body_kind,
    main_list: at::CHOICES,
    text: TEXT,
    reasoning: &[Key::Reasoning, Key::ReasoningContent, Key::ReasoningDetails],
    ..DocumentRules::PLAIN
};

/// By `object`: a chunk says nothing else about itself.
fn chunk_kind(object: &[u8]) -> EventKind {
    match is_known(object) {
        true => EventKind::Unnamed,
        false => EventKind::of_any(object),
    }
}

fn body_kind(object: &[u8]) -> EventKind {
    match is_known(object) {
        true => EventKind::Content,
        false => EventKind::of_any_body(object),
    }
}

/// Some servers call a chunk like a whole answer, or like one of the older completions. Azure
/// has its own name for chunks with data of the operator.
fn is_known(object: &[u8]) -> bool {
    matches!(
        object,
        b"chat.completion.chunk"
            | b"chat.completion"
            | b"extensions.chat.completion.chunk"
            | b"extensions.chat.completion"
            | b"text_completion"
            | b"completion"
    )
}
