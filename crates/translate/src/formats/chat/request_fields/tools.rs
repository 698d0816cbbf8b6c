//! The fields of tools in a chat completions request: called, offered and chosen.

use crate::{
    features::Feature as F,
    table::{Row, core, declare_kinds, declare_shapes, field, implied, tag},
};

const CACHE_CONTROL: Row = field("cache_control", F::ToolMarks).extra();

declare_shapes! {
    FUNCTION_CALL: &["messages[].tool_calls[]"], &["function"] => &[
        tag("type"),
        field("id", F::CallIds),
        core("function"),
        implied("index", "the order says it").extra(),
    ];

    CALLED_FUNCTION: &["messages[].tool_calls[].function"], &[] => &[
        field("arguments", F::Arguments),
        core("name").how("shortened where the target takes less"),
    ];

    CUSTOM_CALL: &["messages[].tool_calls[]"], &["custom"] => &[
        tag("type"),
        field("id", F::CallIds),
        core("custom"),
        implied("index", "the order says it").extra(),
    ];

    CALLED_CUSTOM: &["messages[].tool_calls[].custom"], &[] => &[
        field("input", F::FreeInputs),
        core("name").how("shortened where the target takes less"),
    ];

    FUNCTION_TOOL: &["tools[]"], &["function"] => &[tag("type"), core("function"), CACHE_CONTROL];

    FUNCTION: &["tools[].function"], &[] => &[
        core("name").how("shortened where the target takes less"),
        core("description"),
        field("parameters", F::Parameters).whole(),
        field("strict", F::Strictness).unless(&["false"]),
    ];

    CUSTOM_TOOL: &["tools[]"], &["custom"] => &[tag("type"), core("custom"), CACHE_CONTROL];

    CUSTOM: &["tools[].custom"], &[] => &[
        core("name").how("shortened where the target takes less"),
        core("description"),
        field("format", F::Grammars),
    ];

    CUSTOM_TEXT: &["tools[].custom.format"], &["text"] => &[tag("type")];

    CUSTOM_GRAMMAR: &["tools[].custom.format"], &["grammar"] => &[tag("type"), core("grammar")];

    GRAMMAR: &["tools[].custom.format.grammar"], &[] => &[
        field("definition", F::Grammars),
        field("syntax", F::Grammars),
    ];

    CHOICE_FUNCTION: &["tool_choice", "tool_choice.allowed_tools.tools[]"], &["function"] => &[tag("type"), core("function")];

    CHOICE_CUSTOM: &["tool_choice", "tool_choice.allowed_tools.tools[]"], &["custom"] => &[tag("type"), core("custom")];

    CHOICE_NAME: &[
        "tool_choice.function",
        "tool_choice.custom",
        "tool_choice.allowed_tools.tools[].function",
        "tool_choice.allowed_tools.tools[].custom",
    ], &[] => &[core("name").how("shortened where the target takes less")];

    CHOICE_ALLOWED: &["tool_choice"], &["allowed_tools"] => &[tag("type"), core("allowed_tools")];

    ALLOWED_TOOLS: &["tool_choice.allowed_tools"], &[] => &[
        core("mode").how("the choice among the tools that are left"),
        core("tools").how("the other tools are not offered").whole(),
    ];
}

declare_kinds! {
    CALLS: &["messages[].tool_calls[]"] => &[field("function", F::Calls), field("custom", F::CustomCalls)];

    TOOLS: &["tools[]"] => &[core("function"), field("custom", F::CustomTools)];

    CUSTOM_FORMATS: &["tools[].custom.format"] => &[core("text"), field("grammar", F::Grammars)];

    CHOICES: &["tool_choice"] => &[
        field("function", F::ChosenTools),
        field("custom", F::ChosenTools),
        core("allowed_tools").how("the other tools are not offered"),
    ];

    /// The tools that `allowed_tools` names.
    ALLOWED: &["tool_choice.allowed_tools.tools[]"] => &[
        core("function").how("the other tools are not offered").extra(),
        core("custom").how("the other tools are not offered").extra(),
    ];
}
