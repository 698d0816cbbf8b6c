//! Requests with a value of the wrong kind in every place, and with unknown fields: each is
//! translated into well-formed JSON or refused in words, and nothing panics.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::path::Path;
use tollgate_translate::{
    Lossy, Strict, Target, request,
    seal::{Backend, ReasoningForm, seal},
    table::{Shape, shapes},
};
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
    for to in Format::OF_CONVERSATIONS
        .into_iter()
        .filter(|to| *to != from)
    {
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
    for format in Format::OF_CLIENTS {
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

/// Requests that have objects at places which few clients use.
fn rare() -> [(Format, Value); 3] {
    let text = json!({"type": "text", "text": "T", "cache_control": {"type": "ephemeral"}});
    let texts = json!([text]);
    let image = json!({"type": "image", "source": {"type": "url", "url": "https://a.example/b"}});
    let data = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}});
    let document = json!({"type": "document", "title": "D", "citations": {"enabled": false},
        "source": {"type": "content", "content": [text, image, data]}});
    let found = json!({"type": "search_result", "title": "F", "source": "s", "content": texts,
        "citations": {"enabled": false}, "cache_control": {"type": "ephemeral"}});
    let messages = json!({"model": "m", "max_tokens": 99, "system": texts,
    "tools": [{"name": "f", "input_schema": {"type": "object"}}],
    "messages": [
        {"role": "user", "content": [document, found]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c",
            "content": [text, image, data, document, found, {"type": "tool_reference", "tool_name": "g"}]}]},
    ]});
    let responses = json!({"model": "m", "metadata": {"a": "b"},
    "tools": [
        {"type": "function", "name": "f", "parameters": null, "strict": null},
        {"type": "custom", "name": "c", "format": {"type": "grammar", "syntax": "lark", "definition": "d"}},
        {"type": "namespace", "name": "n", "description": "N", "tools": [
            {"type": "custom", "name": "d", "format": {"type": "text"}}]},
    ],
    "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [
        {"type": "function", "name": "f"}, {"type": "custom", "name": "c"}]},
    "input": [
        {"role": "user", "content": "Hi."},
        {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "S"}],
         "content": [{"type": "reasoning_text", "text": "T"}]},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": [
            {"type": "input_text", "text": "R", "prompt_cache_breakpoint": {"mode": "explicit"}}]},
    ]});
    let chat = json!({"model": "m", "messages": [{"role": "user", "content": "Hi."}], "top_k": 5,
        "tools": [
            {"type": "function", "function": {"name": "f"}, "cache_control": {"type": "ephemeral"}},
            {"type": "custom", "custom": {"name": "c", "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": "d"}}}},
        ],
        "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [
            {"type": "function", "function": {"name": "f"}}, {"type": "custom", "custom": {"name": "c"}}]}}});
    [
        (Format::Chat, chat),
        (Format::Responses, responses),
        (Format::Messages, messages),
    ]
}

/// A path in camel case.
fn camel(path: &str) -> String {
    let mut words = path.split('_');
    let first = words.next().unwrap().to_owned();
    words.fold(first, |camel, word| {
        let (letter, rest) = word.split_at(word.len().min(1));
        camel + &letter.to_uppercase() + rest
    })
}

/// Whether the table has a row for a path, or for one that holds it as a whole.
fn has_row(format: Format, path: &str) -> bool {
    let path = match format {
        // Google reads either spelling.
        Format::Gemini => &camel(path),
        _ => path,
    };
    let path = path.trim_end_matches("[]");
    let (place, name) = path.rsplit_once('.').unwrap_or(("", path));
    let at = |shape: &&Shape| shape.at.contains(&place);
    let mut here = shapes(format).filter(at);
    if here.any(|shape| shape.row(name).is_some()) {
        return true;
    }
    // An ancestor that is passed on as a whole.
    let mut parent = place.trim_end_matches("[]");
    while !parent.is_empty() {
        let (place, name) = parent.rsplit_once('.').unwrap_or(("", parent));
        let here = shapes(format).filter(|shape| shape.at.contains(&place));
        if here
            .filter_map(|shape| shape.row(name))
            .any(|(_, row)| row.whole)
        {
            return true;
        }
        parent = place.trim_end_matches("[]");
    }
    false
}

