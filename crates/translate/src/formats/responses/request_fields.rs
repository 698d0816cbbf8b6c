//! The fields of a responses request. Fates: towards chat, towards messages.

mod items;
mod tools;

pub(crate) use {items::*, tools::*};

use crate::table::{CARRIED, Kinds, Shape, both, dropped, implied, mapped, refused, row, tag};
use tollgate_types::Format::Responses;

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
    format: Responses,
    at: &[""],
    tags: &[],
    rows: &[
        both("access_programs", refused("it has no access programs")).whole(),
        both("background", refused("it answers while the caller waits")).unless(&["false"]),
        both(
            "context_management",
            refused("it does not manage the context"),
        )
        .whole()
        .unless(&["[]"]),
        both(
            "conversation",
            refused("it keeps no conversations: send the whole history"),
        )
        .whole(),
        both("image", refused("it has no options for images")).whole(),
        row(
            "include",
            mapped(
                "encrypted reasoning as seals; log probabilities; what belongs to the provider's own tools is dropped with notice",
            ),
            mapped(
                "encrypted reasoning as seals; the sources of web searches; what belongs to the provider's other tools is dropped with notice; log probabilities are refused",
            ),
        ),
        row(
            "input",
            mapped("`messages`, turn by turn, in order"),
            mapped("`messages`, turn by turn, in order"),
        ),
        row(
            "instructions",
            mapped("the first message, as `developer` or `system`"),
            mapped("`system`"),
        ),
        both("max_output_tokens", mapped("the target's output limit")),
        row(
            "max_tool_calls",
            implied("no tool of the provider's is offered there, so that none is called"),
            mapped(
                "`max_uses` of web search, the only one of the provider's tools that is offered there",
            ),
        ),
        row(
            "metadata",
            CARRIED,
            mapped("`metadata.user_id`, hashed; other entries are dropped with notice"),
        )
        .whole(),
        both("model", mapped("the name that the provider knows it by")),
        row(
            "moderation",
            mapped(
                "the provider checks the conversation, and its findings are left out with notice; refused if it has no moderation (`abilities.chat.openai: false`)",
            ),
            refused("it has no moderation"),
        )
        .whole(),
        row(
            "parallel_tool_calls",
            CARRIED,
            mapped("`tool_choice.disable_parallel_tool_use`"),
        ),
        both(
            "previous_response_id",
            refused("the gateway does not remember that answer: send the whole history"),
        ),
        both(
            "prompt",
            refused("it keeps no prompts: send the prompt itself"),
        )
        .whole(),
        row(
            "prompt_cache_key",
            CARRIED,
            mapped("a top-level `cache_control`, which caches what requests share"),
        ),
        row(
            "prompt_cache_options",
            mapped("`mode` and `ttl`"),
            mapped("`mode: implicit` is a top-level `cache_control`"),
        ),
        row(
            "prompt_cache_retention",
            CARRIED,
            dropped("caching lasts as long as the provider decides"),
        ),
        row(
            "reasoning",
            mapped("`reasoning_effort`"),
            mapped("`thinking` and `output_config.effort`, or a budget, as the model takes it"),
        ),
        row(
            "safety_identifier",
            CARRIED,
            mapped("`metadata.user_id`, hashed"),
        ),
        row(
            "service_tier",
            CARRIED,
            mapped("`default` is `standard_only`; `flex` and `priority` are dropped with notice"),
        ),
        both(
            "store",
            mapped("the gateway remembers the answer; refused where it remembers none"),
        ),
        both("stream_options", mapped("as the gateway streams")),
        row(
            "temperature",
            CARRIED,
            mapped("refused above 1; dropped with notice if the model takes none or thinks"),
        ),
        row(
            "text",
            mapped("`response_format` and `verbosity`"),
            mapped("`output_config.format`"),
        ),
        both("tool_choice", mapped("its own spelling")),
        row(
            "tools",
            mapped("functions and custom tools; the provider's own are taken out with notice"),
            mapped(
                "functions, custom tools, and web search where the provider has it; the provider's other tools are taken out with notice",
            ),
        ),
        row(
            "top_logprobs",
            CARRIED,
            refused("it gives no log probabilities"),
        )
        .unless(&["0"]),
        row(
            "top_p",
            CARRIED,
            mapped("left out with notice where the model takes none or thinks"),
        ),
        both("truncation", dropped("it does not shorten the history")).unless(&["\"disabled\""]),
        row("user", CARRIED, mapped("`metadata.user_id`, hashed")),
        both("stream", CARRIED),
        both("client_metadata", dropped("it is the client's own record"))
            .whole()
            .extra(),
    ],
};

pub(crate) static TEXT_CONFIG: Shape = Shape {
    format: Responses,
    at: &["text"],
    tags: &[],
    rows: &[
        row(
            "format",
            mapped("`response_format`"),
            mapped("`output_config.format`"),
        ),
        row("verbosity", CARRIED, dropped("it has no verbosity")),
    ],
};

pub(crate) static FORMATS: Kinds = Kinds {
    format: Responses,
    at: &["text.format"],
    rows: &[
        both("text", implied("it is the default")),
        row(
            "json_object",
            CARRIED,
            mapped(
                "an instruction, with notice; an answer that is not one JSON object is an error",
            ),
        ),
        both("json_schema", CARRIED),
    ],
};

pub(crate) static FORMAT_OBJECT: Shape = Shape {
    format: Responses,
    at: &["text.format"],
    tags: &["json_object"],
    rows: &[tag("type")],
};

pub(crate) static FORMAT_SCHEMA: Shape = Shape {
    format: Responses,
    at: &["text.format"],
    tags: &["json_schema"],
    rows: &[
        tag("type"),
        row(
            "name",
            CARRIED,
            mapped("kept for the answer; schemas have no names there"),
        ),
        row(
            "description",
            CARRIED,
            dropped("schemas have no descriptions of their own there"),
        ),
        both("schema", CARRIED).whole(),
        row(
            "strict",
            CARRIED,
            mapped("answers follow the schema there even if it is `false`"),
        ),
    ],
};

pub(crate) static REASONING: Shape = Shape {
    format: Responses,
    at: &["reasoning"],
    tags: &[],
    rows: &[
        row(
            "effort",
            mapped("`reasoning_effort`"),
            mapped("`output_config.effort` or a budget"),
        ),
        row(
            "summary",
            mapped("shown, where the provider gives it"),
            mapped("`thinking.display`"),
        ),
        row(
            "generate_summary",
            mapped("as `summary`"),
            mapped("as `summary`"),
        ),
        both(
            "context",
            dropped("the provider decides which reasoning the model sees again"),
        )
        .unless(&["\"auto\""]),
        both("mode", refused("it reasons in one mode")).unless(&["\"standard\""]),
    ],
};

pub(crate) static STREAM_OPTIONS: Shape = Shape {
    format: Responses,
    at: &["stream_options"],
    tags: &[],
    rows: &[both(
        "include_obfuscation",
        dropped("a translated stream is not padded"),
    )
    .unless(&["false"])],
};

pub(crate) static CACHE_OPTIONS: Shape = Shape {
    format: Responses,
    at: &["prompt_cache_options"],
    tags: &[],
    rows: &[
        row(
            "mode",
            CARRIED,
            mapped("`implicit` is a top-level `cache_control`"),
        ),
        row("ttl", CARRIED, dropped("its times to live are others")),
        both("comparison_response_id", refused("it keeps no answers")),
        both("prewarm", refused("it does not warm caches")).unless(&["false"]),
    ],
};
