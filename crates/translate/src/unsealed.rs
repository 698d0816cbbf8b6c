//! A request that needs no translation, but brings reasoning along that a translation sealed.
//!
//! It decides what is left out of such a body: the sealed blocks, what nobody can verify
//! without them, and a message that has nothing else. A seal belongs to a provider of another
//! format than its caller's, so that none can be opened here. Everything else stays as the
//! caller wrote it. Whether a body holds seals at all has been seen while it was read.

use crate::{
    document::{Document, Kind, Value},
    output::Output,
    request::scope::member,
    seal::{self, is_sealed},
};
use bytes::Bytes;
use std::{borrow::Cow, collections::HashSet};
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
    let mut writer = Writer {
        out: Output::with_capacity(body.len()),
        dropped: Vec::new(),
        is_changed: false,
    };
    let list = match format {
        Format::Chat | Format::Messages => "messages",
        Format::Responses => "input",
    };
    let top = document.root();
    let goes_on = format == Format::Messages && goes_on_without_thought(top);
    writer.object(top, |writer, name, value| match name {
        name if name == list => match format {
            Format::Chat => writer.list(value, Writer::chat_message),
            Format::Responses => writer.items(value),
            Format::Messages => writer.list(value, Writer::message),
        },
        // Thinking that is enabled must go on from the thought before, which is lost.
        "thinking" if goes_on => {
            writer.drop("thinking");
            writer.out.raw(br#"{"type":"disabled"}"#);
        }
        _ => writer.out.raw(value.raw()),
    });
    (writer.is_changed || !writer.dropped.is_empty()).then(|| Unsealed {
        body: writer.out.into_bytes().into(),
        dropped: writer.dropped,
    })
}

struct Writer {
    out: Output,
    dropped: Vec<&'static str>,
    /// Something was said in another way, so that nothing was left out.
    is_changed: bool,
}

impl Writer {
    fn drop(&mut self, path: &'static str) {
        if !self.dropped.contains(&path) {
            self.dropped.push(path);
        }
    }

    /// Writes an object, the values of its members by `write`.
    fn object(&mut self, value: Value<'_>, write: impl Fn(&mut Self, &str, Value<'_>)) {
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
    fn list(&mut self, value: Value<'_>, write: impl Fn(&mut Self, Value<'_>)) {
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

    fn message(&mut self, message: Value<'_>) {
        let content = member(message, "content");
        let sealed = Sealed::of(content);
        let blocks = || content.into_iter().flat_map(Value::elements);
        if !blocks().any(|block| sealed.loses(block)) {
            self.out.item().raw(message.raw());
            return;
        }
        for path in blocks().filter_map(|block| sealed.block(block)) {
            self.drop(path);
        }
        if blocks().all(|block| sealed.block(block).is_some()) {
            return;
        }
        self.out.item();
        self.object(message, |writer, name, value| match name {
            "content" => writer.list(value, |writer, block| {
                if sealed.block(block).is_none() {
                    writer.out.item();
                    writer.block(block);
                }
            }),
            _ => writer.out.raw(value.raw()),
        });
    }

    /// A block that stays, without citations that are sealed.
    fn block(&mut self, block: Value<'_>) {
        if !citations(block).any(is_sealed_citation) {
            self.out.raw(block.raw());
            return;
        }
        self.drop("messages[].content[].citations");
        self.object(block, |writer, name, value| match name {
            "citations" => writer.list(value, |writer, citation| {
                if !is_sealed_citation(citation) {
                    writer.out.item().raw(citation.raw());
                }
            }),
            _ => writer.out.raw(value.raw()),
        });
    }

    /// A search that another provider made stands before the seal of what it found.
    fn items(&mut self, input: Value<'_>) {
        if input.kind() != Kind::Array {
            self.out.raw(input.raw());
            return;
        }
        self.out.begin_array();
        let mut items = input.elements().peekable();
        while let Some(item) = items.next() {
            let is_followed = items
                .peek()
                .is_some_and(|next| is_seal(*next, "encrypted_content"));
            if let Some(summary) = sealed_summary(item) {
                self.is_changed = true;
                self.out.item().begin_object();
                self.out.key("type").string("message");
                self.out.key("role").string("user");
                self.out.key("content").string(&summary);
                self.out.end_object();
            } else if is_seal(item, "encrypted_content") {
                self.drop("input[].reasoning");
            } else if is_followed && is_kind(item, "web_search_call") {
                self.drop("input[].web_search_call");
            } else {
                self.out.item().raw(item.raw());
            }
        }
        self.out.end_array();
    }

    /// The text beside a seal belongs to the same stranger.
    fn chat_message(&mut self, message: Value<'_>) {
        let details = member(message, "reasoning_details");
        let mut entries = details.into_iter().flat_map(Value::elements);
        if !entries.any(|entry| is_seal(entry, "data")) {
            self.out.item().raw(message.raw());
            return;
        }
        const REASONING: [(&str, &str); 3] = [
            ("reasoning", "messages[].reasoning"),
            ("reasoning_content", "messages[].reasoning_content"),
            ("reasoning_details", "messages[].reasoning_details"),
        ];
        self.out.item().begin_object();
        for (key, value) in message.members() {
            match REASONING.iter().find(|(name, _)| key.is(name)) {
                Some(_) if value.is_null() => {}
                Some((_, path)) => self.drop(path),
                None => self.out.escaped_key(key.json()).raw(value.raw()),
            }
        }
        self.out.end_object();
    }
}

