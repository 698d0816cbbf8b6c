//! Google Gemini: `generateContent` and `streamGenerateContent`.
//!
//! The path names the model and says whether the answer is a stream. An event is a whole
//! response; the stream ends with the connection, after a finish reason.

use super::rules::{
    Conversation, DocumentRules, Entry, EntryRules, ErrorRules, FormatRules, Lack,
    OutputLimitRules, RequestRules, StreamRules, TextPlaces, ToolRules, UsageRules,
};
use crate::{
    answer::{
        at,
        kind::EventKind,
        path::{Key, KeySet},
    },
    headers::HeaderRules,
    peek::{
        location::{self, Checked, Location, Settings, Slot, Table},
        node::NodeFlags,
    },
    render::event,
    usage::Counting,
};
use serde_json::{Value, json};
use tollgate_types::{PublicError, RequestId};

pub(super) const RULES: FormatRules = FormatRules {
    request: RequestRules {
        has_model_in_address: true,
        top,
        node,
        conversation: Conversation {
            field: "contents",
            wanted: "an array of contents",
            wanted_entry: "an array of at least one content",
            takes_text: false,
            takes_values: false,
            entry: Slot::Content,
        },
        entries: EntryRules {
            null_role: true,
            lacks: content_lacks,
            ..EntryRules::STRICT
        },
        tools: ToolRules {
            kind_is_key: true,
            ..ToolRules::ANY
        },
        output_limit: OutputLimitRules {
            field: "generationConfig.maxOutputTokens",
            is_required: false,
        },
        effort: THINKING_LEVEL,
        two_spellings: true,
        capital_efforts: true,
        ..RequestRules::USUAL
    },
    body: BODY,
    event: DocumentRules {
        kind: EventKind::of_any,
        ..BODY
    },
    stream: StreamRules {
        ends_with_marker: false,
        ends_with_choices: true,
    },
    usage: UsageRules {
        counting: Counting::Apart,
        is_on_request: false,
    },
    errors: ErrorRules {
        body: |error, request| body(error, request).to_string().into_bytes(),
        end_stream: |out, _, error, request| event(out, None, &body(error, request)),
    },
    headers: HeaderRules {
        request_id: None,
        version: None,
        vendor: "x-goog-",
    },
};

const THINKING_LEVEL: &str = "generationConfig.thinkingConfig.thinkingLevel";

fn top(key: &[u8]) -> Slot {
    match key {
        b"contents" => Slot::Conversation,
        b"systemInstruction" | b"system_instruction" => Slot::Content,
        // Google reads the names of fields in either spelling.
        b"generationConfig" | b"generation_config" => Slot::Settings(&GENERATION_CONFIG),
        b"cachedContent" | b"cached_content" => Slot::StoredId,
        b"generateContentRequest" | b"generate_content_request" => Slot::Within(Location::Counted),
        // The path has both.
        b"model" => Slot::PathModel("model"),
        b"stream" => Slot::Json,
        _ => location::top(key),
    }
}

static GENERATION_CONFIG: Settings = Settings {
    field: "generationConfig",
    location: Location::OutputSettings(Table(|key| match key {
        b"candidateCount" | b"candidate_count" => Slot::Choices("generationConfig.candidateCount"),
        b"maxOutputTokens" | b"max_output_tokens" => Slot::OutputLimit,
        b"temperature" => Slot::Checked(Checked::Temperature),
        b"responseMimeType" | b"response_mime_type" => Slot::AnswerMediaType,
        b"responseModalities" | b"response_modalities" => Slot::Modalities,
        b"seed" => Slot::Seed,
        b"thinkingConfig" | b"thinking_config" => Slot::Settings(&THINKING_CONFIG),
        // Of Vertex AI.
        b"modelConfig" | b"model_config" => Slot::FurtherModels("generationConfig.modelConfig"),
        b"modelSelectionConfig" | b"model_selection_config" => {
            Slot::FurtherModels("generationConfig.modelSelectionConfig")
        }
        b"routingConfig" | b"routing_config" => {
            Slot::FurtherModels("generationConfig.routingConfig")
        }
        _ => Slot::Ignored,
    })),
};

