//! The fields of tools in a messages request: offered, chosen, added and taken away.

use crate::{
    features::Feature as F,
    table::{LOCATION, Row, core, declare_kinds, declare_shapes, field, implied, tag},
};

const TOOLS_AT: &[&str] = &["tools[]", "messages[].content[].tool.definition"];

const CACHE_CONTROL: Row = field("cache_control", F::ToolMarks);

const ALLOWED_CALLERS: Row = field("allowed_callers", F::AllowedCallers)
    .whole()
    .unless(&["[\"direct\"]"]);

declare_shapes! {
    TOOL_CHANGE: &["messages[].content[]"], &["tool_addition", "tool_removal"] => &[
        tag("type"),
        core("tool"),
        field("cache_control", F::BlockMarks).whole(),
    ];

    CHANGED_TOOL: &["messages[].content[].tool"], &["tool_reference"] => &[tag("type"), core("name")];

    CHANGED_DEFINITION: &["messages[].content[].tool"], &["tool_definition"] => &[tag("type"), core("definition")];

    TOOL: TOOLS_AT, &["custom"] => &[
        tag("type"),
        field("input_schema", F::Parameters).how("`parameters`").whole(),
        core("name").how("shortened where the target takes less"),
        core("description"),
        field("strict", F::Strictness).unless(&["false"]),
        core("defer_loading").how("the tool is offered at once"),
        ALLOWED_CALLERS,
        CACHE_CONTROL,
        field("eager_input_streaming", F::EagerStreaming).unless(&["false"]),
        field("input_examples", F::ToolExamples).whole().unless(&["[]"]),
    ];

    /// A search of the web by the provider. Chat never gets to see it.
    WEB_SEARCH: TOOLS_AT, &["web_search_20250305", "web_search_20260209", "web_search_20260318"] => &[
        tag("type"),
        implied("name", "it is `web_search`"),
        core("allowed_domains").how("`filters.allowed_domains`").whole(),
        core("blocked_domains").how("`filters.blocked_domains`").whole(),
        core("max_uses").how("`max_tool_calls`: no other tool of the provider's is offered"),
        core("user_location"),
        implied("strict", "its input is the provider's own"),
        implied("defer_loading", "the tool is offered at once"),
        ALLOWED_CALLERS,
        field("response_inclusion", F::SearchInclusion).unless(&["\"full\""]),
        CACHE_CONTROL,
    ];

    USER_LOCATION: &[
        "tools[].user_location",
        "messages[].content[].tool.definition.user_location",
    ], &["approximate"] => LOCATION;

    /// Every kind of `tool_choice` has the same fields, or fewer.
    CHOICE: &["tool_choice"], &["auto", "any", "tool", "none"] => &[
        field("type", F::ToolChoice).how("`any` is `required`"),
        core("name").how("shortened where the target takes less; `web_search` is the search of a provider that has one"),
        field("disable_parallel_tool_use", F::ParallelCalls).how("`parallel_tool_calls`"),
    ];
}

declare_kinds! {
    TOOL_CHANGES: &["messages[].content[].tool"] => &[
        core("tool_reference"),
        core("tool_definition").how("offered with the other tools"),
        field("mcp_tool_reference", F::McpServers).whole(),
        field("mcp_toolset_reference", F::McpServers).whole(),
    ];

    TOOLS: TOOLS_AT => &[
        core("custom").how("a function"),
        field("bash_20241022", F::HostedTools).whole(),
        field("bash_20250124", F::HostedTools).whole(),
        field("code_execution_20250522", F::HostedTools).whole(),
        field("code_execution_20250825", F::HostedTools).whole(),
        field("code_execution_20260120", F::HostedTools).whole(),
        field("code_execution_20260521", F::HostedTools).whole(),
        field("browser_toolset_20260801", F::HostedTools).whole(),
        field("computer_20241022", F::HostedTools).whole(),
        field("computer_20250124", F::HostedTools).whole(),
        field("computer_20251124", F::HostedTools).whole(),
        field("computer_toolset_20260801", F::HostedTools).whole(),
        field("memory_20250818", F::HostedTools).whole(),
        field("text_editor_20241022", F::HostedTools).whole(),
        field("text_editor_20250124", F::HostedTools).whole(),
        field("text_editor_20250429", F::HostedTools).whole(),
        field("text_editor_20250728", F::HostedTools).whole(),
        field("web_search_20250305", F::WebSearch),
        field("web_search_20260209", F::WebSearch),
        field("web_search_20260318", F::WebSearch),
        field("web_fetch_20250910", F::HostedTools).whole(),
        field("web_fetch_20260209", F::HostedTools).whole(),
        field("web_fetch_20260309", F::HostedTools).whole(),
        field("web_fetch_20260318", F::HostedTools).whole(),
        field("advisor_20260301", F::HostedTools).whole(),
        field("tool_search_tool_bm25_20251119", F::HostedTools).whole(),
        field("tool_search_tool_bm25", F::HostedTools).whole(),
        field("tool_search_tool_regex_20251119", F::HostedTools).whole(),
        field("tool_search_tool_regex", F::HostedTools).whole(),
        field("mcp_toolset", F::HostedTools).whole(),
    ];
}
