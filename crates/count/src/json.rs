//! A body as a tree that borrows from it: what the walks over the three formats read.
//!
//! The grammar, the depth and the leniencies are those of the wire crate's lexer, so a body
//! that the gateway took is a body that can be counted. The number of nodes is bounded:
//! dense JSON of many megabytes is not worth a tree many times its size.

use std::borrow::Cow;
use tollgate_wire::json::{Container, JsonError, Lexer, Literal, Number, Sink, Span, Text, Want};

/// Nodes of a tree at most: about 16 MB of memory at the very worst.
const MAX_NODES: usize = 1 << 18;

/// A JSON value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json<'a> {
    Null,
    Bool(bool),
    Number(&'a str),
    Text(Cow<'a, str>),
    Array(Vec<Json<'a>>),
    Object(Vec<(Cow<'a, str>, Json<'a>)>),
}

/// Why there is no tree.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreadable {
    #[error(transparent)]
    Json(#[from] JsonError),
    #[error("more than {MAX_NODES} values")]
    TooDense,
}

impl<'a> Json<'a> {
    pub(crate) fn parse(body: &'a [u8]) -> Result<Self, Unreadable> {
        let (mut lexer, mut builder) = (Lexer::new(), Builder::new(body));
        lexer.feed(body, &mut builder)?;
        lexer.finish(&mut builder)?;
        Ok(builder.root.unwrap_or(Json::Null))
    }

    /// The value of a key of an object.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        self.members()
            .iter()
            .find_map(|(name, value)| (name == key).then_some(value))
    }

    /// The text of a key of an object; empty where there is none.
    pub(crate) fn text_of(&self, key: &str) -> &str {
        self.get(key).and_then(Self::as_text).unwrap_or_default()
    }

    pub(crate) fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The elements of an array; none of anything else.
    pub(crate) fn elements(&self) -> &[Self] {
        match self {
            Self::Array(elements) => elements,
            _ => &[],
        }
    }

    /// The members of an object; none of anything else.
    pub(crate) fn members(&self) -> &[(Cow<'a, str>, Self)] {
        match self {
            Self::Object(members) => members,
            _ => &[],
        }
    }

    /// Bytes of the value as JSON without white space and escapes.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Null => 4,
            Self::Bool(_) => 5,
            Self::Number(digits) => digits.len(),
            Self::Text(text) => text.len().saturating_add(2),
            Self::Array(elements) => {
                let inside = elements.iter().map(|it| it.len().saturating_add(1));
                inside.fold(2, usize::saturating_add)
            }
            Self::Object(members) => {
                let inside = members
                    .iter()
                    .map(|(key, it)| it.len().saturating_add(key.len()).saturating_add(4));
                inside.fold(2, usize::saturating_add)
            }
        }
    }

    /// Writes the value as the large providers show JSON to their models: one line, a space
    /// after each colon and comma.
    pub(crate) fn write(&self, out: &mut String) {
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(true) => out.push_str("true"),
            Self::Bool(false) => out.push_str("false"),
            Self::Number(digits) => out.push_str(digits),
            Self::Text(text) => write_text(text, out),
            Self::Array(elements) => {
                out.push('[');
                for (place, element) in elements.iter().enumerate() {
                    separate(place, out);
                    element.write(out);
                }
                out.push(']');
            }
            Self::Object(members) => {
                out.push('{');
                for (place, (key, value)) in members.iter().enumerate() {
                    separate(place, out);
                    write_text(key, out);
                    out.push_str(": ");
                    value.write(out);
                }
                out.push('}');
            }
        }
    }

    /// The value as one line of JSON.
    pub(crate) fn to_line(&self) -> String {
        let mut line = String::new();
        self.write(&mut line);
        line
    }
}

fn separate(place: usize, out: &mut String) {
    if place > 0 {
        out.push_str(", ");
    }
}

fn write_text(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            _ => out.push(character),
        }
    }
    out.push('"');
}

/// Puts the tree together from what the lexer reports.
struct Builder<'a> {
    body: &'a [u8],
    open: Vec<Open<'a>>,
    root: Option<Json<'a>>,
    nodes: usize,
}

/// A container whose end has not been read yet.
enum Open<'a> {
    Array(Vec<Json<'a>>),
    /// The key is that of the value to come.
    Object(Vec<(Cow<'a, str>, Json<'a>)>, Cow<'a, str>),
}

impl<'a> Builder<'a> {
    const fn new(body: &'a [u8]) -> Self {
        Self {
            body,
            open: Vec::new(),
            root: None,
            nodes: 0,
        }
    }

    fn between(&self, start: u64, end: u64) -> &'a str {
        let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
        range
            .and_then(|(start, end)| self.body.get(start..end))
            .and_then(|bytes| std::str::from_utf8(bytes).ok())
            .unwrap_or_default()
    }

    /// Strings without escapes stand in the body as they are.
    fn text(&self, text: Text<'_>) -> Cow<'a, str> {
        let Span { start, end } = text.span;
        if text.len.saturating_add(2) == text.span.len() {
            Cow::Borrowed(self.between(start.saturating_add(1), end.saturating_sub(1)))
        } else {
            Cow::Owned(text.as_str().to_owned())
        }
    }

    fn put(&mut self, value: Json<'a>) {
        match self.open.last_mut() {
            None => self.root = Some(value),
            Some(Open::Array(elements)) => elements.push(value),
            Some(Open::Object(members, key)) => members.push((std::mem::take(key), value)),
        }
    }

    fn take_one(&mut self) -> Result<(), Unreadable> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(Unreadable::TooDense);
        }
        Ok(())
    }
}

impl Sink for Builder<'_> {
    type Error = Unreadable;

    fn want_key(&mut self) -> Want {
        Want::Prefix(usize::MAX)
    }

    fn want_string(&mut self) -> Want {
        Want::Prefix(usize::MAX)
    }

    fn key(&mut self, key: Text<'_>) -> Result<(), Unreadable> {
        let text = self.text(key);
        if let Some(Open::Object(_, key)) = self.open.last_mut() {
            *key = text;
        }
        Ok(())
    }

    fn string(&mut self, text: Text<'_>) -> Result<(), Unreadable> {
        self.take_one()?;
        let text = self.text(text);
        self.put(Json::Text(text));
        Ok(())
    }

    fn number(&mut self, number: Number<'_>) -> Result<(), Unreadable> {
        self.take_one()?;
        let Span { start, end } = number.span;
        self.put(Json::Number(self.between(start, end)));
        Ok(())
    }

    fn literal(&mut self, literal: Literal, _: Span) -> Result<(), Unreadable> {
        self.take_one()?;
        self.put(match literal {
            Literal::Null => Json::Null,
            Literal::True => Json::Bool(true),
            Literal::False => Json::Bool(false),
        });
        Ok(())
    }

    fn begin(&mut self, container: Container, _: u64) -> Result<(), Unreadable> {
        self.take_one()?;
        self.open.push(match container {
            Container::Array => Open::Array(Vec::new()),
            Container::Object => Open::Object(Vec::new(), Cow::Borrowed("")),
        });
        Ok(())
    }

    fn end(&mut self, _: Container, _: u64) -> Result<(), Unreadable> {
        match self.open.pop() {
            Some(Open::Array(elements)) => self.put(Json::Array(elements)),
            Some(Open::Object(members, _)) => self.put(Json::Object(members)),
            None => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
