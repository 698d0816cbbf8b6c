//! Messages: an answer as Anthropic's API writes it.

mod read;

use crate::{
    calls::CallInput,
    format::{Answering, put},
    plan::{self, Stop},
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
    Text(&'a str),
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
    if !plan.text().is_empty() {
        blocks.push(Block::Text(plan.text()));
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
            Self::Text(text) => json!({"type": "text", "text": text, "citations": null}),
            Self::ToolUse { id, name, input } => json!({
                "type": "tool_use", "id": id, "name": name, "input": input,
                "caller": {"type": "direct"},
            }),
        }
    }

    fn opened(&self) -> Value {
        match self {
            Self::Thinking { .. } => json!({"type": "thinking", "thinking": "", "signature": ""}),
            Self::Text(_) => json!({"type": "text", "text": ""}),
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
            Self::Text(text) => {
                let pieces = plan::deltas(text).into_iter();
                pieces
                    .map(|piece| json!({"type": "text_delta", "text": piece}))
                    .collect()
            }
            Self::ToolUse { input, .. } => {
                let input = input.to_string();
                // The first piece is empty at the real one, too.
                let pieces = [""].into_iter().chain(plan::deltas(&input));
                pieces
                    .map(|piece| json!({"type": "input_json_delta", "partial_json": piece}))
                    .collect()
            }
        }
    }
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
        "server_tool_use": null,
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
