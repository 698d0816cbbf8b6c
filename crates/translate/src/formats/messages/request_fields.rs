//! The fields of a messages request.

pub(crate) mod blocks;
pub(crate) mod tools;

pub(crate) use {blocks::*, tools::*};

use crate::{
    features::Feature as F,
    table::{core, declare_kinds, declare_shapes, field, implied, tag},
};

declare_shapes! {
    TOP: &[""], &[] => &[
        field("max_tokens", F::OutputLimit),
        core("messages").how("turn by turn, in order"),
        core("model").how("the name that the provider knows it by"),
        field("billing_policy", F::BillingPolicies).whole(),
        implied("cache_control", "it caches what requests share without being asked").whole(),
        field("compaction", F::Compaction).whole(),
        field("container", F::Containers).whole(),
        core("context_management").how("keeping all thinking is what happens; other edits are refused"),
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
    ];

    METADATA: &["metadata"], &[] => &[field("user_id", F::UserId).how("`safety_identifier` or `user`, hashed")];

    OUTPUT_CONFIG: &["output_config"], &[] => &[
        field("effort", F::Effort),
        field("format", F::AnswerFormats),
        field("task_budget", F::TaskBudgets).whole(),
    ];

    FORMAT_SCHEMA: &["output_config.format"], &["json_schema"] => &[
        core("type"),
        core("schema").how("with a name of the gateway's").whole(),
    ];

    /// Every kind of `thinking` has the same fields, or fewer.
    THINKING_CONFIG: &["thinking"], &["enabled", "disabled", "adaptive", "between_tools"] => &[
        field("type", F::Effort).how("`disabled` is the effort `none`; `between_tools` is `low`, with notice"),
        field("budget_tokens", F::Effort).how("the effort that thinks as much"),
        field("display", F::ReasoningShown).how("whether reasoning is asked for and shown"),
        field("block_binding", F::BlockBinding).whole(),
    ];

    CONTEXT_MANAGEMENT: &["context_management"], &[] => &[core("edits").how("keeping all thinking is what happens")];

    CLEAR_THINKING: &["context_management.edits[]"], &["clear_thinking_20251015"] => &[
        tag("type"),
        field("keep", F::HistoryEdits).whole().unless(&["\"all\"", "{\"type\":\"all\"}"]),
    ];
}

declare_kinds! {
    EDITS: &["context_management.edits[]"] => &[
        core("clear_thinking_20251015").how("keeping all thinking is what happens"),
        field("clear_tool_uses_20250919", F::HistoryEdits).whole(),
        field("compact_20260112", F::Compaction).whole(),
    ];
}
