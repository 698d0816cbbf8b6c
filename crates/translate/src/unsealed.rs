//! A request that needs no translation, but brings reasoning along that a translation sealed.
//!
//! It decides what is left out of such a body: the sealed blocks, what nobody can verify
//! without them, and a message that has nothing else. A seal belongs to a provider of another
//! format than its caller's, so that none can be opened here. Everything else stays as the
//! caller wrote it. Whether a body holds seals at all has been seen while it was read.

use crate::{
    document::{Document, Kind, Value},
    formats::rules,
    output::Output,
    request::scope::member,
    seal::is_sealed,
};
use bytes::Bytes;
use tollgate_types::Format;

/// A body without the reasoning that was sealed in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsealed {
    /// The body to send.
    pub body: Bytes,
    /// What was left out, by its paths in the table, each once.
    pub dropped: Vec<&'static str>,
}

/// Leaves sealed reasoning out of a request that goes to a provider of its own format.
/// `None`: the body is not what was read before, or there is nothing to leave out.
pub fn without_seals(format: Format, body: &[u8]) -> Option<Unsealed> {
    let document = Document::parse(body).ok()?;
    let mut writer = Unsealer {
        out: Output::with_capacity(body.len()),
        dropped: Vec::new(),
        is_changed: false,
    };
    (rules(format).source.unseal)(&mut writer, document.root());
    (writer.is_changed || !writer.dropped.is_empty()).then(|| Unsealed {
        body: writer.out.into_bytes().into(),
        dropped: writer.dropped,
    })
}

/// Writes a body anew, without what is sealed in it.
#[derive(Debug)]
pub(crate) struct Unsealer {
    pub(crate) out: Output,
    dropped: Vec<&'static str>,
    /// Something was said in another way, so that nothing was left out.
    pub(crate) is_changed: bool,
}

impl Unsealer {
    pub(crate) fn leave_out(&mut self, path: &'static str) {
        if !self.dropped.contains(&path) {
            self.dropped.push(path);
        }
    }

    /// Writes an object, the values of its members by `write`.
    pub(crate) fn object(&mut self, value: Value<'_>, write: impl Fn(&mut Self, &str, Value<'_>)) {
        if value.kind() != Kind::Object {
            self.out.raw(value.raw());
            return;
        }
        self.out.begin_object();
        for (key, value) in value.members() {
            self.out.escaped_key(key.json());
            write(self, &key.decode(), value);
        }
        self.out.end_object();
    }

    /// Writes a list, its elements by `write`, which may leave one out.
    pub(crate) fn list(&mut self, value: Value<'_>, write: impl Fn(&mut Self, Value<'_>)) {
        if value.kind() != Kind::Array {
            self.out.raw(value.raw());
            return;
        }
        self.out.begin_array();
        for element in value.elements() {
            write(self, element);
        }
        self.out.end_array();
    }
}

pub(crate) fn is_seal(value: Value<'_>, field: &str) -> bool {
    let field = member(value, field).and_then(Value::text);
    field.is_some_and(|text| is_sealed(&text.decode()))
}

