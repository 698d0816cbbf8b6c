//! How responses report usage.

use super::super::rules::UsageRules;
use crate::usage::Counting;

pub(super) const RULES: UsageRules = UsageRules {
    counting: Counting::Inclusive,
    is_on_request: false,
};
