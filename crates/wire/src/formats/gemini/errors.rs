//! Errors in this format. No endpoint serves it to clients, so they have the plain form.

use super::super::rules::ErrorRules;
use crate::render::{ErrorBody, event};

pub(super) const RULES: ErrorRules = ErrorRules {
    body: |error, _| ErrorBody::plain(error).to_json(),
    end_stream: |out, _, error, _| event(out, None, &ErrorBody::plain(error)),
};
