//! Schemas in Google's dialect, as JSON schemas.

use super::super::spelling::camel;
use serde_json::{Map, Value as Json, json};

pub(super) fn json_schema(schema: Json) -> Json {
    let Json::Object(members) = schema else {
        return schema;
    };
    let mut written = Map::new();
    let mut is_nullable = false;
    for (key, value) in members {
        match camel(&key).as_ref() {
            "type" => {
                if let Some(kind) = json_type(value) {
                    written.insert("type".to_owned(), kind);
                }
            }
            "nullable" => is_nullable = value == true,
            // JSON schema has no such words.
            "propertyOrdering" | "example" => {}
            // It is the width of a number, or the word `enum`.
            "format" if is_of_google(&value) => {}
            "ref" => drop(written.insert("$ref".to_owned(), value)),
            "defs" => drop(written.insert("$defs".to_owned(), named(value))),
            "properties" => drop(written.insert(key, named(value))),
            name @ ("items" | "additionalProperties") => {
                written.insert(name.to_owned(), json_schema(value));
            }
            name @ ("anyOf" | "oneOf" | "allOf" | "prefixItems") => {
                written.insert(name.to_owned(), all(value));
            }
            name @ ("minItems" | "maxItems" | "minLength" | "maxLength" | "minProperties"
            | "maxProperties") => drop(written.insert(name.to_owned(), number(value))),
            _ => drop(written.insert(key, value)),
        }
    }
    if is_nullable {
        allow_null(&mut written);
    }
    Json::Object(written)
}

fn json_type(kind: Json) -> Option<Json> {
    match kind {
        Json::String(name) if name.eq_ignore_ascii_case("type_unspecified") => None,
        Json::String(name) => Some(name.to_ascii_lowercase().into()),
        other => Some(other),
    }
}

fn is_of_google(format: &Json) -> bool {
    let format = format.as_str().unwrap_or_default();
    matches!(format, "enum" | "int32" | "int64" | "float" | "double")
}

fn named(schemas: Json) -> Json {
    match schemas {
        Json::Object(members) => members
            .into_iter()
            .map(|(name, schema)| (name, json_schema(schema)))
            .collect(),
        other => other,
    }
}

fn all(schemas: Json) -> Json {
    match schemas {
        Json::Array(schemas) => schemas.into_iter().map(json_schema).collect(),
        other => other,
    }
}

/// Google writes numbers of 64 bits as strings.
fn number(value: Json) -> Json {
    let parsed = value.as_str().and_then(|text| text.parse::<u64>().ok());
    parsed.map_or(value, Json::from)
}

fn allow_null(schema: &mut Map<String, Json>) {
    if let Some(kind @ Json::String(_)) = schema.get_mut("type") {
        *kind = json!([kind.take(), "null"]);
    }
    if let Some(Json::Array(values)) = schema.get_mut("enum")
        && !values.contains(&Json::Null)
    {
        values.push(Json::Null);
    }
    if let Some(Json::Array(schemas)) = schema.get_mut("anyOf") {
        schemas.push(json!({"type": "null"}));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_of_google_becomes_a_json_schema() {
        let schema = json!({
            "type": "OBJECT", "property_ordering": ["b", "a"], "nullable": true,
            "properties": {
                "type": {"type": "STRING", "format": "enum", "enum": ["x"], "nullable": true},
                "any_of": {"anyOf": [{"type": "INTEGER", "format": "int64"}], "nullable": true},
                "list": {"type": "ARRAY", "minItems": "1", "items": {"type": "TYPE_UNSPECIFIED"}},
                "when": {"type": "string", "format": "date-time"},
            },
            "required": ["type"],
        });
        let expected = json!({
            "type": ["object", "null"],
            "properties": {
                "type": {"type": ["string", "null"], "enum": ["x", null]},
                "any_of": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                "list": {"type": "array", "minItems": 1, "items": {}},
                "when": {"type": "string", "format": "date-time"},
            },
            "required": ["type"],
        });
        assert_eq!(json_schema(schema), expected);
        assert_eq!(json_schema(expected.clone()), expected, "it is one already");
    }
}
