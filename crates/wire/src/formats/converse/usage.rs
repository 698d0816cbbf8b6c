//! How Converse reports usage.

use super::super::rules::UsageRules;
use crate::usage::Counting;

pub(super) const RULES: UsageRules = UsageRules {
    counting: Counting::Exclusive,
    is_on_request: false,
};
