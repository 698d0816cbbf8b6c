//! Errors as messages clients read them.

use super::super::rules::ErrorRules;
use crate::render::{ErrorBody, event};
use tollgate_types::{PublicError, RequestId};

pub(super) const RULES: ErrorRules = ErrorRules {
    body: |error, request| body(error, request).to_json(),
    end_stream: |out, _, error, request| event(out, Some("error"), &body(error, request)),
};

/// The SDKs look for `type` and `request_id`. The format has no `param`: its messages name the
/// field.
fn body<'a>(error: &'a PublicError, request: &'a RequestId) -> ErrorBody<'a> {
    ErrorBody::plain(error)
        .without_param()
        .typed("error", request)
}
