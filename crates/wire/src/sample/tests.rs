//! What is counted in conversations of each format, and that no text makes it more work.

use super::*;
use crate::peek::{PeekLimits, Peeker};
use proptest::prelude::*;
use serde_json::{Value, json};
use tollgate_types::{Format, TextSample};

fn look_at(format: Format, body: &str, cut: usize) -> ConversationFacts {
    let mut peeker = Peeker::new(format, &PeekLimits::default()).with_texts();
    let chunks: Vec<Bytes> = body
        .as_bytes()
        .chunks(cut)
        .map(Bytes::copy_from_slice)
        .collect();
    for chunk in &chunks {
        peeker.push(chunk).unwrap();
    }
    let peeked = peeker.finish().unwrap();
    look(&peeked.texts.unwrap(), &chunks)
}

/// Looks at a body whole and in pieces, and tells that both are the same.
fn facts(format: Format, body: &Value) -> ConversationFacts {
    let body = body.to_string();
    let whole = look_at(format, &body, body.len());
    for cut in [1, 7, 1000] {
        assert_eq!(
            look_at(format, &body, cut),
            whole,
            "in pieces of {cut}: {body}"
        );
    }
    whole
}

#[allow(
    clippy::needless_pass_by_value,
    reason = "a test reads better with json!(…) than with &json!(…)"
)]
fn chat(messages: Value) -> ConversationFacts {
    facts(
        Format::Chat,
        &json!({"model": "auto", "messages": messages}),
    )
}

fn sample(text: &str) -> TextSample {
    chat(json!([{"role": "user", "content": text}])).sample
}

#[test]
fn what_a_text_is_made_of_is_counted() {
    let code = sample(
        "Why does this crash?\n```rust\nlet mut my_map: HashMap<String, Vec<usize>> = x;\n```",
    );
    assert_eq!(code.fences, 2, "{code:?}");
    assert_eq!(code.identifiers, 2, "my_map and HashMap: {code:?}");
    assert_eq!(code.code_words, 4, "rust, mut, vec, usize: {code:?}");
    assert_eq!(code.hard_words, 2, "why and crash: {code:?}");
    assert!(code.symbols >= 6, "{code:?}");

    let math = sample(r"Prove that $\int_0^1 \frac{1}{x}\,dx$ diverges, for every prime ∀ p ≥ 2.");
    assert!(math.math_marks >= 4, "{math:?}");
    assert_eq!((math.math_words, math.hard_words), (1, 1), "{math:?}");

    let list = sample("Please:\n- one\n  * two\n3. three\n4) four\nA-B, 5 things");
    assert_eq!(list.list_items, 4, "{list:?}");

    let chinese = sample("请解释一下量子纠缠。Gruß!");
    assert_eq!(chinese.other_letters, 9, "{chinese:?}");
    assert_eq!(chinese.letters, 9 + 4, "{chinese:?}");
    let emoji = sample("🎉🎉🎉 hello");
    assert_eq!((emoji.other_letters, emoji.easy_words), (0, 1), "{emoji:?}");
}

#[test]
fn letters_that_are_written_as_numbers_count_as_themselves() {
    let plain = r#"{"messages":[{"role":"user","content":"Добрый day — ∑\n- x"}],"model":"a"}"#;
    let escaped = r#"{"messages":[{"role":"user","content":"\u0414\u043e\u0431\u0440\u044b\u0439 d\u0061y \u2014 \u2211\u000a- x"}],"model":"a"}"#;
    let [plain, escaped] =
        [plain, escaped].map(|body| look_at(Format::Chat, body, body.len()).sample);
    let but_bytes = |sample| TextSample { bytes: 0, ..sample };
    assert_eq!(but_bytes(plain), but_bytes(escaped));
    assert_eq!(
        (plain.other_letters, plain.math_marks, plain.list_items),
        (6, 1, 1)
    );
}

#[test]
fn only_what_is_said_counts_and_only_the_user_asks() {
    let messages = json!([
        {"role": "system", "content": "Prove, debug, optimize, translate."},
        {"role": "user", "content": [{"type": "text", "text": "hello"}]},
        {"role": "assistant", "content": "why why why", "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "debug_prove", "arguments": "{\"why\": 1}"}},
        ]},
        {"role": "tool", "tool_call_id": "c", "content": "struct enum prove"},
    ]);
    let tools =
        json!([{"type": "function", "function": {"name": "why", "description": "prove it"}}]);
    let body = json!({"model": "auto", "messages": messages, "tools": tools});
    let facts = facts(Format::Chat, &body);
    assert_eq!((facts.messages, facts.user_messages), (4, 1), "{facts:?}");
    assert_eq!((facts.tools, facts.tool_traffic), (1, 1), "{facts:?}");
    let sample = facts.sample;
    assert_eq!((sample.hard_words, sample.easy_words), (0, 1), "{sample:?}");
    assert_eq!(sample.code_words, 2, "a tool's text is text: {sample:?}");
    assert_eq!(sample.words, 1 + 3 + 3, "{sample:?}");
}

