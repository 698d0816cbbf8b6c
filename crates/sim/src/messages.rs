//! Messages: an answer as Anthropic's API writes it.

mod read;

use crate::{
    calls::CallInput,
    format::{Answering, put},
    plan::{self, Stop},
    search::{self, Page},
    seed::Seed,
    sse::Event,
};
pub(crate) use read::{read, read_count};
use serde_json::{Value, json};

/// How the signature of a thought begins.
pub(crate) const SIGNATURE: &str = "EqQB";

/// The answer as one body.
pub(crate) fn json(answering: Answering<'_>) -> Value {
    let content = blocks(answering).iter().map(Block::whole).collect();
    let mut message = frame(answering, &Value::Array(content));
    put(&mut message, "stop_reason", json!(stop_reason(answering)));
    put(&mut message, "stop_sequence", stop_sequence(answering));
    put(&mut message, "stop_details", stop_details(answering));
    put(
        &mut message,
        "usage",
        usage(answering, answering.plan.usage.output),
    );
    message
}

/// The answer as a stream.
pub(crate) fn events(answering: Answering<'_>) -> Vec<Event> {
    let mut events = Vec::new();
    push(
        &mut events,
        "message_start",
        json!({"message": frame(answering, &json!([]))}),
    );
    for (index, block) in blocks(answering).iter().enumerate() {
        let start = json!({"index": index, "content_block": block.opened()});
        push(&mut events, "content_block_start", start);
        if index == 0 {
            push(&mut events, "ping", json!({}));
        }
        for delta in block.deltas() {
            push(
                &mut events,
                "content_block_delta",
                json!({"index": index, "delta": delta}),
            );
        }
        push(&mut events, "content_block_stop", json!({"index": index}));
    }
    let delta = json!({
        "stop_reason": stop_reason(answering),
        "stop_sequence": stop_sequence(answering),
        "stop_details": stop_details(answering),
    });
    let usage = usage(answering, answering.plan.usage.output);
    push(
        &mut events,
        "message_delta",
        json!({"delta": delta, "usage": usage}),
    );
    push(&mut events, "message_stop", json!({}));
    events
}

/// How a stream ends that has failed: without `message_stop`.
pub(crate) fn error_events() -> Vec<Event> {
    let error = json!({"type": "overloaded_error", "message": "Overloaded"});
    vec![Event::named(
        "error",
        json!({"type": "error", "error": error}),
    )]
}

/// What proves a thought, and no other one.
fn signature(thought: &str) -> String {
    Seed::of(thought.as_bytes()).sealed(SIGNATURE, 160)
}

/// One block of the content.
enum Block<'a> {
    Thinking {
        text: &'a str,
        signature: String,
    },
    /// With the page that it cites.
    Text(&'a str, Option<Value>),
    Search {
        id: String,
        query: &'a str,
    },
    /// What a search found.
    Found {
        id: String,
        pages: Value,
    },
    ToolUse {
        id: String,
        name: &'a str,
        input: Value,
    },
}

fn blocks(answering: Answering<'_>) -> Vec<Block<'_>> {
    let plan = answering.plan;
    let mut blocks = Vec::new();
    if let Some(thought) = &plan.thinking {
        let omitted = answering.request.pointer("/thinking/display") == Some(&json!("omitted"));
        let signature = signature(thought);
        blocks.push(Block::Thinking {
            text: if omitted { "" } else { thought },
            signature,
        });
    }
    let mut cited = None;
    if let Some(search) = &plan.search {
        let id = plan.seed.fork("search", 0).id("srvtoolu_01", 22);
        let pages = search.pages.iter().enumerate();
        let pages = pages.map(|(number, page)| found(page, plan.seed, number));
        cited = search.pages.first().map(|page| citation(page, plan.seed));
        blocks.push(Block::Search {
            id: id.clone(),
            query: &search.query,
        });
        blocks.push(Block::Found {
            id,
            pages: pages.collect(),
        });
    }
    if !plan.text().is_empty() {
        blocks.push(Block::Text(plan.text(), cited));
    }
    for (number, call) in plan.calls.iter().enumerate() {
        let input = match &call.input {
            CallInput::Arguments(arguments) => arguments.clone(),
            CallInput::Text(text) => json!({"input": text}),
        };
        let id = plan.seed.fork("call", number).id("toolu_01", 22);
        blocks.push(Block::ToolUse {
            id,
            name: &call.name,
            input,
        });
    }
    blocks
}

impl Block<'_> {
    fn whole(&self) -> Value {
        match self {
            Self::Thinking { text, signature } => {
                json!({"type": "thinking", "thinking": text, "signature": signature})
            }
            Self::Text(text, cited) => {
                // An empty list: Anthropic's schema requires the field, and Vercel's AI SDK refuses null.
                let cited: Vec<_> = cited.iter().cloned().collect();
                json!({"type": "text", "text": text, "citations": cited})
            }
            Self::Search { id, query } => json!({
                "type": "server_tool_use", "id": id, "name": search::NAME,
                "input": {"query": query}, "caller": {"type": "direct"},
            }),
            Self::Found { id, pages } => json!({
                "type": "web_search_tool_result", "tool_use_id": id, "content": pages,
                "caller": {"type": "direct"},
            }),
            Self::ToolUse { id, name, input } => json!({
                "type": "tool_use", "id": id, "name": name, "input": input,
                "caller": {"type": "direct"},
            }),
        }
    }

    fn opened(&self) -> Value {
        match self {
            Self::Thinking { .. } => json!({"type": "thinking", "thinking": "", "signature": ""}),
            Self::Text(_, None) => json!({"type": "text", "text": ""}),
            Self::Text(_, Some(_)) => json!({"type": "text", "text": "", "citations": []}),
            Self::Search { id, .. } => json!({
                "type": "server_tool_use", "id": id, "name": search::NAME, "input": {},
                "caller": {"type": "direct"},
            }),
            Self::Found { .. } => self.whole(),
            Self::ToolUse { id, name, .. } => json!({
                "type": "tool_use", "id": id, "name": name, "input": {},
                "caller": {"type": "direct"},
            }),
        }
    }

    fn deltas(&self) -> Vec<Value> {
        match self {
            Self::Thinking { text, signature } => {
                let thought = plan::deltas(text).into_iter();
                let thought =
                    thought.map(|piece| json!({"type": "thinking_delta", "thinking": piece}));
                thought
                    .chain([json!({"type": "signature_delta", "signature": signature})])
                    .collect()
            }
            Self::Text(text, cited) => {
                let cited = cited.iter();
                let cited = cited.map(|it| json!({"type": "citations_delta", "citation": it}));
                let pieces = plan::deltas(text).into_iter();
                cited
                    .chain(pieces.map(|piece| json!({"type": "text_delta", "text": piece})))
                    .collect()
            }
            Self::ToolUse { input, .. } => input_deltas(input),
            Self::Search { query, .. } => input_deltas(&json!({"query": query})),
            Self::Found { .. } => Vec::new(),
        }
    }
}