#[test]
fn every_value_that_passes_has_a_row_in_the_table_whatever_its_kind() {
    let kinds = [
        json!(true),
        json!(0.5),
        json!("words"),
        json!(["words"]),
        json!({"type": "text", "text": "words"}),
    ];
    let mut tried = 0;
    let mut without = std::collections::BTreeSet::new();
    let representative = Format::OF_CLIENTS
        .into_iter()
        .flat_map(|format| requests(format).into_iter().map(move |body| (format, body)));
    for (format, body) in representative.chain(rare()) {
        let mut found = Vec::new();
        places(&body, "", &mut found);
        for (place, kind) in found
            .iter()
            .flat_map(|place| kinds.iter().map(move |kind| (place, kind)))
        {
            let mut changed = body.clone();
            *changed.pointer_mut(place).unwrap() = kind.clone();
            let sent = serde_json::to_vec(&changed).unwrap();
            let path = path_of(place);
            for to in Format::OF_CONVERSATIONS
                .into_iter()
                .filter(|to| *to != format)
            {
                tried += 1;
                let Ok(translated) = request(format, to, &sent, &Target::new("m", "backend"))
                else {
                    continue;
                };
                let is_named = translated
                    .dropped
                    .iter()
                    .any(|it| it.starts_with(&path) || path.starts_with(it.trim_end_matches('*')));
                let is_whole = translated.dropped.contains(&kind_around(&body, place));
                if !is_named && !is_whole && !path.is_empty() && !has_row(format, &path) {
                    without.insert(format!("{format}: {path} ({kind})"));
                }
            }
        }
    }
    assert!(tried > 10_000, "only {tried} were tried");
    assert!(without.is_empty(), "{without:#?}");
}

/// The path of the kind of object that holds the value at a place.
fn kind_around(body: &Value, place: &str) -> String {
    let around = place.rsplit_once('/').map_or("", |(around, _)| around);
    let kind = body.pointer(around).and_then(|around| around.get("type"));
    let kind = kind.and_then(Value::as_str).unwrap_or_default();
    format!("{}.{kind}", path_of(around))
}

/// A JSON pointer as the table writes it: `/messages/0/content` is `messages[].content`.
fn path_of(pointer: &str) -> String {
    let mut path = String::new();
    for step in pointer.split('/').skip(1) {
        if step.bytes().all(|byte| byte.is_ascii_digit()) {
            path.push_str("[]");
        } else {
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(step);
        }
    }
    path
}

#[test]
fn rare_places_translate_and_take_no_value_of_another_kind() {
    for (format, body) in rare() {
        let sent = serde_json::to_vec(&body).unwrap();
        for to in Format::OF_CONVERSATIONS
            .into_iter()
            .filter(|to| *to != format)
        {
            let lossy = ["top_k".to_owned()];
            let target = Target {
                lossy: Lossy(&lossy),
                ..Target::new("m", "backend")
            };
            if let Err(refusal) = request(format, to, &sent, &target) {
                let refusal = refusal.to_string();
                // No address is fetched for Converse.
                let is_address = to == Format::Converse && refusal.contains("by its address");
                assert!(is_address, "{format} to {to}: {refusal}");
            }
        }
    }
    for kind in [json!("5"), json!([5]), json!({"a": 5}), json!(true)] {
        let body =
            json!({"model": "m", "messages": [{"role": "user", "content": "Hi."}], "top_k": kind});
        let sent = serde_json::to_vec(&body).unwrap();
        let refusal = request(
            Format::Chat,
            Format::Messages,
            &sent,
            &Target::new("m", "backend"),
        );
        assert_eq!(refusal.unwrap_err().path, "top_k", "{kind}");
    }
}

