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

/// The sections of which an included file can give the required keys.
const MERGED: [&str; 6] = [
    "AutoSettings",
    "PlanSettings",
    "PostgresSettings",
    "ProviderSettings",
    "SharedLimitSettings",
    "TraceSettings",
];

/// The schema of one file as text.
pub fn schema_text() -> String {
    let mut schema = schema();
    for name in MERGED {
        if let Some(section) = schema.pointer_mut(&format!("/$defs/{name}"))
            && let Some(section) = section.as_object_mut()
        {
            section.remove("required");
        }
    }
    let mut text = serde_json::to_string_pretty(&schema).unwrap_or_default();
    text.push('\n');
    text
}
