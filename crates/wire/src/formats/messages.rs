//! Anthropic Messages.

mod errors;
mod headers;
mod places;
mod stream;
mod usage;

use super::rules::FormatRules;

pub(super) const RULES: FormatRules = FormatRules {
    request: places::REQUEST,
    body: places::BODY,
    event: places::EVENT,
    stream: stream::RULES,
    usage: usage::RULES,
    errors: errors::RULES,
    headers: headers::RULES,
};
