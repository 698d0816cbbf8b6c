//! How the public error is written: body, headers, and the last event of a broken stream.
//!
//! Decides the bytes. What the error says was decided before (`fault`, the filters), and the
//! status line is the gateway's to send.

use bytes::Bytes;
use http::{HeaderName, HeaderValue, header::RETRY_AFTER};
use serde::Serialize;
use serde_json::{Value, json};
use std::time::Duration;
use tollgate_types::{Format, PublicError, RequestId, Unsupported};

/// The body of an error answer: `{"error":{"message","type","code"}}`, on the messages
/// endpoints with `"type":"error"` and `request_id` beside it, which the SDKs of that format
/// look for. `None` is a path of no format. Outside the messages endpoints `param` names the
/// field at fault, where one is known.
pub fn error_body(format: Option<Format>, error: &PublicError, request: &RequestId) -> Bytes {
    let shape = match format {
        Some(Format::Messages) => Shape::messages(error, request),
        _ => Shape::plain(error),
    };
    to_json(&shape).into()
}

/// The headers that tell a client whether and when to try again: `retry-after` (whole
/// seconds, rounded up), `retry-after-ms` and `x-should-retry`.
pub fn error_headers(error: &PublicError) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
    let seconds = error
        .retry_after
        .map(|wait| whole(wait, Duration::from_secs(1)));
    let millis = error
        .retry_after
        .map(|wait| whole(wait, Duration::from_millis(1)));
    let retry = error
        .should_retry
        .map(|retry| HeaderValue::from_static(if retry { "true" } else { "false" }));
    [
        seconds.map(|n| (RETRY_AFTER, HeaderValue::from(n))),
        millis.map(|n| {
            (
                HeaderName::from_static("retry-after-ms"),
                HeaderValue::from(n),
            )
        }),
        retry.map(|value| (HeaderName::from_static("x-should-retry"), value)),
    ]
    .into_iter()
    .flatten()
}

/// How many units a wait fills, a begun one counted whole: nobody is told to come too early.
fn whole(wait: Duration, unit: Duration) -> u64 {
    u64::try_from(wait.as_nanos().div_ceil(unit.as_nanos().max(1))).unwrap_or(u64::MAX)
}

/// Where a stream stands when the gateway must end it with an error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamTail<'a> {
    /// Bytes of an event have left without its end.
    pub event_is_open: bool,
    /// Responses only: `response.id` of the stream so far.
    pub response_id: Option<&'a str>,
    /// Responses only: `response.model` of the stream so far.
    pub model: Option<&'a str>,
    /// Responses only: `response.created_at`, in unix seconds.
    pub created_at: Option<u64>,
    /// Responses only: the number that the next event bears.
    pub next_sequence: u64,
}

/// The error as the last event, or events, of a stream in `format`. A well-formed
/// continuation of what has left; nothing may follow it, no `[DONE]` either.
pub fn failure_event(
    format: Format,
    tail: &StreamTail<'_>,
    error: &PublicError,
    request: &RequestId,
) -> Bytes {
    let mut out = Vec::with_capacity(1024);
    if tail.event_is_open {
        // One line end for the line that was cut, one for the event.
        out.extend_from_slice(b"\n\n");
    }
    match format {
        Format::Chat => event(&mut out, None, &Shape::plain(error)),
        Format::Messages => event(&mut out, Some("error"), &Shape::messages(error, request)),
        Format::Responses => {
            // SDKs raise on the first, the Codex CLI heeds the second alone.
            event(&mut out, Some("error"), &responses_error(tail, error));
            let failed = responses_failed(tail, error, request);
            event(&mut out, Some("response.failed"), &failed);
        }
    }
    out.into()
}

/// One server-sent event. JSON as serde writes it holds no line end.
fn event(out: &mut Vec<u8>, name: Option<&str>, data: &impl Serialize) {
    if let Some(name) = name {
        for part in ["event: ", name, "\n"] {
            out.extend_from_slice(part.as_bytes());
        }
    }
    out.extend_from_slice(b"data: ");
    out.append(&mut to_json(data));
    out.extend_from_slice(b"\n\n");
}

/// The event as the provider of the format sends it: nested, unlike the type in its SDK.
fn responses_error(tail: &StreamTail<'_>, error: &PublicError) -> Value {
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

/// The terminal event, with every field that a client's types require of a response. The
/// caller's own parameters are not known here and stand at their defaults.
fn responses_failed(tail: &StreamTail<'_>, error: &PublicError, request: &RequestId) -> Value {
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

/// The one error shape.
#[derive(Serialize)]
struct Shape<'a> {
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    error: Inner<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a str>,
}

#[derive(Serialize)]
struct Inner<'a> {
    message: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    code: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    param: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Details>,
}

#[derive(Serialize)]
struct Details {
    error_code: &'static str,
    unsupported: [&'static str; 1],
}

impl From<Unsupported> for Details {
    fn from(unsupported: Unsupported) -> Self {
        let Unsupported { error_code, field } = unsupported;
        Self {
            error_code,
            unsupported: [field],
        }
    }
}

impl<'a> Shape<'a> {
    fn plain(error: &'a PublicError) -> Self {
        Self {
            kind: None,
            error: Inner {
                message: &error.message,
                kind: error.error_type().as_str(),
                code: error.code.as_str(),
                param: error.param.as_deref(),
                details: error.unsupported.map(Details::from),
            },
            request_id: None,
        }
    }

    fn messages(error: &'a PublicError, request: &'a RequestId) -> Self {
        let mut shape = Self::plain(error);
        // The format has no such member: its messages name the field.
        shape.error.param = None;
        Self {
            kind: Some("error"),
            request_id: Some(request.as_str()),
            ..shape
        }
    }
}

/// Strings and integers alone: writing them to memory cannot fail.
fn to_json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

#[cfg(test)]
mod tests;
