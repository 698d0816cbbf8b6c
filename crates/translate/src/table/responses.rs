//! The fields of a responses request. Fates: towards chat, towards messages.

use super::{CARRIED, Kinds, Row, Shape, both, dropped, implied, mapped, refused, row, tag};
use tollgate_types::Format::Responses;

pub(super) const SHAPES: &[&Shape] = &[
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
    &SUMMARY_TEXT,
    &REASONING_TEXT,
    &ADDITIONAL_TOOLS,
    &FUNCTION_TOOL,
    &CUSTOM_TOOL,
    &CUSTOM_TEXT,
    &CUSTOM_GRAMMAR,
    &NAMESPACE,
    &CHOICE_NAMED,
    &CHOICE_ALLOWED,
    &TEXT_CONFIG,
    &FORMAT_OBJECT,
    &FORMAT_SCHEMA,
    &REASONING,
    &STREAM_OPTIONS,
    &CACHE_OPTIONS,
];

pub(super) const KINDS: &[&Kinds] = &[
    &ITEMS,
    &PARTS,
    &OUTPUT_PARTS,
    &SUMMARIES,
    &TOOLS,
    &CHOICES,
    &FORMATS,
    &CUSTOM_FORMATS,
];

const BREAKPOINT_ROW: Row = row(
    "prompt_cache_breakpoint",
    CARRIED,
    mapped("`cache_control`, at most the last four"),
);
const ITEM_ID: Row = both(
    "id",
    implied("ids of items belong to the provider that made them"),
);
const STATUS: Row = both("status", implied("what is in the history is over"));
const CALLER: Row = both("caller", refused("only the model itself calls tools there"))
    .whole()
    .unless(&["{\"type\":\"direct\"}"]);
