//! An incremental JSON lexer: it is fed borrowed chunks that may be cut at any
//! byte, checks RFC 8259 as it goes and reports to a [`Sink`].
//!
//! It decides what is well-formed and where each value stands; what a value
//! means is the sink's. Nothing is built and nothing is copied unless the sink
//! asks for the contents of a string, and then at most as much as it asked for.
//! A lexer that is used again through [`Lexer::reset`] allocates nothing per
//! document, so it suits the short lines of an event stream as well as a body
//! of many megabytes.
//!
//! ```
//! use tollgate_wire::json::{JsonError, Lexer, Sink, Text, Want};
//!
//! #[derive(Default)]
//! struct Keys(Vec<String>);
//!
//! impl Sink for Keys {
//!     type Error = JsonError;
//!     fn want_key(&mut self) -> Want {
//!         Want::Prefix(32)
//!     }
//!     fn key(&mut self, key: Text<'_>) -> Result<(), JsonError> {
//!         self.0.push(key.as_str().to_owned());
//!         Ok(())
//!     }
//! }
//!
//! let (mut lexer, mut keys) = (Lexer::new(), Keys::default());
//! for chunk in [&b"{\"mod"[..], b"\\u0065l\":[1,", b"2]}"] {
//!     lexer.feed(chunk, &mut keys)?;
//! }
//! assert!(lexer.is_complete());
//! lexer.finish(&mut keys)?;
//! assert_eq!(keys.0, ["model"]);
//! # Ok::<(), JsonError>(())
//! ```
//!
//! One leniency: an escaped surrogate without its partner (`"\ud83d"`) is
//! accepted. The grammar of RFC 8259 allows it, and JavaScript clients that cut
//! a string within an emoji send it; whether to refuse it is the upstream's
//! choice. Collected contents show it as U+FFFD. A byte order mark is refused.

mod error;
mod lexer;
mod number;
mod scan;
mod string;
#[cfg(test)]
mod tests;
mod utf8;
mod write;

pub use error::{JsonError, JsonErrorKind};
pub use lexer::Lexer;
pub(crate) use string::prefix;
pub use write::escape_into;

/// Where a value stands: absolute byte offsets from the start of the document,
/// `end` exclusive. The span of a string or key includes its quotes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    /// Offset of the first byte.
    pub start: u64,
    /// Offset after the last byte.
    pub end: u64,
}

impl Span {
    /// How many bytes the span covers.
    pub const fn len(self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// Whether the span covers nothing.
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }
}

/// The two kinds of JSON container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Container {
    /// `{ … }`
    Object,
    /// `[ … ]`
    Array,
}

tollgate_types::named! {
    /// The three words of JSON.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Literal {
        /// `null`
        Null = "null",
        /// `true`
        True = "true",
        /// `false`
        False = "false",
    }
}

/// How much of the contents of a key or string a sink asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// Nothing: the string is checked and measured, not collected.
    Nothing,
    /// The first bytes of the unescaped contents, at most this many.
    Prefix(usize),
    /// All of the contents as they are written, handed to [`Sink::piece`] as they come, cut
    /// anywhere, and not checked before. Nothing is collected.
    Pieces,
}

/// A key or string value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text<'a> {
    /// The unescaped contents as far as they were wanted. Always UTF-8, cut at
    /// the end of a character.
    pub bytes: &'a [u8],
    /// How many bytes the whole contents have, unescaped.
    pub len: u64,
    /// Where the string stands, quotes included.
    pub span: Span,
}

impl<'a> Text<'a> {
    /// The contents as far as they were wanted.
    pub fn as_str(&self) -> &'a str {
        std::str::from_utf8(self.bytes).unwrap_or_default()
    }

    /// Whether [`bytes`](Self::bytes) is the whole contents.
    pub const fn is_whole(&self) -> bool {
        self.bytes.len() as u64 == self.len
    }
}

/// How long a string is of which the opening quote has been read: up to the closing quote, and
/// the same unescaped. `None` where it does not end here, or is better read by a [`Lexer`].
#[inline]
pub(crate) fn string_to_its_end(bytes: &[u8]) -> Option<(usize, usize)> {
    let passage = scan::passage(bytes);
    let (contents, after) = bytes.split_at_checked(passage.len)?;
    let is_text = passage.ascii || utf8::is_utf8(contents);
    (is_text && after.starts_with(b"\"")).then(|| (passage.len, passage.unescaped_len()))
}

