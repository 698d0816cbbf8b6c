//! What a Gemini request says in another form than the other formats: schemas in Google's dialect, calls
//! without ids, seals in signatures, and whole numbers with a fraction.

use super::{
    super::{seals, spelling::spelled},
    call_ids::OpenCalls,
    schema::json_schema,
};
use crate::{
    document::{Kind, Text, Value},
    request::{read::rewrites::Rewrites, write::schema::LONGEST_SCHEMA},
};
use serde_json::json;

pub(crate) fn rewrite(body: Value<'_>) -> Rewrites {
    let mut rewrites = Rewrites::default();
    let tools = list(spelled(body, "tools"));
    for declaration in tools.flat_map(|tool| list(spelled(tool, "functionDeclarations"))) {
        schema(spelled(declaration, "parameters"), &mut rewrites);
    }
    if let Some(config) = spelled(body, "generationConfig") {
        schema(spelled(config, "responseSchema"), &mut rewrites);
        whole_number(spelled(config, "topK"), &mut rewrites);
    }
    contents(body, &mut rewrites);
    rewrites
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
fn whole_number(value: Option<Value<'_>>, rewrites: &mut Rewrites) {
    const MOST: f64 = 1e9;
    let number = value.and_then(|value| Some((value, value.as_f64()?)));
    if let Some((value, number)) = number
        && value.as_u64().is_none()
        && number.fract() == 0.0
        && (0.0..=MOST).contains(&number)
    {
        rewrites.replace(value, &format!("{number:.0}"));
    }
}

/// A schema in Google's dialect becomes a JSON schema.
fn schema(value: Option<Value<'_>>, rewrites: &mut Rewrites) {
    let value = value.filter(|value| value.raw().len() <= LONGEST_SCHEMA);
    let parsed = value.and_then(|value| Some((value, serde_json::from_slice(value.raw()).ok()?)));
    if let Some((value, parsed)) = parsed {
        rewrites.replace(value, &json_schema(parsed).to_string());
    }
}

/// Ids of calls and of their results, and what signatures seal.
fn contents(body: Value<'_>, rewrites: &mut Rewrites) {
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
            signature(part, rewrites);
            match spelled(part, "functionCall") {
                Some(call) if is_model => {
                    calls = calls.saturating_add(1);
                    open.open(call, calls, rewrites);
                }
                _ => responses.extend(spelled(part, "functionResponse")),
            }
        }
        if !is_model {
            open.answer(&responses, rewrites);
        }
    }
}

/// The seals of a signature: a list of states and texts, one after the other.
fn signature(part: Value<'_>, rewrites: &mut Rewrites) {
    let signature = spelled(part, "thoughtSignature");
    let text = signature.and_then(Value::text).map(Text::decode);
    let opened = text.and_then(|text| seals::decode(&text));
    if let Some((signature, seals)) = signature.zip(opened) {
        let flat: Vec<_> = seals
            .into_iter()
            .flat_map(|it| [it.state, it.text])
            .collect();
        rewrites.replace(signature, &json!(flat).to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Document;
    use serde_json::Value as Json;

    fn rewritten(body: &Json) -> Vec<String> {
        let body = body.to_string();
        let document = Document::parse(body.as_bytes()).expect("JSON");
        let rewrites = rewrite(document.root());
        let list = rewrites.document().expect("JSON");
        let values = list.iter().flat_map(|list| list.root().elements());
        let json = values.map(|value| String::from_utf8_lossy(value.raw()).into_owned());
        json.collect()
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
        assert_eq!(rewritten(&body), expected);
    }
}
