//! Requests with a value of the wrong kind in every place, and with unknown fields: each is
//! translated into well-formed JSON or refused in words, and nothing panics.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::{Value, json};
use std::path::Path;
use tollgate_translate::{Target, request};
use tollgate_types::Format;

/// The representative requests of a format.
fn requests(format: Format) -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/requests")
        .join(format.as_str());
    let files = std::fs::read_dir(folder).unwrap();
    files
        .map(|file| file.unwrap().path())
        .filter(|path| !path.to_string_lossy().contains(".to-"))
        .map(|path| {
            let case: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
            case.get("request").unwrap().clone()
        })
        .collect()
}

/// The places of all values in a document, as JSON pointers.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                let key = key.replace('~', "~0").replace('/', "~1");
                places(member, &format!("{at}/{key}"), found);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                places(item, &format!("{at}/{index}"), found);
            }
        }
        _ => {}
    }
}

fn check(from: Format, body: &Value) {
    let sent = serde_json::to_vec(body).unwrap();
    for to in Format::ALL.into_iter().filter(|to| *to != from) {
        match request(from, to, &sent, &Target::new("m", "backend")) {
            Ok(translated) => {
                let written = serde_json::from_slice::<Value>(&translated.body);
                assert!(
                    written.is_ok(),
                    "{from} to {to} of {body} gave {}",
                    String::from_utf8_lossy(&translated.body)
                );
            }
            Err(refusal) => assert!(!refusal.message.is_empty()),
        }
    }
}

#[test]
fn a_value_of_any_kind_in_any_place_is_carried_or_refused() {
    let strange = [
        json!(null),
        json!(true),
        json!(-1.5e300),
        json!(""),
        json!("\u{0}\u{ffff}😀\"\\"),
        json!([]),
        json!([[]]),
        json!({}),
        json!({"type": "unheard_of", "role": 7}),
    ];
    for format in Format::ALL {
        for body in requests(format) {
            let mut found = Vec::new();
            places(&body, "", &mut found);
            for place in found {
                for value in &strange {
                    let mut changed = body.clone();
                    *changed.pointer_mut(&place).unwrap() = value.clone();
                    check(format, &changed);
                }
            }
        }
    }
}

#[test]
fn an_unknown_field_is_refused_by_name_wherever_the_gateway_looks() {
    let mut refused = 0;
    for format in Format::ALL {
        for body in requests(format) {
            let sent = serde_json::to_vec(&body).unwrap();
            let to = if format == Format::Chat {
                Format::Messages
            } else {
                Format::Chat
            };
            let target = Target::new("m", "backend");
            if request(format, to, &sent, &target).is_err() {
                continue;
            }
            for name in [
                "",
                "/messages/0",
                "/input/0",
                "/tools/0",
                "/tools/0/function",
            ] {
                let mut changed = body.clone();
                let Some(Value::Object(object)) = changed.pointer_mut(name) else {
                    continue;
                };
                // A tool that the target has not is taken out as a whole.
                let is_hosted =
                    |kind: &Value| kind.as_str().is_some_and(|it| it.contains("search"));
                if object.get("type").is_some_and(is_hosted) {
                    continue;
                }
                object.insert("unheard_of".to_owned(), json!(1));
                let sent = serde_json::to_vec(&changed).unwrap();
                match request(format, to, &sent, &target) {
                    Ok(_) => panic!("{format}: an unknown field at '{name}' passed in {changed}"),
                    Err(refusal) => assert!(refusal.path.ends_with("unheard_of"), "{refusal}"),
                }
                refused += 1;
            }
        }
    }
    assert!(refused > 50, "only {refused} were tried");
}

#[test]
fn a_field_that_stands_twice_is_refused() {
    let body = br#"{"model":"a","max_tokens":1,"model":"b","messages":[]}"#;
    let refusal = request(Format::Messages, Format::Chat, body, &Target::new("m", "b"));
    assert_eq!(
        refusal.unwrap_err().to_string(),
        "'model' stands twice in its object"
    );
}

#[test]
fn a_body_that_is_no_json_is_refused_in_words() {
    let refusal = request(
        Format::Chat,
        Format::Messages,
        b"{\"model\":",
        &Target::new("m", "b"),
    );
    assert_eq!(
        refusal.unwrap_err().to_string(),
        "the body is not valid JSON: the document ends before it is complete at byte 9"
    );
}

/// A request with so many of everything that is looked up by name.
fn crowd(format: Format, many: usize) -> Value {
    let names: Vec<_> = (0..many).map(|number| format!("name_{number}")).collect();
    let members: serde_json::Map<_, _> = names
        .iter()
        .map(|name| (name.clone(), json!({"type": "string"})))
        .collect();
    let schema = json!({"type": "object", "properties": members, "required": names, "additionalProperties": false});
    match format {
        Format::Chat => {
            let call = |name: &String| json!({"id": name, "type": "custom", "custom": {"name": name, "input": ""}});
            let answer = |name| json!({"role": "tool", "tool_call_id": name, "content": ""});
            let calls: Vec<_> = names.iter().map(call).collect();
            let mut messages = vec![
                json!({"role": "user", "content": "Go."}),
                json!({"role": "assistant", "tool_calls": calls}),
            ];
            messages.extend(names.iter().rev().map(answer));
            messages.push(json!({"role": "user", "content": "So?"}));
            json!({"model": "m", "messages": messages})
        }
        Format::Responses => json!({"model": "m", "input": "Go.",
            "tools": names.iter().map(|name| json!({"type": "function", "name": name, "parameters": null, "strict": true})).collect::<Vec<_>>(),
            "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": names.iter().map(|name| json!({"type": "function", "name": name})).collect::<Vec<_>>()},
        }),
        Format::Messages => json!({"model": "m", "max_tokens": 99,
            "messages": [{"role": "user", "content": "Go."}],
            "tools": [{"name": "one", "strict": true, "input_schema": schema}],
        }),
    }
}

#[test]
fn a_crowd_of_names_is_dealt_with_in_bounded_time() {
    const MANY: usize = 50_000;
    // Work that grows with the square of it takes longer even on a quick machine.
    const BOUND: std::time::Duration = std::time::Duration::from_secs(10);
    for format in Format::ALL {
        let body = crowd(format, MANY);
        let begun = std::time::Instant::now();
        check(format, &body);
        assert!(begun.elapsed() < BOUND, "{format}: {:?}", begun.elapsed());
    }
}
