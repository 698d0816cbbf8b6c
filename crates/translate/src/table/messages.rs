//! The fields of a messages request. Fates: towards chat, towards responses.

use super::{CARRIED, Kinds, Row, Shape, both, dropped, implied, mapped, refused, row, tag};
use tollgate_types::Format::Messages;

pub(super) const SHAPES: &[&Shape] = &[
    &TOP,
    &USER,
    &ASSISTANT,
    &SYSTEM,
    &TEXT,
    &IMAGE,
    &DOCUMENT,
    &SEARCH_RESULT,
    &CITATIONS,
    &BASE64,
    &URL,
    &PLAIN,
    &CONTENT_SOURCE,
    &THINKING,
    &REDACTED,
    &TOOL_USE,
    &TOOL_RESULT,
    &TOOL_REFERENCE,
    &TOOL_CHANGE,
    &CHANGED_TOOL,
    &CHANGED_DEFINITION,
    &CACHE_CONTROL,
    &TOOL,
    &CHOICE,
    &METADATA,
    &OUTPUT_CONFIG,
    &TURN_OUTPUT_CONFIG,
    &FORMAT_SCHEMA,
    &THINKING_CONFIG,
    &CONTEXT_MANAGEMENT,
    &CLEAR_THINKING,
];

pub(super) const KINDS: &[&Kinds] = &[
    &BLOCKS,
    &SYSTEM_BLOCKS,
    &MESSAGE_SYSTEM_BLOCKS,
    &RESULT_BLOCKS,
    &IMAGE_SOURCES,
    &DOCUMENT_SOURCES,
    &TOOL_CHANGES,
    &TOOLS,
    &EDITS,
];

const CACHE_ROW: Row = both(
    "cache_control",
    mapped(
        "`prompt_cache_breakpoint` on text where the provider knows it, at most the last four; else dropped with notice",
    ),
);
const CALLER: Row = both("caller", refused("only the model itself calls tools there"))
    .whole()
    .unless(&["{\"type\":\"direct\"}"]);
const TOOLSET: Row = both("toolset_name", refused("it has no toolsets"));
const HOSTED: &str = "the provider's own tools are taken out, unless `tool_choice` demands them or nothing else is offered";
const HOSTED_PAST: &str = "it is about a tool of another provider";

pub(crate) static TOP: Shape = Shape {
    format: Messages,
    at: &[""],
    tags: &[],
    rows: &[
        row(
            "max_tokens",
            mapped("`max_completion_tokens` or `max_tokens`, as the provider knows it"),
            mapped("`max_output_tokens`, 16 at least"),
        ),
        row(
            "messages",
            mapped("turn by turn, in order"),
            mapped("`input`, turn by turn, in order"),
        ),
        both("model", mapped("the name that the provider knows it by")),
        both("billing_policy", refused("it has no billing policies")).whole(),
        both(
            "cache_control",
            implied("it caches what requests share without being asked"),
        )
        .whole(),
        both("compaction", refused("it does not compact the history")).whole(),
        both("container", refused("it has no containers")).whole(),
        both(
            "context_management",
            mapped("keeping all thinking is what happens; other edits are refused"),
        ),
        both("diagnostics", dropped("it has no diagnostics")).whole(),
        both("fallback_credit_token", refused("it has no fallbacks")).whole(),
        both("fallbacks", refused("it has no fallbacks"))
            .whole()
            .unless(&["[]"]),
        both("inference_geo", refused("it does not choose where it runs")),
        both("mcp_servers", refused("it calls no servers"))
            .whole()
            .unless(&["[]"]),
        both("metadata", mapped("`user_id`, hashed")),
        both("output_config", mapped("format and effort")),
        both("service_tier", mapped("`standard_only` is `default`")),
        both("speed", refused("it has one speed")).unless(&["\"standard\""]),
        row(
            "stop_sequences",
            mapped("`stop`, four at most"),
            refused("it has no stop sequences"),
        )
        .unless(&["[]"]),
        row(
            "system",
            mapped("the first message"),
            mapped("`instructions`, or the first message where it has several blocks"),
        ),
        both("thinking", mapped("the effort")),
        both(
            "thread",
            refused("it keeps no conversations: send the whole history"),
        )
        .whole(),
        both(
            "tool_choice",
            mapped("its own spelling, and `parallel_tool_calls`"),
        ),
        both(
            "tools",
            mapped("functions; the provider's own are taken out with notice"),
        ),
        both("betas", implied("the SDK sends it as a header")).whole(),
        both("user_profile_id", refused("it has no user profiles")),
        both("workspace_id", refused("it has no workspaces")),
        both("stream", CARRIED),
        row("temperature", CARRIED, CARRIED).extra(),
        row("top_p", CARRIED, CARRIED).extra(),
        row(
            "top_k",
            mapped("where the provider knows it; else dropped with notice"),
            dropped("it has no `top_k`"),
        )
        .extra(),
    ],
};

