//! A reservation covers text that is not counted, and settings cost nothing.

use super::{TEXTS, openai};
use crate::{Family as _, Tokenizer, Vocabulary, count};
use serde_json::json;
use tollgate_types::Format;

/// Bodies of each format with a text where a server may show it to its model, whatever the
/// format says.
const PLACES: &[(Format, &str)] = &[
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
    (Format::Chat, r#"{TEXT:1}"#),
    (Format::Chat, r#"{"messages":TEXT}"#),
    (Format::Chat, r#"{"response_format":TEXT}"#),
    (
        Format::Chat,
        r#"{"tools":[{"type":"function","function":{"name":"f","parameters":{},"input_schema":{"x":TEXT}}}]}"#,
    ),
    (
        Format::Chat,
        r#"{"tools":[{"type":"function","function":{"name":"f","parameters":{},"description":[TEXT]}}]}"#,
    ),
    (
        Format::Chat,
        r#"{"tools":[{"type":"function","function":{"name":"f","parameters":{}},"tools":TEXT}]}"#,
    ),
    (
        Format::Chat,
        r#"{"messages":[{"role":"user","content":[{"type":"text","text":[TEXT]}]}]}"#,
    ),
    (
        Format::Chat,
        r#"{"messages":[{"role":"user","content":[{"type":"text","text":{"x":TEXT}}]}]}"#,
    ),
    (
        Format::Chat,
        r#"{"messages":[{"role":"user","content":[{"type":"no_such",TEXT:1}]}]}"#,
    ),
    (
        Format::Chat,
        r#"{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":TEXT}}]}]}"#,
    ),
    (
        Format::Chat,
        r#"{"messages":[{"role":"user","content":[{"type":"file","file":{"file_data":[TEXT]}}]}]}"#,
    ),
    (
        Format::Chat,
        r#"{"messages":[{"role":"assistant","content":"a","tool_calls":TEXT}]}"#,
    ),
    (
        Format::Chat,
        r#"{"messages":[{"role":"assistant","content":"a","tool_calls":[TEXT]}]}"#,
    ),
    (
        Format::Chat,
        r#"{"messages":[{"role":"assistant","content":"a","tool_calls":[{"function":TEXT}]}]}"#,
    ),
    (
        Format::Chat,
        r#"{"messages":[{"role":"assistant","content":"a","function_call":TEXT}]}"#,
    ),
    (
        Format::Chat,
        r#"{"messages":[{"role":"user","content":"a","tools":TEXT}]}"#,
    ),
    (
        Format::Responses,
        r#"{"input":[{"type":"item_reference","id":"a","x":TEXT}]}"#,
    ),
    (
        Format::Responses,
        r#"{"input":[{"type":"additional_tools","tools":TEXT}]}"#,
    ),
    (
        Format::Responses,
        r#"{"input":[{"type":"compaction","encrypted_content":[TEXT]}]}"#,
    ),
    (Format::Responses, r#"{"input":"a","text":{"format":TEXT}}"#),
    (
        Format::Responses,
        r#"{"input":"a","text":{"verbosity":TEXT}}"#,
    ),
    (
        Format::Responses,
        r#"{"input":"a","tools":[{"type":"namespace","name":[TEXT],"tools":[]}]}"#,
    ),
    (
        Format::Responses,
        r#"{"prompt":{"id":"p","variables":TEXT}}"#,
    ),
    (
        Format::Responses,
        r#"{"prompt":{"id":"p","variables":{TEXT:""}}}"#,
    ),
    (
        Format::Messages,
        r#"{"tools":[{"name":"f","parameters":{},"input_schema":{"x":TEXT}}]}"#,
    ),
    (
        Format::Messages,
        r#"{"tools":[{"name":"f","parameters":{"x":TEXT},"input_schema":{}}]}"#,
    ),
    (
        Format::Messages,
        r#"{"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","data":TEXT}}]}]}"#,
    ),
    (
        Format::Messages,
        r#"{"messages":[{"role":"user","content":[{"type":"document","title":[TEXT],"source":{"type":"text","data":"a"}}]}]}"#,
    ),
    (
        Format::Messages,
        r#"{"messages":[{"role":"user","content":[{"type":"document","context":{"x":TEXT},"source":{"type":"text","data":"a"}}]}]}"#,
    ),
    (
        Format::Messages,
        r#"{"messages":[{"role":"user","content":[{"type":"document","source":{"type":"text","data":[TEXT]}}]}]}"#,
    ),
    (
        Format::Messages,
        r#"{"messages":[{"role":"user","content":[{"type":"document","source":{"type":"base64","data":"AAAA","content":TEXT}}]}]}"#,
    ),
    (Format::Gemini, r#"{"contents":TEXT}"#),
    (
        Format::Gemini,
        r#"{"contents":[{"role":TEXT,"parts":[{"text":"a"}]}]}"#,
    ),
    (
        Format::Gemini,
        r#"{"contents":[{"role":"user","parts":[{"functionCall":{"name":"f","args":{TEXT:1}}}]}]}"#,
    ),
    (
        Format::Gemini,
        r#"{"contents":[{"role":"user","parts":[{"inlineData":{"mimeType":"image/png","data":"AAAA","x":TEXT}}]}]}"#,
    ),
];

#[test]
fn text_is_held_for_wherever_it_stands() {
    /// Tokens that the ends of the text can be one with.
    const MERGED: u64 = 4;
    let text = TEXTS[0].repeat(40);
    let tokens = Vocabulary::O200k.count(&text);
    for (format, place) in PLACES {
        let with = |text: &str| place.replace("TEXT", &format!("{text:?}"));
        let parsed: Result<serde_json::Value, _> = serde_json::from_str(&with(&text));
        assert!(parsed.is_ok(), "{place}");
        for family in Tokenizer::ALL {
            let reserved = |text: &str| count(*format, with(text).as_bytes(), &family.rules()).most;
            let (without, reserved) = (reserved(""), reserved(&text));
            assert!(
                reserved + MERGED >= without + tokens,
                "{family:?}: {place}: {without}, {reserved}"
            );
        }
    }
}

/// The templates of models of chat print the role of each message, and some the ids of calls.
#[test]
fn many_short_labels_are_held_for() {
    let words = |place| format!("{place} secret words of a prompt {}", "and more ".repeat(9));
    for (role, id) in [(true, false), (false, true)] {
        let messages: Vec<_> = (0..1000)
            .map(|place| {
                let words = words(place);
                json!({
                    "role": if role { &*words } else { "tool" },
                    "tool_call_id": if id { &*words } else { "a" },
                    "content": "a",
                })
            })
            .collect();
        let tokens: u64 = (0..1000)
            .map(|it| Vocabulary::O200k.count(&words(it)))
            .sum();
        let reserved = openai(Format::Chat, &json!({"messages": messages})).to_reserve();
        assert!(reserved >= tokens, "{reserved} for {tokens}");
    }
}

#[test]
fn the_labels_of_a_conversation_cost_nothing() {
    let messages = |id: &str| {
        json!({"messages": [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "tool_calls": [
                {"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": id, "content": "a"},
        ]})
    };
    let (short, long) = (messages("a"), messages("call_0123456789abcdef"));
    assert_eq!(openai(Format::Chat, &short), openai(Format::Chat, &long));
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
