//! Errors in this format: `google.rpc.Status`, with its details.

use super::super::rules::ErrorRules;
use crate::render::event;
use serde_json::{Value, json};
use tollgate_types::{PublicError, RequestId};

pub(super) const RULES: ErrorRules = ErrorRules {
    body: |error, request| body(error, request).to_string().into_bytes(),
    end_stream: |out, _, error, request| event(out, None, &body(error, request)),
};

fn body(error: &PublicError, request: &RequestId) -> Value {
    let mut details = vec![json!({
        "@type": "type.googleapis.com/google.rpc.ErrorInfo",
        "reason": error.code.as_str().to_ascii_uppercase(),
        "metadata": {"request_id": request.as_str()},
    })];
    if let Some(wait) = error.retry_after {
        details.push(json!({
            "@type": "type.googleapis.com/google.rpc.RetryInfo",
            "retryDelay": format!("{}s", wait.as_secs_f64()),
        }));
    }
    if let Some(field) = &error.param {
        details.push(json!({
            "@type": "type.googleapis.com/google.rpc.BadRequest",
            "fieldViolations": [{"field": field, "description": error.message}],
        }));
    }
    json!({"error": {
        "code": error.status,
        "message": error.message,
        "status": status(error.status),
        "details": details,
    }})
}

/// The name of a status (`google.rpc.Code`).
const fn status(status: u16) -> &'static str {
    match status {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        402 | 429 => "RESOURCE_EXHAUSTED",
        408 | 504 => "DEADLINE_EXCEEDED",
        409 => "ABORTED",
        405 | 501 => "UNIMPLEMENTED",
        502 | 503 | 529 => "UNAVAILABLE",
        500.. => "INTERNAL",
        _ => "INVALID_ARGUMENT",
    }
}
