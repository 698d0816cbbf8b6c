//! A JSON document as a flat list of nodes that borrow from it.
//!
//! One pass writes the list; after that every value is found by stepping from
//! node to node, its source stays where it is, and text is unescaped only on request.
//! The caller decides the meaning of the values.
//!
//! ```
//! use tollgate_wire::document::Document;
//!
//! let document = Document::parse(br#"{"model":"m\u0031","input":["a\nb",2]}"#)?;
//! let (key, model) = document.root().members().next().unwrap();
//! assert_eq!((&*key.decode(), model.as_str().as_deref()), ("model", Some("m1")));
//! # Ok::<(), tollgate_wire::document::DocumentError>(())
//! ```

mod scan;
mod text;

pub use scan::{long_string, short_string};
pub use text::{Text, is_word};

use crate::json::{JsonError, Lexer};
use std::{borrow::Cow, ops::Range};

/// The reason why a body is no document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    /// It is not JSON, or nested too deep.
    #[error("the body is not valid JSON: {0}")]
    Json(#[from] JsonError),
    /// It has 4 GiB or more.
    #[error("the body is larger than can be translated")]
    TooLarge,
    /// It has more values than the caller allows.
    #[error("the body has too many values")]
    TooDense,
}

/// A JSON document, read once.
#[derive(Debug)]
pub struct Document<'a> {
    bytes: &'a [u8],
    nodes: Vec<Node>,
}

/// A value or a key. `next` is the node after it and everything within it.
#[derive(Clone, Copy, Debug)]
struct Node {
    start: u32,
    end: u32,
    next: u32,
    kind: NodeKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NodeKind {
    Null,
    True,
    False,
    Number,
    /// A string or a key as it stands, or one with escapes.
    Text,
    EscapedText,
    Array,
    Object,
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the kinds of RFC 8259")]
pub enum Kind {
    Null,
    Bool,
    Number,
    String,
    Array,
    Object,
}

impl Kind {
    /// The kind as a message names it: "a string".
    pub const fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool => "a boolean",
            Self::Number => "a number",
            Self::String => "a string",
            Self::Array => "an array",
            Self::Object => "an object",
        }
    }
}

impl<'a> Document<'a> {
    /// Reads a whole document.
    ///
    /// # Errors
    /// It is not JSON (the lexer's limits apply), or has 4 GiB or more.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, DocumentError> {
        Self::parse_within(bytes, usize::MAX)
    }

    /// Reads a whole document of at most so many keys and values.
    ///
    /// # Errors
    /// As [`parse`](Self::parse), or it has more of them.
    pub fn parse_within(bytes: &'a [u8], most_nodes: usize) -> Result<Self, DocumentError> {
        Lexer::check(bytes)?;
        scan::read(bytes, most_nodes)
    }

    /// Reads a document that a lexer has read before.
    ///
    /// # Errors
    /// It has 4 GiB or more, or is so little JSON that it has no values or open ends.
    pub fn of_valid(bytes: &'a [u8]) -> Result<Self, DocumentError> {
        scan::read(bytes, usize::MAX)
    }

    /// The value of the whole document.
    pub fn root(&self) -> Value<'_> {
        Value {
            document: self,
            at: 0,
        }
    }

    fn node(&self, at: u32) -> Option<&Node> {
        self.nodes.get(at as usize)
    }
}

/// A value of a document.
#[derive(Clone, Copy)]
pub struct Value<'d> {
    document: &'d Document<'d>,
    at: u32,
}

impl std::fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&String::from_utf8_lossy(self.raw()))
    }
}

impl<'d> Value<'d> {
    /// The value's place in its document; that of the root, which no object holds, is 0.
    pub const fn place(self) -> u32 {
        self.at
    }

    /// Another value of the same document.
    pub const fn at_place(self, place: u32) -> Self {
        Self {
            document: self.document,
            at: place,
        }
    }

    fn node_kind(self) -> NodeKind {
        self.document
            .node(self.at)
            .map_or(NodeKind::Null, |node| node.kind)
    }

    /// Its type.
    pub fn kind(self) -> Kind {
        match self.node_kind() {
            NodeKind::Null => Kind::Null,
            NodeKind::True | NodeKind::False => Kind::Bool,
            NodeKind::Number => Kind::Number,
            NodeKind::Text | NodeKind::EscapedText => Kind::String,
            NodeKind::Array => Kind::Array,
            NodeKind::Object => Kind::Object,
        }
    }

