//! The fields of items and their parts in a responses request.

use crate::table::{CARRIED, Kinds, Row, Shape, both, dropped, implied, mapped, refused, row, tag};
use tollgate_types::Format::Responses;

const BREAKPOINT_ROW: Row = row(
    "prompt_cache_breakpoint",
    CARRIED,
    mapped("`cache_control`, at most the last four"),
);

const ITEM_ID: Row = both(
    "id",
    implied("ids of items belong to the provider that made them"),
);

const STATUS: Row = both("status", implied("what is in the history is over"));

const CALLER: Row = both("caller", refused("only the model itself calls tools there"))
    .whole()
    .unless(&["{\"type\":\"direct\"}"]);

pub(crate) static ITEMS: Kinds = Kinds {
    format: Responses,
    at: &["input[]"],
    rows: &[
        both("message", CARRIED),
        row(
            "function_call",
            mapped("`tool_calls` of the assistant's message"),
            mapped("`tool_use`"),
        ),
        row(
            "function_call_output",
            mapped("a message of the role `tool`"),
            mapped("`tool_result`"),
        ),
        row(
            "custom_tool_call",
            mapped("`tool_calls` of the assistant's message"),
            mapped("`tool_use` with the text as `input`"),
        ),
        row(
            "custom_tool_call_output",
            mapped("a message of the role `tool`"),
            mapped("`tool_result`"),
        ),
        row(
            "reasoning",
            mapped("`reasoning_content` where this provider made it, else left out with notice"),
            mapped("`thinking` where this provider made it, else left out with notice"),
        ),
        both("additional_tools", mapped("offered with the other tools")),
        both("file_search_call", refused(HOSTED_PAST)).whole(),
        both("computer_call", refused(HOSTED_PAST)).whole(),
        both("computer_call_output", refused(HOSTED_PAST)).whole(),
        row(
            "web_search_call",
            mapped("left out with notice: the provider searches for itself"),
            mapped(
                "the blocks that it was where this provider made it and the seal beside it came back, else left out with notice",
            ),
        ),
        both(
            "tool_search_call",
            mapped(
                "a call of `tool_search` if the client searched; a search by the provider is refused",
            ),
        ),
        both(
            "tool_search_output",
            mapped("the result of the call; the tools in it are offered with the other tools"),
        ),
        both(
            "configuration_update",
            refused("its settings do not change within a request"),
        )
        .whole(),
        both(
            "compaction",
            mapped(
                "the summary as a message of the user's, if the gateway had it made; else refused",
            ),
        ),
        both(
            "compaction_trigger",
            mapped("an instruction to summarize; the answer is one `compaction` item"),
        ),
        both("image_generation_call", refused(HOSTED_PAST)).whole(),
        both("code_interpreter_call", refused(HOSTED_PAST)).whole(),
        both("local_shell_call", refused(HOSTED_PAST)).whole(),
        both("local_shell_call_output", refused(HOSTED_PAST)).whole(),
        both("shell_call", refused(HOSTED_PAST)).whole(),
        both("shell_call_output", refused(HOSTED_PAST)).whole(),
        both("apply_patch_call", refused(HOSTED_PAST)).whole(),
        both("apply_patch_call_output", refused(HOSTED_PAST)).whole(),
        both("mcp_list_tools", refused(HOSTED_PAST)).whole(),
        both("mcp_approval_request", refused(HOSTED_PAST)).whole(),
        both("mcp_approval_response", refused(HOSTED_PAST)).whole(),
        both("mcp_call", refused(HOSTED_PAST)).whole(),
        both("program", refused(HOSTED_PAST)).whole(),
        both("program_output", refused(HOSTED_PAST)).whole(),
        both(
            "item_reference",
            refused("the gateway does not remember that item: send the item itself"),
        )
        .whole(),
    ],
};

const HOSTED_PAST: &str = "it is about a tool of another provider";

pub(crate) static MESSAGE: Shape = Shape {
    format: Responses,
    at: &["input[]"],
    tags: &["message"],
    rows: &[
        tag("type"),
        row(
            "role",
            CARRIED,
            mapped("before the first turn `system`, later a message in its place"),
        ),
        both("content", CARRIED),
        ITEM_ID,
        STATUS,
        both("phase", dropped("it has no phases of an answer")),
    ],
};

pub(crate) static PARTS: Kinds = Kinds {
    format: Responses,
    at: &["input[].content[]"],
    rows: &[
        both("input_text", CARRIED),
        both("output_text", CARRIED),
        row("refusal", CARRIED, mapped("text")),
        row(
            "input_image",
            mapped("`image_url`"),
            mapped("`image`, by data or by address"),
        ),
        row(
            "input_file",
            mapped("`file`"),
            mapped("`document`; PDF and plain text alone"),
        ),
    ],
};

