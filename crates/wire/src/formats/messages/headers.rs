//! The headers of messages.

use crate::headers::HeaderRules;
use http::{HeaderName, HeaderValue};

pub(super) const RULES: HeaderRules = HeaderRules {
    request_id: Some(HeaderName::from_static("request-id")),
    version: Some((
        HeaderName::from_static("anthropic-version"),
        HeaderValue::from_static("2023-06-01"),
    )),
    vendor: "anthropic-",
};
