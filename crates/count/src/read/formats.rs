//! The fields that each format has of its own, and how they are counted.

mod chat;
mod messages;
mod responses;

use super::{Json, Reading};
use tollgate_types::PerFormat;

/// Counts a field of the body; returns `false` if the field is none of the format's own.
type Field = for<'j> fn(&mut Reading<'j>, &str, &'j Json<'j>) -> bool;

pub(super) static FIELDS: PerFormat<Field> = PerFormat {
    chat: chat::field,
    responses: responses::field,
    messages: messages::field,
    // Of their fields only those that all formats share are counted.
    gemini: |_, _, _| false,
    converse: |_, _, _| false,
};
