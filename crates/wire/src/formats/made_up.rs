//! A format that no provider speaks. It shows what a new format needs, and its tests keep the
//! shared code free of the others.
//!
//! It keeps the model, the choice of a stream and the version of the API in its address, has
//! names of its own for everything, and ends a stream by a finish reason.

mod errors;
mod field_locations;
mod headers;
mod stream;
mod usage;

use super::rules::FormatRules;

pub(super) const RULES: FormatRules = FormatRules {
    request: field_locations::REQUEST,
    body: field_locations::BODY,
    event: field_locations::EVENT,
    stream: stream::RULES,
    usage: usage::RULES,
    errors: errors::RULES,
    headers: headers::RULES,
};
