//! Chat completions: an answer as OpenAI's API writes it.

mod read;

use crate::{
    calls::{Call, CallInput},
    format::{Answering, CREATED, put},
    plan::{self, Choice, Stop},
    sse::Event,
    vendors,
};
pub(crate) use read::read;
use serde_json::{Value, json};

/// The answer as one body.
pub(crate) fn json(answering: Answering<'_>) -> Value {
    let choices = answering.plan.choices.iter().enumerate();
    let choices: Vec<_> = choices
        .map(|(index, choice)| whole_choice(answering, index, choice))
        .collect();
    let mut body = frame(answering, "chat.completion", &Value::Array(choices));
    put(&mut body, "usage", usage(answering));
    body
}

/// The answer as a stream.
pub(crate) fn events(answering: Answering<'_>) -> Vec<Event> {
    let mut stream = Stream {
        answering,
        counted: wants_usage(answering.request),
        events: Vec::new(),
    };
    for (index, choice) in answering.plan.choices.iter().enumerate() {
        stream.choice(index, choice);
    }
    stream.usage();
    stream.events.push(Event::word("[DONE]"));
    stream.events
}

/// How a stream ends that has failed: without `[DONE]`.
pub(crate) fn error_events() -> Vec<Event> {
    let message = "The server had an error while processing your request.";
    vec![Event::unnamed(vendors::openai_error(
        "server_error",
        message,
        None,
        Some("server_error"),
    ))]
}

struct Stream<'a> {
    answering: Answering<'a>,
    /// Whether usage was asked for: then every chunk has the field.
    counted: bool,
    events: Vec<Event>,
}

impl Stream<'_> {
    fn choice(&mut self, index: usize, choice: &Choice) {
        let plan = self.answering.plan;
        let content = if plan.calls.is_empty() {
            json!("")
        } else {
            Value::Null
        };
        self.delta(
            index,
            &json!({"role": "assistant", "content": content, "refusal": null}),
            None,
        );
        for piece in shown_reasoning(self.answering)
            .map(plan::deltas)
            .unwrap_or_default()
        {
            self.delta(index, &json!({"reasoning_content": piece}), None);
        }
        let field = if choice.stop == Stop::Refusal {
            "refusal"
        } else {
            "content"
        };
        for piece in plan::deltas(&choice.text) {
            self.delta(index, &json!({field: piece}), None);
        }
        for (number, call) in plan.calls.iter().enumerate() {
            self.call(index, number, call);
        }
        self.delta(index, &json!({}), Some(finish_reason(&choice.stop)));
    }

    fn call(&mut self, index: usize, number: usize, call: &Call) {
        let mut opened = tool_call(self.answering, number, call, "");
        put(&mut opened, "index", json!(number));
        self.delta(index, &json!({"tool_calls": [opened]}), None);
        let arguments = call.input_text();
        for piece in plan::deltas(&arguments) {
            let (kind, field) = call_words(call);
            let part = json!({"index": number, kind: {field: piece}});
            self.delta(index, &json!({"tool_calls": [part]}), None);
        }
    }

    fn delta(&mut self, index: usize, delta: &Value, finish: Option<&str>) {
        let choice =
            json!({"index": index, "delta": delta, "logprobs": null, "finish_reason": finish});
        self.chunk(&json!([choice]), Value::Null);
    }

    fn usage(&mut self) {
        if self.counted {
            self.chunk(&json!([]), usage(self.answering));
        }
    }

    fn chunk(&mut self, choices: &Value, usage: Value) {
        let mut chunk = frame(self.answering, "chat.completion.chunk", choices);
        if self.counted {
            put(&mut chunk, "usage", usage);
        }
        let padding = self
            .answering
            .plan
            .seed
            .fork("obfuscation", self.events.len());
        let length = usize::try_from(padding.number(16)).unwrap_or_default();
        put(&mut chunk, "obfuscation", json!(padding.id("", length + 1)));
        self.events.push(Event::unnamed(chunk));
    }
}

fn frame(answering: Answering<'_>, object: &str, choices: &Value) -> Value {
    json!({
        "id": answering.plan.seed.fork("chat", 0).id("chatcmpl-", 29),
        "object": object,
        "created": CREATED,
        "model": answering.ask.model,
        "choices": choices,
        "service_tier": "default",
        "system_fingerprint": "fp_50906f2aac",
    })
}

fn whole_choice(answering: Answering<'_>, index: usize, choice: &Choice) -> Value {
    let refused = choice.stop == Stop::Refusal;
    let calls = &answering.plan.calls;
    let text = (!refused && calls.is_empty()).then_some(&choice.text);
    let refusal = refused.then_some(&choice.text);
    let mut message =
        json!({"role": "assistant", "content": text, "refusal": refusal, "annotations": []});
    if !calls.is_empty() {
        let calls = calls.iter().enumerate();
        let calls: Vec<_> = calls
            .map(|(number, call)| tool_call(answering, number, call, &call.input_text()))
            .collect();
        put(&mut message, "tool_calls", Value::Array(calls));
    }
    if let Some(reasoning) = shown_reasoning(answering) {
        put(&mut message, "reasoning_content", json!(reasoning));
    }
    json!({
        "index": index,
        "message": message,
        "logprobs": null,
        "finish_reason": finish_reason(&choice.stop),
    })
}

fn tool_call(answering: Answering<'_>, number: usize, call: &Call, arguments: &str) -> Value {
    let id = answering.plan.seed.fork("call", number).id("call_", 24);
    let (kind, field) = call_words(call);
    json!({"id": id, "type": kind, kind: {"name": call.name, field: arguments}})
}

/// The type of a call, and the field that holds its input.
fn call_words(call: &Call) -> (&'static str, &'static str) {
    match call.input {
        CallInput::Arguments(_) => ("function", "arguments"),
        CallInput::Text(_) => ("custom", "input"),
    }
}

/// OpenAI keeps reasoning to itself in this format; vendors of open models do not.
fn shown_reasoning<'a>(answering: Answering<'a>) -> Option<&'a str> {
    answering
        .plan
        .thinking
        .as_deref()
        .filter(|_| answering.orders.open_reasoning)
}

fn finish_reason(stop: &Stop) -> &'static str {
    match stop {
        Stop::End | Stop::Sequence(_) => "stop",
        Stop::ToolUse => "tool_calls",
        Stop::MaxTokens => "length",
        Stop::Refusal => "content_filter",
    }
}

fn usage(answering: Answering<'_>) -> Value {
    let usage = answering.plan.usage;
    json!({
        "prompt_tokens": usage.input.total(),
        "completion_tokens": usage.output,
        "total_tokens": usage.input.total() + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.input.cache_read, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": usage.reasoning,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    })
}

fn wants_usage(request: &Value) -> bool {
    request.pointer("/stream_options/include_usage") == Some(&Value::Bool(true))
}