pub(crate) fn is_kind(block: Value<'_>, kind: &str) -> bool {
    let found = member(block, "type").and_then(Value::text);
    found.is_some_and(|found| found.is(kind))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seal::{self, Backend, ReasoningForm};
    use serde_json::json;

    fn sealed() -> String {
        seal::seal(Backend::new("north"), ReasoningForm::Encrypted, "", "gAAA").unwrap()
    }

    fn cleared(format: Format, body: &serde_json::Value) -> (serde_json::Value, Vec<&'static str>) {
        let unsealed = without_seals(format, body.to_string().as_bytes()).unwrap();
        (
            serde_json::from_slice(&unsealed.body).unwrap(),
            unsealed.dropped,
        )
    }

    #[test]
    fn sealed_blocks_leave_messages_and_their_provider_s_own_stay() {
        let own = json!({"type": "thinking", "thinking": "Hm.", "signature": "EqQB"});
        let body = json!({"model": "m", "max_tokens": 9, "messages": [
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "No.", "signature": sealed()}]},
            {"role": "user", "content": "b"},
            {"role": "assistant", "content": [
                {"type": "redacted_thinking", "data": sealed()}, own, {"type": "text", "text": "c"}]},
        ]});
        let (body, dropped) = cleared(Format::Messages, &body);
        let expected = json!([
            {"role": "user", "content": "a"},
            {"role": "user", "content": "b"},
            {"role": "assistant", "content": [own, {"type": "text", "text": "c"}]},
        ]);
        assert_eq!(body["messages"], expected);
        let paths = [
            "messages[].content[].thinking",
            "messages[].content[].redacted_thinking",
        ];
        assert_eq!(dropped, paths);
    }

    #[test]
    fn enabled_thinking_rests_where_an_answer_goes_on_without_its_thought() {
        let call = json!({"type": "tool_use", "id": "a", "name": "b", "input": {}});
        let turns = |more: serde_json::Value| {
            json!({"model": "m", "thinking": {"type": "enabled", "budget_tokens": 1024}, "messages": [
                {"role": "assistant", "content": [{"type": "thinking", "thinking": "", "signature": sealed()}, more, call]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]},
            ]})
        };
        let (body, dropped) = cleared(
            Format::Messages,
            &turns(json!({"type": "text", "text": "x"})),
        );
        assert_eq!(body["thinking"], json!({"type": "disabled"}));
        assert!(dropped.contains(&"thinking"));
        let own = json!({"type": "thinking", "thinking": "", "signature": "EqQB"});
        let (body, _) = cleared(Format::Messages, &turns(own));
        assert_eq!(body["thinking"]["type"], "enabled");
    }

    #[test]
    fn sealed_items_and_entries_leave_with_the_text_beside_them() {
        let body = json!({"model": "m", "input": [
            {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": sealed()},
            {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "gAAA"},
        ]});
        let (body, dropped) = cleared(Format::Responses, &body);
        assert_eq!(body["input"].as_array().unwrap().len(), 1);
        assert_eq!(
            (&body["input"][0]["id"], dropped),
            (&json!("rs_2"), vec!["input[].reasoning"])
        );
        let body = json!({"model": "m", "messages": [
            {"role": "assistant", "content": "x", "reasoning_content": "Hm.",
             "reasoning_details": [{"type": "reasoning.encrypted", "data": sealed()}]},
        ]});
        let (body, dropped) = cleared(Format::Chat, &body);
        assert_eq!(
            body["messages"],
            json!([{"role": "assistant", "content": "x"}])
        );
        let present = [
            "messages[].reasoning_content",
            "messages[].reasoning_details",
        ];
        assert_eq!(dropped, present);
    }

    #[test]
    fn what_another_provider_searched_for_leaves_with_its_seals() {
        let search = |id: &str, content: &str| {
            [
                json!({"type": "server_tool_use", "id": id, "name": "web_search", "input": {"query": "x"}}),
                json!({"type": "web_search_tool_result", "tool_use_id": id, "content": [
                    {"type": "web_search_result", "url": "u", "title": "t", "encrypted_content": content},
                    {"type": "web_search_result", "url": "v", "title": "t", "encrypted_content": ""}]}),
            ]
        };
        let text = |index: &str| {
            json!({"type": "text", "text": "x", "citations": [
                {"type": "web_search_result_location", "url": "u", "encrypted_index": index},
                {"type": "web_search_result_location", "url": "w", "encrypted_index": "EqQB"}]})
        };
        let [strange_call, strange_result] = search("srvtoolu_1", &sealed());
        let [own_call, own_result] = search("srvtoolu_2", "EqQB");
        let body = json!({"model": "m", "max_tokens": 9, "messages": [
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": [
                strange_call, strange_result, own_call, own_result, text(&sealed())]},
        ]});
        let (body, dropped) = cleared(Format::Messages, &body);
        let kept = json!({"type": "text", "text": "x", "citations": [
            {"type": "web_search_result_location", "url": "w", "encrypted_index": "EqQB"}]});
        let expected = json!([own_call, own_result, kept]);
        assert_eq!(body["messages"][1]["content"], expected);
        let paths = [
            "messages[].content[].server_tool_use",
            "messages[].content[].web_search_tool_result",
            "messages[].content[].citations",
        ];
        assert_eq!(dropped, paths);

        let call = |id: &str| json!({"type": "web_search_call", "id": id, "status": "completed", "action": {"type": "search"}});
        let seal = json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": sealed()});
        let body = json!({"model": "m", "input": [call("ws_1"), seal, call("ws_2")]});
        let (body, dropped) = cleared(Format::Responses, &body);
        assert_eq!(body["input"], json!([call("ws_2")]));
        assert_eq!(dropped, ["input[].web_search_call", "input[].reasoning"]);
    }

    #[test]
    fn a_body_without_seals_is_left_alone() {
        let body = br#"{"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"tg1.","signature":"E"}]}]}"#;
        assert_eq!(without_seals(Format::Messages, body), None);
    }
}