/// What of a message of messages is sealed.
struct Sealed<'d> {
    /// The calls of searches whose results are.
    searches: HashSet<Cow<'d, str>>,
}

impl<'d> Sealed<'d> {
    fn of(content: Option<Value<'d>>) -> Self {
        let blocks = content.into_iter().flat_map(Value::elements);
        let results = blocks.filter(|block| is_sealed_result(*block));
        let ids = results.filter_map(|block| member(block, "tool_use_id")?.as_str());
        Self {
            searches: ids.collect(),
        }
    }

    /// Whether a block is left out, or a part of it.
    fn loses(&self, block: Value<'_>) -> bool {
        self.block(block).is_some() || citations(block).any(is_sealed_citation)
    }

    /// The path of a block that is left out.
    fn block(&self, block: Value<'_>) -> Option<&'static str> {
        if is_seal(block, "signature") {
            return Some("messages[].content[].thinking");
        }
        if is_seal(block, "data") {
            return Some("messages[].content[].redacted_thinking");
        }
        if is_sealed_result(block) {
            return Some("messages[].content[].web_search_tool_result");
        }
        let is_call = !self.searches.is_empty() && is_kind(block, "server_tool_use");
        let id = is_call.then(|| member(block, "id")?.as_str()).flatten()?;
        let is_lost = self.searches.contains(&id);
        is_lost.then_some("messages[].content[].server_tool_use")
    }
}

/// The summary of a conversation that the gateway had made, as the provider can read it.
fn sealed_summary(item: Value<'_>) -> Option<String> {
    let content = member(item, "encrypted_content")?.as_str()?;
    let is_ours = is_kind(item, "compaction");
    is_ours.then(|| seal::summary(&content)).flatten()
}

/// Whether a block is the result of a search that another provider made.
fn is_sealed_result(block: Value<'_>) -> bool {
    let content = member(block, "content").into_iter();
    let mut results = content.flat_map(Value::elements);
    is_kind(block, "web_search_tool_result")
        && results.any(|result| is_seal(result, "encrypted_content"))
}

fn citations(block: Value<'_>) -> impl Iterator<Item = Value<'_>> {
    let citations = member(block, "citations").into_iter();
    citations.flat_map(Value::elements)
}

fn is_sealed_citation(citation: Value<'_>) -> bool {
    is_seal(citation, "encrypted_index")
}

fn is_seal(value: Value<'_>, field: &str) -> bool {
    let field = member(value, field).and_then(Value::text);
    field.is_some_and(|text| is_sealed(&text.decode()))
}

/// Whether thinking is enabled, and the answer that goes on after a tool loses its thought.
fn goes_on_without_thought(top: Value<'_>) -> bool {
    let thinking = member(top, "thinking").and_then(|it| member(it, "type"));
    if !thinking
        .and_then(Value::text)
        .is_some_and(|it| it.is("enabled"))
    {
        return false;
    }
    let messages = member(top, "messages");
    let is_assistant = |message: &Value<'_>| {
        let role = member(*message, "role").and_then(Value::text);
        role.is_some_and(|role| role.is("assistant"))
    };
    let turns = messages.into_iter().flat_map(Value::elements);
    let last = turns.filter(is_assistant).last();
    let content = last.and_then(|it| member(it, "content"));
    let sealed = Sealed::of(content);
    let mut blocks = content.into_iter().flat_map(Value::elements);
    let calls = blocks.clone().any(|block| is_kind(block, "tool_use"));
    let first = blocks.find(|block| sealed.block(*block).is_none());
    let thinks =
        |block: Value<'_>| is_kind(block, "thinking") || is_kind(block, "redacted_thinking");
    calls && !first.is_some_and(thinks)
}

fn is_kind(block: Value<'_>, kind: &str) -> bool {
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