/// The unescaped source of a string: its first bytes, at most so many and cut at the end of a
/// character. It ends where an escape is not whole.
pub fn unescape(source: &[u8], limit: usize) -> String {
    let mut text = Vec::with_capacity(source.len());
    unescape_into(source, &mut text);
    text.truncate(prefix(&text, limit).len());
    String::from_utf8(text).unwrap_or_default()
}

/// Appends the unescaped source of a string, up to an escape that is not whole. An escaped
/// surrogate without its partner becomes U+FFFD.
pub fn unescape_into(source: &[u8], text: &mut Vec<u8>) {
    let mut rest = source;
    loop {
        let escape = memchr::memchr(b'\\', rest).unwrap_or(rest.len());
        let (plain, after) = rest.split_at_checked(escape).unwrap_or((rest, &[]));
        text.extend_from_slice(plain);
        let Some((character, len)) = scan::escape(after).or_else(|| scan::surrogate(after)) else {
            break;
        };
        text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        rest = after.get(len..).unwrap_or_default();
    }
}

/// A number as it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number<'a> {
    /// The digits, sign, point and exponent; ASCII. Cut at [`Number::MAX_LEN`].
    pub bytes: &'a [u8],
    /// Where the number stands; its length is the true one.
    pub span: Span,
}

impl<'a> Number<'a> {
    /// The longest number whose text is handed over whole, in bytes.
    pub const MAX_LEN: usize = 64;

    /// The number as it was written, cut at [`Number::MAX_LEN`].
    pub fn as_str(&self) -> &'a str {
        std::str::from_utf8(self.bytes).unwrap_or_default()
    }

    /// The number as the nearest `f64`; `None` where its text was cut.
    pub fn as_f64(&self) -> Option<f64> {
        let is_whole = self.bytes.len() as u64 == self.span.len();
        is_whole.then(|| self.as_str().parse().ok()).flatten()
    }

    /// The value of a number written as a plain non-negative integer that a `u64`
    /// holds. `1.0`, `1e3` and `-0` are none.
    pub fn as_u64(&self) -> Option<u64> {
        if self.bytes.len() as u64 != self.span.len() {
            return None;
        }
        self.bytes.iter().try_fold(0_u64, |value, byte| {
            let digit = char::from(*byte).to_digit(10)?;
            value.checked_mul(10)?.checked_add(digit.into())
        })
    }
}

/// The receiver of a [`Lexer`]'s reports. Every method but the error type has a default
/// that ignores the report.
///
/// The lexer asks [`want_key`](Self::want_key) or [`want_string`](Self::want_string) at
/// the opening quote and reports at the closing one. An error ends the lexing.
pub trait Sink {
    /// The error of the sink itself.
    type Error: From<JsonError>;

    /// A key begins: how much of it is wanted?
    fn want_key(&mut self) -> Want {
        Want::Nothing
    }

    /// A string value begins: how much of it is wanted?
    fn want_string(&mut self) -> Want {
        Want::Nothing
    }

    /// A key of an object.
    fn key(&mut self, _key: Text<'_>) -> Result<(), Self::Error> {
        Ok(())
    }

    /// A string value.
    fn string(&mut self, _text: Text<'_>) -> Result<(), Self::Error> {
        Ok(())
    }

    /// A piece of the source of a string value whose [`Want::Pieces`] were wanted. The string
    /// itself is reported when it ends.
    fn piece(&mut self, _source: &[u8]) {}

    /// A number.
    fn number(&mut self, _number: Number<'_>) -> Result<(), Self::Error> {
        Ok(())
    }

    /// `null`, `true` or `false`.
    fn literal(&mut self, _literal: Literal, _span: Span) -> Result<(), Self::Error> {
        Ok(())
    }

    /// A container begins; `at` is the offset of its bracket.
    fn begin(&mut self, _container: Container, _at: u64) -> Result<(), Self::Error> {
        Ok(())
    }

    /// A container ends; `end` is the offset after its bracket.
    fn end(&mut self, _container: Container, _end: u64) -> Result<(), Self::Error> {
        Ok(())
    }
}
