//! The fields of messages and their content blocks in a messages request.

use crate::{
    features::Feature as F,
    table::{Kinds, Row, Shape, core, field, implied, refused, tag},
};

const CACHE_ROW: Row = field("cache_control", F::CacheMarks);

const CALLER: Row = field("caller", F::ToolCallers)
    .whole()
    .unless(&["{\"type\":\"direct\"}"]);

const TOOLSET: Row = field("toolset_name", F::Toolsets);

pub(crate) static USER: Shape = Shape {
    at: &["messages[]"],
    tags: &["user"],
    rows: &[tag("role"), core("content")],
};

pub(crate) static ASSISTANT: Shape = Shape {
    at: &["messages[]"],
    tags: &["assistant"],
    rows: &[
        tag("role"),
        core("content")
            .how("as the last message it is refused: there is no going on with a begun answer"),
    ],
};

pub(crate) static SYSTEM: Shape = Shape {
    at: &["messages[]"],
    tags: &["system"],
    rows: &[
        tag("role"),
        field("content", F::SystemTurns).how("a message in its place"),
        core("clear_at").how("left out once its turn is over"),
        field("output_config", F::Effort).how("the last effort is the request's"),
    ],
};

pub(crate) static BLOCKS: Kinds = Kinds {
    at: &["messages[].content[]"],
    rows: &[
        core("text"),
        field("image", F::Images),
        field("document", F::Files),
        core("search_result").how("text"),
        field("thinking", F::Thoughts),
        field("redacted_thinking", F::SealedThoughts),
        field("tool_use", F::Calls),
        field("tool_result", F::Results),
        field("server_tool_use", F::SearchCalls),
        field("web_search_tool_result", F::SearchResults),
        field("web_fetch_tool_result", F::HostedHistory).whole(),
        field("advisor_tool_result", F::HostedHistory).whole(),
        field("code_execution_tool_result", F::HostedHistory).whole(),
        field("bash_code_execution_tool_result", F::HostedHistory).whole(),
        field("text_editor_code_execution_tool_result", F::HostedHistory).whole(),
        field("tool_search_tool_result", F::HostedHistory).whole(),
        field("mcp_tool_use", F::HostedHistory).whole(),
        field("mcp_tool_result", F::HostedHistory).whole(),
        field("mcp_tool_listing", F::HostedHistory).whole(),
        field("container_upload", F::Containers).whole(),
        field("compaction", F::CompactedHistory).whole(),
        field("fallback", F::Fallbacks).whole(),
        refused("tool_addition", "it stands in system messages").whole(),
        refused("tool_removal", "it stands in system messages").whole(),
    ],
};

pub(crate) static SYSTEM_BLOCKS: Kinds = Kinds {
    at: &["system[]"],
    rows: &[core("text")],
};

/// What stands in a message of the role `system`.
pub(crate) static MESSAGE_SYSTEM_BLOCKS: Kinds = Kinds {
    at: &["messages[].content[]"],
    rows: &[
        core("text"),
        core("tool_addition").how("every tool is offered from the start"),
        core("tool_removal").how("the tool is not offered"),
    ],
};

pub(crate) static RESULT_BLOCKS: Kinds = Kinds {
    at: &["messages[].content[].content[]"],
    rows: &[
        core("text"),
        field("image", F::ResultImages),
        field("document", F::ResultFiles),
        core("search_result").how("text"),
        core("tool_reference").how("text that names the tool"),
        field("browser_state", F::HostedHistory).whole(),
    ],
};

/// What a search result holds, by itself or in the result of a tool.
pub(crate) static FOUND_BLOCKS: Kinds = Kinds {
    at: &[
        "messages[].content[].content[]",
        "messages[].content[].content[].content[]",
    ],
    rows: &[core("text")],
};

/// What a document holds that is made of blocks.
pub(crate) static SOURCE_BLOCKS: Kinds = Kinds {
    at: &[
        "messages[].content[].source.content[]",
        "messages[].content[].content[].source.content[]",
    ],
    rows: &[core("text"), field("image", F::Images)],
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
    at: TEXT_AT,
    tags: &["text"],
    rows: &[
        tag("type"),
        core("text"),
        CACHE_ROW,
        field("citations", F::Citations).whole().unless(&["[]"]),
    ],
};