pub(crate) static USER: Shape = Shape {
    format: Messages,
    at: &["messages[]"],
    tags: &["user"],
    rows: &[tag("role"), both("content", CARRIED)],
};

pub(crate) static ASSISTANT: Shape = Shape {
    format: Messages,
    at: &["messages[]"],
    tags: &["assistant"],
    rows: &[
        tag("role"),
        both(
            "content",
            mapped("as the last message it is refused: there is no going on with a begun answer"),
        ),
    ],
};

pub(crate) static SYSTEM: Shape = Shape {
    format: Messages,
    at: &["messages[]"],
    tags: &["system"],
    rows: &[
        tag("role"),
        both("content", mapped("a message in its place")),
        both("clear_at", mapped("left out once its turn is over")),
        both("output_config", mapped("the last effort is the request's")),
    ],
};

pub(crate) static BLOCKS: Kinds = Kinds {
    format: Messages,
    at: &["messages[].content[]"],
    rows: &[
        both("text", CARRIED),
        row("image", mapped("`image_url`"), mapped("`input_image`")),
        row(
            "document",
            mapped("`file`, or text"),
            mapped("`input_file`, or text"),
        ),
        both("search_result", mapped("text")),
        row(
            "thinking",
            mapped("`reasoning_content` where this provider made it, else left out with notice"),
            mapped("a `reasoning` item where this provider made it, else left out with notice"),
        ),
        row(
            "redacted_thinking",
            dropped("it belongs to another provider"),
            mapped("a `reasoning` item where this provider made it, else left out with notice"),
        ),
        row(
            "tool_use",
            mapped("`tool_calls`"),
            mapped("`function_call`"),
        ),
        row(
            "tool_result",
            mapped("a message of the role `tool`"),
            mapped("`function_call_output`"),
        ),
        both("server_tool_use", refused(HOSTED_PAST)).whole(),
        both("web_search_tool_result", refused(HOSTED_PAST)).whole(),
        both("web_fetch_tool_result", refused(HOSTED_PAST)).whole(),
        both("advisor_tool_result", refused(HOSTED_PAST)).whole(),
        both("code_execution_tool_result", refused(HOSTED_PAST)).whole(),
        both("bash_code_execution_tool_result", refused(HOSTED_PAST)).whole(),
        both(
            "text_editor_code_execution_tool_result",
            refused(HOSTED_PAST),
        )
        .whole(),
        both("tool_search_tool_result", refused(HOSTED_PAST)).whole(),
        both("mcp_tool_use", refused(HOSTED_PAST)).whole(),
        both("mcp_tool_result", refused(HOSTED_PAST)).whole(),
        both("mcp_tool_listing", refused(HOSTED_PAST)).whole(),
        both("container_upload", refused("it has no containers")).whole(),
        both(
            "compaction",
            refused("a compacted history is known at its own provider alone"),
        )
        .whole(),
        both("fallback", refused("it has no fallbacks")).whole(),
        both("tool_addition", refused("it stands in system messages")).whole(),
        both("tool_removal", refused("it stands in system messages")).whole(),
    ],
};

