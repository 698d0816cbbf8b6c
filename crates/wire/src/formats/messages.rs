//! Anthropic Messages.

use super::rules::{
    DocumentRules, EntryRules, ErrorRules, FormatRules, OutputLimitRules, RequestRules, Roles,
    StreamRules, TextPlaces, ToolRules, UsageRules, Wrapper, lacks_role_or_content,
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
    render::{ErrorBody, event},
    usage::Counting,
};
use http::{HeaderName, HeaderValue};
use tollgate_types::{PublicError, RequestId};

pub(super) const RULES: FormatRules = FormatRules {
    request: RequestRules {
        top,
        node,
        entries: EntryRules {
            roles: Some(Roles {
                names: &[b"user", b"assistant", b"system"],
                problem: "must be 'user', 'assistant' or 'system'",
            }),
            lacks: lacks_role_or_content,
            ..EntryRules::STRICT
        },
        tools: ToolRules {
            lacks: tool_lacks,
            ..ToolRules::ANY
        },
        output_limit: OutputLimitRules {
            field: "max_tokens",
            is_required: true,
        },
        effort: "output_config.effort",
        has_thinking_budget: true,
        // The types of the format have no `null`.
        null_is_absent: false,
        ..RequestRules::USUAL
    },
    body: BODY,
    event: DocumentRules {
        kind: event_kind,
        text_class,
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
    },
    stream: StreamRules::WITH_END_EVENT,
    usage: UsageRules {
        counting: Counting::Exclusive,
        is_on_request: false,
    },
    errors: ErrorRules {
        body: |error, request| body(error, request).to_json(),
        end_stream: |out, _, error, request| event(out, Some("error"), &body(error, request)),
    },
    headers: HeaderRules {
        request_id: Some(HeaderName::from_static("request-id")),
        version: Some((
            HeaderName::from_static("anthropic-version"),
            HeaderValue::from_static("2023-06-01"),
        )),
        vendor: "anthropic-",
    },
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

fn tool_lacks(tool: NodeFlags) -> Option<&'static str> {
    let has = |member| tool.contains(member);
    let is_custom = !has(NodeFlags::TYPED) || has(NodeFlags::IS_CUSTOM);
    (is_custom && !has(NodeFlags::NAMED)).then_some(".name")
}

const CONTENT: TextPlaces = TextPlaces::below(KeySet::of(&[Key::Content]));

const BODY: DocumentRules = DocumentRules {
    kind: body_kind,
    is_untyped: false,
    main_list: at::CONTENT,
    text: CONTENT,
    containers: &[at::CONTAINER, at::DELTA_CONTAINER],
    // A stream reports its tokens in several events.
    usage_is_complete: false,
    ..DocumentRules::PLAIN
};

fn body_kind(name: &[u8]) -> EventKind {
    match name {
        b"message" => EventKind::Content,
        _ => EventKind::of_any_body(name),
    }
}

/// By `type`.
fn event_kind(name: &[u8]) -> EventKind {
    match name {
        b"content_block_delta"
        | b"content_block_start"
        | b"content_block_stop"
        | b"message_delta" => EventKind::Content,
        b"message_start" => EventKind::Preamble,
        b"message_stop" => EventKind::Terminal,
        _ => EventKind::of_any(name),
    }
}

const fn text_class(name: &[u8]) -> TextClass {
    match name {
        b"message_start" => TextClass::Whole,
        _ => TextClass::Piece,
    }
}

/// The SDKs look for `type` and `request_id`. The format has no `param`: its messages name the
/// field.
fn body<'a>(error: &'a PublicError, request: &'a RequestId) -> ErrorBody<'a> {
    ErrorBody::plain(error)
        .without_param()
        .typed("error", request)
}
