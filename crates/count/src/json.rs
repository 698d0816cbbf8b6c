//! The values of a body, as the walks over the formats read them.

use std::borrow::Cow;
use tollgate_wire::document::{Document, DocumentError, Kind, Value};

/// Keys and values of a body at most: about 4 MB of memory.
const MAX_NODES: usize = 1 << 18;

/// Reads a body. Dense JSON of many megabytes is refused: it is not worth a list of many times its
/// size.
pub(crate) fn parse(body: &[u8]) -> Result<Document<'_>, DocumentError> {
    Document::parse_within(body, MAX_NODES)
}

/// A JSON value of a body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Json<'j>(Value<'j>);

impl<'j> Json<'j> {
    pub(crate) fn of(document: &'j Document<'j>) -> Self {
        Self(document.root())
    }

    pub(crate) fn kind(self) -> Kind {
        self.0.kind()
    }

    /// The value of a key of an object.
    pub(crate) fn get(self, key: &str) -> Option<Self> {
        self.0.get(key).map(Self)
    }

    /// The text of a key of an object; empty if there is none.
    pub(crate) fn text_of(self, key: &str) -> Cow<'j, str> {
        self.get(key).and_then(Self::as_text).unwrap_or_default()
    }

    pub(crate) fn as_text(self) -> Option<Cow<'j, str>> {
        self.0.as_str()
    }

    /// The elements of an array; none of anything else.
    pub(crate) fn elements(self) -> impl Iterator<Item = Self> + Clone {
        self.0.elements().map(Self)
    }

    /// The elements under a key of an object.
    pub(crate) fn elements_of(self, key: &str) -> impl Iterator<Item = Self> + Clone {
        self.get(key).into_iter().flat_map(Self::elements)
    }

    /// The members of an object; none of anything else.
    pub(crate) fn members(self) -> impl Iterator<Item = (Cow<'j, str>, Self)> {
        let members = self.0.members();
        members.map(|(key, value)| (key.decode(), Self(value)))
    }

    /// Bytes of the value as JSON without white space and escapes.
    pub(crate) fn len(self) -> usize {
        match self.kind() {
            Kind::Null => 4,
            Kind::Bool => 5,
            Kind::Number => self.0.raw().len(),
            Kind::String => self
                .as_text()
                .map_or(0, |text| text.len())
                .saturating_add(2),
            Kind::Array => {
                let inside = self.elements().map(|it| it.len().saturating_add(1));
                inside.fold(2, usize::saturating_add)
            }
            Kind::Object => {
                let inside = self
                    .members()
                    .map(|(key, it)| it.len().saturating_add(key.len()).saturating_add(4));
                inside.fold(2, usize::saturating_add)
            }
        }
    }

    /// Writes the value as the large providers show JSON to their models: one line, a space
    /// after each colon and comma.
    pub(crate) fn write(self, out: &mut String) {
        match self.kind() {
            Kind::Null | Kind::Bool | Kind::Number => {
                out.push_str(&String::from_utf8_lossy(self.0.raw()));
            }
            Kind::String => write_text(&self.as_text().unwrap_or_default(), out),
            Kind::Array => {
                out.push('[');
                for (place, element) in self.elements().enumerate() {
                    separate(place, out);
                    element.write(out);
                }
                out.push(']');
            }
            Kind::Object => {
                out.push('{');
                for (place, (key, value)) in self.members().enumerate() {
                    separate(place, out);
                    write_text(&key, out);
                    out.push_str(": ");
                    value.write(out);
                }
                out.push('}');
            }
        }
    }

    /// The value as one line of JSON.
    pub(crate) fn to_line(self) -> String {
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

#[cfg(test)]
mod tests;
