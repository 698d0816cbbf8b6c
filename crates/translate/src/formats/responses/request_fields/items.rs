//! The fields of items and their parts in a responses request.

use crate::{
    features::Feature as F,
    table::{Row, core, declare_kinds, declare_shapes, dropped, field, implied, refused, tag},
};

const BREAKPOINT_ROW: Row = field("prompt_cache_breakpoint", F::CacheBreakpoints);

const ITEM_ID: Row = implied("id", "ids of items belong to the provider that made them");

const STATUS: Row = implied("status", "what is in the history is over");

const CALLER: Row = field("caller", F::ToolCallers)
    .whole()
    .unless(&["{\"type\":\"direct\"}"]);

const EXECUTION: Row = core("execution").how("`server` is refused");

declare_shapes! {
    MESSAGE: &["input[]"], &["message"] => &[
        tag("type"),
        field("role", F::SystemTurns),
        core("content"),
        ITEM_ID,
        STATUS,
        field("phase", F::AnswerPhases),
    ];

    INPUT_TEXT: &["input[].content[]", "input[].output[]"], &["input_text"] => &[tag("type"), core("text"), BREAKPOINT_ROW];

    OUTPUT_TEXT: &["input[].content[]"], &["output_text"] => &[
        tag("type"),
        core("text"),
        field("annotations", F::Citations).whole().unless(&["[]"]),
        dropped("logprobs", "log probabilities are output only").whole().unless(&["[]"]),
    ];

    REFUSAL: &["input[].content[]"], &["refusal"] => &[tag("type"), field("refusal", F::Refusals)];

    IMAGE: &["input[].content[]", "input[].output[]"], &["input_image"] => &[
        tag("type"),
        field("image_url", F::ImageSources),
        field("file_id", F::StoredFiles),
        field("detail", F::ImageDetail).unless(&["\"auto\""]),
        BREAKPOINT_ROW,
    ];

    FILE: &["input[].content[]", "input[].output[]"], &["input_file"] => &[
        tag("type"),
        field("file_data", F::FileData),
        field("file_id", F::StoredFiles),
        field("file_url", F::FileAddresses),
        field("filename", F::FileNames),
        field("detail", F::FileDetail).unless(&["\"auto\""]),
        BREAKPOINT_ROW,
    ];

    BREAKPOINT: &[
        "input[].content[].prompt_cache_breakpoint",
        "input[].output[].prompt_cache_breakpoint",
    ], &[] => &[
        implied("mode", "`explicit` is the only one"),
        field("ttl", F::CacheLifetimes),
    ];

    FUNCTION_CALL: &["input[]"], &["function_call"] => &[
        tag("type"),
        field("arguments", F::Arguments),
        core("call_id").how("the call's `id`"),
        core("name").how("with its namespace, shortened where the target takes less"),
        core("namespace").how("`<namespace>__<name>`"),
        field("async", F::AsyncCalls).unless(&["false"]),
        ITEM_ID,
        STATUS,
        CALLER,
    ];

    FUNCTION_OUTPUT: &["input[]"], &["function_call_output"] => &[
        tag("type"),
        field("output", F::ResultContents),
        field("call_id", F::ResultIds),
        implied("name", "the call has it"),
        implied("namespace", "the call has it"),
        ITEM_ID,
        STATUS,
        CALLER,
    ];

    CUSTOM_CALL: &["input[]"], &["custom_tool_call"] => &[
        tag("type"),
        field("input", F::FreeInputs),
        core("call_id").how("the call's `id`"),
        core("name").how("with its namespace, shortened where the target takes less"),
        core("namespace").how("`<namespace>__<name>`"),
        field("async", F::AsyncCalls).unless(&["false"]),
        ITEM_ID,
        STATUS.extra(),
        CALLER,
    ];

    CUSTOM_OUTPUT: &["input[]"], &["custom_tool_call_output"] => &[
        tag("type"),
        field("output", F::ResultContents),
        field("call_id", F::ResultIds),
        ITEM_ID,
        STATUS.extra(),
        CALLER,
    ];

    REASONING_ITEM: &["input[]"], &["reasoning"] => &[
        tag("type"),
        implied("id", "the seal has it"),
        field("summary", F::Thoughts).how("its text, where this provider made it"),
        field("content", F::Thoughts).how("its text, where this provider made it"),
        field("encrypted_content", F::Thoughts).how("the seal is opened where this provider made it"),
        STATUS,
    ];

    /// A search of the web. What it found is in the seal that stands beside it.
    SEARCH_CALL: &["input[]"], &["web_search_call"] => &[
        tag("type"),
        ITEM_ID,
        STATUS,
        implied("action", "the seal beside it has it").whole(),
    ];

    /// A summary that stands for the conversation before it.
    COMPACTION: &["input[]"], &["compaction"] => &[
        tag("type"),
        core("encrypted_content").how("the summary, if the gateway had it made"),
        ITEM_ID,
    ];

    COMPACTION_TRIGGER: &["input[]"], &["compaction_trigger"] => &[tag("type"), ITEM_ID];

    /// A search among tools.
    TOOL_SEARCH_CALL: &["input[]"], &["tool_search_call"] => &[
        tag("type"),
        core("arguments").how("the input of the call").whole(),
        core("call_id").how("the call's `id`"),
        EXECUTION,
        ITEM_ID,
        STATUS,
    ];

    /// The result of a search among tools.
    TOOL_SEARCH_OUTPUT: &["input[]"], &["tool_search_output"] => &[
        tag("type"),
        core("tools").how("offered with the other tools; the result names them"),
        field("call_id", F::ResultIds),
        EXECUTION,
        ITEM_ID,
        STATUS,
    ];

    /// A piece of reasoning, a summary or the thing itself.
    THOUGHT: &["input[].summary[]", "input[].content[]"], &["summary_text", "reasoning_text"] => &[tag("type"), core("text")];

    ADDITIONAL_TOOLS: &["input[]"], &["additional_tools"] => &[
        tag("type"),
        tag("role"),
        core("tools").how("offered with the other tools"),
        ITEM_ID,
    ];
}

