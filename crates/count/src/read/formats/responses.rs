//! The fields of responses.

use super::super::{Json, Reading};

pub(super) fn field<'j>(reading: &mut Reading<'j>, key: &str, value: &'j Json<'j>) -> bool {
    match key {
        "input" => match value {
            Json::Text(_) => reading.framed(value),
            _ => reading.items(value.elements()),
        },
        "instructions" => {
            if value.as_text() != Some("") {
                reading.framed(value);
            }
        }
        "text" => reading.answer_settings(value),
        "previous_response_id" | "conversation" => {
            reading.assumed |= !matches!(value, Json::Null);
        }
        "prompt" => {
            reading.assumed = true;
            let variables = value.get("variables").map_or(&[][..], Json::members);
            variables.iter().for_each(|(_, it)| reading.content(it, 0));
            reading.rest_of(value, &["variables"]);
        }
        _ => return false,
    }
    true
}
