//! Where Gemini keeps what the gateway reads. Source: the reference of `generateContent`
//! (`v1beta`).

use super::{
    super::rules::{
        Conversation, DocumentRules, Entry, EntryRules, Lack, OutputLimitRules, RequestRules,
        TextPlaces, ToolRules,
    },
    stream,
};
use crate::{
    address::AddressRules,
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
    address: Some(AddressRules {
        whole: "/v1beta/models/{model}:generateContent",
        streamed: "/v1beta/models/{model}:streamGenerateContent?alt=sse",
    }),
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
        roles: None,
        null_role: true,
        type_is_string: false,
        null_content: false,
        object_content: false,
        lacks: content_lacks,
    },
    tools: ToolRules {
        function_is_object: false,
        kind_is_key: true,
        lacks: |_| None,
    },
    output_limit: OutputLimitRules {
        field: "generationConfig.maxOutputTokens",
        is_required: false,
    },
    effort: "generationConfig.thinkingConfig.thinkingLevel",
    has_thinking_budget: false,
    null_is_absent: true,
};

fn top(key: &[u8]) -> Slot {
    match key {
        b"contents" => Slot::Conversation,
        b"systemInstruction" | b"system_instruction" => Slot::Content,
        // Google reads the names of fields in either spelling.
        b"generationConfig" | b"generation_config" => Slot::Settings(&GENERATION_CONFIG),
        b"cachedContent" | b"cached_content" => Slot::StoredId,
        b"generateContentRequest" | b"generate_content_request" => Slot::Within(Location::Counted),
        // The address has them.
        b"model" | b"stream" => Slot::Json,
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
        b"seed" => Slot::Seed,
        b"thinkingConfig" | b"thinking_config" => Slot::Settings(&THINKING_CONFIG),
        _ => Slot::Ignored,
    })),
};

static THINKING_CONFIG: Settings = Settings {
    field: "generationConfig.thinkingConfig",
    location: Location::Table(Table(|key| match key {
        b"thinkingBudget" | b"thinking_budget" | b"thinkingLevel" | b"thinking_level" => {
            Slot::Thinks
        }
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
        b"serviceTier" => Key::ServiceTier,
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

pub(super) const BODY: DocumentRules = DocumentRules {
    key,
    name: at::TYPE,
    kind: stream::body_kind,
    is_untyped: true,
    text_class: TextClass::piece,
    wrapper: None,
    main_list: at::CHOICES,
    text: TextPlaces {
        outer: KeySet::of(&[Key::Choices]),
        inner: KeySet::of(&[Key::Item]),
    },
    whole_text: None,
    reasoning: &[],
    stored_ids: &[],
    containers: &[],
    // Numbers of a stream are running totals, and zeros are not written.
    usage_is_complete: true,
};

pub(super) const EVENT: DocumentRules = DocumentRules {
    kind: stream::event_kind,
    ..BODY
};
