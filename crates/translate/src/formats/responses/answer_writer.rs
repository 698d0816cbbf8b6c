//! Fields of the responses format.

mod compaction;
mod open;
mod writer;

use crate::{
    ResponsesEcho, TranslationNotes,
    answer::{
        parts::{Citation, Search, Stop, ToolCall},
        write::{Write, escaped},
    },
    notes::ECHOED,
    output::Output,
};
use serde_json::value::RawValue;
use std::{borrow::Cow, collections::BTreeMap};
use tollgate_types::Usage;

use {compaction::CompactionWriter, writer::ResponsesWriter};

/// A writer of an event stream.
pub(crate) fn stream(notes: &TranslationNotes) -> Box<dyn Write> {
    of_kind(ResponsesWriter::new(true, notes), notes)
}

/// A writer of a whole answer.
pub(crate) fn body(notes: &TranslationNotes) -> Box<dyn Write> {
    of_kind(ResponsesWriter::new(false, notes), notes)
}

fn of_kind(writer: ResponsesWriter, notes: &TranslationNotes) -> Box<dyn Write> {
    match notes.compacts {
        true => Box::new(CompactionWriter::new(writer)),
        false => Box::new(writer),
    }
}

/// How far a response has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    InProgress,
    Completed,
    /// With the reason of its `incomplete_details`.
    Incomplete(&'static str),
}

impl Status {
    /// Of a response that ended so. What a model says of its refusal completes the answer.
    const fn of(stop: Stop, has_refusal: bool) -> Self {
        match stop {
            Stop::MaxTokens => Self::Incomplete("max_output_tokens"),
            Stop::Refused if !has_refusal => Self::Incomplete("content_filter"),
            Stop::Done | Stop::ToolCalls | Stop::Declined | Stop::Refused => Self::Completed,
        }
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Incomplete(_) => "incomplete",
        }
    }
}

/// The `response` object, but for what it repeats of its request.
#[derive(Clone, Copy, Debug)]
struct Response<'a> {
    id: &'a str,
    model: &'a str,
    created: u64,
    status: Status,
    /// The items, with commas between.
    output: &'a str,
    usage: Option<Usage>,
    /// How often the provider searched the web.
    searches: u64,
    /// The id of the answer that the request goes on from, or `null`.
    previous: &'a str,
}

/// Writes a response; `echo` is what [`echo`] made.
fn response(response: &Response<'_>, echo: &str, out: &mut Output) {
    out.begin_object();
    out.key("id").string(response.id);
    out.key("object").string("response");
    out.key("created_at").number(response.created);
    out.key("status").string(response.status.as_str());
    out.key("background").bool(false);
    match response.status {
        Status::InProgress => out.key("completed_at").raw(b"null"),
        _ => out.key("completed_at").number(response.created),
    }
    out.key("error").raw(b"null");
    match response.status {
        Status::Incomplete(reason) => {
            out.key("incomplete_details").begin_object();
            out.key("reason").string(reason);
            out.end_object();
        }
        _ => out.key("incomplete_details").raw(b"null"),
    }
    out.key("model").string(response.model);
    out.key("output").begin_array();
    out.raw(response.output.as_bytes());
    out.end_array();
    out.key("previous_response_id")
        .raw(response.previous.as_bytes());
    match &response.usage {
        Some(tokens) => usage(tokens, out.key("usage")),
        None => out.key("usage").raw(b"null"),
    }
    if response.searches > 0 {
        tool_usage(response.searches, out.key("tool_usage"));
    }
    out.raw(b",");
    out.raw(echo.as_bytes());
    out.end_object();
}

/// The members of a response that repeat its request, or stand at the format's defaults.
fn echo(given: Option<&ResponsesEcho>) -> String {
    let mut echo = r#""presence_penalty":0.0,"frequency_penalty":0.0"#.to_owned();
    for (name, default) in ECHOED {
        let value = given.and_then(|given| given.get(name)).unwrap_or(default);
        echo.extend([",\"", name, "\":"]);
        match name {
            "tools" => echo.push_str(&whole_tools(value)),
            _ => echo.push_str(value),
        }
    }
    // A caller's white space must not end the line of an event; its strings hold no line end.
    echo.replace(['\n', '\r'], " ")
}

/// The tools as a response repeats them: a function has every field that the format requires
/// there, though a request may leave it out.
fn whole_tools(given: &str) -> Cow<'_, str> {
    let Ok(tools) = serde_json::from_str::<Vec<&RawValue>>(given) else {
        return Cow::Borrowed(given);
    };
    let whole: Vec<Cow<'_, str>> = tools.iter().map(|tool| whole_tool(tool.get())).collect();
    Cow::Owned(format!("[{}]", whole.join(",")))
}

