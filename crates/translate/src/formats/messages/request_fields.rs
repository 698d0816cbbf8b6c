//! The fields of a messages request. Fates: towards chat, towards responses.

mod blocks;
mod tools;

pub(crate) use {blocks::*, tools::*};

use crate::table::{
    CARRIED, Kinds, STOPS, Shape, both, dropped, implied, mapped, refused, row, tag,
};
use tollgate_types::Format::Messages;

pub(crate) const SHAPES: &[&Shape] = &[
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
    &SERVER_TOOL_USE,
    &SEARCH_TOOL_RESULT,
    &TOOL_CHANGE,
    &CHANGED_TOOL,
    &CHANGED_DEFINITION,
    &CACHE_CONTROL,
    &TOOL,
    &WEB_SEARCH,
    &USER_LOCATION,
    &CHOICE,
    &METADATA,
    &OUTPUT_CONFIG,
    &TURN_OUTPUT_CONFIG,
    &FORMAT_SCHEMA,
    &THINKING_CONFIG,
    &CONTEXT_MANAGEMENT,
    &CLEAR_THINKING,
];

pub(crate) const KINDS: &[&Kinds] = &[
    &BLOCKS,
    &SYSTEM_BLOCKS,
    &MESSAGE_SYSTEM_BLOCKS,
    &RESULT_BLOCKS,
    &FOUND_BLOCKS,
    &SOURCE_BLOCKS,
    &IMAGE_SOURCES,
    &DOCUMENT_SOURCES,
    &TOOL_CHANGES,
    &TOOLS,
    &EDITS,
];

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
            mapped(STOPS),
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
        row(
            "tools",
            mapped("functions; the provider's own are taken out with notice"),
            mapped(
                "functions, and web search where the provider has it; the provider's other tools are taken out with notice",
            ),
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
