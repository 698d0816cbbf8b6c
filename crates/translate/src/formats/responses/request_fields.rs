//! The fields of a responses request.

pub(crate) mod items;
pub(crate) mod tools;

pub(crate) use {items::*, tools::*};

use crate::{
    features::Feature as F,
    table::{core, declare_kinds, declare_shapes, dropped, field, implied, refused, tag},
};

declare_shapes! {
    TOP: &[""], &[] => &[
        field("access_programs", F::AccessPrograms).whole(),
        field("background", F::Background).unless(&["false"]),
        dropped("background_options", "only answers in the background use it").whole(),
        field("context_management", F::ContextManagement).whole().unless(&["[]"]),
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
        refused("previous_response_id", "the gateway does not remember that answer: send the whole history"),
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
        dropped("client_metadata", "it is the client's own record").whole().extra(),
    ];

    TEXT_CONFIG: &["text"], &[] => &[
        field("format", F::AnswerFormats),
        field("verbosity", F::Verbosity),
    ];

    FORMAT_OBJECT: &["text.format"], &["json_object"] => &[tag("type")];

    FORMAT_SCHEMA: &["text.format"], &["json_schema"] => &[
        tag("type"),
        field("name", F::SchemaNames),
        field("description", F::SchemaDescriptions),
        core("schema").whole(),
        field("strict", F::SchemaStrictness),
    ];

    REASONING: &["reasoning"], &[] => &[
        field("effort", F::Effort),
        field("summary", F::ReasoningShown),
        field("generate_summary", F::ReasoningShown).how("as `summary`"),
        field("context", F::ReasoningContext).unless(&["\"auto\""]),
        field("mode", F::ReasoningModes).unless(&["\"standard\""]),
    ];

    STREAM_OPTIONS: &["stream_options"], &[] => &[field("include_obfuscation", F::StreamPadding).unless(&["false"])];

    CACHE_OPTIONS: &["prompt_cache_options"], &[] => &[
        field("mode", F::CacheModes),
        field("ttl", F::CacheLifetimes),
        field("comparison_response_id", F::CacheComparison),
        field("prewarm", F::CacheWarming).unless(&["false"]),
    ];
}

declare_kinds! {
    FORMATS: &["text.format"] => &[
        implied("text", "it is the default"),
        field("json_object", F::JsonObjects),
        core("json_schema"),
    ];
}