const HOSTED: &str = "the provider's own tools are taken out, unless `tool_choice` demands them or nothing else is offered";

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
        both(
            "include",
            mapped(
                "encrypted reasoning as seals; log probabilities in chat; what belongs to the provider's own tools is dropped with notice",
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
        both(
            "max_tool_calls",
            refused("it does not count calls of the provider's own tools"),
        ),
        row(
            "metadata",
            CARRIED,
            mapped("`metadata.user_id`, hashed; other entries are dropped with notice"),
        )
        .whole(),
        both("model", mapped("the name that the provider knows it by")),
        both("moderation", refused("it has no moderation")).whole(),
        row(
            "parallel_tool_calls",
            CARRIED,
            mapped("`tool_choice.disable_parallel_tool_use`"),
        ),
        both(
            "previous_response_id",
            refused("it keeps no answers: send the whole history"),
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
            refused("what the gateway translates is not stored"),
        )
        .unless(&["false"]),
        both("stream_options", mapped("as the gateway streams")),
        row(
            "temperature",
            CARRIED,
            mapped("at most 1 there; left out with notice where the model takes none or thinks"),
        ),
        row(
            "text",
            mapped("`response_format` and `verbosity`"),
            mapped("`output_config.format`"),
        ),
        both("tool_choice", mapped("its own spelling")),
        both(
            "tools",
            mapped("functions and custom tools; the provider's own are taken out with notice"),
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
        both("truncation", refused("it does not shorten the history")).unless(&["\"disabled\""]),
        row("user", CARRIED, mapped("`metadata.user_id`, hashed")),
        both("stream", CARRIED),
        both("client_metadata", dropped("it is the client's own record"))
            .whole()
            .extra(),
    ],
};

pub(crate) static ITEMS: Kinds = Kinds {
    format: Responses,
    at: &["input[]"],
    rows: &[
        both("message", CARRIED),
        row(
            "function_call",
            mapped("`tool_calls` of the assistant's message"),
            mapped("`tool_use`"),
        ),
        row(
            "function_call_output",
            mapped("a message of the role `tool`"),
            mapped("`tool_result`"),
        ),
        row(
            "custom_tool_call",
            mapped("`tool_calls` of the assistant's message"),
            mapped("`tool_use` with the text as `input`"),
        ),
        row(
            "custom_tool_call_output",
            mapped("a message of the role `tool`"),
            mapped("`tool_result`"),
        ),
        row(
            "reasoning",
            mapped("`reasoning_content` where this provider made it, else left out with notice"),
            mapped("`thinking` where this provider made it, else left out with notice"),
        ),
        both("additional_tools", mapped("offered with the other tools")),
        both("file_search_call", refused(HOSTED_PAST)).whole(),
        both("computer_call", refused(HOSTED_PAST)).whole(),
        both("computer_call_output", refused(HOSTED_PAST)).whole(),
        both("web_search_call", refused(HOSTED_PAST)).whole(),
        both("tool_search_call", refused(HOSTED_PAST)).whole(),
        both("tool_search_output", refused(HOSTED_PAST)).whole(),
        both(
            "configuration_update",
            refused("its settings do not change within a request"),
        )
        .whole(),
        both(
            "compaction",
            refused("a compacted history is known at its own provider alone"),
        )
        .whole(),
        both(
            "compaction_trigger",
            refused("it does not compact the history"),
        )
        .whole(),
        both("image_generation_call", refused(HOSTED_PAST)).whole(),
        both("code_interpreter_call", refused(HOSTED_PAST)).whole(),
        both("local_shell_call", refused(HOSTED_PAST)).whole(),
        both("local_shell_call_output", refused(HOSTED_PAST)).whole(),
        both("shell_call", refused(HOSTED_PAST)).whole(),
        both("shell_call_output", refused(HOSTED_PAST)).whole(),
        both("apply_patch_call", refused(HOSTED_PAST)).whole(),
        both("apply_patch_call_output", refused(HOSTED_PAST)).whole(),
        both("mcp_list_tools", refused(HOSTED_PAST)).whole(),
        both("mcp_approval_request", refused(HOSTED_PAST)).whole(),
        both("mcp_approval_response", refused(HOSTED_PAST)).whole(),
        both("mcp_call", refused(HOSTED_PAST)).whole(),
        both("program", refused(HOSTED_PAST)).whole(),
        both("program_output", refused(HOSTED_PAST)).whole(),
        both(
            "item_reference",
            refused("it keeps no items: send the item itself"),
        )
        .whole(),
    ],
};

const HOSTED_PAST: &str = "it is about a tool of another provider";

pub(crate) static MESSAGE: Shape = Shape {
    format: Responses,
    at: &["input[]"],
    tags: &["message"],
    rows: &[
        tag("type"),
        row(
            "role",
            CARRIED,
            mapped("before the first turn `system`, later a message in its place"),
        ),
        both("content", CARRIED),
        ITEM_ID,
        STATUS,
        both("phase", dropped("it has no phases of an answer")),
    ],
};

pub(crate) static PARTS: Kinds = Kinds {
    format: Responses,
    at: &["input[].content[]"],
    rows: &[
        both("input_text", CARRIED),
        both("output_text", CARRIED),
        row("refusal", CARRIED, mapped("text")),
        row(
            "input_image",
            mapped("`image_url`"),
            mapped("`image`, by data or by address"),
        ),
        row(
            "input_file",
            mapped("`file`"),
            mapped("`document`; PDF and plain text alone"),
        ),
    ],
};

pub(crate) static OUTPUT_PARTS: Kinds = Kinds {
    format: Responses,
    at: &["input[].output[]"],
    rows: &[
        both("input_text", CARRIED),
        row(
            "input_image",
            mapped("in a user message after the result"),
            mapped("`image`, by data or by address"),
        ),
        row(
            "input_file",
            mapped("in a user message after the result"),
            mapped("`document`; PDF and plain text alone"),
        ),
    ],
};

pub(crate) static INPUT_TEXT: Shape = Shape {
    format: Responses,
    at: &["input[].content[]", "input[].output[]"],
    tags: &["input_text"],
    rows: &[tag("type"), both("text", CARRIED), BREAKPOINT_ROW],
};

pub(crate) static OUTPUT_TEXT: Shape = Shape {
    format: Responses,
    at: &["input[].content[]"],
    tags: &["output_text"],
    rows: &[
        tag("type"),
        both("text", CARRIED),
        both("annotations", dropped("citations are output only"))
            .whole()
            .unless(&["[]"]),
        both("logprobs", dropped("log probabilities are output only"))
            .whole()
            .unless(&["[]"]),
    ],
};

pub(crate) static REFUSAL: Shape = Shape {
    format: Responses,
    at: &["input[].content[]"],
    tags: &["refusal"],
    rows: &[tag("type"), row("refusal", CARRIED, mapped("text"))],
};

pub(crate) static IMAGE: Shape = Shape {
    format: Responses,
    at: &["input[].content[]", "input[].output[]"],
    tags: &["input_image"],
    rows: &[
        tag("type"),
        row(
            "image_url",
            CARRIED,
            mapped("a `data:` URL becomes base64 data; another is passed on, never fetched"),
        ),
        both(
            "file_id",
            refused("a file is known at the provider that stores it alone"),
        ),
        row(
            "detail",
            mapped("`original` is `high`"),
            dropped("it has no level of detail"),
        )
        .unless(&["\"auto\""]),
        BREAKPOINT_ROW,
    ],
};

pub(crate) static FILE: Shape = Shape {
    format: Responses,
    at: &["input[].content[]", "input[].output[]"],
    tags: &["input_file"],
    rows: &[
        tag("type"),
        row(
            "file_data",
            CARRIED,
            mapped("a `source`; PDF and plain text alone"),
        ),
        both(
            "file_id",
            refused("a file is known at the provider that stores it alone"),
        ),
        row(
            "file_url",
            refused("it takes files by their data alone"),
            mapped("a `source`, never fetched"),
        ),
        row("filename", CARRIED, mapped("`title`")),
        both("detail", dropped("it has no level of detail for files")).unless(&["\"auto\""]),
        BREAKPOINT_ROW,
    ],
};

pub(crate) static BREAKPOINT: Shape = Shape {
    format: Responses,
    at: &[
        "input[].content[].prompt_cache_breakpoint",
        "input[].output[].prompt_cache_breakpoint",
    ],
    tags: &[],
    rows: &[
        both("mode", implied("`explicit` is the only one")),
        row("ttl", CARRIED, dropped("its times to live are others")),
    ],
};

pub(crate) static FUNCTION_CALL: Shape = Shape {
    format: Responses,
    at: &["input[]"],
    tags: &["function_call"],
    rows: &[
        tag("type"),
        row("arguments", CARRIED, mapped("`input`, as an object")),
        both("call_id", mapped("the call's `id`")),
        both(
            "name",
            mapped("with its namespace, shortened where the target takes less"),
        ),
        both("namespace", mapped("`<namespace>__<name>`")),
        both(
            "async",
            refused("calls are answered before the next turn there"),
        )
        .unless(&["false"]),
        ITEM_ID,
        STATUS,
        CALLER,
    ],
};

pub(crate) static FUNCTION_OUTPUT: Shape = Shape {
    format: Responses,
    at: &["input[]"],
    tags: &["function_call_output"],
    rows: &[
        tag("type"),
        row(
            "output",
            mapped("text in the message, other parts in a user message after it"),
            mapped("the content of a `tool_result`"),
        ),
        row("call_id", mapped("`tool_call_id`"), mapped("`tool_use_id`")),
        both("name", implied("the call has it")),
        both("namespace", implied("the call has it")),
        ITEM_ID,
        STATUS,
        CALLER,
    ],
};

pub(crate) static CUSTOM_CALL: Shape = Shape {
    format: Responses,
    at: &["input[]"],
    tags: &["custom_tool_call"],
    rows: &[
        tag("type"),
        row(
            "input",
            CARRIED,
            mapped("the member `input` of the call's input"),
        ),
        both("call_id", mapped("the call's `id`")),
        both(
            "name",
            mapped("with its namespace, shortened where the target takes less"),
        ),
        both("namespace", mapped("`<namespace>__<name>`")),
        both(
            "async",
            refused("calls are answered before the next turn there"),
        )
        .unless(&["false"]),
        ITEM_ID,
        STATUS.extra(),
        CALLER,
    ],
};

pub(crate) static CUSTOM_OUTPUT: Shape = Shape {
    format: Responses,
    at: &["input[]"],
    tags: &["custom_tool_call_output"],
    rows: &[
        tag("type"),
        row(
            "output",
            mapped("text in the message, other parts in a user message after it"),
            mapped("the content of a `tool_result`"),
        ),
        row("call_id", mapped("`tool_call_id`"), mapped("`tool_use_id`")),
        ITEM_ID,
        STATUS.extra(),
        CALLER,
    ],
};

pub(crate) static REASONING_ITEM: Shape = Shape {
    format: Responses,
    at: &["input[]"],
    tags: &["reasoning"],
    rows: &[
        tag("type"),
        both("id", implied("the seal has it")),
        both("summary", mapped("its text, where this provider made it")),
        both("content", mapped("its text, where this provider made it")),
        both(
            "encrypted_content",
            mapped("the seal is opened where this provider made it"),
        ),
        STATUS,
    ],
};

pub(crate) static SUMMARIES: Kinds = Kinds {
    format: Responses,
    at: &["input[].summary[]"],
    rows: &[
        both("summary_text", CARRIED),
        both("reasoning_text", CARRIED).extra(),
    ],
};

static SUMMARY_TEXT: Shape = Shape {
    format: Responses,
    at: &["input[].summary[]"],
    tags: &["summary_text"],
    rows: THOUGHT.rows,
};

static REASONING_TEXT: Shape = Shape {
    format: Responses,
    at: &["input[].content[]"],
    tags: &["reasoning_text"],
    rows: THOUGHT.rows,
};

/// A piece of reasoning, a summary or the thing itself.
pub(crate) static THOUGHT: Shape = Shape {
    format: Responses,
    at: &["input[].summary[]"],
    tags: &[],
    rows: &[tag("type"), both("text", CARRIED)],
};

pub(crate) static ADDITIONAL_TOOLS: Shape = Shape {
    format: Responses,
    at: &["input[]"],
    tags: &["additional_tools"],
    rows: &[
        tag("type"),
        tag("role"),
        both("tools", mapped("offered with the other tools")),
        ITEM_ID,
    ],
};

/// Wherever tools are offered.
const TOOLS_AT: &[&str] = &[
    "tools[]",
    "tools[].tools[]",
    "input[].tools[]",
    "input[].tools[].tools[]",
];

pub(crate) static TOOLS: Kinds = Kinds {
    format: Responses,
    at: TOOLS_AT,
    rows: &[
        both("function", CARRIED),
        row(
            "custom",
            mapped("as it is, or as a function with one string, `input`"),
            mapped("a function with one string, `input`; the grammar in its description"),
        ),
        both("namespace", mapped("its tools as `<namespace>__<name>`")),
        both("file_search", dropped(HOSTED)).whole(),
        both("computer", dropped(HOSTED)).whole(),
        both("computer_use_preview", dropped(HOSTED)).whole(),
        both("web_search", dropped(HOSTED)).whole(),
        both("web_search_2025_08_26", dropped(HOSTED)).whole(),
        both("web_search_preview", dropped(HOSTED)).whole(),
        both("web_search_preview_2025_03_11", dropped(HOSTED)).whole(),
        both("mcp", dropped(HOSTED)).whole(),
        both("code_interpreter", dropped(HOSTED)).whole(),
        both("programmatic_tool_calling", dropped(HOSTED)).whole(),
        both("image_generation", dropped(HOSTED)).whole(),
        both("local_shell", dropped(HOSTED)).whole(),
        both("shell", dropped(HOSTED)).whole(),
        both("tool_search", dropped(HOSTED)).whole(),
        both("apply_patch", dropped(HOSTED)).whole(),
    ],
};

const ALLOWED_CALLERS: Row = both(
    "allowed_callers",
    dropped("only the model itself calls tools there"),
)
.whole()
.unless(&["[\"direct\"]"]);
const DEFER: Row = both("defer_loading", mapped("the tool is offered at once"));
const ASYNC: Row = both(
    "async",
    refused("calls are answered before the next turn there"),
)
.unless(&["false"]);

pub(crate) static FUNCTION_TOOL: Shape = Shape {
    format: Responses,
    at: TOOLS_AT,
    tags: &["function"],
    rows: &[
        tag("type"),
        both(
            "name",
            mapped("with its namespace, shortened where the target takes less"),
        ),
        both("description", CARRIED),
        row(
            "parameters",
            CARRIED,
            mapped("`input_schema`, of type object"),
        )
        .whole(),
        both("strict", CARRIED),
        both(
            "output_schema",
            dropped("tools do not say what they answer there"),
        )
        .whole(),
        ASYNC,
        ALLOWED_CALLERS,
        DEFER,
    ],
};

pub(crate) static CUSTOM_TOOL: Shape = Shape {
    format: Responses,
    at: TOOLS_AT,
    tags: &["custom"],
    rows: &[
        tag("type"),
        both(
            "name",
            mapped("with its namespace, shortened where the target takes less"),
        ),
        both("description", CARRIED),
        row("format", CARRIED, mapped("told in the description")),
        ASYNC,
        ALLOWED_CALLERS,
        DEFER,
    ],
};

const CUSTOM_FORMATS_AT: &[&str] = &[
    "tools[].format",
    "tools[].tools[].format",
    "input[].tools[].format",
    "input[].tools[].tools[].format",
];

pub(crate) static CUSTOM_FORMATS: Kinds = Kinds {
    format: Responses,
    at: CUSTOM_FORMATS_AT,
    rows: &[
        both("text", CARRIED),
        row("grammar", CARRIED, mapped("told in the description")),
    ],
};

pub(crate) static CUSTOM_TEXT: Shape = Shape {
    format: Responses,
    at: CUSTOM_FORMATS_AT,
    tags: &["text"],
    rows: &[tag("type")],
};

pub(crate) static CUSTOM_GRAMMAR: Shape = Shape {
    format: Responses,
    at: CUSTOM_FORMATS_AT,
    tags: &["grammar"],
    rows: &[
        tag("type"),
        row("definition", CARRIED, mapped("told in the description")),
        row("syntax", CARRIED, mapped("told in the description")),
    ],
};

pub(crate) static NAMESPACE: Shape = Shape {
    format: Responses,
    at: TOOLS_AT,
    tags: &["namespace"],
    rows: &[
        tag("type"),
        both("name", mapped("`<namespace>__<name>`")),
        both(
            "description",
            mapped("before the description of each of its tools"),
        ),
        both("tools", CARRIED),
    ],
};

pub(crate) static CHOICES: Kinds = Kinds {
    format: Responses,
    at: &["tool_choice"],
    rows: &[
        row("function", CARRIED, mapped("`tool`")),
        row("custom", CARRIED, mapped("`tool`")),
        both("allowed_tools", mapped("the other tools are not offered")),
        both("file_search", refused(NO_HOSTED)).whole(),
        both("web_search", refused(NO_HOSTED)).whole().extra(),
        both("web_search_preview", refused(NO_HOSTED)).whole(),
        both("web_search_preview_2025_03_11", refused(NO_HOSTED)).whole(),
        both("computer", refused(NO_HOSTED)).whole(),
        both("computer_use_preview", refused(NO_HOSTED)).whole(),
        both("computer_use", refused(NO_HOSTED)).whole(),
        both("image_generation", refused(NO_HOSTED)).whole(),
        both("code_interpreter", refused(NO_HOSTED)).whole(),
        both("mcp", refused(NO_HOSTED)).whole(),
        both("programmatic_tool_calling", refused(NO_HOSTED)).whole(),
        both("apply_patch", refused(NO_HOSTED)).whole(),
        both("shell", refused(NO_HOSTED)).whole(),
    ],
};

const NO_HOSTED: &str = "it has no such tool";

pub(crate) static CHOICE_NAMED: Shape = Shape {
    format: Responses,
    at: &["tool_choice"],
    tags: &["function", "custom"],
    rows: &[
        tag("type"),
        both(
            "name",
            mapped("with its namespace, shortened where the target takes less"),
        ),
        both("namespace", mapped("`<namespace>__<name>`")).extra(),
    ],
};

pub(crate) static CHOICE_ALLOWED: Shape = Shape {
    format: Responses,
    at: &["tool_choice"],
    tags: &["allowed_tools"],
    rows: &[
        tag("type"),
        both("mode", mapped("the choice among the tools that are left")),
        both("tools", mapped("the other tools are not offered")).whole(),
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
            refused("it has no JSON without a schema: use `json_schema`"),
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
            implied("schemas are always kept to there"),
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
