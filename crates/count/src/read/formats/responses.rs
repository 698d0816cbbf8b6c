//! The fields of responses.

use super::super::{Json, Kind, Reading};

pub(super) fn field<'j>(reading: &mut Reading<'j>, key: &str, value: Json<'j>) -> bool {
    match key {
        "input" => match value.kind() {
            Kind::String => reading.framed(value),
            _ => reading.items(value.elements()),
        },
        "instructions" => {
            if value.as_text().as_deref() != Some("") {
                reading.framed(value);
            }
        }
        "text" => reading.answer_settings(value),
        "previous_response_id" | "conversation" => {
            reading.assumed |= value.kind() != Kind::Null;
        }
        "prompt" => {
            reading.assumed = true;
            let variables = value.get("variables").into_iter();
            let variables = variables.flat_map(Json::members);
            variables.for_each(|(_, it)| reading.content(it, 0));
            reading.rest_of(value, &["variables"]);
        }
        _ => return false,
    }
    true
}
