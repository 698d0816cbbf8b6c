//! Errors as made-up clients read them.

use super::super::rules::ErrorRules;
use crate::render::{ErrorBody, event};

pub(super) const RULES: ErrorRules = ErrorRules {
    body: |error, request| ErrorBody::plain(error).typed("failure", request).to_json(),
    end_stream: |out, _, error, request| {
        event(
            out,
            None,
            &ErrorBody::plain(error).typed("failure", request),
        );
    },
};