static THINKING_CONFIG: Settings = Settings {
    field: "generationConfig.thinkingConfig",
    location: Location::Table(Table(|key| match key {
        b"thinkingBudget" | b"thinking_budget" => Slot::Thinks,
        b"thinkingLevel" | b"thinking_level" => Slot::Effort(THINKING_LEVEL),
        _ => Slot::Ignored,
    })),
};

fn node(key: &[u8]) -> Slot {
    match key {
        b"parts" => Slot::NodeContent,
        b"inlineData" | b"inline_data" | b"fileData" | b"file_data" => Slot::Blob,
        // Of a call and of its result.
        b"args" | b"response" => Slot::Json,
        b"thoughtSignature" | b"thought_signature" => Slot::Seal,
        _ => location::node(key),
    }
}

fn content_lacks(content: Entry) -> Option<Lack> {
    let has_parts = content.members.contains(NodeFlags::CONTENT);
    (!has_parts).then_some(Lack::of(".parts"))
}

fn key(name: &[u8]) -> Key {
    match name {
        b"args" => Key::Arguments,
        b"blockReason" => Key::BlockReason,
        b"cacheTokensDetails" => Key::CacheDetails,
        b"cachedContentTokenCount" => Key::CacheRead,
        b"candidates" => Key::Choices,
        b"candidatesTokenCount" => Key::Output,
        b"candidatesTokensDetails" => Key::CompletionDetails,
        b"content" => Key::Delta,
        b"error" => Key::Error,
        b"finishReason" => Key::FinishReason,
        b"groundingMetadata" => Key::Grounding,
        b"index" => Key::Index,
        b"modality" => Key::PartKind,
        b"modelVersion" => Key::Model,
        b"promptFeedback" => Key::PromptFeedback,
        b"promptTokenCount" => Key::Input,
        b"promptTokensDetails" => Key::PromptDetails,
        b"responseId" => Key::Id,
        b"role" => Key::Role,
        // Vertex AI has the second one.
        b"serviceTier" | b"trafficType" => Key::ServiceTier,
        b"tokenCount" => Key::Tokens,
        b"thoughtsTokenCount" => Key::UsageReasoning,
        b"toolUsePromptTokenCount" => Key::ToolInput,
        b"totalTokenCount" => Key::Total,
        b"usageMetadata" => Key::Usage,
        b"webSearchQueries" => Key::SearchCalls,
        // Ids, types, signatures, data, and descriptions of the text.
        b"avgLogprobs"
        | b"citationMetadata"
        | b"codeExecutionResult"
        | b"data"
        | b"fileData"
        | b"finishMessage"
        | b"id"
        | b"inlineData"
        | b"logprobsResult"
        | b"safetyRatings"
        | b"thoughtSignature"
        | b"urlContextMetadata" => Key::Metadata,
        _ => Key::Other,
    }
}

const BODY: DocumentRules = DocumentRules {
    key,
    kind: EventKind::of_any_body,
    main_list: at::CHOICES,
    text: TextPlaces {
        outer: KeySet::of(&[Key::Choices]),
        inner: KeySet::of(&[Key::Item]),
    },
    // Numbers of a stream are running totals, and zeros are not written.
    ..DocumentRules::PLAIN
};

fn body(error: &PublicError, request: &RequestId) -> Value {
    let mut details = vec![json!({
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": error.code.as_str().to_ascii_uppercase(),
        "metadata": {"request_id": request.as_str()},
    })];
    if let Some(wait) = error.retry_after {
        details.push(json!({
            "@type": "type.googleapis.com/google.rpc.RetryInfo",
            "retryDelay": format!("{}s", wait.as_secs_f64()),
        }));
    }
    if let Some(field) = &error.param {
        details.push(json!({
            "@type": "type.googleapis.com/google.rpc.BadRequest",
            "fieldViolations": [{"field": field, "description": error.message}],
        }));
    }
    json!({"error": {
        "code": error.status,
        "message": error.message,
        "status": status(error.status),
        "details": details,
    }})
}

/// The name of a status (`google.rpc.Code`).
const fn status(status: u16) -> &'static str {
    match status {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        402 | 429 => "RESOURCE_EXHAUSTED",
        408 | 504 => "DEADLINE_EXCEEDED",
        409 => "ABORTED",
        405 | 501 => "UNIMPLEMENTED",
        502 | 503 | 529 => "UNAVAILABLE",
        500.. => "INTERNAL",
        _ => "INVALID_ARGUMENT",
    }
}
