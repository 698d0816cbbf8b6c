//! Searches of the web, both halves together: what a provider found goes to a caller of another
//! format and comes back with the next turn, to that provider as it was and to no other.

use crate::support::{translate, translate_body};
use serde_json::{Value, json};
use std::path::Path;
use tollgate_translate::{
    Target, Translated, request,
    seal::{Backend, ReasoningForm, seal},
};
use tollgate_types::Format;

const QUESTION: &str = "How big is Paris?";

/// A target that searches.
fn target(backend: &str) -> Target<'_> {
    let mut target = Target::new("upstream-model", backend);
    target.messages.web_search = true;
    target.responses.web_search = true;
    target
}

/// A request of a caller that offers a search beside a tool of its own.
fn ask(caller: Format, turns: &Value) -> Value {
    match caller {
        Format::Responses => json!({
            "model": "m", "input": turns, "include": ["reasoning.encrypted_content"],
            "tools": [{"type": "web_search"}, {"type": "function", "name": "look", "parameters": {"type": "object"}}],
        }),
        _ => json!({
            "model": "m", "messages": turns, "max_tokens": 20000,
            "tools": [
                {"type": "web_search_20250305", "name": "web_search"},
                {"name": "look", "input_schema": {"type": "object"}},
            ],
        }),
    }
}

/// What the caller sends after an answer, given as items or as blocks.
fn next_turns(caller: Format, answer: &Value) -> Value {
    let question = json!({"role": "user", "content": QUESTION});
    let thanks = json!({"role": "user", "content": "Thanks."});
    match caller {
        Format::Responses => {
            let mut turns = vec![question];
            turns.extend(answer.as_array().unwrap().iter().cloned());
            turns.push(thanks);
            json!(turns)
        }
        _ => json!([question, {"role": "assistant", "content": answer}, thanks]),
    }
}

fn send(caller: Format, provider: Format, backend: &str, body: &Value) -> Translated {
    let body = body.to_string();
    match request(caller, provider, body.as_bytes(), &target(backend)) {
        Ok(translated) => translated,
        Err(refusal) => panic!("{caller} to {provider}: {refusal}\n{body}"),
    }
}

fn source(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/answers/golden");
    std::fs::read_to_string(folder.join(name)).unwrap()
}

/// What the provider gets of an answer in the turn after it, and what was left out.
fn sent(caller: Format, to: Format, backend: &str, answer: &Value) -> (Value, Vec<String>) {
    let next = ask(caller, &next_turns(caller, answer));
    let sent = send(caller, to, backend, &next);
    (serde_json::from_slice(&sent.body).unwrap(), sent.dropped)
}

/// An answer as its caller has it: the items or blocks.
fn answered(caller: Format, provider: Format) -> Value {
    let first = json!([{"role": "user", "content": QUESTION}]);
    let notes = send(caller, provider, "north", &ask(caller, &first)).notes;
    let native = source(&format!("whole_with_a_search.{provider}.json"));
    let answer = translate_body(&notes, &native, 100).unwrap();
    let mut answer: Value = serde_json::from_str(&answer).unwrap();
    match caller {
        Format::Responses => answer["output"].take(),
        _ => answer["content"].take(),
    }
}

fn native(provider: Format, list: &str) -> Value {
    let native: Value =
        serde_json::from_str(&source(&format!("whole_with_a_search.{provider}.json"))).unwrap();
    native[list].clone()
}

#[test]
fn a_messages_provider_finds_its_search_and_its_citations_again() {
    let answer = answered(Format::Responses, Format::Messages);
    let (body, dropped) = sent(Format::Responses, Format::Messages, "north", &answer);
    let expected = native(Format::Messages, "content");
    assert_eq!(body["messages"][1]["content"], expected, "{body}");
    assert!(dropped.is_empty(), "{dropped:?}");
}

#[test]
fn a_search_that_was_streamed_is_found_again_as_well() {
    let first = json!([{"role": "user", "content": QUESTION}]);
    let first = ask(Format::Responses, &first);
    let notes = send(Format::Responses, Format::Messages, "north", &first).notes;
    let seen = translate(&notes, source("a_search.messages.sse").as_bytes().chunks(7));
    let last = seen.out.lines().rfind(|line| line.starts_with("data: "));
    let last: Value = serde_json::from_str(&last.unwrap()["data: ".len()..]).unwrap();
    assert_eq!(last["type"], "response.completed");
    assert_eq!(
        last["response"]["tool_usage"]["web_search"]["num_requests"],
        1
    );
    let answer = &last["response"]["output"];
    let (body, dropped) = sent(Format::Responses, Format::Messages, "north", answer);
    let content = &body["messages"][1]["content"];
    assert_eq!(
        content[1]["input"]["query"], "how big \"Paris\" is",
        "{body}"
    );
    assert_eq!(
        content[2]["content"][0]["encrypted_content"],
        "EqgfCioIARgBIiQ3"
    );
    assert_eq!(content[4]["text"], "Päris is 😀 big.");
    assert_eq!(
        content[4]["citations"][0]["encrypted_index"],
        "Eo8BCioIAhgB"
    );
    assert!(dropped.is_empty(), "{dropped:?}");
}

