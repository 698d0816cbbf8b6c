//! Reads into types what a lexer has found to be JSON, and borrows from it.
//!
//! Answers and events are checked when they arrive. Reading them once more only has to find
//! where values begin and end: what is in strings is stepped over, and nothing is unescaped
//! but keys. If the text is no JSON, the result is unspecified, but the reading ends. The readers
//! know what the values mean.

use crate::{
    answer::text::RawText,
    document::{long_string, short_string},
};
use serde::{
    Deserialize, Deserializer,
    de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor},
    forward_to_deserialize_any,
};
use std::fmt;
use tollgate_wire::json::Lexer;

/// A value as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Raw<'a>(&'a str);

impl<'a> Raw<'a> {
    /// The name by which a value is asked for as it was written.
    const NAME: &'static str = "Raw";

    /// Its source, without white space around it.
    pub(crate) const fn get(self) -> &'a str {
        self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Raw<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Source;

        impl<'de> Visitor<'de> for Source {
            type Value = Raw<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value of a document")
            }

            fn visit_borrowed_str<E: de::Error>(self, source: &'de str) -> Result<Raw<'de>, E> {
                Ok(Raw(source))
            }
        }

        deserializer.deserialize_newtype_struct(Self::NAME, Source)
    }
}

/// The document is not what was asked for. The error has no details, because no caller reads them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unread;

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the document is not what was asked for")
    }
}

impl std::error::Error for Unread {}

impl de::Error for Unread {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }

    fn invalid_type(_: de::Unexpected<'_>, _: &dyn de::Expected) -> Self {
        Self
    }

    fn missing_field(_: &'static str) -> Self {
        Self
    }

    fn duplicate_field(_: &'static str) -> Self {
        Self
    }
}

/// Reads a document that a lexer has read before.
///
/// # Errors
/// It is not what the type asks for.
pub(crate) fn read<'a, T: Deserialize<'a>>(document: &'a str) -> Result<T, Unread> {
    let mut reader = Reader {
        text: document,
        at: 0,
        depth: Lexer::MAX_DEPTH,
    };
    T::deserialize(&mut reader)
}

/// Steps over a document.
struct Reader<'de> {
    text: &'de str,
    at: usize,
    /// How much deeper containers may nest.
    depth: u8,
}

impl<'de> Reader<'de> {
    fn rest(&self) -> &'de [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    fn advance(&mut self, bytes: usize) {
        self.at = self.at.saturating_add(bytes);
    }

    /// The byte with which the next token begins.
    fn peek(&mut self) -> Result<u8, Unread> {
        let bytes = self.text.as_bytes();
        while let Some(byte) = bytes.get(self.at) {
            match byte {
                b' ' | b'\n' | b'\r' | b'\t' => self.advance(1),
                byte => return Ok(*byte),
            }
        }
        Err(Unread)
    }

    /// Steps over a token of one byte, where it comes next.
    fn take(&mut self, token: u8) -> Result<bool, Unread> {
        let is_next = self.peek()? == token;
        self.advance(usize::from(is_next));
        Ok(is_next)
    }

    fn expect(&mut self, token: u8) -> Result<(), Unread> {
        self.take(token)?.then_some(()).ok_or(Unread)
    }

    /// The contents of the string that comes next.
    fn string(&mut self) -> Result<RawText<'de>, Unread> {
        self.expect(b'"')?;
        let start = self.at;
        self.end_string()?;
        let contents = self.text.get(start..self.at.saturating_sub(1));
        contents.map(RawText::escaped).ok_or(Unread)
    }

    /// Goes behind the end of a string.
    fn end_string(&mut self) -> Result<(), Unread> {
        let inside = self.rest();
        let length = short_string(inside).or_else(|| long_string(inside));
        self.advance(length.ok_or(Unread)?.saturating_add(1));
        Ok(())
    }

    /// Steps over the value that comes next.
    fn skip(&mut self) -> Result<(), Unread> {
        let mut open: usize = 0;
        loop {
            match self.peek()? {
                b'"' => {
                    self.advance(1);
                    self.end_string()?;
                }
                b'{' | b'[' => {
                    self.advance(1);
                    open = open.saturating_add(1);
                    continue;
                }
                b'}' | b']' => {
                    self.advance(1);
                    open = open.checked_sub(1).ok_or(Unread)?;
                }
                b',' | b':' if open > 0 => {
                    self.advance(1);
                    continue;
                }
                _ => self.skip_word()?,
            }
            if open == 0 {
                return Ok(());
            }
        }
    }

    /// Steps over a number, `true`, `false` or `null`.
    fn skip_word(&mut self) -> Result<(), Unread> {
        let is_of_word =
            |byte: &&u8| matches!(**byte, b'0'..=b'9' | b'a'..=b'z' | b'-' | b'+' | b'.' | b'E');
        let length = self.rest().iter().take_while(is_of_word).count();
        self.advance(length);
        (length > 0).then_some(()).ok_or(Unread)
    }

    /// The source of the value that comes next.
    fn source(&mut self) -> Result<&'de str, Unread> {
        self.peek()?;
        let start = self.at;
        self.skip()?;
        self.text.get(start..self.at).ok_or(Unread)
    }

    /// Reads what is in a container.
    fn within<T>(
        &mut self,
        brackets: [u8; 2],
        read: impl FnOnce(&mut Self) -> Result<T, Unread>,
    ) -> Result<T, Unread> {
        let [opening, closing] = brackets;
        self.expect(opening)?;
        self.depth = self.depth.checked_sub(1).ok_or(Unread)?;
        let contents = read(self)?;
        self.depth = self.depth.saturating_add(1);
        self.expect(closing)?;
        Ok(contents)
    }
}

