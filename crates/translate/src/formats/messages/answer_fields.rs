//! The fields of answers of the messages format.

use crate::answer::table::rows::{
    CALL_ID, HOSTED, ID, MODEL, NAME, PART, PROVIDER, SEALED, STRUCTURE, TOTAL, both, each,
};
use crate::answer::table::{
    AnswerFate::{Carried, LeftOut, Mapped},
    AnswerRow,
};

/// From messages, to chat and responses.
pub(crate) const ROWS: &[AnswerRow] = &[
    both("id", ID),
    both("type", STRUCTURE),
    both("role", STRUCTURE),
    both("model", MODEL),
    both("content", STRUCTURE),
    both("content[]<text>.type", STRUCTURE),
    each(
        "content[]<text>.text",
        Carried,
        Mapped("a part; texts that follow each other are parts of one message"),
    ),
    both("content[]<text>.citations", STRUCTURE),
    both(
        "content[]<text>.citations[]<web_search_result_location>",
        Mapped(
            "`url_citation` of the whole text; the quoted words are left out, and sealed beside the message where the provider was to search",
        ),
    )
    .whole(),
    both(
        "content[]<text>.citations[]<char_location>",
        LeftOut("it has no word for places in documents"),
    )
    .whole(),
    both(
        "content[]<text>.citations[]<page_location>",
        LeftOut("it has no word for places in documents"),
    )
    .whole(),
    both(
        "content[]<text>.citations[]<content_block_location>",
        LeftOut("it has no word for places in documents"),
    )
    .whole(),
    both(
        "content[]<text>.citations[]<search_result_location>",
        LeftOut("it has no word for places in documents"),
    )
    .whole(),
    both("content[]<thinking>.type", STRUCTURE),
    each(
        "content[]<thinking>.thinking",
        Mapped("`reasoning_content`"),
        Mapped("a summary"),
    ),
    both("content[]<thinking>.signature", SEALED),
    both("content[]<redacted_thinking>.type", STRUCTURE),
    both("content[]<redacted_thinking>.data", SEALED),
    both("content[]<tool_use>.type", STRUCTURE),
    both("content[]<tool_use>.id", CALL_ID),
    both("content[]<tool_use>.name", NAME),
    both(
        "content[]<tool_use>.input",
        Mapped("JSON in a string; of a custom tool its free text"),
    )
    .whole(),
    both("content[]<tool_use>.caller", HOSTED).whole(),
    both("content[]<tool_use>.toolset_name", HOSTED),
    both("content[]<advisor_tool_result>", HOSTED).whole(),
    both("content[]<bash_code_execution_tool_result>", HOSTED).whole(),
    both("content[]<code_execution_tool_result>", HOSTED).whole(),
    both("content[]<compaction>", HOSTED).whole(),
    both("content[]<container_upload>", HOSTED).whole(),
    both("content[]<fallback>", HOSTED).whole(),
    both("content[]<mcp_tool_listing>", HOSTED).whole(),
    both("content[]<mcp_tool_result>", HOSTED).whole(),
    both("content[]<mcp_tool_use>", HOSTED).whole(),
    each(
        "content[]<server_tool_use>",
        HOSTED,
        Mapped("`web_search_call`, where the provider was to search the web; other tools are left out"),
    )
    .whole(),
    both("content[]<text_editor_code_execution_tool_result>", HOSTED).whole(),
    both("content[]<tool_search_tool_result>", HOSTED).whole(),
    both("content[]<web_fetch_tool_result>", HOSTED).whole(),
    each(
        "content[]<web_search_tool_result>",
        HOSTED,
        Mapped(
            "ends the `web_search_call`; its pages are `sources` where the caller asks for them, and all of it is sealed in a reasoning item behind it",
        ),
    )
    .whole(),
    both(
        "stop_reason",
        Mapped(
            "to the format's reasons; `pause_turn` is the output limit where the provider was to search the web, else it fails",
        ),
    ),
    both(
        "stop_sequence",
        LeftOut("the others do not tell which it was"),
    ),
    both("stop_details", STRUCTURE),
    both("stop_details<refusal>.type", STRUCTURE),
    both(
        "stop_details<refusal>.explanation",
        Mapped("the text of the refusal"),
    ),
    both(
        "stop_details<refusal>.category",
        LeftOut("refusals have no kinds there"),
    ),
    both("stop_details<refusal>.fallback_credit_token", PROVIDER),
    both("stop_details<refusal>.fallback_has_prefill_claim", PROVIDER),
    both("stop_details<refusal>.recommended_model", PROVIDER),
    both("usage", STRUCTURE),
    both("usage.input_tokens", TOTAL),
    both("usage.output_tokens", TOTAL),
    both("usage.cache_read_input_tokens", Carried),
    both("usage.cache_creation_input_tokens", Carried),
    both("usage.cache_creation", PART).whole(),
    both("usage.output_tokens_details", STRUCTURE),
    both("usage.output_tokens_details.thinking_tokens", Carried),
    both("usage.iterations", PART).whole(),
    both("usage.fallback_credit", PROVIDER).whole(),
    both("usage.inference_geo", PROVIDER),
    each(
        "usage.server_tool_use",
        PROVIDER,
        Mapped("`tool_usage.web_search`, counted from the searches"),
    )
    .whole(),
    both("usage.service_tier", PROVIDER),
    both("usage.speed", PROVIDER),
    both("container", PROVIDER).whole(),
    both("context_management", PROVIDER).whole(),
    both("diagnostics", PROVIDER).whole(),
    both("input_transformations", PROVIDER).whole(),
];
