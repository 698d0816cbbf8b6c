//! The fields of messages and their parts in a chat completions request.

use super::CACHE_CONTROL_ROW;
use crate::{
    features::Feature as F,
    table::{Row, core, declare_kinds, declare_shapes, dropped, field, implied, refused, tag},
};

const BREAKPOINT_ROW: Row = field("prompt_cache_breakpoint", F::CacheBreakpoints);

const NAME_ROW: Row = field("name", F::ParticipantNames);

declare_shapes! {
    SYSTEM: &["messages[]"], &["system"] => &[tag("role"), field("content", F::SystemTurns), NAME_ROW];

    DEVELOPER: &["messages[]"], &["developer"] => SYSTEM.rows;

    USER: &["messages[]"], &["user"] => &[
        tag("role"),
        core("content"),
        NAME_ROW,
        refused("tool_calls", "a user calls no tools").whole().extra(),
    ];

    ASSISTANT: &["messages[]"], &["assistant"] => &[
        tag("role"),
        core("content"),
        core("tool_calls").how("calls with the same ids"),
        field("refusal", F::Refusals),
        field("audio", F::AudioHistory).whole(),
        refused("function_call", "use `tool_calls`").whole(),
        NAME_ROW,
        field("reasoning_content", F::Thoughts).how("restored where this provider made it, else left out with notice")
            .extra(),
        field("reasoning", F::Thoughts).how("as `reasoning_content`").extra(),
        field("reasoning_details", F::Thoughts).how("the seal in it is opened where this provider made it").whole()
            .extra(),
        dropped("annotations", "citations are output only").whole().unless(&["[]"]).extra(),
        field("prefix", F::AnswerPrefix).unless(&["false"]).extra(),
    ];

    TOOL_RESULT: &["messages[]"], &["tool"] => &[
        tag("role"),
        field("content", F::ResultContents),
        field("tool_call_id", F::ResultIds),
        implied("name", "the call has it").extra(),
    ];

    FUNCTION_RESULT: &["messages[]"], &["function"] => &[
        refused("role", "use the role `tool`"),
        refused("content", "use the role `tool`").whole(),
        refused("name", "use the role `tool`"),
    ];

    TEXT: &["messages[].content[]", "prediction.content[]"], &["text"] => &[tag("type"), core("text"), BREAKPOINT_ROW, CACHE_CONTROL_ROW];

    IMAGE: &["messages[].content[]"], &["image_url"] => &[
        tag("type"),
        core("image_url"),
        BREAKPOINT_ROW,
        CACHE_CONTROL_ROW,
    ];

    IMAGE_URL: &["messages[].content[].image_url"], &[] => &[
        field("url", F::ImageSources),
        field("detail", F::ImageDetail).unless(&["\"auto\""]),
    ];

    FILE: &["messages[].content[]"], &["file"] => &[tag("type"), core("file"), BREAKPOINT_ROW, CACHE_CONTROL_ROW];

    FILE_DATA: &["messages[].content[].file"], &[] => &[
        field("file_data", F::FileData),
        field("file_id", F::StoredFiles),
        field("filename", F::FileNames),
    ];

    REFUSAL: &["messages[].content[]"], &["refusal"] => &[tag("type"), field("refusal", F::Refusals)];

    BREAKPOINT: &["messages[].content[].prompt_cache_breakpoint"], &[] => &[
        implied("mode", "`explicit` is the only one"),
        field("ttl", F::CacheLifetimes),
    ];

    /// Where the provider takes no marks for caching, they are dropped with notice.
    CACHE_CONTROL: &["messages[].content[].cache_control", "tools[].cache_control"], &[] => &[tag("type").extra(), field("ttl", F::MarkLifetimes).extra()];
}

declare_kinds! {
    PARTS: &["messages[].content[]"] => &[
        core("text"),
        field("image_url", F::Images),
        field("input_audio", F::AudioInput).whole(),
        field("file", F::Files),
        field("refusal", F::Refusals),
    ];
}
