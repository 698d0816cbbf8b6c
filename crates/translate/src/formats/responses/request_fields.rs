//! The fields of a responses request.

mod items;
mod tools;

pub(crate) use {items::*, tools::*};

use crate::{
    features::Feature as F,
    table::{Kinds, Shape, core, dropped, field, implied, refused, tag},
};

pub(crate) const SHAPES: &[&Shape] = &[
    &TOP,
    &MESSAGE,
    &INPUT_TEXT,
    &OUTPUT_TEXT,
    &REFUSAL,
    &IMAGE,
    &FILE,
    &BREAKPOINT,
    &FUNCTION_CALL,
    &FUNCTION_OUTPUT,
    &CUSTOM_CALL,
    &CUSTOM_OUTPUT,
    &REASONING_ITEM,
    &THOUGHT,
    &SEARCH_CALL,
    &COMPACTION,
    &COMPACTION_TRIGGER,
    &TOOL_SEARCH_CALL,
    &TOOL_SEARCH_OUTPUT,
    &ADDITIONAL_TOOLS,
    &FUNCTION_TOOL,
    &CUSTOM_TOOL,
    &CUSTOM_TEXT,
    &CUSTOM_GRAMMAR,
    &NAMESPACE,
    &WEB_SEARCH,
    &WEB_SEARCH_PREVIEW,
    &SEARCH_FILTERS,
    &USER_LOCATION,
    &CHOICE_NAMED,
    &CHOICE_SEARCH,
    &CHOICE_ALLOWED,
    &TEXT_CONFIG,
    &FORMAT_OBJECT,
    &FORMAT_SCHEMA,
    &REASONING,
    &STREAM_OPTIONS,
    &CACHE_OPTIONS,
];

pub(crate) const KINDS: &[&Kinds] = &[
    &ITEMS,
    &PARTS,
    &OUTPUT_PARTS,
    &SUMMARIES,
    &TOOLS,
    &CHOICES,
    &ALLOWED,
    &FORMATS,
    &CUSTOM_FORMATS,
];

pub(crate) static TOP: Shape = Shape {
    at: &[""],
    tags: &[],
    rows: &[
        field("access_programs", F::AccessPrograms).whole(),
        field("background", F::Background).unless(&["false"]),
        field("context_management", F::ContextManagement)
            .whole()
            .unless(&["[]"]),
        field("conversation", F::StoredConversations).whole(),
        field("image", F::ImageOptions).whole(),
        field("include", F::Includes),
        core("input").how("`messages`, turn by turn, in order"),
        field("instructions", F::Instructions),
        field("max_output_tokens", F::OutputLimit).how("the target's output limit"),
        field("max_tool_calls", F::HostedCallLimit),
        field("metadata", F::Metadata).whole(),
        core("model").how("the name that the provider knows it by"),
        field("moderation", F::Moderation).whole(),
        field("parallel_tool_calls", F::ParallelCalls),
        refused(
            "previous_response_id",
            "the gateway does not remember that answer: send the whole history",
        ),
        field("prompt", F::StoredPrompts).whole(),
        field("prompt_cache_key", F::CacheKey),
        field("prompt_cache_options", F::CacheOptions),
        field("prompt_cache_retention", F::CacheRetention),
        field("reasoning", F::Effort),
        field("safety_identifier", F::UserId),
        field("service_tier", F::ServiceTier),
        core("store").how("the gateway remembers the answer; refused where it remembers none"),
        core("stream_options").how("as the gateway streams"),
        field("temperature", F::Temperature),
        field("text", F::AnswerFormats),
        field("tool_choice", F::ToolChoice).how("its own spelling"),
        field("tools", F::Tools),
        field("top_logprobs", F::TopLogprobs).unless(&["0"]),
        field("top_p", F::TopP),
        field("truncation", F::Truncation).unless(&["\"disabled\""]),
        field("user", F::UserId),
        core("stream"),
        dropped("client_metadata", "it is the client's own record")
            .whole()
            .extra(),
    ],
};

pub(crate) static TEXT_CONFIG: Shape = Shape {
    at: &["text"],
    tags: &[],
    rows: &[
        field("format", F::AnswerFormats),
        field("verbosity", F::Verbosity),
    ],
};

pub(crate) static FORMATS: Kinds = Kinds {
    at: &["text.format"],
    rows: &[
        implied("text", "it is the default"),
        field("json_object", F::JsonObjects),
        core("json_schema"),
    ],
};

pub(crate) static FORMAT_OBJECT: Shape = Shape {
    at: &["text.format"],
    tags: &["json_object"],
    rows: &[tag("type")],
};

pub(crate) static FORMAT_SCHEMA: Shape = Shape {
    at: &["text.format"],
    tags: &["json_schema"],
    rows: &[
        tag("type"),
        field("name", F::SchemaNames),
        field("description", F::SchemaDescriptions),
        core("schema").whole(),
        field("strict", F::SchemaStrictness),
    ],
};

pub(crate) static REASONING: Shape = Shape {
    at: &["reasoning"],
    tags: &[],
    rows: &[
        field("effort", F::Effort),
        field("summary", F::ReasoningShown),
        field("generate_summary", F::ReasoningShown).how("as `summary`"),
        field("context", F::ReasoningContext).unless(&["\"auto\""]),
        field("mode", F::ReasoningModes).unless(&["\"standard\""]),
    ],
};

pub(crate) static STREAM_OPTIONS: Shape = Shape {
    at: &["stream_options"],
    tags: &[],
    rows: &[field("include_obfuscation", F::StreamPadding).unless(&["false"])],
};

pub(crate) static CACHE_OPTIONS: Shape = Shape {
    at: &["prompt_cache_options"],
    tags: &[],
    rows: &[
        field("mode", F::CacheModes),
        field("ttl", F::CacheLifetimes),
        field("comparison_response_id", F::CacheComparison),
        field("prewarm", F::CacheWarming).unless(&["false"]),
    ],
};
