//! What each format demands of its streams, as small state machines of their own: nothing here
//! is shared with the writers. A stream that breaks the order of its format is refused with
//! the reason; one that keeps it becomes a summary.

mod chat;
mod gemini;
mod messages;
mod responses;

use crate::{summary::Summary, support::events};
use tollgate_types::Format;

/// Reads a whole stream as the strictest client would.
pub fn stream(format: Format, stream: &str) -> Result<Summary, String> {
    for line in stream.lines() {
        let is_known = line.is_empty()
            || line.starts_with("data: ")
            || line.starts_with("event: ")
            || line == ": ping";
        ensure(is_known, || format!("a line of an unknown kind: {line}"))?;
    }
    ensure(stream.ends_with("\n\n"), || "the last event is open".into())?;
    let events = events(stream);
    match format {
        Format::Chat => chat::read(&events),
        Format::Messages => messages::read(&events),
        Format::Responses => responses::read(&events),
        Format::Gemini => gemini::read(&events),
        Format::Converse => panic!("no client speaks it"),
        Format::Embeddings | Format::Rerank => unreachable!("no conversation"),
    }
}

/// Reads a whole answer as the strictest client would.
pub fn body(format: Format, body: &str) -> Result<Summary, String> {
    let answer = document(body)?;
    match format {
        Format::Chat => chat::body(&answer),
        Format::Messages => messages::body(&answer),
        Format::Responses => responses::body(&answer),
        Format::Gemini => gemini::body(&answer),
        Format::Converse => panic!("no client speaks it"),
        Format::Embeddings | Format::Rerank => unreachable!("no conversation"),
    }
}

pub fn ensure(holds: bool, complaint: impl FnOnce() -> String) -> Result<(), String> {
    match holds {
        true => Ok(()),
        false => Err(complaint()),
    }
}

/// The data of an event.
fn document(data: &str) -> Result<serde_json::Value, String> {
    serde_json::from_str(data).map_err(|error| format!("{error}: {data}"))
}
