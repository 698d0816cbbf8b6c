//! The events of a messages stream.

use super::super::rules::StreamRules;
use crate::answer::{kind::EventKind, text::TextClass};

pub(super) const RULES: StreamRules = StreamRules {
    ends_with_marker: false,
    ends_with_choices: false,
};

pub(super) fn body_kind(name: &[u8]) -> EventKind {
    match name {
        b"message" => EventKind::Content,
        _ => EventKind::of_any_body(name),
    }
}

/// By `type`.
pub(super) fn event_kind(name: &[u8]) -> EventKind {
    match name {
        b"content_block_delta"
        | b"content_block_start"
        | b"content_block_stop"
        | b"message_delta" => EventKind::Content,
        b"message_start" => EventKind::Preamble,
        b"message_stop" => EventKind::Terminal,
        _ => EventKind::of_any(name),
    }
}

pub(super) const fn text_class(name: &[u8]) -> TextClass {
    match name {
        b"message_start" => TextClass::Whole,
        _ => TextClass::Piece,
    }
}