declare_kinds! {
    ITEMS: &["input[]"] => &[
        core("message"),
        field("function_call", F::Calls),
        field("function_call_output", F::Results),
        field("custom_tool_call", F::CustomCalls),
        field("custom_tool_call_output", F::Results),
        field("reasoning", F::Thoughts),
        core("additional_tools").how("offered with the other tools"),
        field("file_search_call", F::HostedHistory).whole(),
        field("computer_call", F::HostedHistory).whole(),
        field("computer_call_output", F::HostedHistory).whole(),
        field("web_search_call", F::SearchResults),
        core("tool_search_call").how("a call of `tool_search` if the client searched; a search by the provider is refused"),
        core("tool_search_output").how("the result of the call; the tools in it are offered with the other tools"),
        field("configuration_update", F::ConfigurationUpdates).whole(),
        core("compaction").how("the summary as a message of the user's, if the gateway had it made; else refused"),
        core("compaction_trigger").how("an instruction to summarize; the answer is one `compaction` item"),
        field("image_generation_call", F::HostedHistory).whole(),
        field("code_interpreter_call", F::HostedHistory).whole(),
        field("local_shell_call", F::HostedHistory).whole(),
        field("local_shell_call_output", F::HostedHistory).whole(),
        field("shell_call", F::HostedHistory).whole(),
        field("shell_call_output", F::HostedHistory).whole(),
        field("apply_patch_call", F::HostedHistory).whole(),
        field("apply_patch_call_output", F::HostedHistory).whole(),
        field("mcp_list_tools", F::HostedHistory).whole(),
        field("mcp_approval_request", F::HostedHistory).whole(),
        field("mcp_approval_response", F::HostedHistory).whole(),
        field("mcp_call", F::HostedHistory).whole(),
        field("program", F::HostedHistory).whole(),
        field("program_output", F::HostedHistory).whole(),
        refused("item_reference", "the gateway does not remember that item: send the item itself").whole(),
    ];

    PARTS: &["input[].content[]"] => &[
        core("input_text"),
        core("output_text"),
        field("refusal", F::Refusals),
        field("input_image", F::Images),
        field("input_file", F::Files),
    ];

    OUTPUT_PARTS: &["input[].output[]"] => &[
        core("input_text"),
        field("input_image", F::ResultImages),
        field("input_file", F::ResultFiles),
    ];

    SUMMARIES: &["input[].summary[]", "input[].content[]"] => &[core("summary_text"), core("reasoning_text").extra()];
}
