//! Fields of the messages format.

mod body;
mod stream;

use crate::{
    answer::{
        parts::{Citation, Ending, Search, Stop},
        text::RawText,
        write::escaped,
    },
    output::Output,
};
use tollgate_types::Usage;

pub(crate) use body::MessagesBody;
pub(crate) use stream::MessagesStream;

/// Whether the contents of a text are white space alone.
fn is_blank(contents: &str) -> bool {
    let rest = contents.trim_start();
    let is_escaped_space = || RawText::escaped(rest).unescape().trim().is_empty();
    rest.is_empty() || rest.starts_with('\\') && is_escaped_space()
}

/// `stop_reason`, `stop_sequence` and `stop_details`.
fn stop_fields(ending: Option<&Ending>, out: &mut Output) {
    let stop = ending.map(|ending| ending.stop);
    let sequence = ending.and_then(|ending| ending.sequence.as_deref());
    let reason: &[u8] = match stop {
        None => b"null",
        Some(Stop::Done) if sequence.is_some() => b"\"stop_sequence\"",
        Some(Stop::Done) => b"\"end_turn\"",
        Some(Stop::ToolCalls) => b"\"tool_use\"",
        Some(Stop::MaxTokens) => b"\"max_tokens\"",
        Some(Stop::Declined | Stop::Refused) => b"\"refusal\"",
    };
    out.key("stop_reason").raw(reason);
    // A provider of another format reports neither that it was a sequence nor which one.
    match sequence {
        Some(sequence) => out.key("stop_sequence").string(sequence),
        None => out.key("stop_sequence").raw(b"null"),
    }
    out.key("stop_details").raw(match stop {
        Some(Stop::Declined | Stop::Refused) => {
            br#"{"type":"refusal","category":null,"explanation":null}"#
        }
        _ => b"null",
    });
}

/// `usage` of a message: exclusive, each token counted once.
fn usage(usage: &Usage, searches: u64, out: &mut Output) {
    out.key("usage").begin_object();
    numbers(usage, out);
    out.raw(br#","cache_creation":null"#);
    server_tools(searches, out);
    out.raw(br#","service_tier":null,"inference_geo":null,"speed":null"#);
    out.end_object();
}

/// `usage` of a `message_delta` event: the totals of the whole answer, or the `input` of its start.
fn delta_usage(ending: &Ending, input: &Usage, out: &mut Output) {
    out.key("usage").begin_object();
    numbers(&shown_usage(ending, input), out);
    server_tools(ending.searches, out);
    out.end_object();
}

/// The reported usage, with the counted `input` if the provider reports none.
fn shown_usage(ending: &Ending, input: &Usage) -> Usage {
    match ending.usage {
        Some(reported) if reported.total_input() > 0 => reported,
        Some(reported) => Usage {
            output: reported.output,
            reasoning: reported.reasoning,
            ..*input
        },
        None => *input,
    }
}

/// How often tools of the provider's were used.
fn server_tools(searches: u64, out: &mut Output) {
    if searches == 0 {
        out.key("server_tool_use").raw(b"null");
        return;
    }
    out.key("server_tool_use").begin_object();
    out.key("web_fetch_requests").number(0);
    out.key("web_search_requests").number(searches);
    out.end_object();
}

/// The id of a search in the style of the format. `number`: how many stood before it.
fn search_id(native: &str, answer: &str, number: u64) -> String {
    const LONGEST: usize = 64;
    let bare = native.strip_prefix("ws_").unwrap_or(native);
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
    let kept: String = bare.chars().filter(is_plain).take(LONGEST).collect();
    match kept.is_empty() {
        true => {
            let answer: String = answer.chars().filter(is_plain).collect();
            format!("srvtoolu_{answer}_{number}")
        }
        false => format!("srvtoolu_{kept}"),
    }
}

/// The members of the call of a search but for its input.
fn search_call(id: &str, out: &mut Output) {
    out.key("type").string("server_tool_use");
    out.key("id").string(id);
    out.key("name").string("web_search");
    out.key("caller").raw(br#"{"type":"direct"}"#);
}

/// The input of a search: an object.
fn search_input(search: &Search) -> String {
    format!(r#"{{"query":"{}"}}"#, search.query)
}

/// The block of what a search found. The first page holds what goes back to the provider.
fn search_result(id: &str, search: &Search, sealed: Option<&str>, out: &mut Output) {
    out.begin_object();
    out.key("type").string("web_search_tool_result");
    out.key("tool_use_id").string(id);
    out.key("caller").raw(br#"{"type":"direct"}"#);
    if let Some(failure) = search.failure {
        out.key("content").begin_object();
        out.key("type").string("web_search_tool_result_error");
        out.key("error_code").string(failure);
        out.end_object();
        out.end_object();
        return;
    }
    out.key("content").begin_array();
    let mut sealed = sealed;
    for page in &search.pages {
        out.item().begin_object();
        out.key("type").string("web_search_result");
        escaped(out.key("url"), &page.url);
        escaped(out.key("title"), &page.title);
        match &page.age {
            Some(age) => escaped(out.key("page_age"), age),
            None => out.key("page_age").raw(b"null"),
        }
        out.key("encrypted_content")
            .string(sealed.take().unwrap_or_default());
        out.end_object();
    }
    out.end_array();
    out.end_object();
}

/// A citation of a page that a search found. Providers of other formats do not report the quote.
fn citation(citation: &Citation, sealed: &str, out: &mut Output) {
    out.begin_object();
    out.key("type").string("web_search_result_location");
    escaped(out.key("url"), &citation.url);
    escaped(out.key("title"), &citation.title);
    out.key("encrypted_index").string(sealed);
    out.key("cited_text").string("");
    out.end_object();
}

fn numbers(usage: &Usage, out: &mut Output) {
    out.key("input_tokens").number(usage.input);
    out.key("cache_creation_input_tokens")
        .number(usage.cache_write);
    out.key("cache_read_input_tokens").number(usage.cache_read);
    out.key("output_tokens").number(usage.output);
    out.key("output_tokens_details").begin_object();
    out.key("thinking_tokens").number(usage.reasoning);
    out.end_object();
}