pub(crate) static SYSTEM_BLOCKS: Kinds = Kinds {
    format: Messages,
    at: &["system[]"],
    rows: &[both("text", CARRIED)],
};

/// What stands in a message of the role `system`.
pub(crate) static MESSAGE_SYSTEM_BLOCKS: Kinds = Kinds {
    format: Messages,
    at: &["messages[].content[]"],
    rows: &[
        both("text", CARRIED),
        both(
            "tool_addition",
            mapped("every tool is offered from the start"),
        ),
        both("tool_removal", mapped("the tool is not offered")),
    ],
};

pub(crate) static RESULT_BLOCKS: Kinds = Kinds {
    format: Messages,
    at: &["messages[].content[].content[]"],
    rows: &[
        both("text", CARRIED),
        row(
            "image",
            mapped("in a user message after the result"),
            mapped("`input_image`"),
        ),
        row(
            "document",
            mapped("in a user message after the result, or text"),
            mapped("`input_file`, or text"),
        ),
        both("search_result", mapped("text")),
        both("tool_reference", mapped("text that names the tool")),
        both("browser_state", refused(HOSTED_PAST)).whole(),
    ],
};

const TEXT_AT: &[&str] = &[
    "messages[].content[]",
    "messages[].content[].content[]",
    "messages[].content[].source.content[]",
    "messages[].content[].content[].content[]",
    "messages[].content[].content[].source.content[]",
    "system[]",
];

pub(crate) static TEXT: Shape = Shape {
    format: Messages,
    at: TEXT_AT,
    tags: &["text"],
    rows: &[
        tag("type"),
        both("text", CARRIED),
        CACHE_ROW,
        both("citations", dropped("citations are output only"))
            .whole()
            .unless(&["[]"]),
    ],
};

pub(crate) static IMAGE: Shape = Shape {
    format: Messages,
    at: TEXT_AT,
    tags: &["image"],
    rows: &[
        tag("type"),
        both(
            "source",
            mapped("data as a `data:` URL; another address is passed on, never fetched"),
        ),
        both(
            "cache_control",
            dropped("images are not marked for caching there"),
        )
        .whole(),
        both(
            "transformations",
            refused("it does not say what is done to images"),
        )
        .whole()
        .unless(&["{}"]),
    ],
};

const SOURCES_AT: &[&str] = &[
    "messages[].content[].source",
    "messages[].content[].content[].source",
    "messages[].content[].source.content[].source",
    "messages[].content[].content[].source.content[].source",
];
const STORED: &str = "a file is known at the provider that stores it alone";

pub(crate) static IMAGE_SOURCES: Kinds = Kinds {
    format: Messages,
    at: SOURCES_AT,
    rows: &[
        both("base64", mapped("a `data:` URL")),
        both("url", CARRIED),
        both("file", refused(STORED)).whole(),
    ],
};

pub(crate) static DOCUMENT_SOURCES: Kinds = Kinds {
    format: Messages,
    at: SOURCES_AT,
    rows: &[
        both("base64", mapped("`file_data`, a `data:` URL")),
        row(
            "url",
            refused("it takes files by their data alone"),
            mapped("`file_url`"),
        ),
        both("text", mapped("text, its title before it")),
        both("content", mapped("text and images, its title before them")),
        both("file", refused(STORED)).whole(),
    ],
};

pub(crate) static BASE64: Shape = Shape {
    format: Messages,
    at: SOURCES_AT,
    tags: &["base64"],
    rows: &[
        tag("type"),
        both("data", CARRIED),
        both("media_type", CARRIED),
    ],
};

pub(crate) static URL: Shape = Shape {
    format: Messages,
    at: SOURCES_AT,
    tags: &["url"],
    rows: &[tag("type"), both("url", CARRIED)],
};

pub(crate) static PLAIN: Shape = Shape {
    format: Messages,
    at: SOURCES_AT,
    tags: &["text"],
    rows: &[
        tag("type"),
        both("data", CARRIED),
        both("media_type", implied("it is `text/plain`")),
    ],
};

