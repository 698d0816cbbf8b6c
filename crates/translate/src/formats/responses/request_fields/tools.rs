//! The fields of tools in a responses request: offered and chosen.

use crate::table::{
    CARRIED, Fate, Kinds, LOCATION, Row, Shape, both, dropped, mapped, refused, row, tag,
};
use tollgate_types::Format::Responses;

const HOSTED: &str = "the provider's own tools are taken out, unless `tool_choice` demands them or nothing else is offered";

const SEARCH: &str = "`web_search_20250305` where the provider has it (`abilities.messages.web_search`); else it is taken out like the provider's other tools";

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
        row("web_search", dropped(HOSTED), mapped(SEARCH)),
        row("web_search_2025_08_26", dropped(HOSTED), mapped(SEARCH)),
        row("web_search_preview", dropped(HOSTED), mapped(SEARCH)),
        row(
            "web_search_preview_2025_03_11",
            dropped(HOSTED),
            mapped(SEARCH),
        ),
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

/// A search of the web by the provider. Chat never gets to see it.
pub(crate) static WEB_SEARCH: Shape = Shape {
    format: Responses,
    at: TOOLS_AT,
    tags: &["web_search", "web_search_2025_08_26"],
    rows: &[
        tag("type"),
        both(
            "external_web_access",
            mapped("where it is `false` the tool is taken out: this provider searches live alone"),
        ),
        both("filters", mapped("`allowed_domains`, `blocked_domains`")),
        CONTEXT_SIZE,
        both("user_location", CARRIED),
    ],
};

/// The same, as it was first.
pub(crate) static WEB_SEARCH_PREVIEW: Shape = Shape {
    format: Responses,
    at: TOOLS_AT,
    tags: &["web_search_preview", "web_search_preview_2025_03_11"],
    rows: &[
        tag("type"),
        both("search_content_types", dropped("it finds text"))
            .whole()
            .unless(&["[\"text\"]"]),
        CONTEXT_SIZE,
        both("user_location", CARRIED),
    ],
};

const CONTEXT_SIZE: Row = both(
    "search_context_size",
    dropped("it decides by itself how much it reads"),
)
.unless(&["\"medium\""]);

pub(crate) static SEARCH_FILTERS: Shape = Shape {
    format: Responses,
    at: &[
        "tools[].filters",
        "tools[].tools[].filters",
        "input[].tools[].filters",
        "input[].tools[].tools[].filters",
    ],
    tags: &[],
    rows: &[
        both("allowed_domains", CARRIED).whole(),
        both(
            "blocked_domains",
            mapped("as it is; beside `allowed_domains` it is refused"),
        )
        .whole()
        .extra(),
    ],
};

pub(crate) static USER_LOCATION: Shape = Shape {
    format: Responses,
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
    format: Responses,
    at: &["tool_choice"],
    rows: &[
        row("function", CARRIED, mapped("`tool`")),
        row("custom", CARRIED, mapped("`tool`")),
        both("allowed_tools", mapped("the other tools are not offered")),
        both("file_search", refused(NO_HOSTED)).whole(),
        row("web_search", refused(NO_HOSTED), mapped(SEARCH_CHOICE)).extra(),
        row(
            "web_search_2025_08_26",
            refused(NO_HOSTED),
            mapped(SEARCH_CHOICE),
        )
        .extra(),
        row(
            "web_search_preview",
            refused(NO_HOSTED),
            mapped(SEARCH_CHOICE),
        ),
        row(
            "web_search_preview_2025_03_11",
            refused(NO_HOSTED),
            mapped(SEARCH_CHOICE),
        ),
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

/// The tools that `allowed_tools` names.
pub(crate) static ALLOWED: Kinds = Kinds {
    format: Responses,
    at: &["tool_choice.tools[]"],
    rows: &[
        both("function", OTHERS_LEFT).extra(),
        both("custom", OTHERS_LEFT).extra(),
        row("web_search", refused(NO_HOSTED), OTHERS_LEFT).extra(),
        row("web_search_2025_08_26", refused(NO_HOSTED), OTHERS_LEFT).extra(),
        row("web_search_preview", refused(NO_HOSTED), OTHERS_LEFT).extra(),
        row(
            "web_search_preview_2025_03_11",
            refused(NO_HOSTED),
            OTHERS_LEFT,
        )
        .extra(),
    ],
};

const OTHERS_LEFT: Fate = mapped("the other tools are not offered");
const NO_HOSTED: &str = "it has no such tool";
const SEARCH_CHOICE: &str = "`tool` of the name `web_search`; refused where that is not offered";

pub(crate) static CHOICE_SEARCH: Shape = Shape {
    format: Responses,
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
    format: Responses,
    at: &["tool_choice", "tool_choice.tools[]"],
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