/// Each representative request with an unknown field in an object at one of `places`, with the
/// value of that object's `type`, as far as the request can be translated to `to`.
fn with_unknown(places: &[&str], to: fn(Format) -> Format) -> Vec<(Format, String, Value)> {
    let mut changed = Vec::new();
    for format in Format::OF_CLIENTS {
        for body in requests(format) {
            let sent = serde_json::to_vec(&body).unwrap();
            let target = Target::new("m", "backend");
            if request(format, to(format), &sent, &target).is_err() {
                continue;
            }
            for place in places {
                let mut body = body.clone();
                let Some(Value::Object(object)) = body.pointer_mut(place) else {
                    continue;
                };
                // A tool that the target has not is taken out as a whole.
                let is_hosted =
                    |kind: &Value| kind.as_str().is_some_and(|it| it.contains("search"));
                if object.get("type").is_some_and(is_hosted) {
                    continue;
                }
                object.insert("unheard_of".to_owned(), json!("hidden words"));
                changed.push((format, (*place).to_owned(), body));
            }
        }
    }
    changed
}

const fn another(format: Format) -> Format {
    match format {
        Format::Chat => Format::Messages,
        _ => Format::Chat,
    }
}

#[test]
fn an_unknown_field_of_the_whole_request_is_refused_by_name() {
    let changed = with_unknown(&[""], another);
    assert!(changed.len() > 20, "only {} were tried", changed.len());
    for (format, _, body) in changed {
        let sent = serde_json::to_vec(&body).unwrap();
        let target = Target::new("m", "backend");
        let refusal =
            request(format, another(format), &sent, &target).expect_err("an unknown field");
        assert_eq!(refusal.path, "unheard_of", "{refusal}");
    }
}

#[test]
fn an_unknown_field_below_is_dropped_with_notice_unless_the_operator_refuses_it() {
    let places = [
        "/messages/0",
        "/input/0",
        "/contents/0",
        "/contents/0/parts/0",
        "/generationConfig",
        "/tools/0",
        "/tools/0/function",
    ];
    let changed = with_unknown(&places, another);
    assert!(changed.len() > 40, "only {} were tried", changed.len());
    for (format, place, body) in changed {
        let sent = serde_json::to_vec(&body).unwrap();
        let to = another(format);
        let translated = request(format, to, &sent, &Target::new("m", "backend"));
        let translated = translated.unwrap_or_else(|refusal| panic!("{place}: {refusal}: {body}"));
        let path = place
            .replace("/0", "[]")
            .replacen('/', "", 1)
            .replace('/', ".")
            + ".unheard_of";
        assert!(
            translated.dropped.contains(&path),
            "{path}: {:?}",
            translated.dropped
        );
        let written = String::from_utf8(translated.body.to_vec()).unwrap();
        assert!(!written.contains("hidden words"), "{written}");

        let any = path.replace("unheard_of", "*");
        for listed in [path.clone(), any] {
            let listed = [listed];
            let target = Target {
                strict: Strict(&listed),
                ..Target::new("m", "backend")
            };
            let refusal = request(format, to, &sent, &target).expect_err("a strict field");
            let (at, _) = path.rsplit_once('.').unwrap();
            assert!(refusal.path.starts_with(at), "{path}: {refusal}");
        }
    }
}

#[test]
fn dropped_fields_are_refused_if_the_operator_lists_them() {
    let body =
        br#"{"model":"m","seed":7,"messages":[{"role":"user","name":"ada","content":"Hi."}]}"#;
    for listed in ["seed", "messages[].name"] {
        let strict = [listed.to_owned()];
        let target = Target {
            strict: Strict(&strict),
            ..Target::new("m", "backend")
        };
        let refusal = request(Format::Chat, Format::Messages, body, &target);
        assert_eq!(refusal.unwrap_err().path, listed);
    }
}

