//! Which events each format defines, and what each does to its stream.
//!
//! This is an allow-list: an event that stands neither here nor among the extensions that the
//! operator names for a provider is none of the format's. Sources: the event types of the
//! providers' SDKs (openai 2.54, anthropic 2.11), the Open Responses specification, and
//! recorded traffic.

use std::sync::Arc;
use tollgate_types::Format;

/// Names of the events that a provider has beyond those of its format.
pub type StreamEvents = Arc<[Box<str>]>;

/// What an event does to its stream, by its name or type. In rising order: where name and
/// type disagree, the graver one counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EventKind {
    /// Has no name that says what it is.
    #[default]
    Unnamed,
    /// Comes before any content, or between.
    Preamble,
    /// Is content.
    Content,
    /// Ends the answer.
    Terminal,
    /// Has a name that the format does not define.
    Foreign,
    /// Is an error.
    Error,
}

impl EventKind {
    /// The kind of an event of this name or type; in chat, whose events have no type, of this
    /// `object`.
    pub(crate) fn of(format: Format, name: &[u8], extensions: &StreamEvents) -> Self {
        let kind = match (format, name) {
            (_, b"error") => Self::Error,
            // What an event without a name is called, says the specification of event streams.
            (_, b"" | b"message") => Self::Unnamed,
            (_, b"ping" | b"keepalive") => Self::Preamble,
            (Format::Chat, _) => of_chat(name),
            (Format::Messages, _) => of_messages(name),
            (Format::Responses, _) => name
                .strip_prefix(b"response.")
                .map_or(Self::Foreign, of_responses),
        };
        let is_extension = || {
            let mut names = extensions.iter();
            names.any(|extension| extension.as_bytes() == name)
        };
        match kind {
            Self::Foreign if is_extension() => Self::Content,
            kind => kind,
        }
    }

    /// The kind of a whole answer that calls itself so: by its `type` in messages, by its
    /// `object` in chat and responses.
    pub(crate) fn of_body(format: Format, name: &[u8]) -> Self {
        match (format, name) {
            (_, b"error") => Self::Error,
            (_, b"") => Self::Unnamed,
            (Format::Messages, b"message") | (Format::Responses, b"response") => Self::Content,
            (Format::Chat, _) if of_chat(name) == Self::Unnamed => Self::Content,
            _ => Self::Foreign,
        }
    }
}

/// By `object`. Some servers call a chunk like a whole answer, or like one of the older
/// completions; Azure has a name of its own for chunks with data of the operator's.
const fn of_chat(object: &[u8]) -> EventKind {
    match object {
        b"chat.completion.chunk"
        | b"chat.completion"
        | b"extensions.chat.completion.chunk"
        | b"extensions.chat.completion"
        | b"text_completion"
        | b"completion" => EventKind::Unnamed,
        _ => EventKind::Foreign,
    }
}

const fn of_messages(name: &[u8]) -> EventKind {
    match name {
        b"content_block_delta"
        | b"content_block_start"
        | b"content_block_stop"
        | b"message_delta" => EventKind::Content,
        b"message_start" => EventKind::Preamble,
        b"message_stop" => EventKind::Terminal,
        _ => EventKind::Foreign,
    }
}

/// By the name behind `response.`.
const fn of_responses(name: &[u8]) -> EventKind {
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
        // Calls of the caller's tools.
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
        | b"image_generation_call.in_progress"
        | b"image_generation_call.generating"
        | b"image_generation_call.partial_image"
        | b"image_generation_call.completed" => EventKind::Content,
        _ => EventKind::Foreign,
    }
}
