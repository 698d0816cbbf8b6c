//! Amazon Bedrock: Converse and ConverseStream.
//!
//! The path names the model and says whether the answer is a stream. Streams are binary frames; the name of
//! an event is put into its data as `type` (`stream/amazon.rs`).

use super::rules::{
    DocumentRules, EntryRules, ErrorRules, FormatRules, OutputLimitRules, RequestRules, Roles,
    StreamRules, TextPlaces, UsageRules, lacks_role_or_content,
};
use crate::{
    answer::{
        at,
        kind::EventKind,
        path::{Key, KeySet},
    },
    headers::HeaderRules,
    peek::location::{self, Checked, Location, Settings, Slot, Table},
    render::event,
    usage::Counting,
};
use serde_json::{Value, json};
use tollgate_types::PublicError;

pub(super) const RULES: FormatRules = FormatRules {
    request: RequestRules {
        has_model_in_address: true,
        top,
        entries: EntryRules {
            roles: Some(Roles {
                names: &[b"user", b"assistant"],
                problem: "must be 'user' or 'assistant'",
            }),
            lacks: lacks_role_or_content,
            ..EntryRules::STRICT
        },
        output_limit: OutputLimitRules {
            field: "inferenceConfig.maxTokens",
            is_required: false,
        },
        effort: "outputConfig.effort",
        ..RequestRules::USUAL
    },
    body: BODY,
    event: DocumentRules {
        kind: event_kind,
        is_untyped: false,
        text: TextPlaces::below(KeySet::of(&[Key::Delta, Key::ContentBlock])),
        ..BODY
    },
    stream: StreamRules::WITH_END_EVENT,
    usage: UsageRules {
        counting: Counting::Exclusive,
        is_on_request: false,
    },
    errors: ErrorRules {
        body: |error, _| body(error).to_string().into_bytes(),
        end_stream: |out, _, error, _| event(out, Some("error"), &body(error)),
    },
    headers: HeaderRules {
        request_id: None,
        version: None,
        vendor: "x-amzn-",
    },
};

fn top(key: &[u8]) -> Slot {
    match key {
        b"messages" => Slot::Conversation,
        b"system" => Slot::Content,
        b"inferenceConfig" => Slot::Settings(&INFERENCE_CONFIG),
        // The path has both.
        b"model" => Slot::PathModel("model"),
        b"stream" => Slot::Json,
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

const BODY: DocumentRules = DocumentRules {
    key,
    kind: EventKind::of_any_body,
    main_list: at::OUTPUT_CONTENT,
    text: TextPlaces {
        outer: KeySet::of(&[Key::Output]),
        inner: KeySet::of(&[Key::Message]),
    },
    ..DocumentRules::PLAIN
};

const fn event_kind(name: &[u8]) -> EventKind {
    match name {
        b"messageStart" => EventKind::Preamble,
        b"contentBlockStart" | b"contentBlockDelta" | b"contentBlockStop" | b"messageStop" => {
            EventKind::Content
        }
        // Behind `messageStop`, with the usage.
        b"metadata" => EventKind::Terminal,
        _ => EventKind::of_any(name),
    }
}

fn body(error: &PublicError) -> Value {
    json!({"__type": error.code.as_str(), "message": error.message})
}
