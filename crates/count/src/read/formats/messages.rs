//! The fields of messages.

use super::super::{Json, Kind, Reading};

pub(super) fn field<'j>(reading: &mut Reading<'j>, key: &str, value: Json<'j>) -> bool {
    match key {
        "messages" if value.kind() == Kind::Array => reading.conversation(value.elements()),
        "system" => reading.content(value, 0),
        "output_format" => reading.answer_schema(value),
        "output_config" => reading.answer_settings(value),
        "thinking" if value.text_of("type") != "disabled" => {
            reading.frame(reading.rules.thinking);
        }
        "container" | "mcp_servers" => {
            reading.assumed |= value.kind() != Kind::Null;
        }
        "context_management" => reading.reserve_for(value),
        _ => return false,
    }
    true
}
