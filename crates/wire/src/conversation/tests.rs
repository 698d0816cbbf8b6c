//! What is found in conversations of each format, however a body is written and cut.

use super::*;
use crate::peek::{PeekLimits, Peeker};
use proptest::prelude::*;
use serde_json::{Value, json};
use tollgate_types::Format;

fn inspect_in_chunks(format: Format, body: &str, chunk: usize) -> ConversationFacts {
    let mut peeker = Peeker::new(format, &PeekLimits::default()).with_texts();
    let chunks: Vec<Bytes> = body
        .as_bytes()
        .chunks(chunk)
        .map(Bytes::copy_from_slice)
        .collect();
    for chunk in &chunks {
        peeker.push(chunk).unwrap();
    }
    let peeked = peeker.finish().unwrap();
    inspect(&peeked.texts.unwrap(), &chunks)
}

/// Inspects a body whole and in chunks, and checks that both give the same.
fn facts(format: Format, body: &str) -> ConversationFacts {
    let whole = inspect_in_chunks(format, body, body.len());
    for chunk in [1, 7, 1000] {
        let cut = inspect_in_chunks(format, body, chunk);
        assert_eq!(cut, whole, "in chunks of {chunk}: {body}");
    }
    whole
}

#[allow(
    clippy::needless_pass_by_value,
    reason = "a test reads better with json!(…) than with &json!(…)"
)]
fn chat(messages: Value) -> ConversationFacts {
    let body = json!({"model": "auto", "messages": messages});
    facts(Format::Chat, &body.to_string())
}

fn say(role: &str, text: &str) -> Value {
    json!({"role": role, "content": text})
}

#[test]
fn a_fence_in_the_last_message_of_the_user_is_code() {
    let code = "Why does this crash?\n```rust\nlet x = 1;\n```";
    for (messages, expected) in [
        (json!([say("user", code)]), true),
        (json!([say("user", "Use `x` or ``y``.")]), false),
        (
            json!([
                say("user", code),
                say("assistant", "So:"),
                say("user", "Thanks.")
            ]),
            false,
        ),
        (
            json!([say("user", "Hello."), say("assistant", code)]),
            false,
        ),
        (json!([say("system", code), say("user", "Hello.")]), false),
        (
            json!([say("user", code), say("assistant", "So:"), say("tool", "x")]),
            true,
        ),
        (
            json!([{"role": "user", "content": [
                {"type": "text", "text": "Fix this:"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
                {"type": "text", "text": "```\nx\n```"},
            ]}]),
            true,
        ),
    ] {
        assert_eq!(chat(messages.clone()).code, expected, "{messages}");
    }
}

#[test]
fn a_script_is_not_latin_if_a_third_of_the_letters_are_not() {
    for (text, expected) in [
        ("Grüße, ça va? Žluťoučký kůň. Tiếng Việt", Script::Latin),
        ("请解释一下量子纠缠。", Script::NotLatin),
        ("Что такое monad?", Script::NotLatin),
        ("用 Rust 写一个 parser", Script::Latin),
        ("用 Rust 写一个解析器", Script::NotLatin),
        ("The word 猫 means cat.", Script::Latin),
        ("🎉 1 + 1 = 2", Script::Latin),
        ("", Script::Latin),
    ] {
        assert_eq!(chat(json!([say("user", text)])).script, expected, "{text}");
    }
    // Letters that are written as escapes count as themselves.
    let escaped = r#"{"model":"a","messages":[{"role":"user","content":"\u8bf7\u89e3\u91ca\ud83c\udf89 n"}]}"#;
    assert_eq!(facts(Format::Chat, escaped).script, Script::NotLatin);
}

#[test]
fn tool_results_are_not_messages_of_the_user() {
    let code = "```\n请解释\n```";
    let messages = json!({"model": "auto", "max_tokens": 9, "messages": [
        say("user", "debug this"),
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "run", "input": {}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t", "content": code},
            {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": code}]},
        ]},
    ]});
    let found = facts(Format::Messages, &messages.to_string());
    assert_eq!((found.messages, found.code), (3, false), "{found:?}");
    assert_eq!(found.script, Script::Latin);

    let items = json!({"model": "auto", "input": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "debug this"}]},
        {"type": "reasoning", "summary": [], "encrypted_content": "c3RydWN0IGVudW0="},
        {"type": "function_call", "call_id": "c", "name": "run", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": code},
    ]});
    let found = facts(Format::Responses, &items.to_string());
    assert_eq!((found.messages, found.code), (4, false), "{found:?}");
    let text = json!({"model": "auto", "instructions": "Be kind.", "input": code});
    let found = facts(Format::Responses, &text.to_string());
    assert_eq!((found.messages, found.code), (1, true), "{found:?}");
    assert_eq!(found.script, Script::NotLatin);
}

