//! The fields of chat.

use super::super::{Json, Kind, Reading};

pub(super) fn field<'j>(reading: &mut Reading<'j>, key: &str, value: Json<'j>) -> bool {
    match key {
        "messages" if value.kind() == Kind::Array => {
            let messages = value.elements();
            messages.for_each(|it| reading.message(it));
        }
        "response_format" => reading.answer_schema(value),
        "reasoning" if value.text_of("effort") != "none" => {
            reading.frame(reading.rules.thinking);
        }
        "prediction" => reading.content(value, 0),
        _ => return false,
    }
    true
}