pub(crate) static CONTENT_SOURCE: Shape = Shape {
    format: Messages,
    at: SOURCES_AT,
    tags: &["content"],
    rows: &[tag("type"), both("content", CARRIED)],
};

pub(crate) static DOCUMENT: Shape = Shape {
    format: Messages,
    at: TEXT_AT,
    tags: &["document"],
    rows: &[
        tag("type"),
        both("source", CARRIED),
        both(
            "cache_control",
            dropped("files are not marked for caching there"),
        )
        .whole(),
        both("citations", mapped("refused where they are enabled")),
        both("context", mapped("text before the document")),
        both("title", mapped("`filename`, or text")),
    ],
};

pub(crate) static CITATIONS: Shape = Shape {
    format: Messages,
    at: &[
        "messages[].content[].citations",
        "messages[].content[].content[].citations",
    ],
    tags: &[],
    rows: &[both("enabled", refused("it cites no documents")).unless(&["false"])],
};

pub(crate) static SEARCH_RESULT: Shape = Shape {
    format: Messages,
    at: TEXT_AT,
    tags: &["search_result"],
    rows: &[
        tag("type"),
        both("content", mapped("text")),
        both("source", mapped("a line before the text")),
        both("title", mapped("a line before the text")),
        CACHE_ROW,
        both("citations", mapped("refused where they are enabled")),
    ],
};

pub(crate) static THINKING: Shape = Shape {
    format: Messages,
    at: &["messages[].content[]"],
    tags: &["thinking"],
    rows: &[
        tag("type"),
        both("thinking", mapped("its text, where this provider made it")),
        both(
            "signature",
            mapped("the seal is opened where this provider made it"),
        ),
    ],
};

pub(crate) static REDACTED: Shape = Shape {
    format: Messages,
    at: &["messages[].content[]"],
    tags: &["redacted_thinking"],
    rows: &[
        tag("type"),
        both(
            "data",
            mapped("the seal is opened where this provider made it"),
        ),
    ],
};

pub(crate) static TOOL_USE: Shape = Shape {
    format: Messages,
    at: &["messages[].content[]"],
    tags: &["tool_use"],
    rows: &[
        tag("type"),
        row("id", CARRIED, mapped("`call_id`")),
        both("input", mapped("`arguments`, as a string")).whole(),
        both("name", mapped("shortened where the target takes less")),
        both(
            "cache_control",
            dropped("calls are not marked for caching there"),
        )
        .whole(),
        CALLER,
        TOOLSET,
    ],
};

pub(crate) static TOOL_RESULT: Shape = Shape {
    format: Messages,
    at: &["messages[].content[]"],
    tags: &["tool_result"],
    rows: &[
        tag("type"),
        row("tool_use_id", mapped("`tool_call_id`"), mapped("`call_id`")),
        row(
            "content",
            mapped("text; other parts in a user message after it"),
            mapped("`output`"),
        ),
        both("is_error", mapped("`ERROR: ` before the text")),
        both(
            "cache_control",
            dropped("results are not marked for caching there"),
        )
        .whole(),
        TOOLSET,
    ],
};

pub(crate) static TOOL_REFERENCE: Shape = Shape {
    format: Messages,
    at: &["messages[].content[].content[]"],
    tags: &["tool_reference"],
    rows: &[
        tag("type"),
        both("tool_name", mapped("text that names the tool")),
        both(
            "cache_control",
            dropped("results are not marked for caching there"),
        )
        .whole(),
    ],
};

pub(crate) static TOOL_CHANGE: Shape = Shape {
    format: Messages,
    at: &["messages[].content[]"],
    tags: &["tool_addition", "tool_removal"],
    rows: &[
        tag("type"),
        both("tool", CARRIED),
        both(
            "cache_control",
            dropped("changes of tools are not marked for caching there"),
        )
        .whole(),
    ],
};

