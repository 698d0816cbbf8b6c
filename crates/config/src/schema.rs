//! The JSON Schema of the configuration, made from its types.

use super::Settings;
use serde_json::Value;

/// The schema (draft 2020-12) as editors and `tollgate schema` take it.
pub(super) fn schema() -> Value {
    let mut schema = schemars::schema_for!(Settings).to_value();
    if let Some(schema) = schema.as_object_mut() {
        schema.insert("title".into(), "Configuration of Tollgate".into());
    }
    bound(&mut schema);
    schema
}

/// Describes the entries of a list for messages.
pub(super) fn expect(list: &mut schemars::Schema, expected: &str) {
    let items = list.get_mut("items").and_then(Value::as_object_mut);
    if let Some(items) = items {
        items.insert("x-expected".into(), expected.into());
    }
}

/// Bounds numbers of 32 bits: without this, a larger one passes the schema, and its type refuses it.
fn bound(schema: &mut Value) {
    match schema {
        Value::Object(keys) => {
            if keys.get("format").is_some_and(|format| format == "uint32") {
                keys.entry("maximum").or_insert_with(|| u32::MAX.into());
            }
            keys.values_mut().for_each(bound);
        }
        Value::Array(items) => items.iter_mut().for_each(bound),
        _ => {}
    }
}

/// The sections whose required keys can stand in an included file.
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
