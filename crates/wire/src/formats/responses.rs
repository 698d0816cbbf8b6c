//! OpenAI Responses.

use super::rules::{
    Conversation, DocumentRules, Entry, EntryRules, ErrorRules, FormatRules, Lack,
    OutputLimitRules, RequestRules, StreamRules, TextPlaces, ToolRules, UsageRules, Wrapper,
};
use crate::{
    answer::{
        at,
        kind::EventKind,
        path::{Key, KeySet},
        text::TextClass,
    },
    headers::HeaderRules,
    peek::{
        location::{self, Checked, Location, Settings, Slot, Table},
        node::NodeFlags,
    },
    render::{ErrorBody, StreamTail, event},
    usage::Counting,
};
use serde_json::{Value, json};
use tollgate_types::{PublicError, RequestId};

pub(super) const RULES: FormatRules = FormatRules {
    request: RequestRules {
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
            null_role: true,
            type_is_string: true,
            null_content: true,
            object_content: true,
            lacks: item_lacks,
            ..EntryRules::STRICT
        },
        tools: ToolRules {
            lacks: tool_lacks,
            ..ToolRules::ANY
        },
        output_limit: OutputLimitRules {
            field: "max_output_tokens",
            is_required: false,
        },
        effort: "reasoning.effort",
        ..RequestRules::USUAL
    },
    body: BODY,
    event: DocumentRules {
        name: at::TYPE,
        kind: event_kind,
        text_class,
        wrapper: Some(Wrapper {
            key: Key::Response,
            text: OUTPUT,
            has_identity: true,
            usage_is_early: false,
        }),
        // Events keep their content in members of many names.
        text: TextPlaces::below(KeySet::ANY),
        ..BODY
    },
    stream: StreamRules::WITH_END_EVENT,
    usage: UsageRules {
        counting: Counting::Inclusive,
        is_on_request: false,
    },
    errors: ErrorRules {
        body: |error, _| ErrorBody::plain(error).to_json(),
        end_stream: |out, tail, error, request| {
            // SDKs raise on the first event; the Codex CLI reads only the second.
            event(out, Some("error"), &error_event(tail, error));
            let failed = failed_event(tail, error, request);
            event(out, Some("response.failed"), &failed);
        },
    },
    headers: HeaderRules {
        request_id: None,
        version: None,
        vendor: "openai-",
    },
};

