//! The events of a Gemini stream: responses without a type.

use super::super::rules::StreamRules;
use crate::answer::kind::EventKind;

pub(super) const RULES: StreamRules = StreamRules {
    ends_with_marker: false,
    ends_with_choices: true,
};

pub(super) const fn event_kind(name: &[u8]) -> EventKind {
    EventKind::of_any(name)
}

pub(super) const fn body_kind(name: &[u8]) -> EventKind {
    EventKind::of_any_body(name)
}
