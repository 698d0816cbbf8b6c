//! A value that satisfies a JSON Schema: what a model with structured output would
//! answer, and the arguments that it would call a tool with.
//!
//! Covers the part of JSON Schema that the providers accept for structured output, and
//! local references. What it does not know (a `pattern`, say) it passes over.

use serde_json::{Map, Value, json};
use std::cell::Cell;

/// How deep a schema may refer to itself before the value ends with `null`.
const DEEPEST: usize = 12;
/// How many values one instance may hold: a schema that refers to itself twice doubles
/// at every level.
const LARGEST: u32 = 4096;

/// A value that satisfies `schema`. Free strings are made from `gist`; `variant` makes
/// the value of one call differ from the next.
pub(crate) fn instance(schema: &Value, gist: &str, variant: usize) -> Value {
    let budget = Cell::new(LARGEST);
    Maker {
        root: schema,
        gist,
        variant,
        budget,
    }
    .value(schema, 0)
}

struct Maker<'a> {
    root: &'a Value,
    gist: &'a str,
    variant: usize,
    budget: Cell<u32>,
}

impl Maker<'_> {
    fn value(&self, schema: &Value, depth: usize) -> Value {
        if depth > DEEPEST || self.budget.get() == 0 {
            return Value::Null;
        }
        self.budget.set(self.budget.get() - 1);
        if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
            let target = target
                .strip_prefix('#')
                .and_then(|path| self.root.pointer(path));
            return target.map_or(Value::Null, |target| self.value(target, depth + 1));
        }
        if let Some(only) = schema.get("const").or_else(|| schema.get("default")) {
            return only.clone();
        }
        if let Some(choices) = schema.get("enum").and_then(Value::as_array) {
            let at = self.variant.checked_rem(choices.len()).unwrap_or_default();
            return choices.get(at).cloned().unwrap_or(Value::Null);
        }
        for key in ["anyOf", "oneOf"] {
            if let Some(choice) = schema.get(key).and_then(|all| all.get(0)) {
                return self.value(choice, depth + 1);
            }
        }
        if let Some(parts) = schema.get("allOf").and_then(Value::as_array) {
            return self.merged(schema, parts, depth);
        }
        self.typed(schema, depth)
    }

    fn typed(&self, schema: &Value, depth: usize) -> Value {
        match type_of(schema) {
            "object" => self.object(schema, depth),
            "array" => self.array(schema, depth),
            "integer" => json!(self.integer(schema)),
            "number" => json!(bound(schema, "minimum", "exclusiveMinimum", 0.5).unwrap_or(1.5)),
            "boolean" => Value::Bool(true),
            "null" => Value::Null,
            _ => Value::String(self.string(schema)),
        }
    }

    fn merged(&self, schema: &Value, parts: &[Value], depth: usize) -> Value {
        let mut whole = Map::new();
        for part in parts.iter().chain([schema]) {
            match self.typed_part(part, depth) {
                Value::Object(fields) => whole.extend(fields),
                other => return other,
            }
        }
        Value::Object(whole)
    }

    fn typed_part(&self, part: &Value, depth: usize) -> Value {
        if part.get("allOf").is_some() {
            return self.typed(part, depth + 1);
        }
        self.value(part, depth + 1)
    }

    fn object(&self, schema: &Value, depth: usize) -> Value {
        let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
            return json!({});
        };
        let required = schema.get("required").and_then(Value::as_array);
        let wanted = |name: &String| {
            required.is_none_or(|names| names.iter().any(|wanted| wanted == name.as_str()))
        };
        let fields = properties.iter().filter(|(name, _)| wanted(name));
        Value::Object(
            fields
                .map(|(name, part)| (name.clone(), self.value(part, depth + 1)))
                .collect(),
        )
    }

    fn array(&self, schema: &Value, depth: usize) -> Value {
        let at_least = schema.get("minItems").and_then(Value::as_u64).unwrap_or(1);
        let at_most = schema.get("maxItems").and_then(Value::as_u64).unwrap_or(16);
        let any = json!({"type": "string"});
        let item = schema.get("items").unwrap_or(&any);
        (0..at_least.min(at_most).min(16))
            .map(|_| self.value(item, depth + 1))
            .collect()
    }

    fn integer(&self, schema: &Value) -> i64 {
        let least = bound(schema, "minimum", "exclusiveMinimum", 1.0);
        let most = bound(schema, "maximum", "exclusiveMaximum", -1.0);
        let chosen = least.map_or(1.0, f64::ceil) + self.variant as f64;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "`as` saturates; any integer will do"
        )]
        let chosen = most.map_or(chosen, |most| chosen.min(most.floor())) as i64;
        chosen
    }

    fn string(&self, schema: &Value) -> String {
        let text = match schema.get("format").and_then(Value::as_str) {
            Some("date") => "2026-01-01".to_owned(),
            Some("date-time") => "2026-01-01T00:00:00Z".to_owned(),
            Some("time") => "00:00:00Z".to_owned(),
            Some("email") => "someone@example.com".to_owned(),
            Some("uri" | "url") => "https://example.com/".to_owned(),
            Some("uuid") => "00000000-0000-4000-8000-000000000000".to_owned(),
            Some(_) | None if self.variant == 0 => self.gist.to_owned(),
            Some(_) | None => format!("{} ({})", self.gist, self.variant + 1),
        };
        self.fitted(schema, text)
    }

    fn fitted(&self, schema: &Value, mut text: String) -> String {
        let limit = |key| {
            schema
                .get(key)
                .and_then(Value::as_u64)
                .and_then(|n| usize::try_from(n).ok())
        };
        let (least, most) = (
            limit("minLength").unwrap_or(0).min(4096),
            limit("maxLength"),
        );
        while text.chars().count() < least {
            text.push('.');
        }
        match most {
            Some(most) => text.chars().take(most).collect(),
            None => text,
        }
    }
}

