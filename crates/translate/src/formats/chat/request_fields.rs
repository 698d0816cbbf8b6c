//! The fields of a chat completions request.

pub(crate) mod messages;
pub(crate) mod tools;

pub(crate) use {messages::*, tools::*};

use crate::{
    features::Feature as F,
    table::{Row, core, declare_kinds, declare_shapes, field, implied, refused, tag},
};

/// The values of `top_k` with which every token may be drawn.
pub(crate) const ALL_TOKENS: &[&str] = &["0", "-1"];

const CACHE_CONTROL_ROW: Row = field("cache_control", F::CacheBreakpoints).extra();

declare_shapes! {
    TOP: &[""], &[] => &[
        core("messages").how("turn by turn, in order"),
        core("model").how("the name that the provider knows it by"),
        field("audio", F::AudioOutput),
        field("frequency_penalty", F::Penalties).unless(&["0"]),
        refused("function_call", "use `tool_choice`"),
        refused("functions", "use `tools`").unless(&["[]"]),
        field("logit_bias", F::LogitBias).whole().unless(&["{}"]),
        field("logprobs", F::Logprobs).unless(&["false"]),
        field("max_completion_tokens", F::OutputLimit).how("the target's output limit"),
        field("max_tokens", F::OutputLimit).how("the target's output limit; `max_completion_tokens` goes before it"),
        field("metadata", F::Metadata).whole(),
        field("modalities", F::AudioOutput).unless(&["[\"text\"]", "[]"]),
        field("moderation", F::Moderation).whole(),
        field("n", F::ManyAnswers).unless(&["1"]),
        field("parallel_tool_calls", F::ParallelCalls),
        field("prediction", F::Prediction).whole(),
        field("presence_penalty", F::Penalties).unless(&["0"]),
        field("prompt_cache_key", F::CacheKey),
        field("prompt_cache_options", F::CacheOptions),
        field("prompt_cache_retention", F::CacheRetention),
        field("reasoning_effort", F::Effort),
        field("response_format", F::AnswerFormats),
        field("safety_identifier", F::UserId),
        field("seed", F::Seed),
        field("service_tier", F::ServiceTier),
        field("stop", F::StopSequences).unless(&["[]"]),
        refused("store", "what the gateway translates is not stored").unless(&["false"]),
        core("stream_options").how("the gateway always asks for usage and passes it on as asked"),
        field("temperature", F::Temperature),
        field("tool_choice", F::ToolChoice),
        field("tools", F::Tools),
        field("top_logprobs", F::TopLogprobs).unless(&["0"]),
        field("top_p", F::TopP),
        field("user", F::UserId),
        field("verbosity", F::Verbosity),
        refused("web_search_options", "offer a web search tool").whole(),
        core("stream"),
        field("top_k", F::TopK).extra().unless(ALL_TOKENS),
        field("reasoning", F::Effort).extra(),
    ];

    FORMAT_OBJECT: &["response_format"], &["json_object"] => &[tag("type")];

    FORMAT_SCHEMA: &["response_format"], &["json_schema"] => &[tag("type"), core("json_schema")];

    SCHEMA: &["response_format.json_schema"], &[] => &[
        field("name", F::SchemaNames),
        field("description", F::SchemaDescriptions),
        core("schema").whole(),
        field("strict", F::SchemaStrictness),
    ];

    STREAM_OPTIONS: &["stream_options"], &[] => &[
        core("include_usage").how("usage is always asked for, and passed on as asked"),
        field("include_obfuscation", F::StreamPadding).unless(&["false"]),
    ];

    CACHE_OPTIONS: &["prompt_cache_options"], &[] => &[
        field("mode", F::CacheModes),
        field("ttl", F::CacheLifetimes),
    ];

    REASONING: &["reasoning"], &[] => &[
        field("effort", F::Effort).how("as `reasoning_effort`").extra(),
        field("enabled", F::Effort).how("`false` is the effort `none`").extra(),
        field("exclude", F::HiddenReasoning).unless(&["false"]).extra(),
    ];
}

declare_kinds! {
    FORMATS: &["response_format"] => &[
        implied("text", "it is the default"),
        field("json_object", F::JsonObjects),
        core("json_schema"),
    ];
}
