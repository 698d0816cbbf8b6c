//! How the public error is written: body, headers, and the last event of a broken stream.
//!
//! This file and `formats/*.rs` decide the bytes. `fault` and the filters decide what the
//! error says, and the gateway sends the status line.

use crate::formats;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, header::RETRY_AFTER};
use serde::Serialize;
use std::time::Duration;
use tollgate_types::{Format, PublicError, RequestId, Unsupported};

/// The body of an error answer: `{"error":{"message","type","code"}}`, and what the clients of the
/// format look for beside it. `None` is a path without a format.
pub fn error_body(format: Option<Format>, error: &PublicError, request: &RequestId) -> Bytes {
    let body = match format {
        Some(format) => (formats::rules(format).errors.body)(error, request),
        None => ErrorBody::plain(error).to_json(),
    };
    body.into()
}

/// The headers that say whether and when a client should try again: `retry-after` (whole
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

/// A wait in units, rounded up, so that no client comes too early.
fn whole(wait: Duration, unit: Duration) -> u64 {
    u64::try_from(wait.as_nanos().div_ceil(unit.as_nanos().max(1))).unwrap_or(u64::MAX)
}

/// The state of a stream that the gateway must end with an error. Formats whose events carry no
/// identity use the first field only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamTail<'a> {
    /// Bytes of an event were sent without its end.
    pub event_is_open: bool,
    /// The id of the answer, if the stream has named it.
    pub response_id: Option<&'a str>,
    /// The model, if the stream has named it.
    pub model: Option<&'a str>,
    /// When the answer began, in unix seconds.
    pub created_at: Option<u64>,
    /// The number of the next event.
    pub next_sequence: u64,
}

/// The error as the last event, or events, of a stream in `format`: a well-formed continuation of
/// what was sent. Nothing may follow it, not even `[DONE]`.
pub fn failure_event(
    format: Format,
    tail: &StreamTail<'_>,
    error: &PublicError,
    request: &RequestId,
) -> Bytes {
    let mut out = Vec::with_capacity(1024);
    if tail.event_is_open {
        // One line end for the cut line, one for the event.
        out.extend_from_slice(b"\n\n");
    }
    (formats::rules(format).errors.end_stream)(&mut out, tail, error, request);
    out.into()
}

/// Appends one server-sent event. JSON as serde writes it has no line end.
pub(crate) fn event(out: &mut Vec<u8>, name: Option<&str>, data: &impl Serialize) {
    if let Some(name) = name {
        for part in ["event: ", name, "\n"] {
            out.extend_from_slice(part.as_bytes());
        }
    }
    out.extend_from_slice(b"data: ");
    out.append(&mut to_json(data));
    out.extend_from_slice(b"\n\n");
}

/// The error object, with what a format adds to it.
#[derive(Serialize)]
pub(crate) struct ErrorBody<'a> {
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

impl<'a> ErrorBody<'a> {
    pub(crate) fn plain(error: &'a PublicError) -> Self {
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

    /// Without the field at fault.
    pub(crate) fn without_param(mut self) -> Self {
        self.error.param = None;
        self
    }

    /// With a type and the id of the request beside the error.
    pub(crate) fn typed(self, kind: &'static str, request: &'a RequestId) -> Self {
        Self {
            kind: Some(kind),
            request_id: Some(request.as_str()),
            ..self
        }
    }

    pub(crate) fn to_json(&self) -> Vec<u8> {
        to_json(self)
    }
}

/// The values are strings and integers: writing them to memory cannot fail.
fn to_json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

#[cfg(test)]
mod tests;