fn top(key: &[u8]) -> Slot {
    match key {
        b"input" => Slot::Conversation,
        b"instructions" => Slot::Content,
        b"max_output_tokens" => Slot::OutputLimit,
        b"reasoning" => Slot::Settings(&location::REASONING),
        b"text" => Slot::Settings(&TEXT_SETTINGS),
        b"background" => Slot::Background("background"),
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

const BODY: DocumentRules = DocumentRules {
    name: at::OBJECT,
    kind: body_kind,
    is_untyped: false,
    main_list: at::OUTPUT,
    text: OUTPUT,
    stored_ids: &[at::ITEM_ID, at::OUTPUT_ID, at::CONVERSATION_ID],
    containers: &[at::ITEM_CONTAINER, at::OUTPUT_CONTAINER],
    usage_is_complete: false,
    ..DocumentRules::PLAIN
};

fn body_kind(object: &[u8]) -> EventKind {
    match object {
        b"response" => EventKind::Content,
        _ => EventKind::of_any_body(object),
    }
}

/// By `type`.
fn event_kind(name: &[u8]) -> EventKind {
    name.strip_prefix(b"response.")
        .map_or_else(|| EventKind::of_any(name), response_kind)
}

/// By the name behind `response.`.
const fn response_kind(name: &[u8]) -> EventKind {
    match name {
        b"created" | b"in_progress" | b"queued" => EventKind::Preamble,
        b"completed" | b"incomplete" => EventKind::Terminal,
        b"failed" => EventKind::Error,
        // Items and their parts.
        b"output_item.added"
        | b"output_item.done"
        | b"content_part.added"
        | b"content_part.done"
        | b"reasoning_part.added"
        | b"reasoning_part.done"
        | b"reasoning_summary_part.added"
        | b"reasoning_summary_part.done" => EventKind::Content,
        // Text.
        b"output_text.delta"
        | b"output_text.done"
        | b"output_text.annotation.added"
        | b"refusal.delta"
        | b"refusal.done"
        | b"reasoning.delta"
        | b"reasoning.done"
        | b"reasoning_text.delta"
        | b"reasoning_text.done"
        | b"reasoning_summary.delta"
        | b"reasoning_summary.done"
        | b"reasoning_summary_text.delta"
        | b"reasoning_summary_text.done"
        | b"audio.delta"
        | b"audio.done"
        | b"audio.transcript.delta"
        | b"audio.transcript.done"
        | b"audio_transcript.delta"
        | b"audio_transcript.done" => EventKind::Content,
        // Calls of the client's tools.
        b"function_call_arguments.delta"
        | b"function_call_arguments.done"
        | b"custom_tool_call_input.delta"
        | b"custom_tool_call_input.done"
        | b"apply_patch_call_operation_diff.delta"
        | b"apply_patch_call_operation_diff.done"
        | b"shell_call_command.added"
        | b"shell_call_command.delta"
        | b"shell_call_command.done" => EventKind::Content,
        // Calls of the provider's tools.
        b"mcp_call_arguments.delta"
        | b"mcp_call_arguments.done"
        | b"mcp_call.in_progress"
        | b"mcp_call.completed"
        | b"mcp_call.failed"
        | b"mcp_list_tools.in_progress"
        | b"mcp_list_tools.completed"
        | b"mcp_list_tools.failed"
        | b"web_search_call.in_progress"
        | b"web_search_call.searching"
        | b"web_search_call.completed"
        | b"file_search_call.in_progress"
        | b"file_search_call.searching"
        | b"file_search_call.completed"
        | b"code_interpreter_call.in_progress"
        | b"code_interpreter_call.interpreting"
        | b"code_interpreter_call.completed"
        | b"code_interpreter_call_code.delta"
        | b"code_interpreter_call_code.done"
        | b"shell_call_output_content.delta"
        | b"shell_call_output_content.done"
        | b"compaction.compacting"
        | b"image_generation_call.in_progress"
        | b"image_generation_call.generating"
        | b"image_generation_call.partial_image"
        | b"image_generation_call.completed" => EventKind::Content,
        _ => EventKind::Foreign,
    }
}

/// Events repeat the text of those before them: a part at its end, an item at its end, the whole
/// answer at its end. Extensions of providers follow the same suffixes.
fn text_class(name: &[u8]) -> TextClass {
    match name {
        b"response.output_item.done" => TextClass::ItemEnd,
        b"response.output_item.added" => TextClass::Item,
        b"response.created"
        | b"response.queued"
        | b"response.in_progress"
        | b"response.completed"
        | b"response.incomplete" => TextClass::Whole,
        _ if name.ends_with(b"_part.added") || name.ends_with(b"_part.done") => TextClass::Part,
        _ if name.starts_with(b"response.") && name.ends_with(b".done") => TextClass::Text,
        _ if name.ends_with(b"audio.delta") => TextClass::Sound,
        _ => TextClass::Piece,
    }
}

/// The error is nested, as the provider of the format sends it; the type in its SDK is flat.
fn error_event(tail: &StreamTail<'_>, error: &PublicError) -> Value {
    json!({
        "type": "error",
        "sequence_number": tail.next_sequence,
        "error": {
            "type": error.error_type().as_str(),
            "code": error.code.as_str(),
            "message": error.message,
            "param": error.param,
        },
    })
}

/// The terminal event, with every field that the types of a client require of a response. The
/// parameters of the request are not known here and have their defaults.
fn failed_event(tail: &StreamTail<'_>, error: &PublicError, request: &RequestId) -> Value {
    let made_up = format!("resp_{request}");
    json!({
        "type": "response.failed",
        "sequence_number": tail.next_sequence.saturating_add(1),
        "response": {
            "id": tail.response_id.unwrap_or(&made_up),
            "object": "response",
            "created_at": tail.created_at.unwrap_or(0),
            "completed_at": null,
            "status": "failed",
            "background": false,
            "error": { "code": error.code.as_str(), "message": error.message },
            "incomplete_details": null,
            "instructions": null,
            "max_output_tokens": null,
            "max_tool_calls": null,
            "model": tail.model.unwrap_or_default(),
            "output": [],
            "parallel_tool_calls": true,
            "previous_response_id": null,
            "prompt_cache_key": null,
            "reasoning": { "effort": null, "summary": null },
            "safety_identifier": null,
            "service_tier": "default",
            "store": false,
            "temperature": 1.0,
            "text": { "format": { "type": "text" } },
            "tool_choice": "auto",
            "tools": [],
            "top_logprobs": 0,
            "top_p": 1.0,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "truncation": "disabled",
            "usage": null,
            "user": null,
            "metadata": {},
        },
    })
}
