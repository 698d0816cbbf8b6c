//! The headers of Converse.

use crate::headers::HeaderRules;

pub(super) const RULES: HeaderRules = HeaderRules {
    request_id: None,
    version: None,
    vendor: "x-amzn-",
};