pub(crate) static IMAGE: Shape = Shape {
    at: &[
        "messages[].content[]",
        "messages[].content[].content[]",
        "messages[].content[].source.content[]",
        "messages[].content[].content[].source.content[]",
    ],
    tags: &["image"],
    rows: &[
        tag("type"),
        field("source", F::ImageSources)
            .how("data as a `data:` URL; another address is passed on, never fetched"),
        field("cache_control", F::BlockMarks).whole(),
        field("transformations", F::ImageTransformations)
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

pub(crate) static IMAGE_SOURCES: Kinds = Kinds {
    at: SOURCES_AT,
    rows: &[
        core("base64").how("a `data:` URL"),
        core("url"),
        field("file", F::StoredFiles).whole(),
    ],
};

pub(crate) static DOCUMENT_SOURCES: Kinds = Kinds {
    at: DOCUMENTS_AT,
    rows: &[
        core("base64").how("`file_data`, a `data:` URL"),
        field("url", F::FileAddresses),
        core("text").how("text, its title before it"),
        core("content").how("text and images, its title before them"),
        field("file", F::StoredFiles).whole(),
    ],
};

pub(crate) static BASE64: Shape = Shape {
    at: SOURCES_AT,
    tags: &["base64"],
    rows: &[tag("type"), core("data"), core("media_type")],
};

pub(crate) static URL: Shape = Shape {
    at: SOURCES_AT,
    tags: &["url"],
    rows: &[tag("type"), core("url")],
};

pub(crate) static PLAIN: Shape = Shape {
    at: DOCUMENTS_AT,
    tags: &["text"],
    rows: &[
        tag("type"),
        core("data"),
        implied("media_type", "it is `text/plain`"),
    ],
};

pub(crate) static CONTENT_SOURCE: Shape = Shape {
    at: DOCUMENTS_AT,
    tags: &["content"],
    rows: &[tag("type"), core("content")],
};

pub(crate) static DOCUMENT: Shape = Shape {
    at: BLOCK_AT,
    tags: &["document"],
    rows: &[
        tag("type"),
        core("source"),
        field("cache_control", F::BlockMarks).whole(),
        core("citations").how("refused where they are enabled"),
        core("context").how("text before the document"),
        field("title", F::FileNames).how("`filename`, or text"),
    ],
};

pub(crate) static CITATIONS: Shape = Shape {
    at: &[
        "messages[].content[].citations",
        "messages[].content[].content[].citations",
    ],
    tags: &[],
    rows: &[field("enabled", F::DocumentCitations).unless(&["false"])],
};

pub(crate) static SEARCH_RESULT: Shape = Shape {
    at: BLOCK_AT,
    tags: &["search_result"],
    rows: &[
        tag("type"),
        core("content").how("text"),
        core("source").how("a line before the text"),
        core("title").how("a line before the text"),
        CACHE_ROW,
        core("citations").how("refused where they are enabled"),
    ],
};

pub(crate) static THINKING: Shape = Shape {
    at: &["messages[].content[]"],
    tags: &["thinking"],
    rows: &[
        tag("type"),
        field("thinking", F::Thoughts).how("its text, where this provider made it"),
        field("signature", F::Thoughts).how("the seal is opened where this provider made it"),
    ],
};

pub(crate) static REDACTED: Shape = Shape {
    at: &["messages[].content[]"],
    tags: &["redacted_thinking"],
    rows: &[
        tag("type"),
        field("data", F::Thoughts).how("the seal is opened where this provider made it"),
    ],
};

pub(crate) static TOOL_USE: Shape = Shape {
    at: &["messages[].content[]"],
    tags: &["tool_use"],
    rows: &[
        tag("type"),
        field("id", F::CallIds),
        field("input", F::Arguments)
            .how("`arguments`, as a string")
            .whole(),
        core("name").how("shortened where the target takes less"),
        field("cache_control", F::BlockMarks).whole(),
        CALLER,
        TOOLSET,
    ],
};

pub(crate) static TOOL_RESULT: Shape = Shape {
    at: &["messages[].content[]"],
    tags: &["tool_result"],
    rows: &[
        tag("type"),
        field("tool_use_id", F::ResultIds),
        field("content", F::ResultContents),
        core("is_error").how("`ERROR: ` before the text"),
        field("cache_control", F::BlockMarks).whole(),
        TOOLSET,
    ],
};

pub(crate) static TOOL_REFERENCE: Shape = Shape {
    at: &["messages[].content[].content[]"],
    tags: &["tool_reference"],
    rows: &[
        tag("type"),
        core("tool_name").how("text that names the tool"),
        field("cache_control", F::BlockMarks).whole(),
    ],
};

/// The call of a tool that the provider has itself.
pub(crate) static SERVER_TOOL_USE: Shape = Shape {
    at: &["messages[].content[]"],
    tags: &["server_tool_use"],
    rows: &[
        tag("type"),
        core("id").how("by which the result is found"),
        core("name").how("any but `web_search` is refused"),
        implied("input", "the seal of the result has it").whole(),
        implied("caller", "the seal of the result has it").whole(),
        field("cache_control", F::BlockMarks).whole(),
    ],
};

/// What a search of the web found.
pub(crate) static SEARCH_TOOL_RESULT: Shape = Shape {
    at: &["messages[].content[]"],
    tags: &["web_search_tool_result"],
    rows: &[
        tag("type"),
        core("tool_use_id").how("by which the call is found"),
        field("content", F::SearchResults)
            .how("the seal in `encrypted_content` is opened where this provider made it")
            .whole(),
        implied("caller", "the seal has it").whole(),
        field("cache_control", F::BlockMarks).whole(),
    ],
};

pub(crate) static CACHE_CONTROL: Shape = Shape {
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
        implied("ttl", "the provider has one time to live"),
        implied("scope", "the provider keeps its caches apart as it does").extra(),
    ],
};

pub(crate) static TURN_OUTPUT_CONFIG: Shape = Shape {
    at: &["messages[].output_config"],
    tags: &[],
    rows: &[field("effort", F::Effort).how("the last one is the request's")],
};
