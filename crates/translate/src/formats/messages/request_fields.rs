//! The fields of a messages request.

mod blocks;
mod tools;

pub(crate) use {blocks::*, tools::*};

use crate::{
    features::Feature as F,
    table::{Kinds, Shape, core, field, implied, tag},
};

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
    at: &[""],
    tags: &[],
    rows: &[
        field("max_tokens", F::OutputLimit),
        core("messages").how("turn by turn, in order"),
        core("model").how("the name that the provider knows it by"),
        field("billing_policy", F::BillingPolicies).whole(),
        implied(
            "cache_control",
            "it caches what requests share without being asked",
        )
        .whole(),
        field("compaction", F::Compaction).whole(),
        field("container", F::Containers).whole(),
        core("context_management")
            .how("keeping all thinking is what happens; other edits are refused"),
        field("diagnostics", F::Diagnostics).whole(),
        field("fallback_credit_token", F::Fallbacks).whole(),
        field("fallbacks", F::Fallbacks).whole().unless(&["[]"]),
        field("inference_geo", F::InferenceRegion),
        field("mcp_servers", F::McpServers).whole().unless(&["[]"]),
        field("metadata", F::UserId).how("`user_id`, hashed"),
        core("output_config").how("format and effort"),
        field("service_tier", F::ServiceTier).how("`standard_only` is `default`"),
        field("speed", F::Speed).unless(&["\"standard\""]),
        field("stop_sequences", F::StopSequences).unless(&["[]"]),
        field("system", F::Instructions),
        field("thinking", F::Effort).how("the effort"),
        field("thread", F::StoredConversations).whole(),
        field("tool_choice", F::ToolChoice).how("its own spelling, and `parallel_tool_calls`"),
        field("tools", F::Tools),
        implied("betas", "the SDK sends it as a header").whole(),
        field("user_profile_id", F::UserProfiles),
        field("workspace_id", F::Workspaces),
        core("stream"),
        core("temperature").extra(),
        core("top_p").extra(),
        field("top_k", F::TopKHint).extra(),
    ],
};

pub(crate) static METADATA: Shape = Shape {
    at: &["metadata"],
    tags: &[],
    rows: &[field("user_id", F::UserId).how("`safety_identifier` or `user`, hashed")],
};

pub(crate) static OUTPUT_CONFIG: Shape = Shape {
    at: &["output_config"],
    tags: &[],
    rows: &[
        field("effort", F::Effort),
        field("format", F::AnswerFormats),
        field("task_budget", F::TaskBudgets).whole(),
    ],
};

pub(crate) static FORMAT_SCHEMA: Shape = Shape {
    at: &["output_config.format"],
    tags: &["json_schema"],
    rows: &[
        core("type"),
        core("schema").how("with a name of the gateway's").whole(),
    ],
};

/// Every kind of `thinking` has the same fields, or fewer.
pub(crate) static THINKING_CONFIG: Shape = Shape {
    at: &["thinking"],
    tags: &["enabled", "disabled", "adaptive", "between_tools"],
    rows: &[
        field("type", F::Effort)
            .how("`disabled` is the effort `none`; `between_tools` is `low`, with notice"),
        field("budget_tokens", F::Effort).how("the effort that thinks as much"),
        field("display", F::ReasoningShown).how("whether reasoning is asked for and shown"),
        field("block_binding", F::BlockBinding).whole(),
    ],
};

pub(crate) static CONTEXT_MANAGEMENT: Shape = Shape {
    at: &["context_management"],
    tags: &[],
    rows: &[core("edits").how("keeping all thinking is what happens")],
};

pub(crate) static EDITS: Kinds = Kinds {
    at: &["context_management.edits[]"],
    rows: &[
        core("clear_thinking_20251015").how("keeping all thinking is what happens"),
        field("clear_tool_uses_20250919", F::HistoryEdits).whole(),
        field("compact_20260112", F::Compaction).whole(),
    ],
};

pub(crate) static CLEAR_THINKING: Shape = Shape {
    at: &["context_management.edits[]"],
    tags: &["clear_thinking_20251015"],
    rows: &[
        tag("type"),
        field("keep", F::HistoryEdits)
            .whole()
            .unless(&["\"all\"", "{\"type\":\"all\"}"]),
    ],
};
