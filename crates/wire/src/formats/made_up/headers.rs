//! The headers of the made-up format.

use crate::headers::HeaderRules;

pub(super) const RULES: HeaderRules = HeaderRules {
    request_id: None,
    version: None,
    vendor: "made-up-",
};
