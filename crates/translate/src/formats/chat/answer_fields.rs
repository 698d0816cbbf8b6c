//! The fields of answers of the chat format.

use crate::answer::table::rows::{
    ARGUMENTS_TO_MESSAGES, CALL_ID, ID, LOGPROBS, MODEL, NAME, ONE_CALL, ONE_CHOICE, PAGES, PART,
    PROVIDER, REFUSAL, SOUND, STOP, STRUCTURE, SUM, TOTAL, both, each,
};
use crate::answer::table::{
    AnswerFate::{Carried, Fails, Implied, LeftOut, Mapped},
    AnswerRow,
};

/// From chat, to responses and messages.
pub(crate) const ROWS: &[AnswerRow] = &[
    both("id", ID),
    both("object", STRUCTURE),
    each("created", Carried, LeftOut("messages bear no time")),
    both("model", MODEL),
    both("choices", STRUCTURE),
    both("choices[].index", ONE_CHOICE),
    both("choices[].finish_reason", STOP),
    both("choices[].message", STRUCTURE),
    both("choices[].delta", STRUCTURE),
    each("choices[].logprobs", Carried, LOGPROBS),
    each(
        "choices[].logprobs.content",
        Mapped("beside the text that it is about"),
        LOGPROBS,
    )
    .whole(),
    both(
        "choices[].logprobs.refusal",
        LeftOut("refusals bear no log probabilities"),
    )
    .whole(),
    both("choices[].message.role", STRUCTURE),
    both("choices[].delta.role", STRUCTURE),
    both("choices[].message.content", Carried).whole(),
    both("choices[].delta.content", Carried).whole(),
    each("choices[].message.refusal", Carried, REFUSAL),
    each("choices[].delta.refusal", Carried, REFUSAL),
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
    each(
        "choices[].message.tool_calls",
        Mapped("items of their own"),
        Mapped("blocks"),
    ),
    each(
        "choices[].delta.tool_calls",
        Mapped("items, one after the other"),
        Mapped("blocks, one after the other"),
    ),
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
    each(
        "choices[].message.tool_calls[]<function>.function.arguments",
        Carried,
        ARGUMENTS_TO_MESSAGES,
    ),
    each(
        "choices[].delta.tool_calls[]<function>.function.arguments",
        Carried,
        ARGUMENTS_TO_MESSAGES,
    ),
    both(
        "choices[].message.tool_calls[]<function>.custom",
        Implied("an empty one beside functions"),
    )
    .whole()
    .extra(),
    each(
        "choices[].message.tool_calls[]<custom>.id",
        CALL_ID,
        Fails("nobody can have offered it"),
    ),
    each(
        "choices[].message.tool_calls[]<custom>.type",
        STRUCTURE,
        Fails("nobody can have offered it"),
    ),
    each(
        "choices[].message.tool_calls[]<custom>.custom",
        Carried,
        Fails("nobody can have offered it"),
    )
    .whole(),
    both("choices[].message.function_call", ONE_CALL).whole(),
    both("choices[].delta.function_call", ONE_CALL).whole(),
    each("choices[].message.annotations", Carried, PAGES).whole(),
    each("choices[].delta.annotations", Carried, PAGES)
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