fn type_of(schema: &Value) -> &str {
    let named = match schema.get("type") {
        Some(Value::Array(all)) => all
            .iter()
            .filter_map(Value::as_str)
            .find(|name| *name != "null"),
        Some(one) => one.as_str(),
        None => None,
    };
    let implied = if schema.get("properties").is_some() {
        "object"
    } else {
        "string"
    };
    named.unwrap_or(implied)
}

fn bound(schema: &Value, inclusive: &str, exclusive: &str, step: f64) -> Option<f64> {
    let number = |key| schema.get(key).and_then(Value::as_f64);
    number(inclusive).or_else(|| number(exclusive).map(|edge| edge + step))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_has_the_required_fields_in_their_types_and_bounds() {
        let schema = json!({
            "type": "object",
            "properties": {
                "city": {"type": "string", "maxLength": 6},
                "unit": {"enum": ["c", "f"]},
                "days": {"type": "integer", "minimum": 3, "maximum": 3},
                "when": {"$ref": "#/$defs/when"},
                "tags": {"type": "array", "items": {"type": "boolean"}, "minItems": 2},
                "note": {"anyOf": [{"type": "null"}, {"type": "string"}]},
                "spare": {"type": "string"},
            },
            "required": ["city", "unit", "days", "when", "tags", "note"],
            "$defs": {"when": {"type": ["string", "null"], "format": "date"}},
        });
        assert_eq!(
            instance(&schema, "Rome", 0),
            json!({"city": "Rome", "unit": "c", "days": 3, "when": "2026-01-01",
                   "tags": [true, true], "note": null})
        );
        assert_eq!(instance(&schema, "Rome", 1)["unit"], "f");
    }

    #[test]
    fn a_schema_that_contains_itself_ends() {
        let schema = json!({
            "type": "object",
            "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}},
        });
        assert!(instance(&schema, "x", 0).to_string().len() < 200_000);
    }
}
