//! The fields of tools in a chat completions request: called, offered and chosen.

use crate::{
    features::Feature as F,
    table::{Kinds, Row, Shape, core, field, implied, tag},
};

pub(crate) static CALLS: Kinds = Kinds {
    at: &["messages[].tool_calls[]"],
    rows: &[field("function", F::Calls), field("custom", F::CustomCalls)],
};

pub(crate) static FUNCTION_CALL: Shape = Shape {
    at: &["messages[].tool_calls[]"],
    tags: &["function"],
    rows: &[
        tag("type"),
        field("id", F::CallIds),
        core("function"),
        implied("index", "the order says it").extra(),
    ],
};

pub(crate) static CALLED_FUNCTION: Shape = Shape {
    at: &["messages[].tool_calls[].function"],
    tags: &[],
    rows: &[
        field("arguments", F::Arguments),
        core("name").how("shortened where the target takes less"),
    ],
};

pub(crate) static CUSTOM_CALL: Shape = Shape {
    at: &["messages[].tool_calls[]"],
    tags: &["custom"],
    rows: &[
        tag("type"),
        field("id", F::CallIds),
        core("custom"),
        implied("index", "the order says it").extra(),
    ],
};

pub(crate) static CALLED_CUSTOM: Shape = Shape {
    at: &["messages[].tool_calls[].custom"],
    tags: &[],
    rows: &[
        field("input", F::FreeInputs),
        core("name").how("shortened where the target takes less"),
    ],
};

pub(crate) static TOOLS: Kinds = Kinds {
    at: &["tools[]"],
    rows: &[core("function"), field("custom", F::CustomTools)],
};

const CACHE_CONTROL: Row = field("cache_control", F::ToolMarks).extra();

pub(crate) static FUNCTION_TOOL: Shape = Shape {
    at: &["tools[]"],
    tags: &["function"],
    rows: &[tag("type"), core("function"), CACHE_CONTROL],
};

pub(crate) static FUNCTION: Shape = Shape {
    at: &["tools[].function"],
    tags: &[],
    rows: &[
        core("name").how("shortened where the target takes less"),
        core("description"),
        field("parameters", F::Parameters).whole(),
        field("strict", F::Strictness),
    ],
};

pub(crate) static CUSTOM_TOOL: Shape = Shape {
    at: &["tools[]"],
    tags: &["custom"],
    rows: &[tag("type"), core("custom"), CACHE_CONTROL],
};

pub(crate) static CUSTOM: Shape = Shape {
    at: &["tools[].custom"],
    tags: &[],
    rows: &[
        core("name").how("shortened where the target takes less"),
        core("description"),
        field("format", F::Grammars),
    ],
};

pub(crate) static CUSTOM_FORMATS: Kinds = Kinds {
    at: &["tools[].custom.format"],
    rows: &[core("text"), field("grammar", F::Grammars)],
};

pub(crate) static CUSTOM_TEXT: Shape = Shape {
    at: &["tools[].custom.format"],
    tags: &["text"],
    rows: &[tag("type")],
};

pub(crate) static CUSTOM_GRAMMAR: Shape = Shape {
    at: &["tools[].custom.format"],
    tags: &["grammar"],
    rows: &[tag("type"), core("grammar")],
};

pub(crate) static GRAMMAR: Shape = Shape {
    at: &["tools[].custom.format.grammar"],
    tags: &[],
    rows: &[
        field("definition", F::Grammars),
        field("syntax", F::Grammars),
    ],
};

pub(crate) static CHOICES: Kinds = Kinds {
    at: &["tool_choice"],
    rows: &[
        field("function", F::ChosenTools),
        field("custom", F::ChosenTools),
        core("allowed_tools").how("the other tools are not offered"),
    ],
};

/// The tools that `allowed_tools` names.
pub(crate) static ALLOWED: Kinds = Kinds {
    at: &["tool_choice.allowed_tools.tools[]"],
    rows: &[
        core("function")
            .how("the other tools are not offered")
            .extra(),
        core("custom")
            .how("the other tools are not offered")
            .extra(),
    ],
};

pub(crate) static CHOICE_FUNCTION: Shape = Shape {
    at: &["tool_choice", "tool_choice.allowed_tools.tools[]"],
    tags: &["function"],
    rows: &[tag("type"), core("function")],
};

pub(crate) static CHOICE_CUSTOM: Shape = Shape {
    at: &["tool_choice", "tool_choice.allowed_tools.tools[]"],
    tags: &["custom"],
    rows: &[tag("type"), core("custom")],
};

pub(crate) static CHOICE_NAME: Shape = Shape {
    at: &[
        "tool_choice.function",
        "tool_choice.custom",
        "tool_choice.allowed_tools.tools[].function",
        "tool_choice.allowed_tools.tools[].custom",
    ],
    tags: &[],
    rows: &[core("name").how("shortened where the target takes less")],
};

pub(crate) static CHOICE_ALLOWED: Shape = Shape {
    at: &["tool_choice"],
    tags: &["allowed_tools"],
    rows: &[tag("type"), core("allowed_tools")],
};

pub(crate) static ALLOWED_TOOLS: Shape = Shape {
    at: &["tool_choice.allowed_tools"],
    tags: &[],
    rows: &[
        core("mode").how("the choice among the tools that are left"),
        core("tools").how("the other tools are not offered").whole(),
    ],
};
