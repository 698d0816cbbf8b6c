//! OpenAI Chat Completions, as its many servers speak it.

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
