//! The fields of messages and their parts in a chat completions request.

use super::CACHE_CONTROL_ROW;
use crate::{
    features::Feature as F,
    table::{Kinds, Row, Shape, core, dropped, field, implied, refused, tag},
};

const BREAKPOINT_ROW: Row = field("prompt_cache_breakpoint", F::CacheMarks);

const NAME_ROW: Row = field("name", F::ParticipantNames);

pub(crate) static SYSTEM: Shape = Shape {
    at: &["messages[]"],
    tags: &["system"],
    rows: &[tag("role"), field("content", F::SystemTurns), NAME_ROW],
};

pub(crate) static DEVELOPER: Shape = Shape {
    at: &["messages[]"],
    tags: &["developer"],
    rows: SYSTEM.rows,
};

pub(crate) static USER: Shape = Shape {
    at: &["messages[]"],
    tags: &["user"],
    rows: &[
        tag("role"),
        core("content"),
        NAME_ROW,
        refused("tool_calls", "a user calls no tools")
            .whole()
            .extra(),
    ],
};

pub(crate) static ASSISTANT: Shape = Shape {
    at: &["messages[]"],
    tags: &["assistant"],
    rows: &[
        tag("role"),
        core("content"),
        core("tool_calls").how("calls with the same ids"),
        field("refusal", F::Refusals),
        field("audio", F::AudioHistory).whole(),
        refused("function_call", "use `tool_calls`").whole(),
        NAME_ROW,
        field("reasoning_content", F::Thoughts)
            .how("restored where this provider made it, else left out with notice")
            .extra(),
        field("reasoning", F::Thoughts)
            .how("as `reasoning_content`")
            .extra(),
        field("reasoning_details", F::Thoughts)
            .how("the seal in it is opened where this provider made it")
            .whole()
            .extra(),
        dropped("annotations", "citations are output only")
            .whole()
            .unless(&["[]"])
            .extra(),
        field("prefix", F::AnswerPrefix).unless(&["false"]).extra(),
    ],
};

pub(crate) static TOOL_RESULT: Shape = Shape {
    at: &["messages[]"],
    tags: &["tool"],
    rows: &[
        tag("role"),
        field("content", F::ResultContents),
        field("tool_call_id", F::ResultIds),
        implied("name", "the call has it").extra(),
    ],
};

pub(crate) static FUNCTION_RESULT: Shape = Shape {
    at: &["messages[]"],
    tags: &["function"],
    rows: &[
        refused("role", "use the role `tool`"),
        refused("content", "use the role `tool`").whole(),
        refused("name", "use the role `tool`"),
    ],
};

pub(crate) static PARTS: Kinds = Kinds {
    at: &["messages[].content[]"],
    rows: &[
        core("text"),
        field("image_url", F::Images),
        field("input_audio", F::AudioInput).whole(),
        field("file", F::Files),
        field("refusal", F::Refusals),
    ],
};

pub(crate) static TEXT: Shape = Shape {
    at: &["messages[].content[]", "prediction.content[]"],
    tags: &["text"],
    rows: &[tag("type"), core("text"), BREAKPOINT_ROW, CACHE_CONTROL_ROW],
};

pub(crate) static IMAGE: Shape = Shape {
    at: &["messages[].content[]"],
    tags: &["image_url"],
    rows: &[
        tag("type"),
        core("image_url"),
        BREAKPOINT_ROW,
        CACHE_CONTROL_ROW,
    ],
};

pub(crate) static IMAGE_URL: Shape = Shape {
    at: &["messages[].content[].image_url"],
    tags: &[],
    rows: &[
        field("url", F::ImageSources),
        field("detail", F::ImageDetail).unless(&["\"auto\""]),
    ],
};

pub(crate) static FILE: Shape = Shape {
    at: &["messages[].content[]"],
    tags: &["file"],
    rows: &[tag("type"), core("file"), BREAKPOINT_ROW, CACHE_CONTROL_ROW],
};

pub(crate) static FILE_DATA: Shape = Shape {
    at: &["messages[].content[].file"],
    tags: &[],
    rows: &[
        field("file_data", F::FileData),
        field("file_id", F::StoredFiles),
        field("filename", F::FileNames),
    ],
};

pub(crate) static REFUSAL: Shape = Shape {
    at: &["messages[].content[]"],
    tags: &["refusal"],
    rows: &[tag("type"), field("refusal", F::Refusals)],
};

pub(crate) static BREAKPOINT: Shape = Shape {
    at: &["messages[].content[].prompt_cache_breakpoint"],
    tags: &[],
    rows: &[
        implied("mode", "`explicit` is the only one"),
        field("ttl", F::CacheLifetimes),
    ],
};

/// Where the provider takes no marks for caching, they are dropped with notice.
pub(crate) static CACHE_CONTROL: Shape = Shape {
    at: &[
        "messages[].content[].cache_control",
        "tools[].cache_control",
    ],
    tags: &[],
    rows: &[tag("type").extra(), field("ttl", F::MarkLifetimes).extra()],
};
