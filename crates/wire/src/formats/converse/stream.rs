//! The events of ConverseStream.

use super::super::rules::StreamRules;
use crate::answer::kind::EventKind;

pub(super) const RULES: StreamRules = StreamRules {
    ends_with_marker: false,
    ends_with_choices: false,
};

pub(super) const fn event_kind(name: &[u8]) -> EventKind {
    match name {
        b"messageStart" => EventKind::Preamble,
        b"contentBlockStart" | b"contentBlockDelta" | b"contentBlockStop" | b"messageStop" => {
            EventKind::Content
        }
        // Behind `messageStop`, with the usage.
        b"metadata" => EventKind::Terminal,
        _ => EventKind::of_any(name),
    }
}

pub(super) const fn body_kind(name: &[u8]) -> EventKind {
    EventKind::of_any_body(name)
}
