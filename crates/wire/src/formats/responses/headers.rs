//! The headers of responses.

use crate::headers::HeaderRules;

pub(super) const RULES: HeaderRules = HeaderRules {
    request_id: None,
    version: None,
    vendor: "openai-",
};
