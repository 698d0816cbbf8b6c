//! Errors in this format. No client reads them: Converse is a format of providers.

use super::super::rules::ErrorRules;
use crate::render::event;
use serde_json::{Value, json};
use tollgate_types::PublicError;

pub(super) const RULES: ErrorRules = ErrorRules {
    body: |error, _| body(error).to_string().into_bytes(),
    end_stream: |out, _, error, _| event(out, Some("error"), &body(error)),
};

fn body(error: &PublicError) -> Value {
    json!({"__type": error.code.as_str(), "message": error.message})
}
