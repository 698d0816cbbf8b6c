//! A messages request that needs no translation, for a model that always thinks.
//!
//! It decides what of such a request is in the way of thinking: how words are drawn is left out,
//! as a translation leaves it out, and where a tool must be called, or the answer goes on from a
//! turn without its thought, the model is not made to think. That it is made to, and with how
//! many tokens, is decided elsewhere.

use crate::{
    document::{Document, Value},
    output::Output,
};
use bytes::Bytes;

/// The settings of a request that prevent thinking.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThinkingObstacles {
    /// Providers refuse to think for such a request.
    pub excluded: bool,
    /// Settings that providers take only without thinking.
    pub sampling: Vec<&'static str>,
}

impl ThinkingObstacles {
    /// Looks for them in the body of a messages request that a lexer has checked.
    pub fn of(body: &[u8]) -> Self {
        let Ok(document) = Document::of_valid(body) else {
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
    let choice = top.get("tool_choice");
    choice.is_some_and(|choice| choice.has("type", "any") || choice.has("type", "tool"))
}

/// Whether the answer goes on from a turn that did not begin with a thought: after tools, or
/// because that turn comes last of all.
pub(crate) fn goes_on_unthought(top: Value<'_>) -> bool {
    let messages = top.get("messages").into_iter();
    let messages = messages.flat_map(Value::elements);
    let is_answer = |message: Value<'_>| message.has("role", "assistant");
    let comes_last = messages.clone().last().is_some_and(is_answer);
    let Some((first, last)) = continued_answers(messages) else {
        return false;
    };
    let calls = blocks(last).any(|block| block.has("type", "tool_use"));
    let begun = if comes_last { last } else { first };
    (calls || comes_last) && !blocks(begun).next().is_some_and(is_thought)
}

/// The first and the last answer of the loop of calls that the next answer continues. Only results stand between
/// them, so the model may have thought only before the first.
pub(crate) fn continued_answers<'d>(
    messages: impl Iterator<Item = Value<'d>>,
) -> Option<(Value<'d>, Value<'d>)> {
    let mut found = None;
    let mut goes_on = false;
    for message in messages {
        let is_answer = message.has("role", "assistant");
        if is_answer {
            let first = found
                .filter(|_| goes_on)
                .map_or(message, |(first, _)| first);
            found = Some((first, message));
        }
        goes_on = is_answer || goes_on && has_only_results(message);
    }
    found
}

fn has_only_results(message: Value<'_>) -> bool {
    let mut blocks = blocks(message).peekable();
    blocks.peek().is_some() && blocks.all(|block| block.has("type", "tool_result"))
}

pub(crate) fn blocks(message: Value<'_>) -> impl Iterator<Item = Value<'_>> {
    let content = message.get("content").into_iter();
    content.flat_map(Value::elements)
}

pub(crate) fn is_thought(block: Value<'_>) -> bool {
    block.has("type", "thinking") || block.has("type", "redacted_thinking")
}

/// Thinking goes with a temperature of 1, a `top_p` of 0.95 at least, and no `top_k`.
fn sampling(top: Value<'_>) -> Vec<&'static str> {
    let number = |field| top.get(field).and_then(Value::as_f64);
    let mut found = Vec::new();
    if number("temperature").is_some_and(|degree| degree < 1.0) {
        found.push("temperature");
    }
    if number("top_p").is_some_and(|share| share < 0.95) {
        found.push("top_p");
    }
    if top.get("top_k").is_some() {
        found.push("top_k");
    }
    found
}

/// A body without these members; `None` if it is no JSON. A lexer has checked it.
pub fn without_members(body: &[u8], names: &[&str]) -> Option<Bytes> {
    let document = Document::of_valid(body).ok()?;
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
mod tests;
