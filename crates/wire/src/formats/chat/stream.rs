//! The chunks of a chat stream.

use super::super::rules::StreamRules;
use crate::answer::kind::EventKind;

pub(super) const RULES: StreamRules = StreamRules {
    ends_with_marker: true,
    // Some providers close without `[DONE]`.
    ends_with_choices: true,
};

/// By `object`: a chunk says nothing else about itself.
pub(super) fn chunk_kind(object: &[u8]) -> EventKind {
    match is_known(object) {
        true => EventKind::Unnamed,
        false => EventKind::of_any(object),
    }
}

pub(super) fn body_kind(object: &[u8]) -> EventKind {
    match is_known(object) {
        true => EventKind::Content,
        false => EventKind::of_any_body(object),
    }
}

/// Some servers call a chunk like a whole answer, or like one of the older completions. Azure
/// has its own name for chunks with data of the operator.
fn is_known(object: &[u8]) -> bool {
    matches!(
        object,
        b"chat.completion.chunk"
            | b"chat.completion"
            | b"extensions.chat.completion.chunk"
            | b"extensions.chat.completion"
            | b"text_completion"
            | b"completion"
    )
}