    /// The source of the value, quotes and brackets included.
    pub fn raw(self) -> &'d [u8] {
        self.document
            .node(self.at)
            .and_then(|node| {
                self.document
                    .bytes
                    .get(node.start as usize..node.end as usize)
            })
            .unwrap_or_default()
    }

    /// Where the value stands in its document.
    pub fn span(self) -> Range<usize> {
        let node = self.document.node(self.at);
        node.map_or(0..0, |node| node.start as usize..node.end as usize)
    }

    /// Whether it is `null`.
    pub fn is_null(self) -> bool {
        self.node_kind() == NodeKind::Null
    }

    /// The value of `true` and `false`.
    pub fn as_bool(self) -> Option<bool> {
        match self.node_kind() {
            NodeKind::True => Some(true),
            NodeKind::False => Some(false),
            _ => None,
        }
    }

    /// The value of a number, as near as 64 bits come.
    pub fn as_f64(self) -> Option<f64> {
        self.digits()?.parse().ok()
    }

    /// The value of a number written as a plain non-negative integer that 64 bits hold.
    pub fn as_u64(self) -> Option<u64> {
        self.digits()?.parse().ok()
    }

    fn digits(self) -> Option<&'d str> {
        let is_number = self.node_kind() == NodeKind::Number;
        let digits = is_number.then(|| self.raw())?;
        std::str::from_utf8(digits).ok()
    }

    /// The contents of a string, as they stand in the document.
    pub fn text(self) -> Option<Text<'d>> {
        let kind = self.node_kind();
        let is_text = matches!(kind, NodeKind::Text | NodeKind::EscapedText);
        let [b'"', json @ .., b'"'] = is_text.then(|| self.raw())? else {
            return None;
        };
        Some(Text::new(json, kind == NodeKind::EscapedText))
    }

    /// The contents of a string, unescaped.
    pub fn as_str(self) -> Option<Cow<'d, str>> {
        self.text().map(Text::decode)
    }

    /// Whether it equals `json`, a small valid document. White space, the order of members, escapes and
    /// the notation of numbers do not count.
    pub fn says(self, json: &str) -> bool {
        self.raw() == json.as_bytes()
            || Document::of_valid(json.as_bytes()).is_ok_and(|wanted| self.is_equal(wanted.root()))
    }

    /// Whether both have the same value. As many steps as `wanted` has values, with all members
    /// of an object for each of its own.
    fn is_equal(self, wanted: Value<'_>) -> bool {
        match wanted.kind() {
            kind if kind != self.kind() => false,
            Kind::Null => true,
            Kind::Bool => self.as_bool() == wanted.as_bool(),
            Kind::Number => self.as_f64() == wanted.as_f64(),
            Kind::String => {
                let texts = self.text().zip(wanted.text());
                texts.is_some_and(|(text, wanted)| text.is_same(wanted))
            }
            Kind::Array => {
                let mut left = self.elements();
                let mut same = wanted.elements().map(|wanted| {
                    let found = left.next();
                    found.is_some_and(|found| found.is_equal(wanted))
                });
                same.all(|is_same| is_same) && left.next().is_none()
            }
            Kind::Object => {
                let has = |(key, wanted): (Text<'_>, Value<'_>)| {
                    let mut members = self.members();
                    members.any(|(found, value)| found.is_same(key) && value.is_equal(wanted))
                };
                let many = wanted.members().count();
                let is_as_many = self.members().take(many.saturating_add(1)).count() == many;
                is_as_many && wanted.members().all(has)
            }
        }
    }

    /// The elements of an array; none of anything else.
    pub fn elements(self) -> Elements<'d> {
        Elements(self.children(NodeKind::Array))
    }

    /// The members of an object; none of anything else.
    pub fn members(self) -> Members<'d> {
        Members(self.children(NodeKind::Object))
    }

    /// The first member of an object under this name.
    pub fn get(self, name: &str) -> Option<Self> {
        let mut members = self.members();
        members.find_map(|(key, value)| key.is(name).then_some(value))
    }

    /// As [`Self::get`], but `None` if the value is `null`.
    pub fn given(self, name: &str) -> Option<Self> {
        self.get(name).filter(|value| !value.is_null())
    }

    /// Whether the member `name` is the string `word`.
    pub fn has(self, name: &str, word: &str) -> bool {
        self.get(name).is_some_and(|value| value.is(word))
    }

    /// Whether the value is the string `word`.
    pub fn is(self, word: &str) -> bool {
        self.text().is_some_and(|text| text.is(word))
    }

    /// The members of an object, with their keys as values that have a place.
    pub fn members_with_places(self) -> impl Iterator<Item = (Self, Self)> {
        let mut children = self.children(NodeKind::Object);
        std::iter::from_fn(move || Some((children.step()?, children.step()?)))
    }

    fn children(self, kind: NodeKind) -> Children<'d> {
        let end = match self.document.node(self.at) {
            Some(node) if node.kind == kind => node.next,
            _ => 0,
        };
        Children {
            document: self.document,
            at: self.at.saturating_add(1),
            end,
        }
    }
}

/// Steps over nodes of one container.
#[derive(Clone, Debug)]
struct Children<'d> {
    document: &'d Document<'d>,
    at: u32,
    end: u32,
}

impl<'d> Children<'d> {
    #[inline]
    fn step(&mut self) -> Option<Value<'d>> {
        if self.at >= self.end {
            return None;
        }
        let value = Value {
            document: self.document,
            at: self.at,
        };
        self.at = self.document.node(self.at)?.next;
        Some(value)
    }
}

/// The elements of an array.
#[derive(Clone, Debug)]
pub struct Elements<'d>(Children<'d>);

impl<'d> Iterator for Elements<'d> {
    type Item = Value<'d>;

    fn next(&mut self) -> Option<Value<'d>> {
        self.0.step()
    }
}

/// The members of an object: keys and values.
#[derive(Clone, Debug)]
pub struct Members<'d>(Children<'d>);

impl<'d> Iterator for Members<'d> {
    type Item = (Text<'d>, Value<'d>);

    fn next(&mut self) -> Option<(Text<'d>, Value<'d>)> {
        let key = self.0.step()?.text()?;
        Some((key, self.0.step()?))
    }
}

#[cfg(test)]
mod tests;
