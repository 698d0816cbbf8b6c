//! The fields of messages and their content blocks in a messages request.

use crate::table::{CARRIED, Kinds, Row, Shape, both, dropped, implied, mapped, refused, row, tag};
use tollgate_types::Format::Messages;

const CACHE_ROW: Row = both(
    "cache_control",
    mapped(
        "`prompt_cache_breakpoint` on text where the provider knows it, at most the last four; else dropped with notice",
    ),
);

const CALLER: Row = both("caller", refused("only the model itself calls tools there"))
    .whole()
    .unless(&["{\"type\":\"direct\"}"]);

const TOOLSET: Row = both("toolset_name", refused("it has no toolsets"));

const HOSTED_PAST: &str = "it is about a tool of another provider";

pub(crate) static USER: Shape = Shape {
    format: Messages,
    at: &["messages[]"],
    tags: &["user"],
    rows: &[tag("role"), both("content", CARRIED)],
};

pub(crate) static ASSISTANT: Shape = Shape {
    format: Messages,
    at: &["messages[]"],
    tags: &["assistant"],
    rows: &[
        tag("role"),
        both(
            "content",
            mapped("as the last message it is refused: there is no going on with a begun answer"),
        ),
    ],
};

pub(crate) static SYSTEM: Shape = Shape {
    format: Messages,
    at: &["messages[]"],
    tags: &["system"],
    rows: &[
        tag("role"),
        both("content", mapped("a message in its place")),
        both("clear_at", mapped("left out once its turn is over")),
        both("output_config", mapped("the last effort is the request's")),
    ],
};

pub(crate) static BLOCKS: Kinds = Kinds {
    format: Messages,
    at: &["messages[].content[]"],
    rows: &[
        both("text", CARRIED),
        row("image", mapped("`image_url`"), mapped("`input_image`")),
        row(
            "document",
            mapped("`file`, or text"),
            mapped("`input_file`, or text"),
        ),
        both("search_result", mapped("text")),
        row(
            "thinking",
            mapped("`reasoning_content` where this provider made it, else left out with notice"),
            mapped("a `reasoning` item where this provider made it, else left out with notice"),
        ),
        row(
            "redacted_thinking",
            dropped("it belongs to another provider"),
            mapped("a `reasoning` item where this provider made it, else left out with notice"),
        ),
        row(
            "tool_use",
            mapped("`tool_calls`"),
            mapped("`function_call`"),
        ),
        row(
            "tool_result",
            mapped("a message of the role `tool`"),
            mapped("`function_call_output`"),
        ),
        row(
            "server_tool_use",
            mapped("a search of the web is left out with notice; other tools are refused"),
            mapped(
                "a search of the web is restored with its result, else left out with notice; other tools are refused",
            ),
        ),
        row(
            "web_search_tool_result",
            mapped("left out with notice: the provider searches for itself"),
            mapped(
                "the `web_search_call` that it was where this provider made it, else left out with notice",
            ),
        ),
        both("web_fetch_tool_result", refused(HOSTED_PAST)).whole(),
        both("advisor_tool_result", refused(HOSTED_PAST)).whole(),
        both("code_execution_tool_result", refused(HOSTED_PAST)).whole(),
        both("bash_code_execution_tool_result", refused(HOSTED_PAST)).whole(),
        both(
            "text_editor_code_execution_tool_result",
            refused(HOSTED_PAST),
        )
        .whole(),
        both("tool_search_tool_result", refused(HOSTED_PAST)).whole(),
        both("mcp_tool_use", refused(HOSTED_PAST)).whole(),
        both("mcp_tool_result", refused(HOSTED_PAST)).whole(),
        both("mcp_tool_listing", refused(HOSTED_PAST)).whole(),
        both("container_upload", refused("it has no containers")).whole(),
        both(
            "compaction",
            refused("a compacted history is known at its own provider alone"),
        )
        .whole(),
        both("fallback", refused("it has no fallbacks")).whole(),
        both("tool_addition", refused("it stands in system messages")).whole(),
        both("tool_removal", refused("it stands in system messages")).whole(),
    ],
};

pub(crate) static SYSTEM_BLOCKS: Kinds = Kinds {
    format: Messages,
    at: &["system[]"],
    rows: &[both("text", CARRIED)],
};

/// What stands in a message of the role `system`.
pub(crate) static MESSAGE_SYSTEM_BLOCKS: Kinds = Kinds {
    format: Messages,
    at: &["messages[].content[]"],
    rows: &[
        both("text", CARRIED),
        both(
            "tool_addition",
            mapped("every tool is offered from the start"),
        ),
        both("tool_removal", mapped("the tool is not offered")),
    ],
};

pub(crate) static RESULT_BLOCKS: Kinds = Kinds {
    format: Messages,
    at: &["messages[].content[].content[]"],
    rows: &[
        both("text", CARRIED),
        row(
            "image",
            mapped("in a user message after the result"),
            mapped("`input_image`"),
        ),
        row(
            "document",
            mapped("in a user message after the result, or text"),
            mapped("`input_file`, or text"),
        ),
        both("search_result", mapped("text")),
        both("tool_reference", mapped("text that names the tool")),
        both("browser_state", refused(HOSTED_PAST)).whole(),
    ],
};

