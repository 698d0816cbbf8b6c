//! Responses: an answer as OpenAI's API writes it.

mod read;
mod resource;

use crate::{
    calls::{Call, CallInput},
    format::{Answering, CREATED, Fault, put},
    orders::Orders,
    plan::{self, Plan, Stop},
    search::{Page, Search},
    sse::Event,
};
pub(crate) use read::{input_items, read};
use resource::{resource, usage};
use serde_json::{Value, json};

/// How encrypted reasoning begins.
pub(crate) const ENCRYPTED: &str = "gAAAAAB";

/// The answer as one body.
pub(crate) fn json(answering: Answering<'_>) -> Value {
    let output = Value::Array(items(answering).iter().map(Item::whole).collect());
    let status = match answering.plan.stop() {
        Stop::MaxTokens => "incomplete",
        Stop::End | Stop::ToolUse | Stop::Sequence(_) | Stop::Refusal => "completed",
    };
    resource(answering, status, &output)
}

/// The answer as a stream.
pub(crate) fn events(answering: Answering<'_>) -> Vec<Event> {
    let mut stream = Stream {
        answering,
        events: Vec::new(),
    };
    stream.lifecycle(
        "response.created",
        &resource(answering, "in_progress", &json!([])),
    );
    stream.lifecycle(
        "response.in_progress",
        &resource(answering, "in_progress", &json!([])),
    );
    for (index, item) in items(answering).iter().enumerate() {
        stream.item(index, item);
    }
    let whole = json(answering);
    let incomplete = answering.plan.stop() == &Stop::MaxTokens;
    let last = if incomplete {
        "response.incomplete"
    } else {
        "response.completed"
    };
    stream.lifecycle(last, &whole);
    stream.events
}

/// A conversation made small: what `/v1/responses/compact` answers.
///
/// # Errors
/// The fault that the API would report.
pub(crate) fn compaction(request: &Value) -> Result<Value, Fault> {
    let ask = read(request)?;
    let blob = ask.seed.fork("compaction", 0).sealed(ENCRYPTED, 160);
    let plan = Plan::new(&ask, &Orders::default());
    let answering = Answering {
        request,
        ask: &ask,
        plan: &plan,
        orders: &Orders::default(),
    };
    let mut usage = usage(answering);
    put(&mut usage, "output_tokens", json!(0));
    put(&mut usage, "total_tokens", json!(ask.input.total()));
    Ok(json!({
        "id": ask.seed.fork("response", 1).hex_id("resp_", 48),
        "object": "response.compaction",
        "created_at": CREATED,
        "output": [{
            "id": ask.seed.fork("item", 0).hex_id("cmp_", 48),
            "type": "compaction",
            "encrypted_content": blob,
        }],
        "usage": usage,
    }))
}

/// How a stream ends that has failed after `sent` events: an error, then the response
/// that failed.
pub(crate) fn error_events(answering: Answering<'_>, sent: usize) -> Vec<Event> {
    let message = "The server had an error while processing your request.";
    let error = json!({
        "type": "server_error", "code": "server_error", "message": message, "param": null,
    });
    let mut failed = resource(answering, "failed", &json!([]));
    put(
        &mut failed,
        "error",
        json!({"code": "server_error", "message": message}),
    );
    vec![
        Event::named(
            "error",
            json!({"type": "error", "sequence_number": sent, "error": error}),
        ),
        Event::named(
            "response.failed",
            json!({"type": "response.failed", "sequence_number": sent + 1, "response": failed}),
        ),
    ]
}

/// One thing in the output.
enum Item<'a> {
    Reasoning {
        id: String,
        summary: Option<&'a str>,
        encrypted: Option<String>,
    },
    Message {
        id: String,
        text: &'a str,
        refusal: bool,
        complete: bool,
        /// The page that it cites.
        cited: Option<Value>,
    },
    Search {
        id: String,
        search: &'a Search,
        with_sources: bool,
    },
    Call {
        id: String,
        call_id: String,
        call: &'a Call,
    },
}

