//! The JSON Schema of the configuration, made from its types.

use super::Settings;
use serde_json::Value;

/// The schema (draft 2020-12) as editors and `tollgate schema` take it.
pub(super) fn schema() -> Value {
    let mut schema = schemars::schema_for!(Settings).to_value();
    if let Some(schema) = schema.as_object_mut() {
        schema.insert("title".into(), "Configuration of Tollgate".into());
    }
    schema
}

/// The schema as text.
pub fn schema_text() -> String {
    let mut text = serde_json::to_string_pretty(&schema()).unwrap_or_default();
    text.push('\n');
    text
}