/// What a search result holds, by itself or in the result of a tool.
pub(crate) static FOUND_BLOCKS: Kinds = Kinds {
    format: Messages,
    at: &[
        "messages[].content[].content[]",
        "messages[].content[].content[].content[]",
    ],
    rows: &[both("text", CARRIED)],
};

/// What a document holds that is made of blocks.
pub(crate) static SOURCE_BLOCKS: Kinds = Kinds {
    format: Messages,
    at: &[
        "messages[].content[].source.content[]",
        "messages[].content[].content[].source.content[]",
    ],
    rows: &[
        both("text", CARRIED),
        row("image", mapped("`image_url`"), mapped("`input_image`")),
    ],
};

const TEXT_AT: &[&str] = &[
    "messages[].content[]",
    "messages[].content[].content[]",
    "messages[].content[].source.content[]",
    "messages[].content[].content[].content[]",
    "messages[].content[].content[].source.content[]",
    "system[]",
];

/// Where documents and search results stand: in a message, and in the result of a tool.
const BLOCK_AT: &[&str] = &["messages[].content[]", "messages[].content[].content[]"];

pub(crate) static TEXT: Shape = Shape {
    format: Messages,
    at: TEXT_AT,
    tags: &["text"],
    rows: &[
        tag("type"),
        both("text", CARRIED),
        CACHE_ROW,
        row(
            "citations",
            dropped("citations are output only"),
            mapped("`annotations` where this provider made them, else left out with notice"),
        )
        .whole()
        .unless(&["[]"]),
    ],
};

pub(crate) static IMAGE: Shape = Shape {
    format: Messages,
    at: &[
        "messages[].content[]",
        "messages[].content[].content[]",
        "messages[].content[].source.content[]",
        "messages[].content[].content[].source.content[]",
    ],
    tags: &["image"],
    rows: &[
        tag("type"),
        both(
            "source",
            mapped("data as a `data:` URL; another address is passed on, never fetched"),
        ),
        both(
            "cache_control",
            dropped("images are not marked for caching there"),
        )
        .whole(),
        both(
            "transformations",
            refused("it does not say what is done to images"),
        )
        .whole()
        .unless(&["{}"]),
    ],
};

const SOURCES_AT: &[&str] = &[
    "messages[].content[].source",
    "messages[].content[].content[].source",
    "messages[].content[].source.content[].source",
    "messages[].content[].content[].source.content[].source",
];

/// Where the sources of documents stand.
const DOCUMENTS_AT: &[&str] = &[
    "messages[].content[].source",
    "messages[].content[].content[].source",
];

const STORED: &str = "only the provider that stores a file knows it; 404 `not_found` if the file does not belong to the API key";

pub(crate) static IMAGE_SOURCES: Kinds = Kinds {
    format: Messages,
    at: SOURCES_AT,
    rows: &[
        both("base64", mapped("a `data:` URL")),
        both("url", CARRIED),
        both("file", refused(STORED)).whole(),
    ],
};

pub(crate) static DOCUMENT_SOURCES: Kinds = Kinds {
    format: Messages,
    at: DOCUMENTS_AT,
    rows: &[
        both("base64", mapped("`file_data`, a `data:` URL")),
        row(
            "url",
            refused("it takes files by their data alone"),
            mapped("`file_url`"),
        ),
        both("text", mapped("text, its title before it")),
        both("content", mapped("text and images, its title before them")),
        both("file", refused(STORED)).whole(),
    ],
};

pub(crate) static BASE64: Shape = Shape {
    format: Messages,
    at: SOURCES_AT,
    tags: &["base64"],
    rows: &[
        tag("type"),
        both("data", CARRIED),
        both("media_type", CARRIED),
    ],
};

pub(crate) static URL: Shape = Shape {
    format: Messages,
    at: SOURCES_AT,
    tags: &["url"],
    rows: &[tag("type"), both("url", CARRIED)],
};

pub(crate) static PLAIN: Shape = Shape {
    format: Messages,
    at: DOCUMENTS_AT,
    tags: &["text"],
    rows: &[
        tag("type"),
        both("data", CARRIED),
        both("media_type", implied("it is `text/plain`")),
    ],
};

pub(crate) static CONTENT_SOURCE: Shape = Shape {
    format: Messages,
    at: DOCUMENTS_AT,
    tags: &["content"],
    rows: &[tag("type"), both("content", CARRIED)],
};

pub(crate) static DOCUMENT: Shape = Shape {
    format: Messages,
    at: BLOCK_AT,
    tags: &["document"],
    rows: &[
        tag("type"),
        both("source", CARRIED),
        both(
            "cache_control",
            dropped("files are not marked for caching there"),
        )
        .whole(),
        both("citations", mapped("refused where they are enabled")),
        both("context", mapped("text before the document")),
        both("title", mapped("`filename`, or text")),
    ],
};