fn items(answering: Answering<'_>) -> Vec<Item<'_>> {
    let plan = answering.plan;
    let mut items = Vec::new();
    if let Some(thought) = &plan.thinking {
        let id = plan.seed.fork("reasoning", 0).hex_id("rs_", 48);
        let summary = answering
            .request
            .pointer("/reasoning/summary")
            .is_some_and(Value::is_string);
        let wanted = answering.request.get("include").and_then(Value::as_array);
        let encrypted =
            wanted.is_some_and(|all| all.iter().any(|one| one == "reasoning.encrypted_content"));
        let encrypted = encrypted.then(|| plan.seed.fork("encrypted", 0).sealed(ENCRYPTED, 160));
        items.push(Item::Reasoning {
            id,
            summary: summary.then_some(thought),
            encrypted,
        });
    }
    for (number, call) in plan.calls.iter().enumerate() {
        let prefix = if matches!(call.input, CallInput::Text(_)) {
            "ctc_"
        } else {
            "fc_"
        };
        let id = plan.seed.fork("item", number).hex_id(prefix, 48);
        let call_id = plan.seed.fork("call", number).id("call_", 24);
        items.push(Item::Call { id, call_id, call });
    }
    let mut cited = None;
    if let Some(search) = &plan.search {
        let wanted = answering.request.get("include").and_then(Value::as_array);
        let with_sources = wanted.is_some_and(|all| {
            all.iter()
                .any(|one| one == "web_search_call.action.sources")
        });
        cited = search
            .pages
            .first()
            .map(|page| annotation(page, plan.text()));
        items.push(Item::Search {
            id: plan.seed.fork("search", 0).hex_id("ws_", 48),
            search,
            with_sources,
        });
    }
    if plan.calls.is_empty() {
        let id = plan.seed.fork("message", 0).hex_id("msg_", 48);
        let refusal = plan.stop() == &Stop::Refusal;
        let complete = plan.stop() != &Stop::MaxTokens;
        items.push(Item::Message {
            id,
            text: plan.text(),
            refusal,
            complete,
            cited,
        });
    }
    items
}

impl Item<'_> {
    fn whole(&self) -> Value {
        match self {
            Self::Reasoning {
                summary: Some(text),
                ..
            } => self.with(
                &json!([{"type": "summary_text", "text": text}]),
                "completed",
            ),
            Self::Reasoning { summary: None, .. } => self.with(&json!([]), "completed"),
            Self::Message {
                text,
                refusal,
                complete,
                cited,
                ..
            } => {
                let status = if *complete { "completed" } else { "incomplete" };
                self.with(&json!([part(text, *refusal, cited.as_ref())]), status)
            }
            Self::Search {
                search,
                with_sources,
                ..
            } => self.with(&action(search, *with_sources), "completed"),
            Self::Call { call, .. } => self.with(&json!(call.input_text()), "completed"),
        }
    }

    fn opened(&self) -> Value {
        let empty = match self {
            Self::Call { .. } => json!(""),
            Self::Search { .. } => json!({"type": "search", "query": ""}),
            Self::Reasoning { .. } | Self::Message { .. } => json!([]),
        };
        self.with(&empty, "in_progress")
    }

    /// The item with `content` in the place where it holds what it says.
    fn with(&self, content: &Value, status: &str) -> Value {
        match self {
            Self::Reasoning { id, encrypted, .. } => {
                let mut item = json!({"id": id, "type": "reasoning", "summary": content});
                if let Some(blob) = encrypted {
                    put(&mut item, "encrypted_content", json!(blob));
                }
                item
            }
            Self::Message { id, .. } => json!({
                "id": id, "type": "message", "status": status, "role": "assistant",
                "content": content,
            }),
            Self::Search { id, .. } => json!({
                "id": id, "type": "web_search_call", "status": status, "action": content,
            }),
            Self::Call { id, call_id, call } => {
                let (kind, field) = call_words(call);
                let mut item = json!({
                    "id": id, "type": kind, "status": status, "call_id": call_id,
                    "name": call.name, field: content,
                });
                if let Some(namespace) = &call.namespace {
                    put(&mut item, "namespace", json!(namespace));
                }
                item
            }
        }
    }

    fn id(&self) -> &str {
        match self {
            Self::Reasoning { id, .. }
            | Self::Message { id, .. }
            | Self::Search { id, .. }
            | Self::Call { id, .. } => id,
        }
    }
}

/// The type of a call's item, and the field that holds its input.
fn call_words(call: &Call) -> (&'static str, &'static str) {
    match call.input {
        CallInput::Arguments(_) => ("function_call", "arguments"),
        CallInput::Text(_) => ("custom_tool_call", "input"),
    }
}

fn part(text: &str, refusal: bool, cited: Option<&Value>) -> Value {
    if refusal {
        return json!({"type": "refusal", "refusal": text});
    }
    let cited: Vec<_> = cited.into_iter().collect();
    json!({"type": "output_text", "annotations": cited, "logprobs": [], "text": text})
}

/// What a search did; its sources only where they are asked for.
fn action(search: &Search, with_sources: bool) -> Value {
    let mut action = json!({"type": "search", "query": search.query, "queries": [search.query]});
    if with_sources {
        let pages = search.pages.iter();
        let sources: Vec<_> = pages
            .map(|page| json!({"type": "url", "url": page.url}))
            .collect();
        put(&mut action, "sources", json!(sources));
    }
    action
}