pub(crate) static TOOL_CHANGES: Kinds = Kinds {
    format: Messages,
    at: &["messages[].content[].tool"],
    rows: &[
        both("tool_reference", CARRIED),
        both("tool_definition", mapped("offered with the other tools")),
        both("mcp_tool_reference", refused("it calls no servers")).whole(),
        both("mcp_toolset_reference", refused("it calls no servers")).whole(),
    ],
};

pub(crate) static CHANGED_TOOL: Shape = Shape {
    format: Messages,
    at: &["messages[].content[].tool"],
    tags: &["tool_reference"],
    rows: &[tag("type"), both("name", CARRIED)],
};

pub(crate) static CHANGED_DEFINITION: Shape = Shape {
    format: Messages,
    at: &["messages[].content[].tool"],
    tags: &["tool_definition"],
    rows: &[tag("type"), both("definition", CARRIED)],
};

pub(crate) static CACHE_CONTROL: Shape = Shape {
    format: Messages,
    at: &[
        "messages[].content[].cache_control",
        "messages[].content[].content[].cache_control",
        "messages[].content[].source.content[].cache_control",
        "messages[].content[].content[].content[].cache_control",
        "messages[].content[].content[].source.content[].cache_control",
        "system[].cache_control",
    ],
    tags: &["ephemeral"],
    rows: &[
        tag("type"),
        both("ttl", implied("the provider has one time to live")),
    ],
};

const TOOLS_AT: &[&str] = &["tools[]", "messages[].content[].tool.definition"];

pub(crate) static TOOLS: Kinds = Kinds {
    format: Messages,
    at: TOOLS_AT,
    rows: &[
        both("custom", mapped("a function")),
        both("bash_20241022", dropped(HOSTED)).whole(),
        both("bash_20250124", dropped(HOSTED)).whole(),
        both("code_execution_20250522", dropped(HOSTED)).whole(),
        both("code_execution_20250825", dropped(HOSTED)).whole(),
        both("code_execution_20260120", dropped(HOSTED)).whole(),
        both("code_execution_20260521", dropped(HOSTED)).whole(),
        both("browser_toolset_20260801", dropped(HOSTED)).whole(),
        both("computer_20241022", dropped(HOSTED)).whole(),
        both("computer_20250124", dropped(HOSTED)).whole(),
        both("computer_20251124", dropped(HOSTED)).whole(),
        both("computer_toolset_20260801", dropped(HOSTED)).whole(),
        both("memory_20250818", dropped(HOSTED)).whole(),
        both("text_editor_20241022", dropped(HOSTED)).whole(),
        both("text_editor_20250124", dropped(HOSTED)).whole(),
        both("text_editor_20250429", dropped(HOSTED)).whole(),
        both("text_editor_20250728", dropped(HOSTED)).whole(),
        both("web_search_20250305", dropped(HOSTED)).whole(),
        both("web_search_20260209", dropped(HOSTED)).whole(),
        both("web_search_20260318", dropped(HOSTED)).whole(),
        both("web_fetch_20250910", dropped(HOSTED)).whole(),
        both("web_fetch_20260209", dropped(HOSTED)).whole(),
        both("web_fetch_20260309", dropped(HOSTED)).whole(),
        both("web_fetch_20260318", dropped(HOSTED)).whole(),
        both("advisor_20260301", dropped(HOSTED)).whole(),
        both("tool_search_tool_bm25_20251119", dropped(HOSTED)).whole(),
        both("tool_search_tool_bm25", dropped(HOSTED)).whole(),
        both("tool_search_tool_regex_20251119", dropped(HOSTED)).whole(),
        both("tool_search_tool_regex", dropped(HOSTED)).whole(),
        both("mcp_toolset", dropped(HOSTED)).whole(),
    ],
};

