//! The fields of tools in a chat completions request: called, offered and chosen.

use crate::table::{CARRIED, Kinds, Row, Shape, both, dropped, implied, mapped, row, tag};
use tollgate_types::Format::Chat;

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

const ARGUMENTS: &str = "`input`, as an object; text that is no JSON object becomes its member `malformed_arguments`, with notice";

pub(crate) static CALLED_FUNCTION: Shape = Shape {
    format: Chat,
    at: &["messages[].tool_calls[].function"],
    tags: &[],
    rows: &[
        row("arguments", CARRIED, mapped(ARGUMENTS)),
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

const CACHE_CONTROL: Row = row(
    "cache_control",
    dropped("tools are not marked for caching there"),
    mapped("at most the last four marks; the others are dropped with notice"),
)
.extra();

pub(crate) static FUNCTION_TOOL: Shape = Shape {
    format: Chat,
    at: &["tools[]"],
    tags: &["function"],
    rows: &[tag("type"), both("function", CARRIED), CACHE_CONTROL],
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
    rows: &[tag("type"), both("custom", CARRIED), CACHE_CONTROL],
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

/// The tools that `allowed_tools` names.
pub(crate) static ALLOWED: Kinds = Kinds {
    format: Chat,
    at: &["tool_choice.allowed_tools.tools[]"],
    rows: &[
        both("function", mapped("the other tools are not offered")).extra(),
        both("custom", mapped("the other tools are not offered")).extra(),
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
    at: &[
        "tool_choice.function",
        "tool_choice.custom",
        "tool_choice.allowed_tools.tools[].function",
        "tool_choice.allowed_tools.tools[].custom",
    ],
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
