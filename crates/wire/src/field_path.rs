//! Finds a field in a JSON body by its path, without a tree.
//!
//! Providers name the field at fault in several spellings (`messages[0].role`,
//! `messages.0.role`, `tools.0.custom.name`). What of such a path the body has is a fact about
//! the body, so it can be shown to the author of the body.

use crate::json::{Container, JsonError, Lexer, Literal, Number, Sink, Span, Text, Want};
use std::fmt::Write as _;

/// Bytes of a path.
const MOST_BYTES: usize = 256;
/// Steps of a path.
const MOST_STEPS: usize = 32;

/// Whether a text reads like a path: letters, digits, `_`, `-`, points and brackets.
pub fn is_path(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.[]".contains(&byte);
    text.len() <= MOST_BYTES
        && text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.bytes().all(is_part)
}

/// The longest beginning of `path` that leads to a value of the body, written as
/// `messages[0].role`; `None` where the body has not even its first step, or is not JSON.
///
/// ```
/// use tollgate_wire::field_path::longest_in;
///
/// let body = br#"{"tools":[{"name":"f"}]}"#;
/// assert_eq!(longest_in([&body[..]], "tools.0.custom.name").as_deref(), Some("tools[0]"));
/// assert_eq!(longest_in([&body[..]], "system"), None);
/// ```
pub fn longest_in<'a>(body: impl IntoIterator<Item = &'a [u8]>, path: &str) -> Option<String> {
    if !is_path(path) {
        return None;
    }
    let steps = path.split(['.', '[', ']']).filter(|step| !step.is_empty());
    let steps: Vec<&str> = steps.take(MOST_STEPS).collect();
    let mut search = Search::new(&steps);
    let mut lexer = Lexer::default();
    for chunk in body {
        lexer.feed(chunk, &mut search).ok()?;
    }
    search.found()
}

/// A container that lies on the path.
struct Level {
    container: Container,
    /// Elements so far.
    elements: usize,
    /// Whether the value that comes next lies on the path.
    is_next: bool,
}

struct Search<'a> {
    steps: &'a [&'a str],
    /// The containers on the path that are open.
    levels: Vec<Level>,
    /// Containers that are open.
    depth: usize,
    /// The containers of the longest beginning that was found.
    best: Vec<Container>,
}

impl<'a> Search<'a> {
    fn new(steps: &'a [&'a str]) -> Self {
        Self {
            steps,
            levels: Vec::new(),
            depth: 0,
            best: Vec::new(),
        }
    }

    /// The step that leads on from the innermost container on the path.
    fn step(&self) -> Option<&'a str> {
        self.steps.get(self.levels.len().checked_sub(1)?).copied()
    }

    /// Whether the innermost open container lies on the path.
    const fn is_on_path(&self) -> bool {
        self.levels.len() == self.depth
    }

    /// Takes a value; whether it lies on the path.
    fn value(&mut self) -> bool {
        if !self.is_on_path() {
            return false;
        }
        let step = self.step();
        let Some(level) = self.levels.last_mut() else {
            // The body itself.
            return true;
        };
        let is_next = match level.container {
            Container::Object => std::mem::take(&mut level.is_next),
            Container::Array => {
                let element = level.elements;
                level.elements = element.saturating_add(1);
                step.and_then(|step| step.parse().ok()) == Some(element)
            }
        };
        if is_next && self.levels.len() > self.best.len() {
            self.best = self.levels.iter().map(|level| level.container).collect();
        }
        is_next
    }

    fn found(self) -> Option<String> {
        let mut path = String::new();
        for (step, container) in self.steps.iter().zip(&self.best) {
            // Writing to a string cannot fail.
            let _ = match container {
                Container::Array => write!(path, "[{step}]"),
                Container::Object if path.is_empty() => write!(path, "{step}"),
                Container::Object => write!(path, ".{step}"),
            };
        }
        (!path.is_empty()).then_some(path)
    }
}

impl Sink for Search<'_> {
    type Error = JsonError;

    fn want_key(&mut self) -> Want {
        match self.is_on_path() {
            true => Want::Prefix(MOST_BYTES),
            false => Want::Nothing,
        }
    }

    fn key(&mut self, key: Text<'_>) -> Result<(), JsonError> {
        if self.is_on_path() {
            let is_next = key.is_whole() && self.step() == Some(key.as_str());
            if let Some(level) = self.levels.last_mut() {
                level.is_next = is_next;
            }
        }
        Ok(())
    }

    fn string(&mut self, _: Text<'_>) -> Result<(), JsonError> {
        self.value();
        Ok(())
    }

    fn number(&mut self, _: Number<'_>) -> Result<(), JsonError> {
        self.value();
        Ok(())
    }

    fn literal(&mut self, _: Literal, _: Span) -> Result<(), JsonError> {
        self.value();
        Ok(())
    }

    fn begin(&mut self, container: Container, _: u64) -> Result<(), JsonError> {
        if self.value() {
            self.levels.push(Level {
                container,
                elements: 0,
                is_next: false,
            });
        }
        self.depth = self.depth.saturating_add(1);
        Ok(())
    }

    fn end(&mut self, _: Container, _: u64) -> Result<(), JsonError> {
        if self.is_on_path() {
            self.levels.pop();
        }
        self.depth = self.depth.saturating_sub(1);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str = r#"{"model":"m","messages":[{"role":"user","content":"a"},
        {"content":[{"type":"text","text":"b"},7],"role":"user"}],"max_tokens":null}"#;

    fn found(path: &str) -> Option<String> {
        let whole = longest_in([BODY.as_bytes()], path);
        assert_eq!(longest_in(BODY.as_bytes().chunks(1), path), whole, "{path}");
        whole
    }

    #[test]
    fn the_longest_beginning_that_the_body_has_is_found_in_every_spelling() {
        for (path, expected) in [
            ("max_tokens", Some("max_tokens")),
            ("messages", Some("messages")),
            ("messages[1].role", Some("messages[1].role")),
            ("messages.1.role", Some("messages[1].role")),
            (
                "messages[1].content[0].text",
                Some("messages[1].content[0].text"),
            ),
            ("messages.1.content.1", Some("messages[1].content[1]")),
            ("messages.0.name", Some("messages[0]")),
            (
                "messages.1.content.0.text.cache_control",
                Some("messages[1].content[0].text"),
            ),
            ("messages[2].role", Some("messages")),
            ("messages.role", Some("messages")),
            ("role", None),
            ("0", None),
            ("", None),
        ] {
            assert_eq!(found(path).as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn other_texts_are_no_path() {
        for text in [
            "Your request was refused",
            "messages/0",
            "model\n",
            "'model'",
            &"m".repeat(MOST_BYTES + 1),
        ] {
            assert!(!is_path(text), "{text:?}");
            assert_eq!(found(text), None, "{text:?}");
        }
        assert_eq!(longest_in([&b"{\"model\":"[..]], "model"), None);
        assert_eq!(longest_in([&b"model"[..]], "model"), None);
    }
}