pub(crate) static OUTPUT_PARTS: Kinds = Kinds {
    format: Responses,
    at: &["input[].output[]"],
    rows: &[
        both("input_text", CARRIED),
        row(
            "input_image",
            mapped("in a user message after the result"),
            mapped("`image`, by data or by address"),
        ),
        row(
            "input_file",
            mapped("in a user message after the result"),
            mapped("`document`; PDF and plain text alone"),
        ),
    ],
};

pub(crate) static INPUT_TEXT: Shape = Shape {
    format: Responses,
    at: &["input[].content[]", "input[].output[]"],
    tags: &["input_text"],
    rows: &[tag("type"), both("text", CARRIED), BREAKPOINT_ROW],
};

pub(crate) static OUTPUT_TEXT: Shape = Shape {
    format: Responses,
    at: &["input[].content[]"],
    tags: &["output_text"],
    rows: &[
        tag("type"),
        both("text", CARRIED),
        row(
            "annotations",
            dropped("citations are output only"),
            mapped(
                "`citations` where this provider made them and the seal beside the message came back, else left out with notice",
            ),
        )
        .whole()
        .unless(&["[]"]),
        both("logprobs", dropped("log probabilities are output only"))
            .whole()
            .unless(&["[]"]),
    ],
};

pub(crate) static REFUSAL: Shape = Shape {
    format: Responses,
    at: &["input[].content[]"],
    tags: &["refusal"],
    rows: &[tag("type"), row("refusal", CARRIED, mapped("text"))],
};

const STORED: &str = "only the provider that stores a file knows it; 404 `not_found` if the file does not belong to the API key";

pub(crate) static IMAGE: Shape = Shape {
    format: Responses,
    at: &["input[].content[]", "input[].output[]"],
    tags: &["input_image"],
    rows: &[
        tag("type"),
        row(
            "image_url",
            CARRIED,
            mapped("a `data:` URL becomes base64 data; another is passed on, never fetched"),
        ),
        both("file_id", refused(STORED)),
        row(
            "detail",
            mapped("`original` is `high`"),
            dropped("it has no level of detail"),
        )
        .unless(&["\"auto\""]),
        BREAKPOINT_ROW,
    ],
};

pub(crate) static FILE: Shape = Shape {
    format: Responses,
    at: &["input[].content[]", "input[].output[]"],
    tags: &["input_file"],
    rows: &[
        tag("type"),
        row(
            "file_data",
            CARRIED,
            mapped("a `source`; PDF and plain text alone"),
        ),
        both("file_id", refused(STORED)),
        row(
            "file_url",
            refused("it takes files by their data alone"),
            mapped("a `source`, never fetched"),
        ),
        row("filename", CARRIED, mapped("`title`")),
        both("detail", dropped("it has no level of detail for files")).unless(&["\"auto\""]),
        BREAKPOINT_ROW,
    ],
};

pub(crate) static BREAKPOINT: Shape = Shape {
    format: Responses,
    at: &[
        "input[].content[].prompt_cache_breakpoint",
        "input[].output[].prompt_cache_breakpoint",
    ],
    tags: &[],
    rows: &[
        both("mode", implied("`explicit` is the only one")),
        row("ttl", CARRIED, dropped("its times to live are others")),
    ],
};

const ARGUMENTS: &str = "`input`, as an object; text that is no JSON object becomes its member `malformed_arguments`, with notice";

pub(crate) static FUNCTION_CALL: Shape = Shape {
    format: Responses,
    at: &["input[]"],
    tags: &["function_call"],
    rows: &[
        tag("type"),
        row("arguments", CARRIED, mapped(ARGUMENTS)),
        both("call_id", mapped("the call's `id`")),
        both(
            "name",
            mapped("with its namespace, shortened where the target takes less"),
        ),
        both("namespace", mapped("`<namespace>__<name>`")),
        both(
            "async",
            refused("calls are answered before the next turn there"),
        )
        .unless(&["false"]),
        ITEM_ID,
        STATUS,
        CALLER,
    ],
};

pub(crate) static FUNCTION_OUTPUT: Shape = Shape {
    format: Responses,
    at: &["input[]"],
    tags: &["function_call_output"],
    rows: &[
        tag("type"),
        row(
            "output",
            mapped("text in the message, other parts in a user message after it"),
            mapped("the content of a `tool_result`"),
        ),
        row("call_id", mapped("`tool_call_id`"), mapped("`tool_use_id`")),
        both("name", implied("the call has it")),
        both("namespace", implied("the call has it")),
        ITEM_ID,
        STATUS,
        CALLER,
    ],
};

