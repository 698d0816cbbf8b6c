//! A provider that answers in the formats of its paths: text, or a call of the tool that it is offered.

use super::refusals::is_count;
use crate::support::{Act, Seen};
use aws_smithy_eventstream::frame::write_message_to;
use aws_smithy_types::event_stream::{Header, HeaderValue, Message};
use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use tollgate_sim::vendors::VendorError;

/// What the provider says.
pub const SAID: &str = "Hello!";
/// The tool that it calls when it is offered.
pub const TOOL: &str = "look_up";
/// What makes it refuse a request.
pub const REFUSE: &str = "refuse this";

/// The answer to a request. `refusal`: to one that asks for it.
pub fn speak(seen: &Seen, refusal: &VendorError) -> Vec<Act> {
    let text = String::from_utf8_lossy(&seen.body);
    if text.contains(REFUSE) {
        return refused(refusal);
    }
    let body: Value = serde_json::from_slice(&seen.body).unwrap_or_default();
    let calls = text.contains(TOOL);
    let (path, query) = seen.target.split_once('?').unwrap_or((&seen.target, ""));
    let streams = body["stream"] == true || query.contains("alt=sse") || path.contains("stream");
    if is_count(path) {
        return whole(&json!({"input_tokens": 7}));
    }
    let answer = match () {
        () if path.ends_with("chat/completions") => chat(calls),
        () if path.ends_with("responses") => responses(calls),
        () if path.contains("enerateContent") => gemini(calls),
        () if path.contains("/converse") => converse(calls),
        () => messages(calls),
    };
    match path.rsplit('/').next() {
        _ if !streams => whole(&answer.whole),
        Some("invoke-with-response-stream") => frames(answer.events.iter().map(|event| {
            let bytes = BASE64_STANDARD.encode(event.to_string());
            ("chunk", json!({ "bytes": bytes }))
        })),
        Some("converse-stream") => frames(answer.events.iter().map(|event| {
            let (name, payload) = event.as_object().unwrap().iter().next().unwrap();
            (name.as_str(), payload.clone())
        })),
        _ => events(&answer),
    }
}

/// An answer whole, and in events.
struct Spoken {
    whole: Value,
    /// The events, and whether their types are the names of events.
    events: Vec<Value>,
    is_named: bool,
    ends_with: &'static str,
}

fn whole(body: &Value) -> Vec<Act> {
    answer(
        "200 OK",
        "application/json",
        "",
        body.to_string().as_bytes(),
    )
}

fn answer(status: &str, media_type: &str, headers: &str, body: &[u8]) -> Vec<Act> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: {media_type}\r\n{headers}content-length: {length}\r\n\r\n"
    );
    vec![Act::send([head.as_bytes(), body].concat())]
}

/// A refusal that the test does not expect.
pub fn refuse(status: u16) -> Vec<Act> {
    answer(&format!("{status} Refused"), "application/json", "", b"{}")
}

fn refused(error: &VendorError) -> Vec<Act> {
    let headers = error.headers.iter();
    let headers: String = headers
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let status = format!("{} Refused", error.status);
    answer(&status, "application/json", &headers, error.body.as_bytes())
}

fn events(spoken: &Spoken) -> Vec<Act> {
    let mut text = String::new();
    for event in &spoken.events {
        if spoken.is_named {
            text.push_str(&format!("event: {}\n", event["type"].as_str().unwrap()));
        }
        text.push_str(&format!("data: {event}\n\n"));
    }
    text.push_str(spoken.ends_with);
    answer("200 OK", "text/event-stream", "", text.as_bytes())
}

/// Events with their names in the binary frames of Amazon.
fn frames<'a>(events: impl Iterator<Item = (&'a str, Value)>) -> Vec<Act> {
    let mut bytes = Vec::new();
    for (name, payload) in events {
        let mut message = Message::new(payload.to_string().into_bytes());
        for (name, value) in [
            (":event-type", name),
            (":content-type", "application/json"),
            (":message-type", "event"),
        ] {
            let value = HeaderValue::String(value.to_owned().into());
            message = message.add_header(Header::new(name, value));
        }
        write_message_to(&message, &mut bytes).unwrap();
    }
    answer("200 OK", "application/vnd.amazon.eventstream", "", &bytes)
}

fn chat(calls: bool) -> Spoken {
    let call = json!([{"index": 0, "id": "call_1", "type": "function",
        "function": {"name": TOOL, "arguments": "{}"}}]);
    let (said, reason) = match calls {
        true => (
            json!({"role": "assistant", "content": null, "tool_calls": call}),
            "tool_calls",
        ),
        false => (json!({"role": "assistant", "content": SAID}), "stop"),
    };
    let usage = json!({"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9});
    let of = |kind: &str, choices: Value| json!({"id": "chatcmpl-1", "object": kind, "created": 1, "model": "m", "choices": choices});
    let mut whole = of(
        "chat.completion",
        json!([{"index": 0, "message": said, "finish_reason": reason}]),
    );
    whole["usage"] = usage.clone();
    let chunk = |delta: &Value, reason: Value| {
        let choices = json!([{"index": 0, "delta": delta, "finish_reason": reason}]);
        of("chat.completion.chunk", choices)
    };
    let mut last = of("chat.completion.chunk", json!([]));
    last["usage"] = usage;
    Spoken {
        whole,
        events: vec![
            chunk(&said, Value::Null),
            chunk(&json!({}), json!(reason)),
            last,
        ],
        is_named: false,
        ends_with: "data: [DONE]\n\n",
    }
}

fn messages(calls: bool) -> Spoken {
    let (block, delta, reason) = match calls {
        true => (
            json!({"type": "tool_use", "id": "toolu_1", "name": TOOL, "input": {}}),
            json!({"type": "input_json_delta", "partial_json": "{}"}),
            "tool_use",
        ),
        false => (
            json!({"type": "text", "text": SAID}),
            json!({"type": "text_delta", "text": SAID}),
            "end_turn",
        ),
    };
    let usage = json!({"input_tokens": 7, "output_tokens": 2});
    let message = |content: Value, reason: Value| {
        json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m",
            "content": content, "stop_reason": reason, "stop_sequence": null, "usage": usage})
    };
    let mut begun = block.clone();
    if !calls {
        begun["text"] = json!("");
    }
    Spoken {
        whole: message(json!([block]), json!(reason)),
        events: vec![
            json!({"type": "message_start", "message": message(json!([]), Value::Null)}),
            json!({"type": "content_block_start", "index": 0, "content_block": begun}),
            json!({"type": "content_block_delta", "index": 0, "delta": delta}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null},
                "usage": usage}),
            json!({"type": "message_stop"}),
        ],
        is_named: true,
        ends_with: "",
    }
}

