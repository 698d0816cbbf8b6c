//! The fields of answers of the messages format.

use crate::answer::table::{
    AnswerFate::{self, Carried, Fails, Implied, LeftOut, Mapped},
    AnswerFeature::{self, *},
    AnswerRow,
    rows::{
        CALL_ID, HOSTED, ID, MODEL, NAME, PART, PROVIDER, SEALED, STRUCTURE, TOTAL, both, feeds,
    },
};

const CITED: &str = "a citation where the provider was to search the web, without the words that it quotes, its annotation sealed in it; else left out, since a citation there names a place in what its provider searched";

const SEARCHES: &str = "`server_tool_use` and `web_search_tool_result`, where the provider was to search the web; a page that is read is a search for its address. The first page holds the item, sealed";

/// What the format does with the features of an answer to its clients.
pub(crate) const FEATURES: &[(AnswerFeature, AnswerFate)] = &[
    (Created, LeftOut("messages bear no time")),
    (Texts, Carried),
    (Refusals, Mapped("text, with the stop reason `refusal`")),
    (Thoughts, Mapped("thinking, as paragraphs")),
    (
        Annotations,
        LeftOut("a citation there names a place in what its provider searched"),
    ),
    (Citations, Mapped(CITED)),
    (Calls, Mapped("blocks, one after the other")),
    (
        Arguments,
        Mapped("the object; what is none fails, unless the output limit cut it"),
    ),
    (CustomCalls, Fails("nobody can have offered it")),
    (
        Logprobs,
        LeftOut("callers cannot ask for log probabilities"),
    ),
    (Searches, Mapped(SEARCHES)),
    (SearchEvents, Implied("the item says it")),
    (
        SearchUsage,
        Mapped("`usage.server_tool_use`, counted from the searches"),
    ),
];

/// The fields of an answer of a provider.
pub(crate) const ROWS: &[AnswerRow] = &[
    both("id", ID),
    both("type", STRUCTURE),
    both("role", STRUCTURE),
    both("model", MODEL),
    both("content", STRUCTURE),
    both("content[]<text>.type", STRUCTURE),
    feeds("content[]<text>.text", Texts),
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
    feeds("content[]<thinking>.thinking", Thoughts),
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
    feeds("content[]<server_tool_use>", Searches)
    .whole(),
    both("content[]<text_editor_code_execution_tool_result>", HOSTED).whole(),
    both("content[]<tool_search_tool_result>", HOSTED).whole(),
    both("content[]<web_fetch_tool_result>", HOSTED).whole(),
    feeds("content[]<web_search_tool_result>", SearchResults)
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
    feeds("usage.server_tool_use", SearchUsage)
    .whole(),
    both("usage.service_tier", PROVIDER),
    both("usage.speed", PROVIDER),
    both("container", PROVIDER).whole(),
    both("context_management", PROVIDER).whole(),
    both("diagnostics", PROVIDER).whole(),
    both("input_transformations", PROVIDER).whole(),
];
