//! The fields of tools in a responses request: offered and chosen.

use crate::{
    features::Feature as F,
    table::{LOCATION, Row, core, declare_kinds, declare_shapes, field, tag},
};

/// Wherever tools are offered.
const TOOLS_AT: &[&str] = &[
    "tools[]",
    "tools[].tools[]",
    "input[].tools[]",
    "input[].tools[].tools[]",
];

const ALLOWED_CALLERS: Row = field("allowed_callers", F::AllowedCallers)
    .whole()
    .unless(&["[\"direct\"]"]);

const DEFER: Row = core("defer_loading").how("the tool is offered at once");

const ASYNC: Row = field("async", F::AsyncCalls).unless(&["false"]);

const CUSTOM_FORMATS_AT: &[&str] = &[
    "tools[].format",
    "tools[].tools[].format",
    "input[].tools[].format",
    "input[].tools[].tools[].format",
];

const CONTEXT_SIZE: Row =
    field("search_context_size", F::SearchContextSize).unless(&["\"medium\""]);

declare_shapes! {
    FUNCTION_TOOL: TOOLS_AT, &["function"] => &[
        tag("type"),
        core("name").how("with its namespace, shortened where the target takes less"),
        core("description"),
        field("parameters", F::Parameters).whole(),
        field("strict", F::Strictness).unless(&["false"]),
        field("output_schema", F::OutputSchemas).whole(),
        ASYNC,
        ALLOWED_CALLERS,
        DEFER,
    ];

    CUSTOM_TOOL: TOOLS_AT, &["custom"] => &[
        tag("type"),
        core("name").how("with its namespace, shortened where the target takes less"),
        core("description"),
        field("format", F::Grammars),
        ASYNC,
        ALLOWED_CALLERS,
        DEFER,
    ];

    CUSTOM_TEXT: CUSTOM_FORMATS_AT, &["text"] => &[tag("type")];

    CUSTOM_GRAMMAR: CUSTOM_FORMATS_AT, &["grammar"] => &[
        tag("type"),
        field("definition", F::Grammars),
        field("syntax", F::Grammars),
    ];

    NAMESPACE: TOOLS_AT, &["namespace"] => &[
        tag("type"),
        core("name").how("`<namespace>__<name>`"),
        core("description").how("before the description of each of its tools"),
        core("tools"),
    ];

    /// A search of the web by the provider. Chat never gets to see it.
    WEB_SEARCH: TOOLS_AT, &["web_search", "web_search_2025_08_26"] => &[
        tag("type"),
        core("external_web_access")
            .how("where it is `false` the tool is taken out: this provider searches live alone"),
        core("filters").how("`allowed_domains`, `blocked_domains`"),
        CONTEXT_SIZE,
        core("user_location"),
    ];

    /// The same, as it was first.
    WEB_SEARCH_PREVIEW: TOOLS_AT, &["web_search_preview", "web_search_preview_2025_03_11"] => &[
        tag("type"),
        field("search_content_types", F::SearchContentTypes).whole().unless(&["[\"text\"]"]),
        CONTEXT_SIZE,
        core("user_location"),
    ];

    SEARCH_FILTERS: &[
        "tools[].filters",
        "tools[].tools[].filters",
        "input[].tools[].filters",
        "input[].tools[].tools[].filters",
    ], &[] => &[
        core("allowed_domains").whole(),
        core("blocked_domains").how("as it is; beside `allowed_domains` it is refused").whole().extra(),
    ];

    USER_LOCATION: &[
        "tools[].user_location",
        "tools[].tools[].user_location",
        "input[].tools[].user_location",
        "input[].tools[].tools[].user_location",
    ], &["approximate"] => LOCATION;

    CHOICE_SEARCH: &["tool_choice", "tool_choice.tools[]"], &["web_search", "web_search_2025_08_26", "web_search_preview", "web_search_preview_2025_03_11"] => &[tag("type")];

    CHOICE_NAMED: &["tool_choice", "tool_choice.tools[]"], &["function", "custom"] => &[
        tag("type"),
        core("name").how("with its namespace, shortened where the target takes less"),
        core("namespace").how("`<namespace>__<name>`").extra(),
    ];

    CHOICE_ALLOWED: &["tool_choice"], &["allowed_tools"] => &[
        tag("type"),
        core("mode").how("the choice among the tools that are left"),
        core("tools").how("the other tools are not offered").whole(),
    ];
}

declare_kinds! {
    TOOLS: TOOLS_AT => &[
        core("function"),
        field("custom", F::CustomTools),
        core("namespace").how("its tools as `<namespace>__<name>`"),
        field("file_search", F::HostedTools).whole(),
        field("computer", F::HostedTools).whole(),
        field("computer_use_preview", F::HostedTools).whole(),
        field("web_search", F::WebSearch),
        field("web_search_2025_08_26", F::WebSearch),
        field("web_search_preview", F::WebSearch),
        field("web_search_preview_2025_03_11", F::WebSearch),
        field("mcp", F::HostedTools).whole(),
        field("code_interpreter", F::HostedTools).whole(),
        field("programmatic_tool_calling", F::HostedTools).whole(),
        field("image_generation", F::HostedTools).whole(),
        field("local_shell", F::HostedTools).whole(),
        field("shell", F::HostedTools).whole(),
        field("tool_search", F::HostedTools).whole(),
        field("apply_patch", F::HostedTools).whole(),
    ];

    CUSTOM_FORMATS: CUSTOM_FORMATS_AT => &[core("text"), field("grammar", F::Grammars)];

    CHOICES: &["tool_choice"] => &[
        field("function", F::ChosenTools),
        field("custom", F::ChosenTools),
        core("allowed_tools").how("the other tools are not offered"),
        field("file_search", F::HostedChoice).whole(),
        field("web_search", F::SearchChoice).extra(),
        field("web_search_2025_08_26", F::SearchChoice).extra(),
        field("web_search_preview", F::SearchChoice),
        field("web_search_preview_2025_03_11", F::SearchChoice),
        field("computer", F::HostedChoice).whole(),
        field("computer_use_preview", F::HostedChoice).whole(),
        field("computer_use", F::HostedChoice).whole(),
        field("image_generation", F::HostedChoice).whole(),
        field("code_interpreter", F::HostedChoice).whole(),
        field("mcp", F::HostedChoice).whole(),
        field("programmatic_tool_calling", F::HostedChoice).whole(),
        field("apply_patch", F::HostedChoice).whole(),
        field("shell", F::HostedChoice).whole(),
    ];

    /// The tools that `allowed_tools` names.
    ALLOWED: &["tool_choice.tools[]"] => &[
        core("function").how("the other tools are not offered").extra(),
        core("custom").how("the other tools are not offered").extra(),
        field("web_search", F::SearchChoice).how("the other tools are not offered").extra(),
        field("web_search_2025_08_26", F::SearchChoice).how("the other tools are not offered").extra(),
        field("web_search_preview", F::SearchChoice).how("the other tools are not offered").extra(),
        field("web_search_preview_2025_03_11", F::SearchChoice).how("the other tools are not offered").extra(),
    ];
}
