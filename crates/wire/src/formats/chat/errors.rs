//! Errors as chat clients read them.

use super::super::rules::ErrorRules;
use crate::render::{ErrorBody, event};

pub(super) const RULES: ErrorRules = ErrorRules {
    body: |error, _| ErrorBody::plain(error).to_json(),
    end_stream: |out, _, error, _| event(out, None, &ErrorBody::plain(error)),
};