pub(crate) static TOOL: Shape = Shape {
    format: Messages,
    at: TOOLS_AT,
    tags: &["custom"],
    rows: &[
        tag("type"),
        both("input_schema", mapped("`parameters`")).whole(),
        both("name", mapped("shortened where the target takes less")),
        both("description", CARRIED),
        both("strict", CARRIED),
        both("defer_loading", mapped("the tool is offered at once")),
        both(
            "allowed_callers",
            dropped("only the model itself calls tools there"),
        )
        .whole()
        .unless(&["[\"direct\"]"]),
        both(
            "cache_control",
            dropped("tools are not marked for caching there"),
        )
        .whole(),
        both(
            "eager_input_streaming",
            dropped("arguments are streamed as the provider does"),
        )
        .unless(&["false"]),
        both("input_examples", dropped("tools have no examples there"))
            .whole()
            .unless(&["[]"]),
    ],
};

/// Every kind of `tool_choice` has the same fields, or fewer.
pub(crate) static CHOICE: Shape = Shape {
    format: Messages,
    at: &["tool_choice"],
    tags: &["auto", "any", "tool", "none"],
    rows: &[
        both("type", mapped("`any` is `required`")),
        both("name", mapped("shortened where the target takes less")),
        both("disable_parallel_tool_use", mapped("`parallel_tool_calls`")),
    ],
};

pub(crate) static METADATA: Shape = Shape {
    format: Messages,
    at: &["metadata"],
    tags: &[],
    rows: &[both(
        "user_id",
        mapped("`safety_identifier` or `user`, hashed"),
    )],
};

pub(crate) static OUTPUT_CONFIG: Shape = Shape {
    format: Messages,
    at: &["output_config"],
    tags: &[],
    rows: &[
        row(
            "effort",
            mapped("`reasoning_effort`"),
            mapped("`reasoning.effort`"),
        ),
        row(
            "format",
            mapped("`response_format`"),
            mapped("`text.format`"),
        ),
        both("task_budget", refused("it has no budgets for tasks")).whole(),
    ],
};

pub(crate) static TURN_OUTPUT_CONFIG: Shape = Shape {
    format: Messages,
    at: &["messages[].output_config"],
    tags: &[],
    rows: &[both("effort", mapped("the last one is the request's"))],
};

pub(crate) static FORMAT_SCHEMA: Shape = Shape {
    format: Messages,
    at: &["output_config.format"],
    tags: &["json_schema"],
    rows: &[
        both("type", CARRIED),
        both("schema", mapped("with a name of the gateway's")).whole(),
    ],
};

/// Every kind of `thinking` has the same fields, or fewer.
pub(crate) static THINKING_CONFIG: Shape = Shape {
    format: Messages,
    at: &["thinking"],
    tags: &["enabled", "disabled", "adaptive", "between_tools"],
    rows: &[
        both(
            "type",
            mapped("`disabled` is the effort `none`; `between_tools` is `low`, with notice"),
        ),
        both("budget_tokens", mapped("the effort that thinks as much")),
        both(
            "display",
            mapped("whether reasoning is asked for and shown"),
        ),
        both(
            "block_binding",
            dropped("a block of another provider is left out by itself"),
        )
        .whole(),
    ],
};

pub(crate) static CONTEXT_MANAGEMENT: Shape = Shape {
    format: Messages,
    at: &["context_management"],
    tags: &[],
    rows: &[both(
        "edits",
        mapped("keeping all thinking is what happens"),
    )],
};

pub(crate) static EDITS: Kinds = Kinds {
    format: Messages,
    at: &["context_management.edits[]"],
    rows: &[
        both(
            "clear_thinking_20251015",
            mapped("keeping all thinking is what happens"),
        ),
        both(
            "clear_tool_uses_20250919",
            refused("it does not shorten the history"),
        )
        .whole(),
        both(
            "compact_20260112",
            refused("it does not compact the history"),
        )
        .whole(),
    ],
};

pub(crate) static CLEAR_THINKING: Shape = Shape {
    format: Messages,
    at: &["context_management.edits[]"],
    tags: &["clear_thinking_20251015"],
    rows: &[
        tag("type"),
        both("keep", refused("it does not shorten the history"))
            .whole()
            .unless(&["\"all\"", "{\"type\":\"all\"}"]),
    ],
};
