//! The fields of tools in a messages request: offered, chosen, added and taken away.

use crate::table::{
    CARRIED, Kinds, LOCATION, Row, Shape, both, dropped, implied, mapped, refused, row, tag,
};
use tollgate_types::Format::Messages;

const HOSTED: &str = "the provider's own tools are taken out, unless `tool_choice` demands them or nothing else is offered";

const SEARCH: &str = "`web_search` where the provider has it (`abilities.responses.web_search`); else it is taken out like the provider's other tools";

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
        row("web_search_20250305", dropped(HOSTED), mapped(SEARCH)),
        row("web_search_20260209", dropped(HOSTED), mapped(SEARCH)),
        row("web_search_20260318", dropped(HOSTED), mapped(SEARCH)),
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

const CACHE_CONTROL: Row = both(
    "cache_control",
    dropped("tools are not marked for caching there"),
)
.whole();

const ALLOWED_CALLERS: Row = both(
    "allowed_callers",
    dropped("only the model itself calls tools there"),
)
.whole()
.unless(&["[\"direct\"]"]);

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
        ALLOWED_CALLERS,
        CACHE_CONTROL,
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

/// A search of the web by the provider. Chat never gets to see it.
pub(crate) static WEB_SEARCH: Shape = Shape {
    format: Messages,
    at: TOOLS_AT,
    tags: &[
        "web_search_20250305",
        "web_search_20260209",
        "web_search_20260318",
    ],
    rows: &[
        tag("type"),
        both("name", implied("it is `web_search`")),
        both("allowed_domains", mapped("`filters.allowed_domains`")).whole(),
        both("blocked_domains", mapped("`filters.blocked_domains`")).whole(),
        both(
            "max_uses",
            mapped("`max_tool_calls`: no other tool of the provider's is offered"),
        ),
        both("user_location", CARRIED),
        both("strict", implied("its input is the provider's own")),
        both("defer_loading", implied("the tool is offered at once")),
        ALLOWED_CALLERS,
        both(
            "response_inclusion",
            dropped("what was found is always told"),
        )
        .unless(&["\"full\""]),
        CACHE_CONTROL,
    ],
};

pub(crate) static USER_LOCATION: Shape = Shape {
    format: Messages,
    at: &[
        "tools[].user_location",
        "messages[].content[].tool.definition.user_location",
    ],
    tags: &["approximate"],
    rows: LOCATION,
};

/// Every kind of `tool_choice` has the same fields, or fewer.
pub(crate) static CHOICE: Shape = Shape {
    format: Messages,
    at: &["tool_choice"],
    tags: &["auto", "any", "tool", "none"],
    rows: &[
        both("type", mapped("`any` is `required`")),
        row(
            "name",
            mapped("shortened where the target takes less"),
            mapped(
                "shortened where the target takes less; `web_search` is that tool of the provider's",
            ),
        ),
        both("disable_parallel_tool_use", mapped("`parallel_tool_calls`")),
    ],
};