#[test]
fn the_notice_of_unknown_fields_is_bounded_whatever_their_names() {
    let mut message = json!({"role": "user", "content": "Hi."});
    let members = message.as_object_mut().unwrap();
    for number in 0..20_000 {
        members.insert(format!("field_{number}"), json!("hidden words"));
    }
    for name in [
        "line\r\nbreak: 1",
        "a, b",
        "\u{e9}",
        "",
        &"long".repeat(100),
    ] {
        members.insert(name.to_owned(), json!(1));
    }
    let body = serde_json::to_vec(&json!({"model": "m", "messages": [message]})).unwrap();
    let begun = std::time::Instant::now();
    let translated = request(
        Format::Chat,
        Format::Messages,
        &body,
        &Target::new("m", "backend"),
    );
    let dropped = translated.unwrap().dropped;
    assert!(begun.elapsed().as_secs() < 5, "{:?}", begun.elapsed());
    let notice = dropped.join(", ");
    assert!(notice.len() < 2048, "{notice}");
    assert!(
        dropped.iter().any(|path| path == "messages[].*"),
        "{notice}"
    );
    assert!(dropped.len() == 17, "{notice}");
    let is_plain = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
    assert!(notice.bytes().all(is_plain), "{notice}");
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
fn a_chat_message_without_content_is_refused_by_name() {
    for role in ["system", "developer", "user"] {
        for to in [Format::Responses, Format::Messages] {
            let message = json!({"role": role, "contents": "Hi."});
            let body =
                json!({"model": "m", "messages": [{"role": "user", "content": "Hi."}, message]});
            let sent = serde_json::to_vec(&body).unwrap();
            let refusal = request(Format::Chat, to, &sent, &Target::new("m", "b"));
            assert_eq!(
                refusal.unwrap_err().to_string(),
                "'messages[1].content' is missing",
                "{role} to {to}"
            );
        }
    }
}

#[test]
fn a_conversation_of_which_nothing_is_left_is_refused_by_name() {
    let chat = |message: Value| (Format::Chat, json!({"model": "m", "messages": [message]}));
    let messages = json!({"model": "m", "max_tokens": 9, "system": "Be kind.",
        "messages": [{"role": "user", "content": []}]});
    for (from, body) in [
        chat(json!({"role": "user", "content": []})),
        (Format::Messages, messages),
    ] {
        for to in Format::OF_CONVERSATIONS
            .into_iter()
            .filter(|to| *to != from)
        {
            let sent = serde_json::to_vec(&body).unwrap();
            let translated = request(from, to, &sent, &Target::new("m", "b"));
            if (from, to) == (Format::Messages, Format::Chat) {
                // There the instructions are a message.
                assert!(translated.is_ok(), "{translated:?}");
                continue;
            }
            assert_eq!(
                translated.unwrap_err().to_string(),
                "'messages' must hold a message with content for this model",
                "{from} to {to}"
            );
        }
    }
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
        Format::Gemini => {
            let call = |name: &String| json!({"functionCall": {"name": name}});
            let answer =
                |name: &String| json!({"functionResponse": {"name": name, "response": {}}});
            json!({"contents": [
                {"parts": [{"text": "Go."}]},
                {"role": "model", "parts": names.iter().map(call).collect::<Vec<_>>()},
                {"parts": names.iter().rev().map(answer).collect::<Vec<_>>()},
            ], "tools": [{"functionDeclarations": [{"name": "one", "parameters": schema}]}]})
        }
        Format::Converse => unreachable!("no client speaks it"),
        Format::Messages => json!({"model": "m", "max_tokens": 99,
            "messages": [{"role": "user", "content": "Go."}],
            "tools": [{"name": "one", "strict": true, "input_schema": schema}],
        }),
        Format::Embeddings | Format::Rerank => unreachable!("no conversation"),
    }
}

