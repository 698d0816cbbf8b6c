//! The fields that each format has of its own, and how they are counted.

mod chat;
mod messages;
mod responses;

use super::{Json, Reading};
use tollgate_types::{Format, PerFormat};
use tollgate_wire::document::Kind;

/// Counts a field of the body; returns `false` if the field is none of the format's own.
type Field = for<'j> fn(&mut Reading<'j>, &str, Json<'j>) -> bool;

pub(super) static FIELDS: PerFormat<Field> = PerFormat {
    chat: chat::field,
    responses: responses::field,
    messages: messages::field,
    gemini,
    // Of its fields only those that all formats share are counted.
    converse: |_, _, _| false,
    embeddings: texts,
    rerank: texts,
};

/// The conversation, and a whole request within a request for a count.
fn gemini<'j>(reading: &mut Reading<'j>, key: &str, value: Json<'j>) -> bool {
    match (key, value.kind()) {
        ("contents", Kind::Array) => value.elements().for_each(|it| reading.framed(it)),
        ("systemInstruction" | "system_instruction", _) => reading.framed(value),
        ("generateContentRequest" | "generate_content_request", Kind::Object) => {
            for (key, value) in value.members() {
                reading.field(Format::Gemini, &key, value);
            }
        }
        _ => return false,
    }
    true
}

/// The texts of a request without a conversation.
fn texts<'j>(reading: &mut Reading<'j>, key: &str, value: Json<'j>) -> bool {
    let is_text = matches!(key, "input" | "query" | "documents");
    if is_text {
        text(reading, value);
    }
    is_text
}

/// A text, a token of one, or a list of these.
fn text<'j>(reading: &mut Reading<'j>, value: Json<'j>) {
    match value.kind() {
        Kind::Array => value.elements().for_each(|it| text(reading, it)),
        Kind::Number => reading.frame(1),
        _ => reading.content(value, 0),
    }
}
