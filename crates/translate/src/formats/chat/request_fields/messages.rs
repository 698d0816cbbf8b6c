//! The fields of messages and their parts in a chat completions request.

use super::CACHE_CONTROL_ROW;
use crate::table::{CARRIED, Kinds, Row, Shape, both, dropped, implied, mapped, refused, row, tag};
use tollgate_types::Format::Chat;

const BREAKPOINT_ROW: Row = row(
    "prompt_cache_breakpoint",
    CARRIED,
    mapped("`cache_control`, at most the last four"),
);

const NAME_ROW: Row = both("name", dropped("it has no names of participants"));

pub(crate) static SYSTEM: Shape = Shape {
    format: Chat,
    at: &["messages[]"],
    tags: &["system"],
    rows: &[
        tag("role"),
        row(
            "content",
            CARRIED,
            mapped("before the first turn `system`, later a message in its place"),
        ),
        NAME_ROW,
    ],
};

pub(crate) static DEVELOPER: Shape = Shape {
    format: Chat,
    at: &["messages[]"],
    tags: &["developer"],
    rows: SYSTEM.rows,
};

pub(crate) static USER: Shape = Shape {
    format: Chat,
    at: &["messages[]"],
    tags: &["user"],
    rows: &[
        tag("role"),
        both("content", CARRIED),
        NAME_ROW,
        both("tool_calls", refused("a user calls no tools"))
            .whole()
            .extra(),
    ],
};

pub(crate) static ASSISTANT: Shape = Shape {
    format: Chat,
    at: &["messages[]"],
    tags: &["assistant"],
    rows: &[
        tag("role"),
        both("content", CARRIED),
        both("tool_calls", mapped("calls with the same ids")),
        row("refusal", mapped("a part of its own"), mapped("text")),
        both("audio", refused("it reads text alone")).whole(),
        both("function_call", refused("use `tool_calls`")).whole(),
        NAME_ROW,
        both(
            "reasoning_content",
            mapped("restored where this provider made it, else left out with notice"),
        )
        .extra(),
        both("reasoning", mapped("as `reasoning_content`")).extra(),
        both(
            "reasoning_details",
            mapped("the seal in it is opened where this provider made it"),
        )
        .whole()
        .extra(),
        both("annotations", dropped("citations are output only"))
            .whole()
            .unless(&["[]"])
            .extra(),
        both("prefix", refused("it does not go on with a begun answer"))
            .unless(&["false"])
            .extra(),
    ],
};

pub(crate) static TOOL_RESULT: Shape = Shape {
    format: Chat,
    at: &["messages[]"],
    tags: &["tool"],
    rows: &[
        tag("role"),
        row(
            "content",
            mapped("`output`"),
            mapped("the content of a `tool_result`"),
        ),
        row("tool_call_id", mapped("`call_id`"), mapped("`tool_use_id`")),
        both("name", implied("the call has it")).extra(),
    ],
};

pub(crate) static FUNCTION_RESULT: Shape = Shape {
    format: Chat,
    at: &["messages[]"],
    tags: &["function"],
    rows: &[
        both("role", refused("use the role `tool`")),
        both("content", refused("use the role `tool`")).whole(),
        both("name", refused("use the role `tool`")),
    ],
};

pub(crate) static PARTS: Kinds = Kinds {
    format: Chat,
    at: &["messages[].content[]"],
    rows: &[
        both("text", CARRIED),
        row(
            "image_url",
            mapped("`input_image`"),
            mapped("`image`, by data or by address"),
        ),
        both("input_audio", refused("it hears nothing")).whole(),
        row(
            "file",
            mapped("`input_file`"),
            mapped("`document`; PDF and plain text alone"),
        ),
        row("refusal", CARRIED, mapped("text")),
    ],
};

pub(crate) static TEXT: Shape = Shape {
    format: Chat,
    at: &["messages[].content[]", "prediction.content[]"],
    tags: &["text"],
    rows: &[
        tag("type"),
        both("text", CARRIED),
        BREAKPOINT_ROW,
        CACHE_CONTROL_ROW,
    ],
};

pub(crate) static IMAGE: Shape = Shape {
    format: Chat,
    at: &["messages[].content[]"],
    tags: &["image_url"],
    rows: &[
        tag("type"),
        both("image_url", CARRIED),
        BREAKPOINT_ROW,
        CACHE_CONTROL_ROW,
    ],
};

pub(crate) static IMAGE_URL: Shape = Shape {
    format: Chat,
    at: &["messages[].content[].image_url"],
    tags: &[],
    rows: &[
        row(
            "url",
            CARRIED,
            mapped("a `data:` URL becomes base64 data; another is passed on, never fetched"),
        ),
        row("detail", CARRIED, dropped("it has no level of detail")).unless(&["\"auto\""]),
    ],
};

pub(crate) static FILE: Shape = Shape {
    format: Chat,
    at: &["messages[].content[]"],
    tags: &["file"],
    rows: &[
        tag("type"),
        both("file", CARRIED),
        BREAKPOINT_ROW,
        CACHE_CONTROL_ROW,
    ],
};

const STORED: &str = "only the provider that stores a file knows it; 404 `not_found` if the file does not belong to the API key";

pub(crate) static FILE_DATA: Shape = Shape {
    format: Chat,
    at: &["messages[].content[].file"],
    tags: &[],
    rows: &[
        row(
            "file_data",
            CARRIED,
            mapped("a `source`; PDF and plain text alone"),
        ),
        both("file_id", refused(STORED)),
        row("filename", CARRIED, mapped("`title`")),
    ],
};

pub(crate) static REFUSAL: Shape = Shape {
    format: Chat,
    at: &["messages[].content[]"],
    tags: &["refusal"],
    rows: &[tag("type"), row("refusal", CARRIED, mapped("text"))],
};

pub(crate) static BREAKPOINT: Shape = Shape {
    format: Chat,
    at: &["messages[].content[].prompt_cache_breakpoint"],
    tags: &[],
    rows: &[
        both("mode", implied("`explicit` is the only one")),
        row("ttl", CARRIED, dropped("its times to live are others")),
    ],
};

/// Where the provider takes no marks for caching, they are dropped with notice.
pub(crate) static CACHE_CONTROL: Shape = Shape {
    format: Chat,
    at: &[
        "messages[].content[].cache_control",
        "tools[].cache_control",
    ],
    tags: &[],
    rows: &[
        tag("type").extra(),
        row("ttl", dropped("its times to live are others"), CARRIED).extra(),
    ],
};