/// Messages requests with so many blocks or tools that comparing each with all others would be too slow.
fn crowds_of_blocks(many: usize) -> [(&'static str, Value); 6] {
    let user = json!({"role": "user", "content": "Go."});
    let answer = |blocks: Vec<Value>| {
        let answer = json!({"role": "assistant", "content": blocks});
        json!({"model": "m", "max_tokens": 99, "messages": [user, answer, user]})
    };
    let repeated = |block: Value| vec![block; 2 * many];
    let thoughts = || repeated(json!({"type": "redacted_thinking", "data": "a"}));
    let said = json!({"type": "text", "text": "Well."});
    let silent = repeated(json!({"type": "text", "text": ""}));
    let call =
        |id: &str| json!({"type": "server_tool_use", "id": id, "name": "web_search", "input": {}});
    let result = |id: &str, content: &str| {
        let page = json!({"type": "web_search_result", "url": "https://a.example", "title": "T", "encrypted_content": content});
        json!({"type": "web_search_tool_result", "tool_use_id": id, "content": [page]})
    };
    let sealed = format!("tg1.{}", "A".repeat(1_390_000));
    let ids: Vec<_> = (0..many).map(|number| format!("id_{number}")).collect();
    let calls = ids.iter().map(|id| call(id));
    let results = ids.iter().rev().map(|id| result(id, "tg1.A"));
    let with_tools = |messages: Value, choice: Value| {
        let tools = ids
            .iter()
            .map(|id| json!({"name": id, "input_schema": {"type": "object"}}));
        let tools: Vec<_> = tools.collect();
        json!({"model": "m", "max_tokens": 99, "tools": tools, "tool_choice": choice, "messages": messages})
    };
    let removal = |name: &str| json!({"type": "tool_removal", "tool": {"type": "tool_reference", "name": name}});
    let removals: Vec<_> = ids
        .iter()
        .rev()
        .map(|id| removal(&format!("{id}_")))
        .collect();
    let system = json!({"role": "system", "content": removals});
    // Each character is escaped.
    let chosen = json!({"type": "tool", "name": "\n".repeat(500_000)});
    [
        (
            "thoughts",
            answer([thoughts(), vec![said.clone()]].concat()),
        ),
        (
            "thoughts and empty texts",
            answer([thoughts(), silent].concat()),
        ),
        (
            "thoughts before a large search",
            answer([thoughts(), vec![call("s"), result("s", &sealed), said]].concat()),
        ),
        ("searches", answer(calls.chain(results).collect())),
        (
            "removed tools",
            with_tools(json!([user, system, user]), json!({"type": "auto"})),
        ),
        ("a long choice", with_tools(json!([user]), chosen)),
    ]
}

#[test]
fn a_crowd_of_names_is_dealt_with_in_bounded_time() {
    const MANY: usize = 50_000;
    // Work that grows with the square of it takes longer even on a quick machine.
    const BOUND: std::time::Duration = std::time::Duration::from_secs(10);
    let of_formats = Format::OF_CLIENTS
        .into_iter()
        .map(|format| (format, "names", crowd(format, MANY)));
    let of_blocks = crowds_of_blocks(MANY)
        .into_iter()
        .map(|(name, body)| (Format::Messages, name, body));
    for (format, name, body) in of_formats.chain(of_blocks) {
        let begun = std::time::Instant::now();
        check(format, &body);
        assert!(
            begun.elapsed() < BOUND,
            "{format}, {name}: {:?}",
            begun.elapsed()
        );
    }
}

#[test]
fn a_tool_is_taken_away_until_it_is_offered_again() {
    let definition = |name: &str| json!({"name": name, "input_schema": {"type": "object"}});
    let removal = |name: &str| json!({"type": "tool_removal", "tool": {"type": "tool_reference", "name": name}});
    let addition = |name: &str| json!({"type": "tool_addition", "tool": {"type": "tool_definition", "definition": definition(name)}});
    let tools = ["a", "b", "c", "d"].map(definition);
    let changes = [
        removal("a"),
        removal("b"),
        addition("a"),
        addition("e"),
        removal("c"),
        addition("c"),
        removal("c"),
    ];
    let body = json!({"model": "m", "max_tokens": 9, "tools": tools, "messages": [
        {"role": "user", "content": "Hi."},
        {"role": "system", "content": changes},
        {"role": "user", "content": "Hi."},
    ]});
    let sent = serde_json::to_vec(&body).unwrap();
    let target = Target::new("m", "backend");
    let translated = request(Format::Messages, Format::Chat, &sent, &target).unwrap();
    let written: Value = serde_json::from_slice(&translated.body).unwrap();
    let tools = written["tools"].as_array().unwrap().iter();
    let names: Vec<_> = tools
        .map(|tool| tool["function"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["d", "a", "e"]);
}

#[test]
fn tools_repeat_their_namespaces_within_bounds() {
    let body = |name: &str, description: &str| {
        let tools: Vec<_> = (0..1000)
            .map(|number| json!({"type": "function", "name": format!("f{number}"), "parameters": {}}))
            .collect();
        json!({"model": "m", "input": "Hi.", "tools": [
            {"type": "namespace", "name": name, "description": description, "tools": tools},
        ]})
    };
    let refusal = |name: &str, description: &str| {
        let sent = serde_json::to_vec(&body(name, description)).unwrap();
        let target = Target::new("m", "backend");
        request(Format::Responses, Format::Chat, &sent, &target).map_err(|refusal| refusal.path)
    };
    assert!(refusal(&"n".repeat(128), &"d".repeat(262)).is_ok());
    assert_eq!(refusal(&"n".repeat(129), "d").unwrap_err(), "tools[0].name");
    let too_long = refusal("n", &"d".repeat(263));
    assert_eq!(too_long.unwrap_err(), "tools[].description");
}

#[test]
fn the_citations_of_equal_texts_are_written_once() {
    let place = json!({"type": "web_search_result_location", "url": "https://a.example",
        "title": "T", "encrypted_index": "i", "cited_text": "c"});
    let digest = Sha256::digest(b"x");
    let digits = digest.iter().take(16).flat_map(|it| [it >> 4, it & 15]);
    let fingerprint: String = digits
        .filter_map(|digit| char::from_digit(digit.into(), 16))
        .collect();
    let cited = json!({fingerprint: [place]}).to_string();
    let sealed = seal(
        Backend::new("backend"),
        ReasoningForm::Citations,
        "",
        &cited,
    )
    .unwrap();
    let said = json!({"type": "output_text", "text": "x", "annotations": []});
    let body = json!({"model": "m", "tools": [{"type": "web_search"}], "input": [
        {"role": "user", "content": "Go."},
        {"type": "reasoning", "summary": [], "encrypted_content": sealed},
        {"type": "message", "role": "assistant", "content": vec![said; 100]},
        {"role": "user", "content": "So?"},
    ]});
    let sent = serde_json::to_vec(&body).unwrap();
    let mut target = Target::new("m", "backend");
    target.messages.web_search = true;
    let translated = request(Format::Responses, Format::Messages, &sent, &target).unwrap();
    let written = String::from_utf8(translated.body.to_vec()).unwrap();
    assert_eq!(written.matches("encrypted_index").count(), 1, "{written}");
}

#[test]
fn late_results_of_many_calls_follow_their_calls_in_order() {
    const MANY: usize = 20_000;
    let ids: Vec<_> = (0..MANY).map(|number| format!("call_{number}")).collect();
    let exchange = |id: &String| {
        [
            json!({"type": "function_call", "call_id": id, "name": "look", "arguments": "{}"}),
            json!({"role": "user", "content": "Well?"}),
            json!({"type": "function_call_output", "call_id": id, "output": "Seen."}),
        ]
    };
    let mut input = vec![json!({"role": "user", "content": "Go."})];
    input.extend(ids.iter().flat_map(exchange));
    let body = serde_json::to_vec(&json!({"model": "m", "input": input})).unwrap();
    let target = Target::new("m", "backend");
    let translated = request(Format::Responses, Format::Chat, &body, &target).unwrap();
    let written: Value = serde_json::from_slice(&translated.body).unwrap();
    let mut kinds = Vec::new();
    for message in written["messages"].as_array().unwrap() {
        let call = message.pointer("/tool_calls/0/id");
        let id = call.or_else(|| message.get("tool_call_id"));
        kinds.push((
            message["role"].as_str().unwrap(),
            id.and_then(Value::as_str),
        ));
    }
    let mut expected = vec![("user", None)];
    for id in &ids {
        let id = Some(id.as_str());
        expected.extend([("assistant", id), ("tool", id), ("user", None)]);
    }
    assert!(kinds == expected, "{:?}", kinds.get(..8));
}