#[test]
fn the_order_of_keys_makes_no_difference() {
    let messages = |body: &str| {
        let facts = look_at(Format::Messages, body, body.len());
        ConversationFacts {
            text_bytes: 0,
            ..facts
        }
    };
    let usual = messages(
        r#"{"model":"auto","max_tokens":9,"system":[{"type":"text","text":"Be kind."}],"messages":[
        {"role":"user","content":[{"type":"text","text":"debug this"}]},
        {"role":"assistant","content":[{"type":"thinking","thinking":"prove","signature":"c3RydWN0"},
            {"type":"tool_use","id":"t","name":"run","input":{"why":"debug"}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"why enum"}]}]}"#,
    );
    let sorted = messages(
        r#"{"max_tokens":9,"messages":[
        {"content":[{"text":"debug this","type":"text"}],"role":"user"},
        {"content":[{"signature":"c3RydWN0","thinking":"prove","type":"thinking"},
            {"id":"t","input":{"why":"debug"},"name":"run","type":"tool_use"}],"role":"assistant"},
        {"content":[{"content":"why enum","tool_use_id":"t","type":"tool_result"}],"role":"user"}],
        "model":"auto","system":[{"text":"Be kind.","type":"text"}]}"#,
    );
    assert_eq!(usual, sorted);
    assert_eq!(
        (usual.messages, usual.user_messages, usual.tool_traffic),
        (3, 2, 2)
    );
    assert_eq!(
        (usual.sample.hard_words, usual.sample.code_words),
        (1, 1),
        "{usual:?}"
    );
}

#[test]
fn a_responses_request_is_a_conversation_too() {
    let text = json!({"model": "auto", "instructions": "Prove.", "input": "debug hello"});
    let text = facts(Format::Responses, &text);
    assert_eq!((text.messages, text.user_messages), (1, 1));
    assert_eq!((text.sample.hard_words, text.sample.easy_words), (1, 1));
    let items = json!({"model": "auto", "input": [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Prove."}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "debug hello"}]},
        {"type": "reasoning", "summary": [], "encrypted_content": "c3RydWN0IGVudW0="},
        {"type": "function_call", "call_id": "c", "name": "prove", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "why struct"},
    ]});
    let items = facts(Format::Responses, &items);
    assert_eq!(
        (items.messages, items.user_messages, items.tool_traffic),
        (5, 1, 2)
    );
    assert_eq!(
        (
            items.sample.hard_words,
            items.sample.easy_words,
            items.sample.code_words
        ),
        (1, 1, 1),
        "{items:?}"
    );
}

#[test]
fn a_conversation_keeps_its_name_as_it_grows_and_others_have_others() {
    let say = |role: &str, text: &str| json!({"role": role, "content": text});
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
        json!([first]),
        json!([say("system", "Be brief."), first]),
        json!([
            say("system", "Be kind.H"),
            say("user", "ow do I sort a list?")
        ]),
    ] {
        assert_ne!(chat(other.clone()).beginning, begun, "{other}");
    }
    assert_eq!(
        chat(json!([system])).beginning,
        0,
        "nobody has asked anything"
    );
}

#[test]
fn the_first_and_the_last_are_looked_at_and_nothing_between() {
    let filler = "x ".repeat(20_000);
    let text = format!("prove {filler} struct {filler} debug");
    let found = sample(&text);
    assert_eq!((found.hard_words, found.code_words), (2, 0), "{found:?}");
    assert!(found.bytes <= 16 * 1024, "{found:?}");

    let mut messages = vec![json!({"role": "user", "content": "prove"})];
    messages
        .extend((0..500).map(|_| json!({"role": "user", "content": "lorem ipsum dolor sit amet"})));
    messages.push(json!({"role": "user", "content": "debug"}));
    let found = chat(Value::from(messages));
    assert_eq!(found.sample.hard_words, 2, "{found:?}");
    assert_eq!(found.messages, 502);
}

