//! The fields of answers of the chat format.

use crate::answer::table::{
    AnswerFate::{self, Carried, Implied, LeftOut, Mapped},
    AnswerFeature::{self, *},
    AnswerRow,
    rows::{
        CALL_ID, HOSTED, ID, MODEL, NAME, ONE_CALL, ONE_CHOICE, PART, PROVIDER, SOUND, STOP,
        STRUCTURE, SUM, TOTAL, both, feeds,
    },
};

/// What the format does with the features of an answer to its clients.
pub(crate) const FEATURES: &[(AnswerFeature, AnswerFate)] = &[
    (Created, Carried),
    (Texts, Carried),
    (Refusals, Carried),
    (Thoughts, Mapped("`reasoning_content`, as paragraphs")),
    (Annotations, Carried),
    (Citations, Carried),
    (Calls, Mapped("`tool_calls`")),
    (Arguments, Carried),
    (CustomCalls, Carried),
    (Logprobs, Mapped("beside the text that it is about")),
    (Searches, HOSTED),
    (SearchResults, HOSTED),
    (SearchEvents, HOSTED),
    (SearchUsage, PROVIDER),
];

/// The fields of an answer of a provider.
pub(crate) const ROWS: &[AnswerRow] = &[
    both("id", ID),
    both("object", STRUCTURE),
    feeds("created", Created),
    both("model", MODEL),
    both("choices", STRUCTURE),
    both("choices[].index", ONE_CHOICE),
    both("choices[].finish_reason", STOP),
    both("choices[].message", STRUCTURE),
    both("choices[].delta", STRUCTURE),
    feeds("choices[].logprobs", Logprobs),
    feeds("choices[].logprobs.content", Logprobs).whole(),
    both(
        "choices[].logprobs.refusal",
        LeftOut("refusals bear no log probabilities"),
    )
    .whole(),
    both("choices[].message.role", STRUCTURE),
    both("choices[].delta.role", STRUCTURE),
    both("choices[].message.content", Carried).whole(),
    both("choices[].delta.content", Carried).whole(),
    feeds("choices[].message.refusal", Refusals),
    feeds("choices[].delta.refusal", Refusals),
    both("choices[].message.reasoning_content", Mapped("thinking")).extra(),
    both("choices[].delta.reasoning_content", Mapped("thinking")).extra(),
    both("choices[].message.reasoning", Mapped("thinking")).extra(),
    both("choices[].delta.reasoning", Mapped("thinking")).extra(),
    both(
        "choices[].message.reasoning_details",
        Mapped("thinking; signatures and data sealed"),
    )
    .whole()
    .extra(),
    both(
        "choices[].delta.reasoning_details",
        Mapped("thinking; signatures and data sealed"),
    )
    .whole()
    .extra(),
    feeds("choices[].message.tool_calls", Calls),
    feeds("choices[].delta.tool_calls", Calls),
    both("choices[].message.tool_calls[].index", STRUCTURE).extra(),
    both("choices[].message.tool_calls[]<function>.index", STRUCTURE).extra(),
    both("choices[].delta.tool_calls[].index", STRUCTURE).extra(),
    both("choices[].delta.tool_calls[]<function>.index", STRUCTURE),
    both("choices[].message.tool_calls[].id", CALL_ID).extra(),
    both("choices[].message.tool_calls[]<function>.id", CALL_ID),
    both("choices[].delta.tool_calls[]<function>.id", CALL_ID),
    both("choices[].message.tool_calls[]<function>.type", STRUCTURE),
    both("choices[].delta.tool_calls[]<function>.type", STRUCTURE),
    both("choices[].message.tool_calls[].function", STRUCTURE)
        .whole()
        .extra(),
    both("choices[].delta.tool_calls[].function", STRUCTURE)
        .whole()
        .extra(),
    both(
        "choices[].message.tool_calls[]<function>.function",
        STRUCTURE,
    ),
    both("choices[].delta.tool_calls[]<function>.function", STRUCTURE),
    both(
        "choices[].message.tool_calls[]<function>.function.name",
        NAME,
    ),
    both("choices[].delta.tool_calls[]<function>.function.name", NAME),
    feeds(
        "choices[].message.tool_calls[]<function>.function.arguments",
        Arguments,
    ),
    feeds(
        "choices[].delta.tool_calls[]<function>.function.arguments",
        Arguments,
    ),
    both(
        "choices[].message.tool_calls[]<function>.custom",
        Implied("an empty one beside functions"),
    )
    .whole()
    .extra(),
    feeds("choices[].message.tool_calls[]<custom>.id", CustomCalls).by(CALL_ID),
    feeds("choices[].message.tool_calls[]<custom>.type", CustomCalls).by(STRUCTURE),
    feeds("choices[].message.tool_calls[]<custom>.custom", CustomCalls).whole(),
    both("choices[].message.function_call", ONE_CALL).whole(),
    both("choices[].delta.function_call", ONE_CALL).whole(),
    feeds("choices[].message.annotations", Annotations).whole(),
    feeds("choices[].delta.annotations", Annotations)
        .whole()
        .extra(),
    both("choices[].message.audio", SOUND).whole(),
    both("choices[].delta.audio", SOUND).whole(),
    both("usage", STRUCTURE),
    both("usage.prompt_tokens", TOTAL),
    both("usage.completion_tokens", TOTAL),
    both("usage.total_tokens", SUM),
    both("usage.prompt_tokens_details", STRUCTURE),
    both("usage.prompt_tokens_details.cached_tokens", Carried),
    both("usage.prompt_tokens_details.cache_write_tokens", Carried),
    both("usage.prompt_tokens_details.audio_tokens", PART),
    both("usage.prompt_tokens_details.image_tokens", PART),
    both("usage.prompt_tokens_details.text_tokens", PART),
    both("usage.completion_tokens_details", STRUCTURE),
    both("usage.completion_tokens_details.reasoning_tokens", Carried),
    both("usage.completion_tokens_details.audio_tokens", PART),
    both("usage.completion_tokens_details.text_tokens", PART),
    both(
        "usage.completion_tokens_details.accepted_prediction_tokens",
        PART,
    ),
    both(
        "usage.completion_tokens_details.rejected_prediction_tokens",
        PART,
    ),
    both("usage.prompt_cache_hit_tokens", Carried).extra(),
    both("usage.num_cached_tokens", Carried).extra(),
    both("metadata", PROVIDER).whole(),
    both("moderation", PROVIDER).whole(),
    both("obfuscation", PROVIDER),
    both("service_tier", PROVIDER),
    both("system_fingerprint", PROVIDER),
];
