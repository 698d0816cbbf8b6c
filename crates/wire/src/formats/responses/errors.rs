//! Errors as responses clients read them.

use super::super::rules::ErrorRules;
use crate::render::{ErrorBody, StreamTail, event};
use serde_json::{Value, json};
use tollgate_types::{PublicError, RequestId};

pub(super) const RULES: ErrorRules = ErrorRules {
    body: |error, _| ErrorBody::plain(error).to_json(),
    end_stream: |out, tail, error, request| {
        // SDKs raise on the first event; the Codex CLI reads only the second.
        event(out, Some("error"), &error_event(tail, error));
        let failed = failed_event(tail, error, request);
        event(out, Some("response.failed"), &failed);
    },
};

/// The error is nested, as the provider of the format sends it; the type in its SDK is flat.
fn error_event(tail: &StreamTail<'_>, error: &PublicError) -> Value {
    json!({
        "type": "error",
        "sequence_number": tail.next_sequence,
        "error": {
            "type": error.error_type().as_str(),
            "code": error.code.as_str(),
            "message": error.message,
            "param": error.param,
        },
    })
}

/// The terminal event, with every field that the types of a client require of a response. The
/// parameters of the request are not known here and have their defaults.
fn failed_event(tail: &StreamTail<'_>, error: &PublicError, request: &RequestId) -> Value {
    let made_up = format!("resp_{request}");
    json!({
        "type": "response.failed",
        "sequence_number": tail.next_sequence.saturating_add(1),
        "response": {
            "id": tail.response_id.unwrap_or(&made_up),
            "object": "response",
            "created_at": tail.created_at.unwrap_or(0),
            "completed_at": null,
            "status": "failed",
            "background": false,
            "error": { "code": error.code.as_str(), "message": error.message },
            "incomplete_details": null,
            "instructions": null,
            "max_output_tokens": null,
            "max_tool_calls": null,
            "model": tail.model.unwrap_or_default(),
            "output": [],
            "parallel_tool_calls": true,
            "previous_response_id": null,
            "prompt_cache_key": null,
            "reasoning": { "effort": null, "summary": null },
            "safety_identifier": null,
            "service_tier": "default",
            "store": false,
            "temperature": 1.0,
            "text": { "format": { "type": "text" } },
            "tool_choice": "auto",
            "tools": [],
            "top_logprobs": 0,
            "top_p": 1.0,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "truncation": "disabled",
            "usage": null,
            "user": null,
            "metadata": {},
        },
    })
}
