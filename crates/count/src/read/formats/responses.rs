//! The fields of responses.

use super::super::{Json, Kind, Reading};

pub(super) fn field<'j>(reading: &mut Reading<'j>, key: &str, value: Json<'j>) -> bool {
    match key {
        "input" => match value.kind() {
            Kind::String => reading.framed(value),
            Kind::Array => reading.items(value.elements()),
            _ => return false,
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
            let variables = value.get("variables");
            let variables = variables.filter(|it| it.kind() == Kind::Object);
            for (name, it) in variables.into_iter().flat_map(Json::members) {
                reading.add_uncounted(name.len());
                reading.content(it, 0);
            }
            let read = variables.map(|_| "variables");
            reading.reserve_for_rest(value, read.as_slice());
        }
        _ => return false,
    }
    true
}