pub(crate) static CUSTOM_CALL: Shape = Shape {
    format: Responses,
    at: &["input[]"],
    tags: &["custom_tool_call"],
    rows: &[
        tag("type"),
        row(
            "input",
            CARRIED,
            mapped("the member `input` of the call's input"),
        ),
        both("call_id", mapped("the call's `id`")),
        both(
            "name",
            mapped("with its namespace, shortened where the target takes less"),
        ),
        both("namespace", mapped("`<namespace>__<name>`")),
        both(
            "async",
            refused("calls are answered before the next turn there"),
        )
        .unless(&["false"]),
        ITEM_ID,
        STATUS.extra(),
        CALLER,
    ],
};

pub(crate) static CUSTOM_OUTPUT: Shape = Shape {
    format: Responses,
    at: &["input[]"],
    tags: &["custom_tool_call_output"],
    rows: &[
        tag("type"),
        row(
            "output",
            mapped("text in the message, other parts in a user message after it"),
            mapped("the content of a `tool_result`"),
        ),
        row("call_id", mapped("`tool_call_id`"), mapped("`tool_use_id`")),
        ITEM_ID,
        STATUS.extra(),
        CALLER,
    ],
};

pub(crate) static REASONING_ITEM: Shape = Shape {
    format: Responses,
    at: &["input[]"],
    tags: &["reasoning"],
    rows: &[
        tag("type"),
        both("id", implied("the seal has it")),
        both("summary", mapped("its text, where this provider made it")),
        both("content", mapped("its text, where this provider made it")),
        both(
            "encrypted_content",
            mapped("the seal is opened where this provider made it"),
        ),
        STATUS,
    ],
};

/// A search of the web. What it found is in the seal that stands beside it.
pub(crate) static SEARCH_CALL: Shape = Shape {
    format: Responses,
    at: &["input[]"],
    tags: &["web_search_call"],
    rows: &[
        tag("type"),
        ITEM_ID,
        STATUS,
        both("action", implied("the seal beside it has it")).whole(),
    ],
};

/// A summary that stands for the conversation before it.
pub(crate) static COMPACTION: Shape = Shape {
    format: Responses,
    at: &["input[]"],
    tags: &["compaction"],
    rows: &[
        tag("type"),
        both(
            "encrypted_content",
            mapped("the summary, if the gateway had it made"),
        ),
        ITEM_ID,
    ],
};

pub(crate) static COMPACTION_TRIGGER: Shape = Shape {
    format: Responses,
    at: &["input[]"],
    tags: &["compaction_trigger"],
    rows: &[tag("type"), ITEM_ID],
};

const EXECUTION: Row = both("execution", mapped("`server` is refused"));

/// A search among tools.
pub(crate) static TOOL_SEARCH_CALL: Shape = Shape {
    format: Responses,
    at: &["input[]"],
    tags: &["tool_search_call"],
    rows: &[
        tag("type"),
        both("arguments", mapped("the input of the call")).whole(),
        both("call_id", mapped("the call's `id`")),
        EXECUTION,
        ITEM_ID,
        STATUS,
    ],
};

/// What a search among tools found.
pub(crate) static TOOL_SEARCH_OUTPUT: Shape = Shape {
    format: Responses,
    at: &["input[]"],
    tags: &["tool_search_output"],
    rows: &[
        tag("type"),
        both(
            "tools",
            mapped("offered with the other tools; the result names them"),
        ),
        row("call_id", mapped("`tool_call_id`"), mapped("`tool_use_id`")),
        EXECUTION,
        ITEM_ID,
        STATUS,
    ],
};

pub(crate) static SUMMARIES: Kinds = Kinds {
    format: Responses,
    at: &["input[].summary[]", "input[].content[]"],
    rows: &[
        both("summary_text", CARRIED),
        both("reasoning_text", CARRIED).extra(),
    ],
};

/// A piece of reasoning, a summary or the thing itself.
pub(crate) static THOUGHT: Shape = Shape {
    format: Responses,
    at: &["input[].summary[]", "input[].content[]"],
    tags: &["summary_text", "reasoning_text"],
    rows: &[tag("type"), both("text", CARRIED)],
};

pub(crate) static ADDITIONAL_TOOLS: Shape = Shape {
    format: Responses,
    at: &["input[]"],
    tags: &["additional_tools"],
    rows: &[
        tag("type"),
        tag("role"),
        both("tools", mapped("offered with the other tools")),
        ITEM_ID,
    ],
};
