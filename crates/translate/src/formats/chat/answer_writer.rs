//! Fields of the chat format.

mod body;
mod stream;

use crate::{
    answer::{
        parts::{Citation, Stop},
        write::escaped,
    },
    output::Output,
};
use tollgate_types::Usage;

pub(crate) use body::ChatBody;
pub(crate) use stream::ChatStream;

/// The value of `finish_reason`.
const fn finish_reason(stop: Stop) -> &'static str {
    match stop {
        // What the model declined stands in `refusal`.
        Stop::Done | Stop::Declined => "stop",
        Stop::ToolCalls => "tool_calls",
        Stop::MaxTokens => "length",
        Stop::Refused => "content_filter",
    }
}

/// The value of `usage`: inclusive, what was cached and reasoned counted in the totals.
fn usage(usage: &Usage, out: &mut Output) {
    out.begin_object();
    out.key("prompt_tokens").number(usage.total_input());
    out.key("completion_tokens").number(usage.output);
    out.key("total_tokens").number(usage.total());
    out.key("prompt_tokens_details").begin_object();
    out.key("cached_tokens").number(usage.cache_read);
    out.key("cache_write_tokens").number(usage.cache_write);
    out.key("audio_tokens").number(0);
    out.end_object();
    out.key("completion_tokens_details").begin_object();
    out.key("reasoning_tokens").number(usage.reasoning);
    out.key("audio_tokens").number(0);
    out.key("accepted_prediction_tokens").number(0);
    out.key("rejected_prediction_tokens").number(0);
    out.end_object();
    out.end_object();
}

/// One entry of `annotations`, its range in the whole `content`.
fn annotation(citation: &Citation, range: (u64, u64), out: &mut Output) {
    out.begin_object();
    out.key("type").string("url_citation");
    out.key("url_citation").begin_object();
    out.key("start_index").number(range.0);
    out.key("end_index").number(range.1);
    escaped(out.key("url"), &citation.url);
    escaped(out.key("title"), &citation.title);
    out.end_object();
    out.end_object();
}

/// One entry of `reasoning_details` that holds sealed state.
fn sealed_reasoning(sealed: &str, index: u64, out: &mut Output) {
    out.begin_object();
    out.key("type").string("reasoning.encrypted");
    out.key("data").string(sealed);
    out.key("format").string("tollgate");
    out.key("id").raw(b"null");
    out.key("index").number(index);
    out.end_object();
}