impl<'de> Deserializer<'de> for &mut Reader<'de> {
    type Error = Unread;

    /// No type asks for an untyped value.
    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Unread> {
        Err(Unread)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unread> {
        if self.peek()? == b'n' {
            self.skip_word()?;
            return visitor.visit_none();
        }
        visitor.visit_some(self)
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unread> {
        let number = self.source()?.parse().map_err(|_| Unread)?;
        visitor.visit_u64(number)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Unread> {
        match name {
            Raw::NAME => visitor.visit_borrowed_str(self.source()?),
            _ => Err(Unread),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unread> {
        self.within([b'[', b']'], |reader| {
            visitor.visit_seq(Contents::of(reader))
        })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Unread> {
        self.within([b'{', b'}'], |reader| {
            visitor.visit_map(Contents::of(reader))
        })
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unread> {
        visitor.visit_str(&self.string()?.unescape())
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Unread> {
        self.skip()?;
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct tuple tuple_struct map enum
    }
}

/// What is in a container, one after the other.
struct Contents<'r, 'de> {
    reader: &'r mut Reader<'de>,
    is_first: bool,
}

impl<'r, 'de> Contents<'r, 'de> {
    const fn of(reader: &'r mut Reader<'de>) -> Self {
        Self {
            reader,
            is_first: true,
        }
    }

    /// Whether something comes before the closing bracket.
    fn has_next(&mut self) -> Result<bool, Unread> {
        let is_over = matches!(self.reader.peek()?, b'}' | b']');
        if !is_over && !std::mem::take(&mut self.is_first) {
            self.reader.expect(b',')?;
        }
        Ok(!is_over)
    }
}

impl<'de> SeqAccess<'de> for Contents<'_, 'de> {
    type Error = Unread;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Unread> {
        match self.has_next()? {
            true => seed.deserialize(&mut *self.reader).map(Some),
            false => Ok(None),
        }
    }
}

impl<'de> MapAccess<'de> for Contents<'_, 'de> {
    type Error = Unread;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Unread> {
        match self.has_next()? {
            true => seed.deserialize(&mut *self.reader).map(Some),
            false => Ok(None),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Unread> {
        self.reader.expect(b':')?;
        seed.deserialize(&mut *self.reader)
    }
}

#[cfg(test)]
mod tests;