fn responses(calls: bool) -> Spoken {
    let item = match calls {
        true => json!({"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": TOOL,
            "arguments": "{}", "status": "completed"}),
        false => {
            json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": SAID, "annotations": []}]})
        }
    };
    let of = |status: &str, output: Value, usage: Value| {
        json!({"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "status": status,
            "output": output, "usage": usage})
    };
    let usage = json!({"input_tokens": 7, "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 2, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 9});
    let done = of("completed", json!([item]), usage);
    let mut begun = item.clone();
    let mut events = vec![json!({"type": "response.created",
        "response": of("in_progress", json!([]), Value::Null)})];
    begun["status"] = json!("in_progress");
    match calls {
        true => {
            begun["arguments"] = json!("");
            events.extend([
                json!({"type": "response.output_item.added", "output_index": 0, "item": begun}),
                json!({"type": "response.function_call_arguments.delta", "output_index": 0,
                    "item_id": "fc_1", "delta": "{}"}),
                json!({"type": "response.function_call_arguments.done", "output_index": 0,
                    "item_id": "fc_1", "arguments": "{}"}),
            ]);
        }
        false => {
            let part = |text: &str| json!({"type": "output_text", "text": text, "annotations": []});
            begun["content"] = json!([]);
            events.extend([
                json!({"type": "response.output_item.added", "output_index": 0, "item": begun}),
                json!({"type": "response.content_part.added", "output_index": 0, "content_index": 0,
                    "item_id": "msg_1", "part": part("")}),
                json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0,
                    "item_id": "msg_1", "delta": SAID}),
                json!({"type": "response.output_text.done", "output_index": 0, "content_index": 0,
                    "item_id": "msg_1", "text": SAID}),
                json!({"type": "response.content_part.done", "output_index": 0, "content_index": 0,
                    "item_id": "msg_1", "part": part(SAID)}),
            ]);
        }
    }
    events.extend([
        json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
        json!({"type": "response.completed", "response": done}),
    ]);
    for (number, event) in events.iter_mut().enumerate() {
        event["sequence_number"] = json!(number);
    }
    Spoken {
        whole: done,
        events,
        is_named: true,
        ends_with: "",
    }
}

/// Each event is an object with its name as the only key.
fn converse(calls: bool) -> Spoken {
    let (block, reason) = match calls {
        true => (
            json!({"toolUse": {"toolUseId": "tooluse_1", "name": TOOL, "input": {}}}),
            "tool_use",
        ),
        false => (json!({"text": SAID}), "end_turn"),
    };
    let usage = json!({"inputTokens": 7, "outputTokens": 2, "totalTokens": 9});
    let delta =
        |delta: Value| json!({"contentBlockDelta": {"contentBlockIndex": 0, "delta": delta}});
    let mut events = vec![json!({"messageStart": {"role": "assistant"}})];
    match calls {
        true => events.extend([
            json!({"contentBlockStart": {"contentBlockIndex": 0,
                "start": {"toolUse": {"toolUseId": "tooluse_1", "name": TOOL}}}}),
            delta(json!({"toolUse": {"input": "{}"}})),
        ]),
        false => events.push(delta(json!({"text": SAID}))),
    }
    events.extend([
        json!({"contentBlockStop": {"contentBlockIndex": 0}}),
        json!({"messageStop": {"stopReason": reason}}),
        json!({"metadata": {"usage": usage, "metrics": {"latencyMs": 9}}}),
    ]);
    let message = json!({"role": "assistant", "content": [block]});
    Spoken {
        whole: json!({"output": {"message": message}, "stopReason": reason, "usage": usage,
            "metrics": {"latencyMs": 9}}),
        events,
        is_named: false,
        ends_with: "",
    }
}

fn gemini(calls: bool) -> Spoken {
    let part = match calls {
        true => json!({"functionCall": {"name": TOOL, "args": {}}}),
        false => json!({"text": SAID}),
    };
    let whole = json!({
        "candidates": [{"index": 0, "finishReason": "STOP",
            "content": {"role": "model", "parts": [part]}}],
        "usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": 2, "totalTokenCount": 9},
        "modelVersion": "m", "responseId": "r",
    });
    Spoken {
        events: vec![whole.clone()],
        whole,
        is_named: false,
        ends_with: "",
    }
}
