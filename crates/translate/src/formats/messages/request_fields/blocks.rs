//! The fields of messages and their content blocks in a messages request.

use crate::{
    features::Feature as F,
    table::{Row, core, declare_kinds, declare_shapes, field, implied, refused, tag},
};

const CACHE_ROW: Row = field("cache_control", F::CacheBreakpoints);

const CALLER: Row = field("caller", F::ToolCallers)
    .whole()
    .unless(&["{\"type\":\"direct\"}"]);

const TOOLSET: Row = field("toolset_name", F::Toolsets);

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

declare_shapes! {
    USER: &["messages[]"], &["user"] => &[tag("role"), core("content")];

    ASSISTANT: &["messages[]"], &["assistant"] => &[
        tag("role"),
        core("content").how("as the last message it is refused: there is no going on with a begun answer"),
    ];

    SYSTEM: &["messages[]"], &["system"] => &[
        tag("role"),
        field("content", F::SystemTurns).how("a message in its place"),
        core("clear_at").how("left out once its turn is over"),
        field("output_config", F::Effort).how("the last effort is the request's"),
    ];

    TEXT: TEXT_AT, &["text"] => &[
        tag("type"),
        core("text"),
        CACHE_ROW,
        field("citations", F::Citations).whole().unless(&["[]"]),
    ];

    IMAGE: &[
        "messages[].content[]",
        "messages[].content[].content[]",
        "messages[].content[].source.content[]",
        "messages[].content[].content[].source.content[]",
    ], &["image"] => &[
        tag("type"),
        field("source", F::ImageSources).how("data as a `data:` URL; another address is passed on, never fetched"),
        field("cache_control", F::BlockMarks).whole(),
        field("transformations", F::ImageTransformations).whole().unless(&["{}"]),
    ];

    BASE64: SOURCES_AT, &["base64"] => &[tag("type"), core("data"), core("media_type")];

    URL: SOURCES_AT, &["url"] => &[tag("type"), core("url")];

    PLAIN: DOCUMENTS_AT, &["text"] => &[
        tag("type"),
        core("data"),
        implied("media_type", "it is `text/plain`"),
    ];

    CONTENT_SOURCE: DOCUMENTS_AT, &["content"] => &[tag("type"), core("content")];

    DOCUMENT: BLOCK_AT, &["document"] => &[
        tag("type"),
        core("source"),
        field("cache_control", F::BlockMarks).whole(),
        core("citations").how("refused where they are enabled"),
        core("context").how("text before the document"),
        field("title", F::FileNames).how("`filename`, or text"),
    ];

    CITATIONS: &["messages[].content[].citations", "messages[].content[].content[].citations"], &[] => &[field("enabled", F::DocumentCitations).unless(&["false"])];

    SEARCH_RESULT: BLOCK_AT, &["search_result"] => &[
        tag("type"),
        core("content").how("text"),
        core("source").how("a line before the text"),
        core("title").how("a line before the text"),
        CACHE_ROW,
        core("citations").how("refused where they are enabled"),
    ];

    THINKING: &["messages[].content[]"], &["thinking"] => &[
        tag("type"),
        field("thinking", F::Thoughts).how("its text, where this provider made it"),
        field("signature", F::Thoughts).how("the seal is opened where this provider made it"),
    ];

    REDACTED: &["messages[].content[]"], &["redacted_thinking"] => &[
        tag("type"),
        field("data", F::Thoughts).how("the seal is opened where this provider made it"),
    ];

    TOOL_USE: &["messages[].content[]"], &["tool_use"] => &[
        tag("type"),
        field("id", F::CallIds),
        field("input", F::Arguments).how("`arguments`, as a string").whole(),
        core("name").how("shortened where the target takes less"),
        field("cache_control", F::BlockMarks).whole(),
        CALLER,
        TOOLSET,
    ];

    TOOL_RESULT: &["messages[].content[]"], &["tool_result"] => &[
        tag("type"),
        field("tool_use_id", F::ResultIds),
        field("content", F::ResultContents),
        core("is_error").how("`ERROR: ` before the text"),
        field("cache_control", F::BlockMarks).whole(),
        TOOLSET,
    ];

    TOOL_REFERENCE: &["messages[].content[].content[]"], &["tool_reference"] => &[
        tag("type"),
        core("tool_name").how("text that names the tool"),
        field("cache_control", F::BlockMarks).whole(),
    ];

    /// The call of a tool that the provider has itself.
    SERVER_TOOL_USE: &["messages[].content[]"], &["server_tool_use"] => &[
        tag("type"),
        core("id").how("by which the result is found"),
        core("name").how("any but `web_search` is refused"),
        implied("input", "the seal of the result has it").whole(),
        implied("caller", "the seal of the result has it").whole(),
        field("cache_control", F::BlockMarks).whole(),
    ];

    /// The results of a search of the web.
    SEARCH_TOOL_RESULT: &["messages[].content[]"], &["web_search_tool_result"] => &[
        tag("type"),
        core("tool_use_id").how("by which the call is found"),
        field("content", F::SearchResults)
            .how("the seal in `encrypted_content` is opened where this provider made it").whole(),
        implied("caller", "the seal has it").whole(),
        field("cache_control", F::BlockMarks).whole(),
    ];

    CACHE_CONTROL: &[
        "messages[].content[].cache_control",
        "messages[].content[].content[].cache_control",
        "messages[].content[].source.content[].cache_control",
        "messages[].content[].content[].content[].cache_control",
        "messages[].content[].content[].source.content[].cache_control",
        "messages[].content[].tool.definition.cache_control",
        "system[].cache_control",
        "tools[].cache_control",
    ], &["ephemeral"] => &[
        tag("type"),
        field("ttl", F::MarkLifetimes),
        implied("scope", "the provider keeps its caches apart as it does").extra(),
    ];

    TURN_OUTPUT_CONFIG: &["messages[].output_config"], &[] => &[field("effort", F::Effort).how("the last one is the request's")];
}

declare_kinds! {
    BLOCKS: &["messages[].content[]"] => &[
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
    ];

    SYSTEM_BLOCKS: &["system[]"] => &[core("text")];

    /// The blocks of a message of the role `system`.
    MESSAGE_SYSTEM_BLOCKS: &["messages[].content[]"] => &[
        core("text"),
        core("tool_addition").how("every tool is offered from the start"),
        core("tool_removal").how("the tool is not offered"),
    ];

    RESULT_BLOCKS: &["messages[].content[].content[]"] => &[
        core("text"),
        field("image", F::ResultImages),
        field("document", F::ResultFiles),
        core("search_result").how("text"),
        core("tool_reference").how("text that names the tool"),
        field("browser_state", F::HostedHistory).whole(),
    ];

    /// The blocks of a search result, by itself or in the result of a tool.
    FOUND_BLOCKS: &["messages[].content[].content[]", "messages[].content[].content[].content[]"] => &[core("text")];

    /// The blocks of a document.
    SOURCE_BLOCKS: &[
        "messages[].content[].source.content[]",
        "messages[].content[].content[].source.content[]",
    ] => &[core("text"), field("image", F::Images)];

    IMAGE_SOURCES: SOURCES_AT => &[
        core("base64").how("a `data:` URL"),
        core("url"),
        field("file", F::StoredFiles).whole(),
    ];

    DOCUMENT_SOURCES: DOCUMENTS_AT => &[
        core("base64").how("`file_data`, a `data:` URL"),
        field("url", F::FileAddresses),
        core("text").how("text, its title before it"),
        core("content").how("text and images, its title before them"),
        field("file", F::StoredFiles).whole(),
    ];
}
