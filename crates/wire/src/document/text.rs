//! The contents of strings: as they stand, and unescaped on request.
//!
//! It decides what an escape stands for. That contents are well-formed was decided by the lexer.

use crate::json;
use std::borrow::Cow;

/// The contents of a string or key as they stand between its quotes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Text<'d> {
    json: &'d [u8],
    escaped: bool,
}

impl std::fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.decode())
    }
}

impl<'d> Text<'d> {
    /// Contents that the lexer has read; `escaped`: there is an escape in them.
    pub(super) const fn new(json: &'d [u8], escaped: bool) -> Self {
        Self { json, escaped }
    }

    /// A word of the gateway's own, in which nothing needs an escape.
    pub const fn of_word(word: &'static str) -> Self {
        Self {
            json: word.as_bytes(),
            escaped: false,
        }
    }

    /// The contents with their escapes.
    pub const fn json(self) -> &'d [u8] {
        self.json
    }

    /// Whether there is an escape in it.
    pub const fn is_escaped(self) -> bool {
        self.escaped
    }

    /// Whether it is `""`.
    pub const fn is_empty(self) -> bool {
        self.json.is_empty()
    }

    /// The contents, unescaped. An escaped surrogate without its partner becomes U+FFFD.
    pub fn decode(self) -> Cow<'d, str> {
        if self.escaped {
            return Cow::Owned(json::unescape(self.json, usize::MAX));
        }
        // The lexer has seen that strings are UTF-8.
        Cow::Borrowed(std::str::from_utf8(self.json).unwrap_or_default())
    }

    /// Whether there is nothing but white space in it. The first letter decides, so that long
    /// contents are not gone through.
    pub fn is_blank(self) -> bool {
        let mut rest = self.json;
        loop {
            let (letter, after) = match rest.trim_ascii_start() {
                [] => return true,
                [b'\\', b'n' | b'r' | b't', after @ ..] => (Some(' '), after),
                // White space of other scripts, and escapes that may stand for any.
                [b'\\', b'u', after @ ..] => numbered(after),
                [0x80..=0xff, ..] => first_letter(rest.trim_ascii_start()),
                _ => return false,
            };
            if !letter.is_some_and(char::is_whitespace) {
                return false;
            }
            rest = after;
        }
    }

    /// Whether both say the same, however it is escaped.
    pub fn is_same(self, other: Text<'_>) -> bool {
        if self.escaped || other.escaped {
            // An escape of six bytes is a byte at least: a long text is not decoded for a short one.
            let least = self.json.len().min(other.json.len());
            let most = self.json.len().max(other.json.len());
            return most <= least.saturating_mul(6) && self.decode() == other.decode();
        }
        self.json == other.json
    }

    /// Whether the contents are `word`.
    pub fn is(self, word: &str) -> bool {
        if self.escaped {
            // An escape of six bytes is a byte at least.
            let lengths = word.len()..=word.len().saturating_mul(6);
            return lengths.contains(&self.json.len()) && self.decode() == word;
        }
        is_word(self.json, word)
    }
}

/// The letter that four hexadecimal digits stand for, and what follows them. `None` for half of
/// a surrogate, which is no white space.
fn numbered(json: &[u8]) -> (Option<char>, &[u8]) {
    let (digits, after) = json.split_at_checked(4).unwrap_or((json, &[]));
    let digits = std::str::from_utf8(digits).unwrap_or_default();
    let number = u32::from_str_radix(digits, 16).ok();
    (number.and_then(char::from_u32), after)
}

/// The first letter of a text, and what follows it.
fn first_letter(json: &[u8]) -> (Option<char>, &[u8]) {
    /// Bytes of a letter in UTF-8.
    const LONGEST: usize = 4;
    let head = json.get(..LONGEST).unwrap_or(json);
    let letter = head.utf8_chunks().next();
    let letter = letter.and_then(|chunk| chunk.valid().chars().next());
    let length = letter.map_or(json.len(), char::len_utf8);
    (letter, json.get(length..).unwrap_or_default())
}

/// Whether the bytes are the word. Fields of one object seldom begin alike, so the first byte
/// spares most comparisons.
#[inline]
pub fn is_word(bytes: &[u8], word: &str) -> bool {
    bytes.len() == word.len()
        && bytes.first() == word.as_bytes().first()
        && bytes == word.as_bytes()
}