fn whole_tool(given: &str) -> Cow<'_, str> {
    const REQUIRED: [(&str, &str); 3] = [
        ("description", "null"),
        ("parameters", "null"),
        ("strict", "false"),
    ];
    let fields: BTreeMap<&str, &RawValue> = serde_json::from_str(given).unwrap_or_default();
    let is_function = fields
        .get("type")
        .is_some_and(|it| it.get() == r#""function""#);
    let (true, Some(open)) = (is_function, given.trim_end().strip_suffix('}')) else {
        return Cow::Borrowed(given);
    };
    let missing = REQUIRED
        .iter()
        .filter(|(name, _)| !fields.contains_key(name));
    let members = missing.map(|(name, default)| format!(r#","{name}":{default}"#));
    Cow::Owned(format!("{open}{}}}", members.collect::<String>()))
}

/// The value of `usage`: inclusive, with every detail that the format requires.
fn usage(usage: &Usage, out: &mut Output) {
    out.begin_object();
    out.key("input_tokens").number(usage.total_input());
    out.key("input_tokens_details").begin_object();
    out.key("cached_tokens").number(usage.cache_read);
    out.key("cache_write_tokens").number(usage.cache_write);
    out.end_object();
    out.key("output_tokens").number(usage.output);
    out.key("output_tokens_details").begin_object();
    out.key("reasoning_tokens").number(usage.reasoning);
    out.end_object();
    out.key("total_tokens").number(usage.total());
    out.end_object();
}

/// The value of `tool_usage`, with every family of tools that the format requires.
fn tool_usage(searches: u64, out: &mut Output) {
    out.begin_object();
    out.key("image_gen").raw(
        br#"{"input_tokens":0,"input_tokens_details":{"image_tokens":0,"text_tokens":0},"output_tokens":0,"total_tokens":0}"#,
    );
    out.key("web_search").begin_object();
    out.key("num_requests").number(searches);
    out.end_object();
    out.end_object();
}

/// The item of a search of the web; `search` once it has ended.
fn search_call(id: &str, search: Option<&Search>, with_sources: bool, out: &mut Output) {
    let status = match search {
        None => "in_progress",
        Some(search) if search.failure.is_some() => "failed",
        Some(_) => "completed",
    };
    out.begin_object();
    out.key("id").string(id);
    out.key("type").string("web_search_call");
    out.key("status").string(status);
    out.key("action").begin_object();
    out.key("type").string("search");
    if let Some(search) = search {
        escaped(out.key("query"), &search.query);
        out.key("queries").begin_array();
        escaped(out.item(), &search.query);
        out.end_array();
        if with_sources {
            out.key("sources").begin_array();
            for page in &search.pages {
                out.item().begin_object();
                out.key("type").string("url");
                escaped(out.key("url"), &page.url);
                out.end_object();
            }
            out.end_array();
        }
    }
    out.end_object();
    out.end_object();
}

/// An annotation of an `output_text` part.
fn annotation(citation: &Citation, range: (u64, u64), out: &mut Output) {
    out.begin_object();
    out.key("type").string("url_citation");
    out.key("start_index").number(range.0);
    out.key("end_index").number(range.1);
    escaped(out.key("url"), &citation.url);
    escaped(out.key("title"), &citation.title);
    out.end_object();
}

/// A part of a message: text with its annotations and the likelihood of its tokens, or a
/// refusal. The text is escaped already.
fn content_part(text: &str, about: Option<(&str, &str)>, out: &mut Output) {
    out.begin_object();
    match about {
        Some((annotations, logprobs)) => {
            out.key("type").string("output_text");
            escaped(out.key("text"), text);
            out.key("annotations").begin_array();
            out.raw(annotations.as_bytes());
            out.end_array();
            out.key("logprobs").begin_array();
            out.raw(logprobs.as_bytes());
            out.end_array();
        }
        None => {
            out.key("type").string("refusal");
            escaped(out.key("refusal"), text);
        }
    }
    out.end_object();
}

/// A message of the model's; `content` is its parts with commas between.
fn message(id: &str, status: Status, content: &str, out: &mut Output) {
    out.begin_object();
    out.key("id").string(id);
    out.key("type").string("message");
    out.key("status").string(status.as_str());
    out.key("role").string("assistant");
    out.key("content").begin_array();
    out.raw(content.as_bytes());
    out.end_array();
    out.end_object();
}

/// A reasoning item: its text, where the caller sees it, and its sealed state.
fn reasoning(id: &str, text: Option<&str>, sealed: Option<&str>, out: &mut Output) {
    out.begin_object();
    out.key("id").string(id);
    out.key("type").string("reasoning");
    out.key("summary").begin_array();
    if let Some(text) = text {
        summary_part(text, out.item());
    }
    out.end_array();
    if let Some(sealed) = sealed {
        out.key("encrypted_content").string(sealed);
    }
    out.end_object();
}

/// A part of a reasoning summary.
fn summary_part(text: &str, out: &mut Output) {
    out.begin_object();
    out.key("type").string("summary_text");
    escaped(out.key("text"), text);
    out.end_object();
}

/// A call of a function or of a custom tool; `contents` are its arguments or its input.
fn call(id: &str, status: Status, call: &ToolCall, contents: &str, out: &mut Output) {
    let (kind, field) = match call.is_custom {
        true => ("custom_tool_call", "input"),
        false => ("function_call", "arguments"),
    };
    out.begin_object();
    out.key("id").string(id);
    out.key("type").string(kind);
    out.key("status").string(status.as_str());
    escaped(out.key(field), contents);
    out.key("call_id").string(&call.id);
    out.key("name").string(&call.name);
    if let Some(namespace) = &call.namespace {
        out.key("namespace").string(namespace);
    }
    out.end_object();
}

#[cfg(test)]
mod tests {
    use super::whole_tools;

    #[test]
    fn tools_are_repeated_with_every_field_that_a_response_has() {
        let given = r#"[{"type":"function","name":"a"}, {"type":"custom","name":"b"}]"#;
        let whole = r#"[{"type":"function","name":"a","description":null,"parameters":null,"strict":false},{"type":"custom","name":"b"}]"#;
        assert_eq!(whole_tools(given), whole);
        let said = r#"[{"type":"function","name":"a","description":"d","parameters":{"strict":1},"strict":true}]"#;
        assert_eq!(whole_tools(said), said);
        assert_eq!(whole_tools("7"), "7");
    }
}