fn input_deltas(input: &Value) -> Vec<Value> {
    let input = input.to_string();
    // The first piece is empty at the real one, too.
    let pieces = [""].into_iter().chain(plan::deltas(&input));
    pieces
        .map(|piece| json!({"type": "input_json_delta", "partial_json": piece}))
        .collect()
}

fn found(page: &Page, seed: Seed, number: usize) -> Value {
    let content = seed.fork("page", number).sealed(search::CONTENT, 400);
    json!({
        "type": "web_search_result", "url": page.url, "title": page.title,
        "encrypted_content": content, "page_age": "April 30, 2025",
    })
}

fn citation(page: &Page, seed: Seed) -> Value {
    let index = seed.fork("citation", 0).sealed(search::INDEX, 80);
    json!({
        "type": "web_search_result_location", "url": page.url, "title": page.title,
        "cited_text": "It is so.", "encrypted_index": index,
    })
}

fn frame(answering: Answering<'_>, content: &Value) -> Value {
    json!({
        "model": answering.ask.model,
        "id": answering.plan.seed.fork("message", 0).id("msg_01", 22),
        "type": "message",
        "role": "assistant",
        "content": content,
        "stop_reason": null,
        "stop_sequence": null,
        "stop_details": null,
        "container": null,
        "usage": usage(answering, 1),
    })
}

fn stop_reason(answering: Answering<'_>) -> &'static str {
    match answering.plan.stop() {
        Stop::End => "end_turn",
        Stop::ToolUse => "tool_use",
        Stop::MaxTokens => "max_tokens",
        Stop::Sequence(_) => "stop_sequence",
        Stop::Refusal => "refusal",
    }
}

fn stop_sequence(answering: Answering<'_>) -> Value {
    match answering.plan.stop() {
        Stop::Sequence(sequence) => json!(sequence),
        Stop::End | Stop::ToolUse | Stop::MaxTokens | Stop::Refusal => Value::Null,
    }
}

fn stop_details(answering: Answering<'_>) -> Value {
    match answering.plan.stop() {
        Stop::Refusal => json!({"type": "refusal", "category": null, "explanation": null}),
        Stop::End | Stop::ToolUse | Stop::MaxTokens | Stop::Sequence(_) => Value::Null,
    }
}

/// Totals so far: `output` tokens were written when this is said.
fn usage(answering: Answering<'_>, output: u64) -> Value {
    let usage = answering.plan.usage;
    json!({
        "input_tokens": usage.input.fresh,
        "cache_creation_input_tokens": usage.input.cache_write,
        "cache_read_input_tokens": usage.input.cache_read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": usage.input.cache_write,
            "ephemeral_1h_input_tokens": 0,
        },
        "output_tokens": output,
        "output_tokens_details": {"thinking_tokens": usage.reasoning.min(output)},
        "server_tool_use": answering.plan.search.as_ref().map(|_| {
            json!({"web_search_requests": 1, "web_fetch_requests": 0})
        }),
        "service_tier": "standard",
        "inference_geo": "not_available",
    })
}

fn push(events: &mut Vec<Event>, name: &'static str, fields: Value) {
    let mut event = json!({"type": name});
    if let (Value::Object(event), Value::Object(fields)) = (&mut event, fields) {
        event.extend(fields);
    }
    events.push(Event::named(name, event));
}
