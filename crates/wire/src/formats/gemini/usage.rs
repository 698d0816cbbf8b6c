//! How Gemini reports usage.

use super::super::rules::UsageRules;
use crate::usage::Counting;

pub(super) const RULES: UsageRules = UsageRules {
    counting: Counting::Apart,
    is_on_request: false,
};
