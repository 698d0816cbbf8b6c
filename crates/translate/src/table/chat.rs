//! The fields of a chat completions request. Fates: towards responses, towards messages.

use super::{CARRIED, Kinds, Row, Shape, both, dropped, implied, mapped, refused, row, tag};
use tollgate_types::Format::Chat;

pub(super) const SHAPES: &[&Shape] = &[
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

pub(super) const KINDS: &[&Kinds] = &[&PARTS, &CALLS, &TOOLS, &CHOICES, &FORMATS, &CUSTOM_FORMATS];

const BREAKPOINT_ROW: Row = row(
    "prompt_cache_breakpoint",
    CARRIED,
    mapped("`cache_control`, at most the last four"),
);
const CACHE_CONTROL_ROW: Row = row(
    "cache_control",
    mapped("`prompt_cache_breakpoint`, at most the last four"),
    CARRIED,
)
.extra();
const NAME_ROW: Row = both("name", refused("it has no names of participants"));

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
        .unless(&["0", "0.0"]),
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
        both("moderation", refused("it has no moderation")).whole(),
        both("n", refused("one request gives one answer there")).unless(&["1"]),
        row(
            "parallel_tool_calls",
            CARRIED,
            mapped("`tool_choice.disable_parallel_tool_use`"),
        ),
        both("prediction", refused("it takes no predicted output")).whole(),
        both("presence_penalty", refused("it has no penalties")).unless(&["0", "0.0"]),
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
            refused("it has no stop sequences"),
            mapped("`stop_sequences`"),
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
            mapped("at most 1 there; left out with notice where the model takes none or thinks"),
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

pub(crate) static SYSTEM: Shape = Shape {
    format: Chat,
    at: &["messages[]"],
    tags: &["system"],
    rows: &[
        tag("role"),
        row(
            "content",
            CARRIED,
            mapped("before the first turn `system`, later a message in its place"),
        ),
        NAME_ROW,
    ],
};

pub(crate) static DEVELOPER: Shape = Shape {
    format: Chat,
    at: &["messages[]"],
    tags: &["developer"],
    rows: SYSTEM.rows,
};

pub(crate) static USER: Shape = Shape {
    format: Chat,
    at: &["messages[]"],
    tags: &["user"],
    rows: &[
        tag("role"),
        both("content", CARRIED),
        NAME_ROW,
        both("tool_calls", refused("a user calls no tools"))
            .whole()
            .extra(),
    ],
};

pub(crate) static ASSISTANT: Shape = Shape {
    format: Chat,
    at: &["messages[]"],
    tags: &["assistant"],
    rows: &[
        tag("role"),
        both("content", CARRIED),
        both("tool_calls", mapped("calls with the same ids")),
        row("refusal", mapped("a part of its own"), mapped("text")),
        both("audio", refused("it reads text alone")).whole(),
        both("function_call", refused("use `tool_calls`")).whole(),
        NAME_ROW,
        both(
            "reasoning_content",
            mapped("restored where this provider made it, else left out with notice"),
        )
        .extra(),
        both("reasoning", mapped("as `reasoning_content`")).extra(),
        both(
            "reasoning_details",
            mapped("the seal in it is opened where this provider made it"),
        )
        .whole()
        .extra(),
        both("annotations", dropped("citations are output only"))
            .whole()
            .unless(&["[]"])
            .extra(),
        both("prefix", refused("it does not go on with a begun answer"))
            .unless(&["false"])
            .extra(),
    ],
};

pub(crate) static TOOL_RESULT: Shape = Shape {
    format: Chat,
    at: &["messages[]"],
    tags: &["tool"],
    rows: &[
        tag("role"),
        row(
            "content",
            mapped("`output`"),
            mapped("the content of a `tool_result`"),
        ),
        row("tool_call_id", mapped("`call_id`"), mapped("`tool_use_id`")),
        both("name", implied("the call has it")).extra(),
    ],
};

static FUNCTION_RESULT: Shape = Shape {
    format: Chat,
    at: &["messages[]"],
    tags: &["function"],
    rows: &[
        both("role", refused("use the role `tool`")),
        both("content", refused("use the role `tool`")).whole(),
        both("name", refused("use the role `tool`")),
    ],
};

pub(crate) static PARTS: Kinds = Kinds {
    format: Chat,
    at: &["messages[].content[]"],
    rows: &[
        both("text", CARRIED),
        row(
            "image_url",
            mapped("`input_image`"),
            mapped("`image`, by data or by address"),
        ),
        both("input_audio", refused("it hears nothing")).whole(),
        row(
            "file",
            mapped("`input_file`"),
            mapped("`document`; PDF and plain text alone"),
        ),
        row("refusal", CARRIED, mapped("text")),
    ],
};

pub(crate) static TEXT: Shape = Shape {
    format: Chat,
    at: &["messages[].content[]", "prediction.content[]"],
    tags: &["text"],
    rows: &[
        tag("type"),
        both("text", CARRIED),
        BREAKPOINT_ROW,
        CACHE_CONTROL_ROW,
    ],
};

pub(crate) static IMAGE: Shape = Shape {
    format: Chat,
    at: &["messages[].content[]"],
    tags: &["image_url"],
    rows: &[
        tag("type"),
        both("image_url", CARRIED),
        BREAKPOINT_ROW,
        CACHE_CONTROL_ROW,
    ],
};

pub(crate) static IMAGE_URL: Shape = Shape {
    format: Chat,
    at: &["messages[].content[].image_url"],
    tags: &[],
    rows: &[
        row(
            "url",
            CARRIED,
            mapped("a `data:` URL becomes base64 data; another is passed on, never fetched"),
        ),
        row("detail", CARRIED, dropped("it has no level of detail")).unless(&["\"auto\""]),
    ],
};

pub(crate) static FILE: Shape = Shape {
    format: Chat,
    at: &["messages[].content[]"],
    tags: &["file"],
    rows: &[
        tag("type"),
        both("file", CARRIED),
        BREAKPOINT_ROW,
        CACHE_CONTROL_ROW,
    ],
};

pub(crate) static FILE_DATA: Shape = Shape {
    format: Chat,
    at: &["messages[].content[].file"],
    tags: &[],
    rows: &[
        row(
            "file_data",
            CARRIED,
            mapped("a `source`; PDF and plain text alone"),
        ),
        both(
            "file_id",
            refused("a file is known at the provider that stores it alone"),
        ),
        row("filename", CARRIED, mapped("`title`")),
    ],
};

pub(crate) static REFUSAL: Shape = Shape {
    format: Chat,
    at: &["messages[].content[]"],
    tags: &["refusal"],
    rows: &[tag("type"), row("refusal", CARRIED, mapped("text"))],
};

pub(crate) static BREAKPOINT: Shape = Shape {
    format: Chat,
    at: &["messages[].content[].prompt_cache_breakpoint"],
    tags: &[],
    rows: &[
        both("mode", implied("`explicit` is the only one")),
        row("ttl", CARRIED, dropped("its times to live are others")),
    ],
};

pub(crate) static CACHE_CONTROL: Shape = Shape {
    format: Chat,
    at: &[
        "messages[].content[].cache_control",
        "tools[].cache_control",
    ],
    tags: &[],
    rows: &[
        tag("type").extra(),
        row("ttl", dropped("its times to live are others"), CARRIED).extra(),
    ],
};

pub(crate) static CALLS: Kinds = Kinds {
    format: Chat,
    at: &["messages[].tool_calls[]"],
    rows: &[
        row("function", mapped("`function_call`"), mapped("`tool_use`")),
        row(
            "custom",
            mapped("`custom_tool_call`"),
            mapped("`tool_use` with the text as `input`"),
        ),
    ],
};

pub(crate) static FUNCTION_CALL: Shape = Shape {
    format: Chat,
    at: &["messages[].tool_calls[]"],
    tags: &["function"],
    rows: &[
        tag("type"),
        row("id", mapped("`call_id`"), CARRIED),
        both("function", CARRIED),
        both("index", implied("the order says it")).extra(),
    ],
};

pub(crate) static CALLED_FUNCTION: Shape = Shape {
    format: Chat,
    at: &["messages[].tool_calls[].function"],
    tags: &[],
    rows: &[
        row("arguments", CARRIED, mapped("`input`, as an object")),
        both("name", mapped("shortened where the target takes less")),
    ],
};

pub(crate) static CUSTOM_CALL: Shape = Shape {
    format: Chat,
    at: &["messages[].tool_calls[]"],
    tags: &["custom"],
    rows: &[
        tag("type"),
        row("id", mapped("`call_id`"), CARRIED),
        both("custom", CARRIED),
        both("index", implied("the order says it")).extra(),
    ],
};

pub(crate) static CALLED_CUSTOM: Shape = Shape {
    format: Chat,
    at: &["messages[].tool_calls[].custom"],
    tags: &[],
    rows: &[
        row(
            "input",
            CARRIED,
            mapped("the member `input` of the call's input"),
        ),
        both("name", mapped("shortened where the target takes less")),
    ],
};

pub(crate) static TOOLS: Kinds = Kinds {
    format: Chat,
    at: &["tools[]"],
    rows: &[
        both("function", CARRIED),
        row(
            "custom",
            CARRIED,
            mapped("a function with one string, `input`; the grammar in its description"),
        ),
    ],
};

pub(crate) static FUNCTION_TOOL: Shape = Shape {
    format: Chat,
    at: &["tools[]"],
    tags: &["function"],
    rows: &[tag("type"), both("function", CARRIED), CACHE_CONTROL_ROW],
};

pub(crate) static FUNCTION: Shape = Shape {
    format: Chat,
    at: &["tools[].function"],
    tags: &[],
    rows: &[
        both("name", mapped("shortened where the target takes less")),
        both("description", CARRIED),
        row(
            "parameters",
            CARRIED,
            mapped("`input_schema`, of type object"),
        )
        .whole(),
        row("strict", mapped("`false` where it is not given"), CARRIED),
    ],
};

pub(crate) static CUSTOM_TOOL: Shape = Shape {
    format: Chat,
    at: &["tools[]"],
    tags: &["custom"],
    rows: &[tag("type"), both("custom", CARRIED), CACHE_CONTROL_ROW],
};

pub(crate) static CUSTOM: Shape = Shape {
    format: Chat,
    at: &["tools[].custom"],
    tags: &[],
    rows: &[
        both("name", mapped("shortened where the target takes less")),
        both("description", CARRIED),
        row("format", CARRIED, mapped("told in the description")),
    ],
};

pub(crate) static CUSTOM_FORMATS: Kinds = Kinds {
    format: Chat,
    at: &["tools[].custom.format"],
    rows: &[
        both("text", CARRIED),
        row("grammar", CARRIED, mapped("told in the description")),
    ],
};

pub(crate) static CUSTOM_TEXT: Shape = Shape {
    format: Chat,
    at: &["tools[].custom.format"],
    tags: &["text"],
    rows: &[tag("type")],
};

pub(crate) static CUSTOM_GRAMMAR: Shape = Shape {
    format: Chat,
    at: &["tools[].custom.format"],
    tags: &["grammar"],
    rows: &[tag("type"), both("grammar", CARRIED)],
};

pub(crate) static GRAMMAR: Shape = Shape {
    format: Chat,
    at: &["tools[].custom.format.grammar"],
    tags: &[],
    rows: &[
        row("definition", CARRIED, mapped("told in the description")),
        row("syntax", CARRIED, mapped("told in the description")),
    ],
};

pub(crate) static CHOICES: Kinds = Kinds {
    format: Chat,
    at: &["tool_choice"],
    rows: &[
        row("function", CARRIED, mapped("`tool`")),
        row("custom", CARRIED, mapped("`tool`")),
        both("allowed_tools", mapped("the other tools are not offered")),
    ],
};

pub(crate) static CHOICE_FUNCTION: Shape = Shape {
    format: Chat,
    at: &["tool_choice", "tool_choice.allowed_tools.tools[]"],
    tags: &["function"],
    rows: &[tag("type"), both("function", CARRIED)],
};

pub(crate) static CHOICE_CUSTOM: Shape = Shape {
    format: Chat,
    at: &["tool_choice", "tool_choice.allowed_tools.tools[]"],
    tags: &["custom"],
    rows: &[tag("type"), both("custom", CARRIED)],
};

pub(crate) static CHOICE_NAME: Shape = Shape {
    format: Chat,
    at: &["tool_choice.function", "tool_choice.custom"],
    tags: &[],
    rows: &[both(
        "name",
        mapped("shortened where the target takes less"),
    )],
};

pub(crate) static CHOICE_ALLOWED: Shape = Shape {
    format: Chat,
    at: &["tool_choice"],
    tags: &["allowed_tools"],
    rows: &[tag("type"), both("allowed_tools", CARRIED)],
};

pub(crate) static ALLOWED_TOOLS: Shape = Shape {
    format: Chat,
    at: &["tool_choice.allowed_tools"],
    tags: &[],
    rows: &[
        both("mode", mapped("the choice among the tools that are left")),
        both("tools", mapped("the other tools are not offered")).whole(),
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
            refused("it has no JSON without a schema: use `json_schema`"),
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
            implied("schemas are always kept to there"),
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
