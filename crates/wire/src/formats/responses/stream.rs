//! The events of a responses stream.

use super::super::rules::StreamRules;
use crate::answer::{kind::EventKind, text::TextClass};

pub(super) const RULES: StreamRules = StreamRules {
    ends_with_marker: false,
    ends_with_choices: false,
};

pub(super) fn body_kind(object: &[u8]) -> EventKind {
    match object {
        b"response" => EventKind::Content,
        _ => EventKind::of_any_body(object),
    }
}

/// By `type`.
pub(super) fn event_kind(name: &[u8]) -> EventKind {
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
pub(super) fn text_class(name: &[u8]) -> TextClass {
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
        _ => TextClass::Piece,
    }
}