#[test]
fn a_short_conversation_is_counted_once() {
    for pieces in [1, 2, 31, 32, 33, 40, 63, 64] {
        let messages: Vec<_> = (0..pieces)
            .map(|_| json!({"role": "user", "content": "debug"}))
            .collect();
        let found = chat(Value::from(messages)).sample;
        assert_eq!((found.words, found.hard_words), (pieces, pieces));
    }
    // One that ends a little beyond what is looked at of the beginning.
    for words in [8192 / 6, 8192 / 6 + 1, 2 * 8192 / 6] {
        let found = sample(&"debug ".repeat(words));
        assert!(found.bytes as usize <= words * 6, "{found:?}");
        let missing = words - found.hard_words as usize;
        assert!(
            missing <= 1,
            "{missing} of {words}: a word that is cut is lost: {found:?}"
        );
    }
}

#[test]
fn media_is_no_text() {
    let data = "c3RydWN0IGVudW0g".repeat(1000);
    let found = chat(json!([{"role": "user", "content": [
        {"type": "text", "text": "hello"},
        {"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{data}")}},
        {"type": "file", "file": {"file_data": data}},
        {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}},
    ]}]));
    assert_eq!((found.sample.bytes, found.text_bytes), (5, 5), "{found:?}");
}

#[test]
fn hostile_texts_are_looked_at_no_longer_than_others() {
    for text in [
        " ", "a", "🎉", "`", "```\n", "\\", "\"", "\u{7f}", "∑", "_", "- ", "天",
    ] {
        let found = sample(&text.repeat(1_000_000 / text.len()));
        assert!(found.bytes <= 16 * 1024, "{text:?}: {found:?}");
    }
}

proptest! {
    /// Whatever is said, in whatever pieces, is counted the same and within the bound.
    #[test]
    fn any_text_is_counted_without_a_fault(
        texts in prop::collection::vec(("\\PC{0,40}|[\\\\\"u0-9a-f\n`]{0,40}", 1..600_usize), 1..40),
        cut in 1..5000_usize,
    ) {
        let messages: Vec<_> = texts
            .iter()
            .map(|(text, times)| json!({"role": "user", "content": text.repeat(*times)}))
            .collect();
        let body = json!({"model": "auto", "messages": messages}).to_string();
        let whole = look_at(Format::Chat, &body, body.len());
        prop_assert!(whole.sample.bytes <= 16 * 1024);
        prop_assert_eq!(look_at(Format::Chat, &body, cut), whole);
    }
}

proptest! {
    /// A word is the same whether it is seen whole or letter by letter.
    #[test]
    fn words_are_counted_alike_whole_and_letter_by_letter(
        texts in prop::collection::vec("((it|Prove|debug|TRANSLATE|snake_case|camelCase|const_cast|x2|a|\\PC|`{1,4}|\\\\frac|integral)[ \n\t,.`_1(\"/\\\\é]{0,2}){1,25}", 1..3),
    ) {
        let messages: Vec<_> = texts
            .iter()
            .map(|text| json!({"role": "user", "content": text}))
            .collect();
        let body = json!({"model": "auto", "messages": messages}).to_string();
        let whole = look_at(Format::Chat, &body, body.len());
        prop_assert_eq!(look_at(Format::Chat, &body, 1), whole);
        // The same once more, with its letters written as numbers.
        let escaped = escaped_letters(&body);
        let but_bytes = |facts: ConversationFacts| TextSample { bytes: 0, ..facts.sample };
        let escaped = look_at(Format::Chat, &escaped, escaped.len());
        prop_assert_eq!(but_bytes(escaped), but_bytes(whole));
    }
}

/// A body with the letters `a` to `f` of its contents as escapes, where none stands already.
fn escaped_letters(body: &str) -> String {
    let mut out = String::new();
    for (place, part) in body.split("\"content\":\"").enumerate() {
        if place == 0 {
            out.push_str(part);
            continue;
        }
        out.push_str("\"content\":\"");
        let (mut is_escape, mut is_content) = (false, true);
        for letter in part.chars() {
            match letter {
                'a'..='f' if is_content && !is_escape => {
                    out.push_str(&format!("\\u{:04x}", u32::from(letter)));
                }
                _ => out.push(letter),
            }
            is_content &= letter != '"' || is_escape;
            is_escape = letter == '\\' && !is_escape;
        }
    }
    out
}

#[test]
fn instructions_are_none_of_what_is_said_even_where_that_is_told_last() {
    let usual = r#"{"model":"a","messages":[{"role":"system","content":"Prove."},{"role":"user","content":"debug"}]}"#;
    let late = r#"{"model":"a","messages":[{"content":"Prove.","role":"system"},{"content":"debug","role":"user"}]}"#;
    let [usual, late] = [usual, late].map(|body| look_at(Format::Chat, body, body.len()));
    assert_eq!(usual, late);
    assert_eq!(
        (usual.sample.hard_words, usual.text_bytes),
        (1, 5),
        "{usual:?}"
    );
}
