//! Amazon Bedrock: Converse and ConverseStream.
//!
//! The path names the model and says whether the answer is a stream. Streams are binary frames; the name of
//! an event is put into its data as `type` (`stream/amazon.rs`).

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
