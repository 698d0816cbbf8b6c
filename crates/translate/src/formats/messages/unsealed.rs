//! Leaves sealed blocks and citations out of a messages request.

use super::thinking::{blocks, continued_answers, is_thought};
use crate::{
    document::Value,
    unsealed::{Unsealer, is_seal},
};
use std::{borrow::Cow, collections::HashSet};

pub(crate) fn unseal(writer: &mut Unsealer, top: Value<'_>) {
    let goes_on = goes_on_without_thought(top);
    writer.object(top, |writer, name, value| match name {
        "messages" => writer.list(value, Unsealer::message),
        // Enabled thinking must go on from the earlier thought, which is lost.
        "thinking" if goes_on => {
            writer.leave_out("thinking");
            writer.out.raw(br#"{"type":"disabled"}"#);
        }
        _ => writer.out.raw(value.raw()),
    });
}

impl Unsealer {
    fn message(&mut self, message: Value<'_>) {
        let content = message.get("content");
        let sealed = Sealed::of(content);
        let blocks = || content.into_iter().flat_map(Value::elements);
        if !blocks().any(|block| sealed.loses(block)) {
            self.out.item().raw(message.raw());
            return;
        }
        for path in blocks().filter_map(|block| sealed.block(block)) {
            self.leave_out(path);
        }
        if sealed.is_all(message) {
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
        self.leave_out("messages[].content[].citations");
        self.object(block, |writer, name, value| match name {
            "citations" => writer.list(value, |writer, citation| {
                if !is_sealed_citation(citation) {
                    writer.out.item().raw(citation.raw());
                }
            }),
            _ => writer.out.raw(value.raw()),
        });
    }
}

/// The sealed parts of a message.
struct Sealed<'d> {
    /// The calls of searches whose results are.
    searches: HashSet<Cow<'d, str>>,
}

impl<'d> Sealed<'d> {
    fn of(content: Option<Value<'d>>) -> Self {
        let blocks = content.into_iter().flat_map(Value::elements);
        let results = blocks.filter(|block| is_sealed_result(*block));
        let ids = results.filter_map(|block| block.get("tool_use_id")?.as_str());
        Self {
            searches: ids.collect(),
        }
    }

    /// Whether a block is left out, or a part of it.
    fn loses(&self, block: Value<'_>) -> bool {
        self.block(block).is_some() || citations(block).any(is_sealed_citation)
    }

    /// Whether nothing of a message is left.
    fn is_all(&self, message: Value<'_>) -> bool {
        let content = message.get("content").into_iter();
        let mut blocks = content.flat_map(Value::elements).peekable();
        blocks.peek().is_some() && blocks.all(|block| self.block(block).is_some())
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
        let is_call = !self.searches.is_empty() && block.has("type", "server_tool_use");
        let id = is_call.then(|| block.get("id")?.as_str()).flatten()?;
        let is_lost = self.searches.contains(&id);
        is_lost.then_some("messages[].content[].server_tool_use")
    }
}

/// Whether a block is the result of a search that another provider made.
fn is_sealed_result(block: Value<'_>) -> bool {
    let content = block.get("content").into_iter();
    let mut results = content.flat_map(Value::elements);
    block.has("type", "web_search_tool_result")
        && results.any(|result| is_seal(result, "encrypted_content"))
}

fn citations(block: Value<'_>) -> impl Iterator<Item = Value<'_>> {
    let citations = block.get("citations").into_iter();
    citations.flat_map(Value::elements)
}

fn is_sealed_citation(citation: Value<'_>) -> bool {
    is_seal(citation, "encrypted_index")
}

/// Whether thinking is enabled, and the answer that goes on after a tool loses its thought.
fn goes_on_without_thought(top: Value<'_>) -> bool {
    let thinking = top.get("thinking");
    if !thinking.is_some_and(|it| it.has("type", "enabled")) {
        return false;
    }
    let messages = top.get("messages");
    // A message of which nothing is left does not count: the one before it becomes the last.
    let is_kept = |message: &Value<'_>| !Sealed::of(message.get("content")).is_all(*message);
    let turns = messages.into_iter().flat_map(Value::elements);
    let Some((first, last)) = continued_answers(turns.filter(is_kept)) else {
        return false;
    };
    let calls = blocks(last).any(|block| block.has("type", "tool_use"));
    let sealed = Sealed::of(first.get("content"));
    let first = blocks(first).find(|block| sealed.block(*block).is_none());
    calls && !first.is_some_and(is_thought)
}
