//! Responses with parts of one candidate; the last one alone has a finish reason and the usage.

use super::{document, ensure};
use crate::summary::{Summary, of_parts, text};
use serde_json::Value;

pub fn read(events: &[(Option<String>, String)]) -> Result<Summary, String> {
    let mut parts = Vec::new();
    let mut last = Value::Null;
    for (name, data) in events {
        ensure(name.is_none(), || format!("named {name:?}: {data}"))?;
        ensure(last["candidates"][0]["finishReason"].is_null(), || {
            format!("after the end: {data}")
        })?;
        last = document(data)?;
        response(&last, &mut parts).map_err(|complaint| format!("{complaint}: {data}"))?;
    }
    finish(&last, &parts)
}

pub fn body(answer: &Value) -> Result<Summary, String> {
    let mut parts = Vec::new();
    response(answer, &mut parts)?;
    finish(answer, &parts)
}

/// Fails on what Google's SDKs stumble over or do not know.
fn response(response: &Value, parts: &mut Vec<Value>) -> Result<(), String> {
    const KNOWN: [&str; 4] = ["candidates", "usageMetadata", "modelVersion", "responseId"];
    let members = response.as_object().ok_or("no object")?;
    let unknown = members.keys().find(|key| !KNOWN.contains(&key.as_str()));
    ensure(unknown.is_none(), || format!("unknown: {unknown:?}"))?;
    for field in ["modelVersion", "responseId"] {
        ensure(!text(&response[field]).is_empty(), || format!("no {field}"))?;
    }
    let [candidate] = &response["candidates"].as_array().ok_or("no candidates")?[..] else {
        return Err("not one candidate".into());
    };
    ensure(candidate["index"] == 0, || "no index".into())?;
    ensure(candidate["content"]["role"] == "model", || "no role".into())?;
    let list = candidate["content"]["parts"].as_array().ok_or("no parts")?;
    ensure(!list.is_empty(), || "no part".into())?;
    for part in list {
        let kinds = ["text", "functionCall"];
        let kinds = kinds.iter().filter(|kind| !part[**kind].is_null()).count();
        ensure(kinds == 1, || format!("a part of {kinds} kinds: {part}"))?;
        let call = &part["functionCall"];
        let is_whole = call.is_null()
            || call["args"].is_object() && call["name"].is_string() && call["id"].is_string();
        ensure(is_whole, || format!("a call that is not whole: {part}"))?;
        parts.push(part.clone());
    }
    Ok(())
}

fn finish(last: &Value, parts: &[Value]) -> Result<Summary, String> {
    let candidate = &last["candidates"][0];
    let stop = candidate["finishReason"].as_str();
    ensure(stop.is_some(), || "no finish reason".into())?;
    let usage = &last["usageMetadata"];
    Ok(Summary {
        stop: stop.map(str::to_owned),
        usage: (!usage.is_null()).then(|| usage.clone()),
        ..of_parts(parts)
    })
}
