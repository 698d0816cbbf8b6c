//! Google Gemini: `generateContent` and `streamGenerateContent`.
//!
//! The path names the model and says whether the answer is a stream. An event is a whole
//! response; the stream ends with the connection, after a finish reason.

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
