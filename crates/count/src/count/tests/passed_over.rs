//! Text that the count passes over is held for all the same, and settings cost nothing.

use super::{TEXTS, openai};
use crate::{Family as _, Tokenizer, Vocabulary, count};
use serde_json::json;
use tollgate_types::Format;

/// Bodies of each format with a text where a server may show it to its model, whatever the
/// format says.
const PLACES: [(Format, &str); 29] = [
    (Format::Chat, r#"{"documents":[{"text":TEXT}]}"#),
    (Format::Chat, r#"{"chat_template":TEXT}"#),
    (Format::Chat, r#"{"no_such_field":{TEXT:[1]}}"#),
    (Format::Chat, r#"{"tools":{"a":TEXT}}"#),
    (Format::Chat, r#"{"messages":[TEXT]}"#),
    (
        Format::Chat,
        r#"{"messages":[{"role":TEXT,"content":"a"}]}"#,
    ),
    (
        Format::Chat,
        r#"{"messages":[{"role":"user","content":"a",TEXT:1}]}"#,
    ),
    (
        Format::Chat,
        r#"{"messages":[{"role":"user","reasoning_content":TEXT}]}"#,
    ),
    (
        Format::Chat,
        r#"{"messages":[{"role":"user","content":[{"type":"text","text":"a","x":TEXT}]}]}"#,
    ),
    (
        Format::Chat,
        r#"{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"a","x":TEXT}}]}]}"#,
    ),
    (
        Format::Chat,
        r#"{"messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"x":TEXT}}]}]}"#,
    ),
    (
        Format::Chat,
        r#"{"messages":[{"role":"user","content":[{"type":"file","file":{},"x":TEXT}]}]}"#,
    ),
    (
        Format::Chat,
        r#"{"messages":[{"role":"user","content":[{"type":"no_such","x":{"y":[TEXT]}}]}]}"#,
    ),
    (
        Format::Chat,
        r#"{"messages":[{"tool_calls":[{"function":{"name":"f","arguments":"{}"},"x":TEXT}]}]}"#,
    ),
    (
        Format::Chat,
        r#"{"messages":[{"tool_calls":[{"function":{"name":"f","x":TEXT}}]}]}"#,
    ),
    (
        Format::Chat,
        r#"{"tools":[{"type":"function","function":{"name":"f","parameters":{"x":TEXT}}}]}"#,
    ),
    (
        Format::Chat,
        r#"{"tools":[{"type":"function","x":TEXT,"function":{"name":"f","parameters":{}}}]}"#,
    ),
    (
        Format::Chat,
        r#"{"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":{"x":TEXT}}}}"#,
    ),
    (
        Format::Chat,
        r#"{"response_format":{"type":"text","x":TEXT}}"#,
    ),
    (
        Format::Responses,
        r#"{"input":[{"type":"reasoning","summary":[{"text":TEXT}]},{"role":"user","content":"a"}]}"#,
    ),
    (
        Format::Responses,
        r#"{"input":[{"type":"function_call_output","output":"a","x":TEXT}]}"#,
    ),
    (
        Format::Responses,
        r#"{"input":[{"type":"no_such","x":TEXT}]}"#,
    ),
    (Format::Responses, r#"{"input":"a","text":{"x":TEXT}}"#),
    (
        Format::Responses,
        r#"{"input":"a","messages":[{"role":"user","content":TEXT}]}"#,
    ),
    (
        Format::Messages,
        r#"{"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":TEXT}]},{"role":"user","content":"a"}]}"#,
    ),
    (
        Format::Messages,
        r#"{"messages":[{"role":"user","content":[{"type":"tool_result","content":"a","x":TEXT}]}]}"#,
    ),
    (
        Format::Messages,
        r#"{"messages":[{"role":"user","content":[{"type":"document","source":{"type":"text","data":"a"},"x":TEXT}]}]}"#,
    ),
    (
        Format::Messages,
        r#"{"context_management":{"edits":[{"instructions":TEXT}]}}"#,
    ),
    (
        Format::Messages,
        r#"{"system":"a","chat_template_kwargs":{"x":TEXT}}"#,
    ),
];

#[test]
fn text_is_held_for_wherever_it_stands() {
    let text = TEXTS[0].repeat(40);
    let tokens = Vocabulary::O200k.count(&text);
    for (format, place) in PLACES {
        let body = place.replace("TEXT", &format!("{text:?}"));
        let parsed: Result<serde_json::Value, _> = serde_json::from_str(&body);
        assert!(parsed.is_ok(), "{place}");
        for family in Tokenizer::ALL {
            let count = count(format, body.as_bytes(), &family.rules());
            assert!(count.to_hold() >= tokens, "{family:?}: {place}: {count:?}");
        }
    }
}

#[test]
fn settings_of_the_answer_cost_nothing() {
    let plain = json!({"messages":[{"role":"user","content":"hi"}]});
    let mut more = plain.clone();
    for (key, value) in [
        ("temperature", json!(0.5)),
        ("metadata", json!({"session": "a".repeat(400)})),
        ("stop", json!(["one", "two"])),
        ("user", json!("someone")),
        ("prompt_cache_key", json!("a")),
        ("reasoning_effort", json!("high")),
        ("stream_options", json!({"include_usage": true})),
    ] {
        more[key] = value;
    }
    assert_eq!(openai(Format::Chat, &more), openai(Format::Chat, &plain));
}
