//! The fields of tools in a responses request: offered and chosen.

use crate::{
    features::Feature as F,
    table::{Kinds, LOCATION, Row, Shape, core, field, tag},
};

/// Wherever tools are offered.
const TOOLS_AT: &[&str] = &[
    "tools[]",
    "tools[].tools[]",
    "input[].tools[]",
    "input[].tools[].tools[]",
];

pub(crate) static TOOLS: Kinds = Kinds {
    at: TOOLS_AT,
    rows: &[
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
    ],
};

const ALLOWED_CALLERS: Row = field("allowed_callers", F::AllowedCallers)
    .whole()
    .unless(&["[\"direct\"]"]);

const DEFER: Row = core("defer_loading").how("the tool is offered at once");

const ASYNC: Row = field("async", F::AsyncCalls).unless(&["false"]);

pub(crate) static FUNCTION_TOOL: Shape = Shape {
    at: TOOLS_AT,
    tags: &["function"],
    rows: &[
        tag("type"),
        core("name").how("with its namespace, shortened where the target takes less"),
        core("description"),
        field("parameters", F::Parameters).whole(),
        core("strict"),
        field("output_schema", F::OutputSchemas).whole(),
        ASYNC,
        ALLOWED_CALLERS,
        DEFER,
    ],
};

pub(crate) static CUSTOM_TOOL: Shape = Shape {
    at: TOOLS_AT,
    tags: &["custom"],
    rows: &[
        tag("type"),
        core("name").how("with its namespace, shortened where the target takes less"),
        core("description"),
        field("format", F::Grammars),
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
    at: CUSTOM_FORMATS_AT,
    rows: &[core("text"), field("grammar", F::Grammars)],
};

pub(crate) static CUSTOM_TEXT: Shape = Shape {
    at: CUSTOM_FORMATS_AT,
    tags: &["text"],
    rows: &[tag("type")],
};

pub(crate) static CUSTOM_GRAMMAR: Shape = Shape {
    at: CUSTOM_FORMATS_AT,
    tags: &["grammar"],
    rows: &[
        tag("type"),
        field("definition", F::Grammars),
        field("syntax", F::Grammars),
    ],
};

pub(crate) static NAMESPACE: Shape = Shape {
    at: TOOLS_AT,
    tags: &["namespace"],
    rows: &[
        tag("type"),
        core("name").how("`<namespace>__<name>`"),
        core("description").how("before the description of each of its tools"),
        core("tools"),
    ],
};

/// A search of the web by the provider. Chat never gets to see it.
pub(crate) static WEB_SEARCH: Shape = Shape {
    at: TOOLS_AT,
    tags: &["web_search", "web_search_2025_08_26"],
    rows: &[
        tag("type"),
        core("external_web_access")
            .how("where it is `false` the tool is taken out: this provider searches live alone"),
        core("filters").how("`allowed_domains`, `blocked_domains`"),
        CONTEXT_SIZE,
        core("user_location"),
    ],
};

/// The same, as it was first.
pub(crate) static WEB_SEARCH_PREVIEW: Shape = Shape {
    at: TOOLS_AT,
    tags: &["web_search_preview", "web_search_preview_2025_03_11"],
    rows: &[
        tag("type"),
        field("search_content_types", F::SearchContentTypes)
            .whole()
            .unless(&["[\"text\"]"]),
        CONTEXT_SIZE,
        core("user_location"),
    ],
};

const CONTEXT_SIZE: Row =
    field("search_context_size", F::SearchContextSize).unless(&["\"medium\""]);

pub(crate) static SEARCH_FILTERS: Shape = Shape {
    at: &[
        "tools[].filters",
        "tools[].tools[].filters",
        "input[].tools[].filters",
        "input[].tools[].tools[].filters",
    ],
    tags: &[],
    rows: &[
        core("allowed_domains").whole(),
        core("blocked_domains")
            .how("as it is; beside `allowed_domains` it is refused")
            .whole()
            .extra(),
    ],
};

pub(crate) static USER_LOCATION: Shape = Shape {
    at: &[
        "tools[].user_location",
        "tools[].tools[].user_location",
        "input[].tools[].user_location",
        "input[].tools[].tools[].user_location",
    ],
    tags: &["approximate"],
    rows: LOCATION,
};

pub(crate) static CHOICES: Kinds = Kinds {
    at: &["tool_choice"],
    rows: &[
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
    ],
};

/// The tools that `allowed_tools` names.
pub(crate) static ALLOWED: Kinds = Kinds {
    at: &["tool_choice.tools[]"],
    rows: &[
        core("function")
            .how("the other tools are not offered")
            .extra(),
        core("custom")
            .how("the other tools are not offered")
            .extra(),
        field("web_search", F::SearchChoice)
            .how("the other tools are not offered")
            .extra(),
        field("web_search_2025_08_26", F::SearchChoice)
            .how("the other tools are not offered")
            .extra(),
        field("web_search_preview", F::SearchChoice)
            .how("the other tools are not offered")
            .extra(),
        field("web_search_preview_2025_03_11", F::SearchChoice)
            .how("the other tools are not offered")
            .extra(),
    ],
};

pub(crate) static CHOICE_SEARCH: Shape = Shape {
    at: &["tool_choice", "tool_choice.tools[]"],
    tags: &[
        "web_search",
        "web_search_2025_08_26",
        "web_search_preview",
        "web_search_preview_2025_03_11",
    ],
    rows: &[tag("type")],
};

pub(crate) static CHOICE_NAMED: Shape = Shape {
    at: &["tool_choice", "tool_choice.tools[]"],
    tags: &["function", "custom"],
    rows: &[
        tag("type"),
        core("name").how("with its namespace, shortened where the target takes less"),
        core("namespace").how("`<namespace>__<name>`").extra(),
    ],
};

pub(crate) static CHOICE_ALLOWED: Shape = Shape {
    at: &["tool_choice"],
    tags: &["allowed_tools"],
    rows: &[
        tag("type"),
        core("mode").how("the choice among the tools that are left"),
        core("tools").how("the other tools are not offered").whole(),
    ],
};