/// A citation of a page by the first half of a text.
fn annotation(page: &Page, text: &str) -> Value {
    json!({
        "type": "url_citation", "url": page.url, "title": page.title,
        "start_index": 0, "end_index": text.chars().count() / 2,
    })
}

struct Stream<'a> {
    answering: Answering<'a>,
    events: Vec<Event>,
}

impl Stream<'_> {
    fn lifecycle(&mut self, name: &'static str, response: &Value) {
        self.push(name, json!({"response": response}));
    }

    fn item(&mut self, index: usize, item: &Item<'_>) {
        self.push(
            "response.output_item.added",
            json!({"output_index": index, "item": item.opened()}),
        );
        let at = json!({"item_id": item.id(), "output_index": index});
        match item {
            Item::Reasoning { summary, .. } => {
                if let Some(text) = summary {
                    self.summary(&at, text);
                }
            }
            Item::Message {
                text,
                refusal,
                cited,
                ..
            } => self.message(&at, text, *refusal, cited.as_ref()),
            Item::Search { .. } => {
                for name in [
                    "response.web_search_call.in_progress",
                    "response.web_search_call.searching",
                    "response.web_search_call.completed",
                ] {
                    self.push(name, at.clone());
                }
            }
            Item::Call { call, .. } => self.call(&at, call),
        }
        self.push(
            "response.output_item.done",
            json!({"output_index": index, "item": item.whole()}),
        );
    }

    fn summary(&mut self, at: &Value, text: &str) {
        let at = joined(at, json!({"summary_index": 0}));
        let part = |text| json!({"part": {"type": "summary_text", "text": text}});
        self.push(
            "response.reasoning_summary_part.added",
            joined(&at, part("")),
        );
        for piece in plan::deltas(text) {
            let delta = joined(&at, json!({"delta": piece}));
            self.padded("response.reasoning_summary_text.delta", delta);
        }
        self.push(
            "response.reasoning_summary_text.done",
            joined(&at, json!({"text": text})),
        );
        self.push(
            "response.reasoning_summary_part.done",
            joined(&at, part(text)),
        );
    }

    fn message(&mut self, at: &Value, text: &str, refusal: bool, cited: Option<&Value>) {
        let at = joined(at, json!({"content_index": 0}));
        self.push(
            "response.content_part.added",
            joined(&at, json!({"part": part("", refusal, None)})),
        );
        for piece in plan::deltas(text) {
            if refusal {
                self.push(
                    "response.refusal.delta",
                    joined(&at, json!({"delta": piece})),
                );
            } else {
                let delta = joined(&at, json!({"delta": piece, "logprobs": []}));
                self.padded("response.output_text.delta", delta);
            }
        }
        if refusal {
            self.push(
                "response.refusal.done",
                joined(&at, json!({"refusal": text})),
            );
        } else {
            if let Some(cited) = cited {
                let added = json!({"annotation_index": 0, "annotation": cited});
                self.push("response.output_text.annotation.added", joined(&at, added));
            }
            let done = joined(&at, json!({"text": text, "logprobs": []}));
            self.push("response.output_text.done", done);
        }
        self.push(
            "response.content_part.done",
            joined(&at, json!({"part": part(text, refusal, cited)})),
        );
    }

    fn call(&mut self, at: &Value, call: &Call) {
        let input = call.input_text();
        let (delta, done) = match call.input {
            CallInput::Arguments(_) => (
                "response.function_call_arguments.delta",
                "response.function_call_arguments.done",
            ),
            CallInput::Text(_) => (
                "response.custom_tool_call_input.delta",
                "response.custom_tool_call_input.done",
            ),
        };
        for piece in plan::deltas(&input) {
            self.padded(delta, joined(at, json!({"delta": piece})));
        }
        let (_, field) = call_words(call);
        let mut end = joined(at, json!({field: input}));
        if matches!(call.input, CallInput::Arguments(_)) {
            put(&mut end, "name", json!(call.name));
        }
        self.push(done, end);
    }

    /// A delta, with the padding that hides its length from observers of the network.
    fn padded(&mut self, name: &'static str, mut fields: Value) {
        let padding = self
            .answering
            .plan
            .seed
            .fork("obfuscation", self.events.len());
        let length = usize::try_from(padding.number(16)).unwrap_or_default();
        put(
            &mut fields,
            "obfuscation",
            json!(padding.id("", length + 1)),
        );
        self.push(name, fields);
    }

    fn push(&mut self, name: &'static str, fields: Value) {
        let head = json!({"type": name, "sequence_number": self.events.len()});
        self.events.push(Event::named(name, joined(&head, fields)));
    }
}

/// The fields of both objects; the second one's win.
fn joined(first: &Value, second: Value) -> Value {
    let mut both = first.clone();
    if let (Value::Object(both), Value::Object(second)) = (&mut both, second) {
        both.extend(second);
    }
    both
}
