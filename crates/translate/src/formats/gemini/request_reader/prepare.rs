//! The parts of a Gemini request with another form than in the other formats: schemas in Google's dialect,
//! calls without ids, seals in signatures, and whole numbers with a fraction.

use super::super::{
    seals,
    spelling::{camel, spelled},
};
use crate::{
    document::{Kind, Text, Value},
    request::{read::made::Supplement, write::schema::LONGEST_SCHEMA},
};
use serde_json::{Map, Value as Json, json};
use std::{
    borrow::Cow,
    collections::{HashMap, VecDeque},
};

pub(crate) fn prepare(body: Value<'_>) -> Supplement {
    let mut made = Supplement::default();
    let tools = list(spelled(body, "tools"));
    for declaration in tools.flat_map(|tool| list(spelled(tool, "functionDeclarations"))) {
        schema(spelled(declaration, "parameters"), &mut made);
    }
    if let Some(config) = spelled(body, "generationConfig") {
        schema(spelled(config, "responseSchema"), &mut made);
        whole_number(spelled(config, "topK"), &mut made);
    }
    contents(body, &mut made);
    made
}

fn list(value: Option<Value<'_>>) -> impl Iterator<Item = Value<'_>> {
    value.into_iter().flat_map(Value::elements)
}

/// The elements of a list of parts, or the part that stands for one.
pub(super) fn parts(value: Value<'_>) -> impl Iterator<Item = Value<'_>> {
    let single = (value.kind() == Kind::Object).then_some(value);
    value.elements().chain(single)
}

/// Google's SDKs write whole numbers as `40.0`.
fn whole_number(value: Option<Value<'_>>, made: &mut Supplement) {
    const MOST: f64 = 1e9;
    let number = value.and_then(|value| Some((value, value.as_f64()?)));
    if let Some((value, number)) = number
        && value.as_u64().is_none()
        && number.fract() == 0.0
        && (0.0..=MOST).contains(&number)
    {
        made.add(value, &format!("{number:.0}"));
    }
}

/// A schema in Google's dialect becomes a JSON schema.
fn schema(value: Option<Value<'_>>, made: &mut Supplement) {
    let value = value.filter(|value| value.raw().len() <= LONGEST_SCHEMA);
    let parsed = value.and_then(|value| Some((value, serde_json::from_slice(value.raw()).ok()?)));
    if let Some((value, parsed)) = parsed {
        made.add(value, &json_schema(parsed).to_string());
    }
}

fn json_schema(schema: Json) -> Json {
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

/// The calls of an answer that have no result yet.
#[derive(Default)]
struct OpenCalls<'d> {
    /// The id of each as JSON; `None` once it is answered.
    ids: Vec<Option<String>>,
    by_id: HashMap<Cow<'d, str>, usize>,
    /// Those of one name, in order; with whether the call itself has an id.
    by_name: HashMap<Cow<'d, str>, VecDeque<(usize, bool)>>,
}

impl<'d> OpenCalls<'d> {
    /// A call without an id gets one by its place, so that it is the same in the next request.
    fn open(&mut self, call: Value<'d>, number: u64, made: &mut Supplement) {
        let place = self.ids.len();
        let id = id_of(call);
        self.ids.push(Some(match id {
            Some(id) => format!("\"{}\"", String::from_utf8_lossy(id.json())),
            None => format!("\"call_without_id_{number}\""),
        }));
        match (id, self.ids.last()) {
            (Some(id), _) => drop(self.by_id.insert(id.decode(), place)),
            (None, Some(Some(id))) => made.add(call, id),
            (None, _) => {}
        }
        let named = self.by_name.entry(name_of(call)).or_default();
        named.push_back((place, id.is_some()));
    }

    /// Finds the calls that results answer: by their ids, and then by their names in order.
    fn answer(&mut self, responses: &[Value<'d>], made: &mut Supplement) {
        let mut others = Vec::new();
        for response in responses {
            let named = id_of(*response).and_then(|id| self.by_id.get(&id.decode()).copied());
            match named.and_then(|place| self.ids.get_mut(place)) {
                Some(id) => *id = None,
                None => others.push(*response),
            }
        }
        for response in others {
            if let Some(id) = self.next_of(response) {
                made.add(response, &id);
            }
        }
    }

    /// The first open call of a result's name. A result with the id of another call is refused later.
    fn next_of(&mut self, response: Value<'d>) -> Option<String> {
        let named = self.by_name.get_mut(&name_of(response))?;
        let has_id = id_of(response).is_some();
        while let Some((place, is_identified)) = named.front() {
            let id = self.ids.get_mut(*place)?;
            if id.is_some() && has_id && *is_identified {
                return None;
            }
            named.pop_front();
            if id.is_some() {
                return id.take();
            }
        }
        None
    }
}

/// Ids of calls and of their results, and what signatures seal.
fn contents(body: Value<'_>, made: &mut Supplement) {
    let mut open = OpenCalls::default();
    let mut calls = 0_u64;
    let mut was_model = false;
    for content in list(spelled(body, "contents")) {
        let role = spelled(content, "role").and_then(Value::text);
        let is_model = role.is_some_and(|role| role.is("model"));
        if is_model && !was_model {
            open = OpenCalls::default();
        }
        was_model = is_model;
        let mut responses = Vec::new();
        for part in spelled(content, "parts").into_iter().flat_map(parts) {
            signature(part, made);
            match spelled(part, "functionCall") {
                Some(call) if is_model => {
                    calls = calls.saturating_add(1);
                    open.open(call, calls, made);
                }
                _ => responses.extend(spelled(part, "functionResponse")),
            }
        }
        if !is_model {
            open.answer(&responses, made);
        }
    }
}

fn id_of(value: Value<'_>) -> Option<Text<'_>> {
    let id = spelled(value, "id").and_then(Value::text);
    id.filter(|id| !id.is_empty())
}

fn name_of(value: Value<'_>) -> Cow<'_, str> {
    let name = spelled(value, "name").and_then(Value::text);
    name.map(Text::decode).unwrap_or_default()
}

/// The seals of a signature: a list of states and texts, one after the other.
fn signature(part: Value<'_>, made: &mut Supplement) {
    let signature = spelled(part, "thoughtSignature");
    let text = signature.and_then(Value::text).map(Text::decode);
    let opened = text.and_then(|text| seals::decode(&text));
    if let Some((signature, seals)) = signature.zip(opened) {
        let flat: Vec<_> = seals
            .into_iter()
            .flat_map(|it| [it.state, it.text])
            .collect();
        made.add(signature, &json!(flat).to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;

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

    fn made(body: &Json) -> Vec<String> {
        let body = body.to_string();
        let document = Document::parse(body.as_bytes()).expect("JSON");
        let (list, _) = prepare(document.root()).into_list();
        let list: Json = serde_json::from_str(&list.unwrap_or("[]".to_owned())).expect("a list");
        let list = list.as_array().cloned().unwrap_or_default();
        list.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn results_without_ids_answer_the_calls_of_their_names_in_order() {
        let call = |name: &str| json!({"functionCall": {"name": name}});
        let result = |name: &str| json!({"function_response": {"name": name, "response": {}}});
        let named = |id: &str| json!({"functionCall": {"name": "a", "id": id}});
        let body = json!({"contents": [
            {"role": "model", "parts": [call("a"), call("b")]},
            {"role": "model", "parts": call("a")},
            {"role": "user", "parts": [result("b"), result("a"), result("a"), result("a")]},
            {"role": "model", "parts": [named("x"), named("y")]},
            {"role": "user", "parts": [
                result("a"), {"functionResponse": {"id": "x", "name": "a", "response": {}}},
            ]},
        ]});
        let ids = |numbers: &[u8]| -> Vec<_> {
            let ids = numbers.iter().map(|it| format!("\"call_without_id_{it}\""));
            ids.collect()
        };
        let mut expected = ids(&[1, 2, 3, 2, 1, 3]);
        expected.push("\"y\"".to_owned());
        assert_eq!(made(&body), expected);
    }
}
