//! The response object, whatever stands in its output.

use super::joined;
use crate::format::{Answering, CREATED, put};
use serde_json::{Value, json};

/// The response object around an output.
pub(super) fn resource(answering: Answering<'_>, status: &str, output: &Value) -> Value {
    let request = answering.request;
    let field = |name: &str, default: Value| match request.get(name) {
        Some(value) if !value.is_null() => value.clone(),
        _ => default,
    };
    let done = matches!(status, "completed" | "incomplete");
    let incomplete = (status == "incomplete").then(|| json!({"reason": "max_output_tokens"}));
    let mut response = json!({
        "id": id(answering),
        "object": "response",
        "created_at": CREATED,
        "status": status,
        "background": false,
        "billing": {"payer": "developer"},
        "completed_at": (status == "completed").then_some(CREATED + 1),
        "error": null,
        "frequency_penalty": 0.0,
        "incomplete_details": incomplete,
        "instructions": field("instructions", Value::Null),
        "max_output_tokens": field("max_output_tokens", Value::Null),
        "max_tool_calls": field("max_tool_calls", Value::Null),
        "model": answering.ask.model,
        "output": output,
        "parallel_tool_calls": field("parallel_tool_calls", json!(true)),
        "presence_penalty": 0.0,
        "previous_response_id": field("previous_response_id", Value::Null),
        "prompt_cache_key": field("prompt_cache_key", Value::Null),
        "prompt_cache_retention": field("prompt_cache_retention", Value::Null),
        "reasoning": reasoning(request),
        "safety_identifier": field("safety_identifier", Value::Null),
        "service_tier": "default",
        "store": field("store", json!(true)),
        "temperature": field("temperature", json!(1.0)),
        "text": joined(
            &json!({"format": {"type": "text"}, "verbosity": "medium"}),
            field("text", json!({})),
        ),
        "tool_choice": field("tool_choice", json!("auto")),
        "tools": tools(request),
        "top_logprobs": field("top_logprobs", json!(0)),
        "top_p": field("top_p", json!(1.0)),
        "truncation": field("truncation", json!("disabled")),
        "usage": done.then(|| usage(answering)),
        "user": field("user", Value::Null),
        "metadata": field("metadata", json!({})),
    });
    if done && answering.plan.search.is_some() {
        put(&mut response, "tool_usage", tool_usage());
    }
    response
}

/// What the provider's own tools were used for: one search.
fn tool_usage() -> Value {
    json!({
        "image_gen": {
            "input_tokens": 0, "input_tokens_details": {"image_tokens": 0, "text_tokens": 0},
            "output_tokens": 0, "total_tokens": 0,
        },
        "web_search": {"num_requests": 1},
    })
}

/// The id of the response.
fn id(answering: Answering<'_>) -> String {
    answering.plan.seed.fork("response", 0).hex_id("resp_", 48)
}

fn reasoning(request: &Value) -> Value {
    let asked = request.get("reasoning").cloned().unwrap_or(Value::Null);
    joined(&json!({"effort": null, "summary": null}), asked)
}

/// The tools as the API repeats them, its defaults filled in.
fn tools(request: &Value) -> Value {
    let offered = request.get("tools").and_then(Value::as_array);
    let filled = offered.into_iter().flatten().map(|tool| {
        if tool.get("type").is_some_and(|kind| kind == "function") {
            joined(&json!({"type": null, "description": null, "name": null, "parameters": null, "strict": true}), tool.clone())
        } else {
            tool.clone()
        }
    });
    Value::Array(filled.collect())
}

pub(super) fn usage(answering: Answering<'_>) -> Value {
    let usage = answering.plan.usage;
    json!({
        "input_tokens": usage.input.total(),
        "input_tokens_details": {
            "cached_tokens": usage.input.cache_read,
            "cache_write_tokens": usage.input.cache_write,
        },
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.input.total() + usage.output,
    })
}