#[test]
fn a_responses_provider_finds_its_search_and_its_annotations_again() {
    let answer = answered(Format::Messages, Format::Responses);
    let (body, dropped) = sent(Format::Messages, Format::Responses, "north", &answer);
    let expected = native(Format::Responses, "output");
    let input = body["input"].as_array().unwrap();
    assert_eq!(input[1], expected[0], "{body}");
    assert_eq!(input[2], expected[1], "{body}");
    let (said, native) = (&input[3]["content"][0], &expected[2]["content"][0]);
    assert_eq!(said["text"], native["text"]);
    assert_eq!(said["annotations"], native["annotations"], "{body}");
    assert!(dropped.is_empty(), "{dropped:?}");
}

#[test]
fn another_provider_gets_nothing_of_a_search_but_what_was_said() {
    for (caller, provider) in [
        (Format::Responses, Format::Messages),
        (Format::Messages, Format::Responses),
    ] {
        let answer = answered(caller, provider);
        for (to, backend) in [(provider, "south"), (Format::Chat, "north")] {
            let (body, dropped) = sent(caller, to, backend, &answer);
            let body = body.to_string();
            for word in ["Eqgf", "Eo8B", "gAAA", "ws_0a", "example.org", "tg1."] {
                assert!(!body.contains(word), "{caller} to {to}: {word} in {body}");
            }
            assert!(body.contains("big"), "{body}");
            let notices: &[&str] = match caller {
                Format::Responses => &["input[].web_search_call", "input[].content[].annotations"],
                _ => &[
                    "messages[].content[].server_tool_use",
                    "messages[].content[].web_search_tool_result",
                    "messages[].content[].citations",
                ],
            };
            for notice in notices {
                assert!(
                    dropped.iter().any(|it| it == notice),
                    "{notice}: {dropped:?}"
                );
            }
        }
    }
}

/// Reasoning that led to a search leads to nothing where the search is left out, and a provider
/// refuses it then.
#[test]
fn reasoning_goes_with_the_search_that_it_led_to() {
    let mut answer = answered(Format::Messages, Format::Responses);
    let blocks = answer.as_array_mut().unwrap();
    let result = blocks
        .iter_mut()
        .find(|block| block["type"] == "web_search_tool_result")
        .unwrap();
    result["content"] = json!([]);
    let (body, dropped) = sent(Format::Messages, Format::Responses, "north", &answer);
    let kinds: Vec<_> = body["input"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| &item["type"])
        .collect();
    assert_eq!(kinds, ["message", "message", "message"], "{body}");
    assert!(
        dropped
            .iter()
            .any(|it| it == "messages[].content[].thinking"),
        "{dropped:?}"
    );
}

#[test]
fn a_search_that_is_not_offered_any_more_does_not_return_to_messages() {
    let answer = answered(Format::Responses, Format::Messages);
    let mut next = ask(Format::Responses, &next_turns(Format::Responses, &answer));
    next["tools"].as_array_mut().unwrap().remove(0);
    let sent = send(Format::Responses, Format::Messages, "north", &next);
    let body: Value = serde_json::from_slice(&sent.body).unwrap();
    let text = json!([{"type": "text", "text": "It is "}, {"type": "text", "text": "big."}]);
    assert_eq!(body["messages"][1]["content"], text, "{body}");
}

/// A caller that knows how seals are made could put anything into one. It is a search or nothing.
#[test]
fn a_seal_that_the_caller_made_says_nothing_but_a_search() {
    let made = |form, payload: &str| seal(Backend::new("north"), form, "", payload).unwrap();
    let forged = [
        r#"{"type":"item_reference","id":"SECRET"}"#,
        r#"{"type":"web_search_call"},{"type":"item_reference","id":"SECRET"}"#,
        r#"{"type":"web_search_call","type":"item_reference","id":"SECRET"}"#,
        r#"{"type":"web_search_call"}],"model":"SECRET","input":[{}"#,
        r#"[{"type":"text","text":"SECRET"}]"#,
        r#"[{"type":"server_tool_use"},{"type":"text","text":"SECRET"}]"#,
        r#"[{"type":"server_tool_use"},{"type":"web_search_tool_result"},{"type":"text","text":"SECRET"}]"#,
        r#"{"x":[{"type":"text","text":"SECRET"}]}"#,
        "SECRET",
    ];
    for payload in forged {
        let blocks = json!([
            {"type": "server_tool_use", "id": "a", "name": "web_search", "input": {}},
            {"type": "web_search_tool_result", "tool_use_id": "a", "content": [
                {"type": "web_search_result", "encrypted_content": made(ReasoningForm::SearchItem, payload)}]},
            {"type": "text", "text": "x", "citations": [
                {"encrypted_index": made(ReasoningForm::Annotation, payload)}]},
        ]);
        let (body, _) = sent(Format::Messages, Format::Responses, "north", &blocks);
        assert!(!body.to_string().contains("SECRET"), "{payload}: {body}");
        for form in [ReasoningForm::SearchBlocks, ReasoningForm::Citations] {
            let items = json!([
                {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {}},
                {"type": "reasoning", "summary": [], "encrypted_content": made(form, payload)},
                {"type": "message", "role": "assistant", "content": "x"},
            ]);
            let (body, _) = sent(Format::Responses, Format::Messages, "north", &items);
            assert!(!body.to_string().contains("SECRET"), "{payload}: {body}");
        }
    }
}
