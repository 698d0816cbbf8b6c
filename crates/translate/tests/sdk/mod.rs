//! Whether a request body has only fields that the official SDK of its format knows, in the
//! places where it knows them.

use serde_json::Value;
use tollgate_types::Format;

/// What the API of messages takes and the newest SDK has no field for.
const SAMPLING: [&str; 3] = ["temperature", "top_p", "top_k"];
/// What the documentation of responses has of a search, and the newest SDK has no field for.
const BLOCKED: (&str, &str) = ("tools[].filters", "blocked_domains");

/// Fails on a field that the SDK does not know.
pub fn assert_known(format: Format, body: &Value) {
    let all: Value = serde_json::from_str(include_str!("../../sdk/fields.json")).unwrap();
    assert_object(format, all.get(format.as_str()).unwrap(), "", body, body);
}

fn assert_object(format: Format, sdk: &Value, at: &str, value: &Value, body: &Value) {
    /// A JSON schema, of which the SDK's type names a few members.
    const SCHEMA: &str = "tools[].input_schema";
    let Value::Object(members) = value else {
        return;
    };
    if at == SCHEMA {
        return;
    }
    let kinds = sdk.get(at).unwrap_or(&Value::Null);
    let tag = |name: &str| kinds.get(members.get(name)?.as_str()?);
    // A message of responses may leave its type out.
    let message = || {
        kinds
            .get("message")
            .filter(|_| members.contains_key("role"))
    };
    let fields = tag("type")
        .or_else(|| tag("role"))
        .or_else(message)
        .or_else(|| kinds.get(""));
    // A tool of messages that is the caller's own has no type.
    let fields = fields.or_else(|| kinds.get("custom"));
    let fields = fields.unwrap_or_else(|| panic!("{format}: no such object at '{at}': {value}"));
    for (name, member) in members {
        let is_extra = match format {
            Format::Messages => at.is_empty() && SAMPLING.contains(&name.as_str()),
            Format::Responses => (at, name.as_str()) == BLOCKED,
            Format::Chat | Format::Gemini | Format::Converse => false,
            Format::Embeddings | Format::Rerank => unreachable!("no conversation"),
        };
        if is_extra {
            continue;
        }
        let held = fields.get(name);
        let held = held.unwrap_or_else(|| panic!("{format}: no '{name}' at '{at}' in {body:#}"));
        if held.as_array().is_some_and(Vec::is_empty) {
            continue;
        }
        let inner = match at {
            "" => name.clone(),
            _ => format!("{at}.{name}"),
        };
        match member {
            Value::Array(items) => {
                for item in items {
                    assert_object(format, sdk, &format!("{inner}[]"), item, body);
                }
            }
            member => assert_object(format, sdk, &inner, member, body),
        }
    }
}