pub(crate) static CITATIONS: Shape = Shape {
    format: Messages,
    at: &[
        "messages[].content[].citations",
        "messages[].content[].content[].citations",
    ],
    tags: &[],
    rows: &[both("enabled", refused("it cites no documents")).unless(&["false"])],
};

pub(crate) static SEARCH_RESULT: Shape = Shape {
    format: Messages,
    at: BLOCK_AT,
    tags: &["search_result"],
    rows: &[
        tag("type"),
        both("content", mapped("text")),
        both("source", mapped("a line before the text")),
        both("title", mapped("a line before the text")),
        CACHE_ROW,
        both("citations", mapped("refused where they are enabled")),
    ],
};

pub(crate) static THINKING: Shape = Shape {
    format: Messages,
    at: &["messages[].content[]"],
    tags: &["thinking"],
    rows: &[
        tag("type"),
        both("thinking", mapped("its text, where this provider made it")),
        both(
            "signature",
            mapped("the seal is opened where this provider made it"),
        ),
    ],
};

pub(crate) static REDACTED: Shape = Shape {
    format: Messages,
    at: &["messages[].content[]"],
    tags: &["redacted_thinking"],
    rows: &[
        tag("type"),
        both(
            "data",
            mapped("the seal is opened where this provider made it"),
        ),
    ],
};

pub(crate) static TOOL_USE: Shape = Shape {
    format: Messages,
    at: &["messages[].content[]"],
    tags: &["tool_use"],
    rows: &[
        tag("type"),
        row("id", CARRIED, mapped("`call_id`")),
        both("input", mapped("`arguments`, as a string")).whole(),
        both("name", mapped("shortened where the target takes less")),
        both(
            "cache_control",
            dropped("calls are not marked for caching there"),
        )
        .whole(),
        CALLER,
        TOOLSET,
    ],
};

pub(crate) static TOOL_RESULT: Shape = Shape {
    format: Messages,
    at: &["messages[].content[]"],
    tags: &["tool_result"],
    rows: &[
        tag("type"),
        row("tool_use_id", mapped("`tool_call_id`"), mapped("`call_id`")),
        row(
            "content",
            mapped("text; other parts in a user message after it"),
            mapped("`output`"),
        ),
        both("is_error", mapped("`ERROR: ` before the text")),
        both(
            "cache_control",
            dropped("results are not marked for caching there"),
        )
        .whole(),
        TOOLSET,
    ],
};

pub(crate) static TOOL_REFERENCE: Shape = Shape {
    format: Messages,
    at: &["messages[].content[].content[]"],
    tags: &["tool_reference"],
    rows: &[
        tag("type"),
        both("tool_name", mapped("text that names the tool")),
        both(
            "cache_control",
            dropped("results are not marked for caching there"),
        )
        .whole(),
    ],
};

/// The call of a tool that the provider has itself.
pub(crate) static SERVER_TOOL_USE: Shape = Shape {
    format: Messages,
    at: &["messages[].content[]"],
    tags: &["server_tool_use"],
    rows: &[
        tag("type"),
        both("id", mapped("by which the result is found")),
        both("name", mapped("any but `web_search` is refused")),
        both("input", implied("the seal of the result has it")).whole(),
        both("caller", implied("the seal of the result has it")).whole(),
        both(
            "cache_control",
            dropped("calls are not marked for caching there"),
        )
        .whole(),
    ],
};

/// What a search of the web found.
pub(crate) static SEARCH_TOOL_RESULT: Shape = Shape {
    format: Messages,
    at: &["messages[].content[]"],
    tags: &["web_search_tool_result"],
    rows: &[
        tag("type"),
        both("tool_use_id", mapped("by which the call is found")),
        both(
            "content",
            mapped("the seal in `encrypted_content` is opened where this provider made it"),
        )
        .whole(),
        both("caller", implied("the seal has it")).whole(),
        both(
            "cache_control",
            dropped("results are not marked for caching there"),
        )
        .whole(),
    ],
};

pub(crate) static CACHE_CONTROL: Shape = Shape {
    format: Messages,
    at: &[
        "messages[].content[].cache_control",
        "messages[].content[].content[].cache_control",
        "messages[].content[].source.content[].cache_control",
        "messages[].content[].content[].content[].cache_control",
        "messages[].content[].content[].source.content[].cache_control",
        "system[].cache_control",
    ],
    tags: &["ephemeral"],
    rows: &[
        tag("type"),
        both("ttl", implied("the provider has one time to live")),
        both(
            "scope",
            implied("the provider keeps its caches apart as it does"),
        )
        .extra(),
    ],
};

pub(crate) static TURN_OUTPUT_CONFIG: Shape = Shape {
    format: Messages,
    at: &["messages[].output_config"],
    tags: &[],
    rows: &[both("effort", mapped("the last one is the request's"))],
};
