//! The fields of a chat completions request. Fates: towards responses, towards messages.

mod messages;
mod tools;

pub(crate) use {messages::*, tools::*};

use crate::table::{
    CARRIED, Kinds, Row, STOPS, Shape, both, dropped, implied, mapped, refused, row, tag,
};
use tollgate_types::Format::Chat;

pub(crate) const SHAPES: &[&Shape] = &[
    &TOP,
    &SYSTEM,
    &DEVELOPER,
    &USER,
    &ASSISTANT,
    &TOOL_RESULT,
    &FUNCTION_RESULT,
    &TEXT,
    &IMAGE,
    &IMAGE_URL,
    &FILE,
    &FILE_DATA,
    &REFUSAL,
    &BREAKPOINT,
    &CACHE_CONTROL,
    &FUNCTION_CALL,
    &CALLED_FUNCTION,
    &CUSTOM_CALL,
    &CALLED_CUSTOM,
    &FUNCTION_TOOL,
    &FUNCTION,
    &CUSTOM_TOOL,
    &CUSTOM,
    &CUSTOM_TEXT,
    &CUSTOM_GRAMMAR,
    &GRAMMAR,
    &CHOICE_FUNCTION,
    &CHOICE_CUSTOM,
    &CHOICE_NAME,
    &CHOICE_ALLOWED,
    &ALLOWED_TOOLS,
    &FORMAT_OBJECT,
    &FORMAT_SCHEMA,
    &SCHEMA,
    &STREAM_OPTIONS,
    &CACHE_OPTIONS,
    &REASONING,
];

pub(crate) const KINDS: &[&Kinds] = &[
    &PARTS,
    &CALLS,
    &TOOLS,
    &CHOICES,
    &ALLOWED,
    &FORMATS,
    &CUSTOM_FORMATS,
];

const CACHE_CONTROL_ROW: Row = row(
    "cache_control",
    mapped("`prompt_cache_breakpoint`, at most the last four"),
    CARRIED,
)
.extra();

pub(crate) static TOP: Shape = Shape {
    format: Chat,
    at: &[""],
    tags: &[],
    rows: &[
        both("messages", mapped("turn by turn, in order")),
        both("model", mapped("the name that the provider knows it by")),
        both("audio", refused("it answers in text alone")),
        row(
            "frequency_penalty",
            refused("it has no penalties"),
            refused("it has no penalties"),
        )
        .unless(&["0"]),
        both("function_call", refused("use `tool_choice`")),
        both("functions", refused("use `tools`")).unless(&["[]"]),
        both("logit_bias", refused("it has no logit bias"))
            .whole()
            .unless(&["{}"]),
        row(
            "logprobs",
            mapped("`include: [message.output_text.logprobs]`"),
            refused("it gives no log probabilities"),
        )
        .unless(&["false"]),
        both("max_completion_tokens", mapped("the target's output limit")),
        both(
            "max_tokens",
            mapped("the target's output limit; `max_completion_tokens` goes before it"),
        ),
        row(
            "metadata",
            CARRIED,
            mapped("`metadata.user_id`, hashed; other entries are dropped with notice"),
        )
        .whole(),
        both("modalities", refused("it answers in text alone")).unless(&["[\"text\"]", "[]"]),
        row(
            "moderation",
            mapped(
                "the provider checks the conversation, and its findings are left out with notice",
            ),
            refused("it has no moderation"),
        )
        .whole(),
        both("n", refused("one request gives one answer there")).unless(&["1"]),
        row(
            "parallel_tool_calls",
            CARRIED,
            mapped("`tool_choice.disable_parallel_tool_use`"),
        ),
        both("prediction", refused("it takes no predicted output")).whole(),
        both("presence_penalty", refused("it has no penalties")).unless(&["0"]),
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
            "reasoning_effort",
            mapped("`reasoning.effort`"),
            mapped("`thinking` and `output_config.effort`, or a budget, as the model takes it"),
        ),
        row(
            "response_format",
            mapped("`text.format`"),
            mapped("`output_config.format`"),
        ),
        row(
            "safety_identifier",
            CARRIED,
            mapped("`metadata.user_id`, hashed"),
        ),
        both("seed", dropped("it has no seed")),
        row(
            "service_tier",
            CARRIED,
            mapped("`default` is `standard_only`; `flex` and `priority` are dropped with notice"),
        ),
        row(
            "stop",
            mapped(STOPS),
            mapped("`stop_sequences`; white space alone is dropped with notice"),
        )
        .unless(&["[]"]),
        both(
            "store",
            refused("what the gateway translates is not stored"),
        )
        .unless(&["false"]),
        both(
            "stream_options",
            mapped("the gateway always asks for usage and passes it on as asked"),
        ),
        row(
            "temperature",
            CARRIED,
            mapped("refused above 1; dropped with notice if the model takes none or thinks"),
        ),
        row(
            "tool_choice",
            mapped("its own spelling"),
            mapped("`required` is `any`"),
        ),
        row(
            "tools",
            mapped("flattened"),
            mapped("`input_schema` for `parameters`; custom tools as functions"),
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
        row("user", CARRIED, mapped("`metadata.user_id`, hashed")),
        row(
            "verbosity",
            mapped("`text.verbosity`"),
            dropped("it has no verbosity"),
        ),
        both("web_search_options", refused("offer a web search tool")).whole(),
        both("stream", CARRIED),
        row("top_k", refused("it has no `top_k`"), CARRIED).extra(),
        row(
            "reasoning",
            mapped("`reasoning.effort`"),
            mapped("as `reasoning_effort`"),
        )
        .extra(),
    ],
};

pub(crate) static FORMATS: Kinds = Kinds {
    format: Chat,
    at: &["response_format"],
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
    format: Chat,
    at: &["response_format"],
    tags: &["json_object"],
    rows: &[tag("type")],
};

pub(crate) static FORMAT_SCHEMA: Shape = Shape {
    format: Chat,
    at: &["response_format"],
    tags: &["json_schema"],
    rows: &[tag("type"), both("json_schema", CARRIED)],
};

pub(crate) static SCHEMA: Shape = Shape {
    format: Chat,
    at: &["response_format.json_schema"],
    tags: &[],
    rows: &[
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

pub(crate) static STREAM_OPTIONS: Shape = Shape {
    format: Chat,
    at: &["stream_options"],
    tags: &[],
    rows: &[
        both(
            "include_usage",
            mapped("usage is always asked for, and passed on as asked"),
        ),
        both(
            "include_obfuscation",
            dropped("a translated stream is not padded"),
        )
        .unless(&["false"]),
    ],
};

pub(crate) static CACHE_OPTIONS: Shape = Shape {
    format: Chat,
    at: &["prompt_cache_options"],
    tags: &[],
    rows: &[
        row(
            "mode",
            CARRIED,
            mapped("`implicit` is a top-level `cache_control`"),
        ),
        row("ttl", CARRIED, dropped("its times to live are others")),
    ],
};

pub(crate) static REASONING: Shape = Shape {
    format: Chat,
    at: &["reasoning"],
    tags: &[],
    rows: &[
        both("effort", mapped("as `reasoning_effort`")).extra(),
        both("enabled", mapped("`false` is the effort `none`")).extra(),
        both("exclude", dropped("reasoning that is asked for is shown"))
            .unless(&["false"])
            .extra(),
    ],
};
