//! A request of messages that needs no translation, whose model thinks although nobody said so.
//!
//! It decides what of such a request is in the way of thinking: how words are drawn is left out,
//! as a translation leaves it out, and where a tool must be called, or the answer goes on from a
//! turn without its thought, the model is not made to think. That it is made to, and with how
//! many tokens, is decided elsewhere.

use crate::{
    document::{Document, Value},
    output::Output,
    request::scope::member,
};
use bytes::Bytes;

/// What of a request is in the way of thinking.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThinkingObstacles {
    /// Providers refuse to think for such a request.
    pub excluded: bool,
    /// Settings that providers take only where nobody thinks.
    pub sampling: Vec<&'static str>,
}

impl ThinkingObstacles {
    /// Looks for them in the body of a messages request.
    pub fn of(body: &[u8]) -> Self {
        let Ok(document) = Document::parse(body) else {
            return Self::default();
        };
        let top = document.root();
        Self {
            excluded: forces_a_tool(top) || goes_on_unthought(top),
            sampling: sampling(top),
        }
    }
}

fn forces_a_tool(top: Value<'_>) -> bool {
    let choice = member(top, "tool_choice").and_then(|choice| member(choice, "type"));
    let kind = choice.and_then(Value::text);
    kind.is_some_and(|kind| kind.is("any") || kind.is("tool"))
}

/// Whether the answer goes on from a turn that did not begin with a thought: after a tool, or
/// because that turn comes last of all.
fn goes_on_unthought(top: Value<'_>) -> bool {
    let messages = member(top, "messages").into_iter();
    let (mut last, mut comes_last) = (None, false);
    for message in messages.flat_map(Value::elements) {
        let role = member(message, "role").and_then(Value::text);
        comes_last = role.is_some_and(|role| role.is("assistant"));
        last = if comes_last { Some(message) } else { last };
    }
    let content = last.and_then(|message| member(message, "content"));
    let mut blocks = content.into_iter().flat_map(Value::elements);
    let calls = blocks.clone().any(|block| is_kind(block, &["tool_use"]));
    let thinks = |block| is_kind(block, &["thinking", "redacted_thinking"]);
    (calls || comes_last) && !blocks.next().is_some_and(thinks)
}

/// Thinking goes with a temperature of 1, a `top_p` of 0.95 at least, and no `top_k`.
fn sampling(top: Value<'_>) -> Vec<&'static str> {
    let number = |field| member(top, field).and_then(Value::as_f64);
    let mut found = Vec::new();
    if number("temperature").is_some_and(|degree| degree < 1.0) {
        found.push("temperature");
    }
    if number("top_p").is_some_and(|share| share < 0.95) {
        found.push("top_p");
    }
    if member(top, "top_k").is_some() {
        found.push("top_k");
    }
    found
}

fn is_kind(block: Value<'_>, kinds: &[&str]) -> bool {
    let found = member(block, "type").and_then(Value::text);
    found.is_some_and(|found| kinds.iter().any(|kind| found.is(kind)))
}

/// A body without these members; `None` where it is no JSON.
pub fn without_members(body: &[u8], names: &[&str]) -> Option<Bytes> {
    let document = Document::parse(body).ok()?;
    let mut out = Output::with_capacity(body.len());
    out.begin_object();
    for (key, value) in document.root().members() {
        if !names.iter().any(|name| key.is(name)) {
            out.escaped_key(key.json()).raw(value.raw());
        }
    }
    out.end_object();
    Some(out.into_bytes().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn obstacles(more: &Value, turns: &Value) -> ThinkingObstacles {
        let mut body = json!({"model": "m", "max_tokens": 9, "messages": turns});
        let more = more.as_object().unwrap().clone();
        body.as_object_mut().unwrap().extend(more);
        ThinkingObstacles::of(body.to_string().as_bytes())
    }

    fn said() -> Value {
        json!([{"role": "user", "content": "Hi."}])
    }

    #[test]
    fn what_is_drawn_otherwise_is_in_the_way_and_excludes_nothing() {
        for (more, found) in [
            (json!({}), &[][..]),
            (json!({"temperature": 1, "top_p": 0.95}), &[]),
            (
                json!({"temperature": 0.5, "top_p": 0.9}),
                &["temperature", "top_p"],
            ),
            (json!({"top_k": 5}), &["top_k"]),
        ] {
            let obstacles = obstacles(&more, &said());
            assert_eq!(obstacles.sampling, found, "{more}");
            assert!(!obstacles.excluded, "{more}");
        }
    }

    #[test]
    fn a_tool_that_must_be_called_excludes_thinking() {
        for (kind, excluded) in [
            ("auto", false),
            ("none", false),
            ("any", true),
            ("tool", true),
        ] {
            let more = json!({"tool_choice": {"type": kind}});
            assert_eq!(obstacles(&more, &said()).excluded, excluded, "{kind}");
        }
    }

    #[test]
    fn an_answer_that_goes_on_without_its_thought_excludes_thinking() {
        let call = json!({"type": "tool_use", "id": "c", "name": "f", "input": {}});
        let thought = json!({"type": "thinking", "thinking": "Hm.", "signature": "s"});
        let hidden = json!({"type": "redacted_thinking", "data": "x"});
        let result = json!({"type": "tool_result", "tool_use_id": "c", "content": "Seen."});
        for (content, excluded) in [
            (json!([call]), true),
            (json!([{"type": "text", "text": "I look."}, call]), true),
            (json!([thought, call]), false),
            (json!([hidden, call]), false),
            (json!("Done."), false),
        ] {
            let turns = json!([
                {"role": "user", "content": "Go."},
                {"role": "assistant", "content": content},
                {"role": "user", "content": [result]},
            ]);
            assert_eq!(
                obstacles(&json!({}), &turns).excluded,
                excluded,
                "{content}"
            );
        }
        let begun = json!([
            {"role": "user", "content": "Go."},
            {"role": "assistant", "content": "It is"},
        ]);
        assert!(obstacles(&json!({}), &begun).excluded);
    }

    #[test]
    fn what_is_left_out_is_gone_and_the_rest_is_as_it_was() {
        let body = br#"{"temperature":0.50,"model" : "m","top_k":1}"#;
        let sent = without_members(body, &["temperature", "top_k"]).unwrap();
        assert_eq!(sent, r#"{"model":"m"}"#);
    }
}