#[test]
fn the_order_of_keys_makes_no_difference() {
    let usual = r#"{"model":"auto","max_tokens":9,"system":[{"type":"text","text":"Be kind."}],"messages":[
        {"role":"user","content":[{"type":"text","text":"debug this"}]},
        {"role":"assistant","content":[{"type":"thinking","thinking":"prove","signature":"c3RydWN0"},
            {"type":"tool_use","id":"t","name":"run","input":{"why":"debug"}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"```"},{"type":"text","text":"请解释"}]}]}"#;
    let sorted = r#"{"max_tokens":9,"messages":[
        {"content":[{"text":"debug this","type":"text"}],"role":"user"},
        {"content":[{"signature":"c3RydWN0","thinking":"prove","type":"thinking"},
            {"id":"t","input":{"why":"debug"},"name":"run","type":"tool_use"}],"role":"assistant"},
        {"content":[{"content":"```","tool_use_id":"t","type":"tool_result"},{"text":"请解释","type":"text"}],"role":"user"}],
        "model":"auto","system":[{"text":"Be kind.","type":"text"}]}"#;
    let [usual, sorted] = [usual, sorted].map(|body| facts(Format::Messages, body));
    assert_eq!(usual, sorted);
    assert_eq!((usual.messages, usual.code), (3, false), "{usual:?}");
    assert_eq!(usual.script, Script::NotLatin, "{usual:?}");
    // Instructions whose role comes last are instructions.
    let late = r#"{"model":"a","messages":[{"content":"Prove.","role":"system"},{"content":"debug","role":"user"}]}"#;
    let early = chat(json!([say("system", "Prove."), say("user", "debug")]));
    assert_eq!(facts(Format::Chat, late), early);
}

#[test]
fn a_conversation_keeps_its_identity_as_it_grows_and_others_have_others() {
    let (system, first) = (
        say("system", "Be kind."),
        say("user", "How do I sort a list?"),
    );
    let begun = chat(json!([system, first])).beginning;
    let later = json!([
        system,
        first,
        say("assistant", "So:"),
        say("user", "And a map?")
    ]);
    assert_eq!(chat(later).beginning, begun);
    for other in [
        json!([system, say("user", "How do I sort a list")]),
        json!([system, first, say("user", "Quickly!")]),
        json!([first]),
        json!([say("system", "Be brief."), first]),
        json!([
            say("system", "Be kind.H"),
            say("user", "ow do I sort a list?")
        ]),
    ] {
        assert_ne!(chat(other.clone()).beginning, begun, "{other}");
    }
    assert_eq!(chat(json!([system])).beginning, 0, "no question");
    // Instructions in a field of their own count as well.
    let with = |instructions: &str| {
        let body = json!({"model": "auto", "instructions": instructions, "input": "Hello."});
        facts(Format::Responses, &body.to_string()).beginning
    };
    assert_ne!(with("Be kind."), with("Be brief."));
}

#[test]
fn the_look_is_bounded() {
    let filler = "x ".repeat(20_000);
    let late = chat(json!([say("user", &format!("{filler}```请"))]));
    assert_eq!((late.code, late.script), (false, Script::Latin));
    // A character that the bound cuts is left out.
    for pad in 0..4 {
        let text = format!("{}{}", "x".repeat(pad), "请".repeat(10_000));
        let found = chat(json!([say("user", &text)]));
        assert_eq!(found.script, Script::NotLatin, "{pad}");
    }
    // Parts beyond the first 32 are left out, and the last message is found among many.
    let part = |text: &str| json!({"type": "text", "text": text});
    let mut parts: Vec<_> = (0..32).map(|_| part("lorem")).collect();
    parts.push(part("```"));
    assert!(!chat(json!([{"role": "user", "content": parts}])).code);
    let mut messages: Vec<_> = (0..500).map(|_| say("user", "lorem")).collect();
    messages.push(say("user", "```"));
    let found = chat(Value::from(messages));
    assert_eq!((found.messages, found.code), (501, true));
}

#[test]
fn media_are_not_text() {
    let data = "请".repeat(1000);
    let found = chat(json!([{"role": "user", "content": [
        {"type": "text", "text": "hello"},
        {"type": "file", "file": {"file_data": data}},
        {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}},
    ]}]));
    assert_eq!(found.script, Script::Latin);
}

proptest! {
    /// Any text gives the same in any chunks.
    #[test]
    fn any_text_is_inspected_without_a_fault(
        texts in prop::collection::vec(("\\PC{0,40}|[\\\\\"u0-9a-f\n`]{0,40}", 1..600_usize), 1..40),
        cut in 1..5000_usize,
    ) {
        let messages: Vec<_> = texts
            .iter()
            .map(|(text, times)| say("user", &text.repeat(*times)))
            .collect();
        let body = json!({"model": "auto", "messages": messages}).to_string();
        let whole = inspect_in_chunks(Format::Chat, &body, body.len());
        prop_assert_eq!(inspect_in_chunks(Format::Chat, &body, cut), whole);
    }
}
