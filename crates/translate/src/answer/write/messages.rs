//! Fields of the messages format.

mod body;
mod stream;

use crate::{answer::parts::Stop, output::Output};
use tollgate_types::Usage;

pub(super) use body::MessagesBody;
pub(super) use stream::MessagesStream;

/// `stop_reason`, `stop_sequence` and `stop_details`.
fn stop_fields(stop: Option<Stop>, out: &mut Output) {
    let reason: &[u8] = match stop {
        None => b"null",
        Some(Stop::Done) => b"\"end_turn\"",
        Some(Stop::ToolCalls) => b"\"tool_use\"",
        Some(Stop::MaxTokens) => b"\"max_tokens\"",
        Some(Stop::Refused) => b"\"refusal\"",
    };
    out.key("stop_reason").raw(reason);
    // Other formats do not tell which sequence it was, nor that it was one.
    out.key("stop_sequence").raw(b"null");
    out.key("stop_details").raw(match stop {
        Some(Stop::Refused) => br#"{"type":"refusal","category":null,"explanation":null}"#,
        _ => b"null",
    });
}

/// `usage` of a message: exclusive, each token counted once.
fn usage(usage: &Usage, out: &mut Output) {
    out.key("usage").begin_object();
    numbers(usage, out);
    out.raw(
        br#","cache_creation":null,"server_tool_use":null,"service_tier":null,"inference_geo":null,"speed":null"#,
    );
    out.end_object();
}

/// `usage` of a `message_delta` event: the totals of the whole answer.
fn delta_usage(usage: &Usage, out: &mut Output) {
    out.key("usage").begin_object();
    numbers(usage, out);
    out.raw(br#","server_tool_use":null"#);
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
