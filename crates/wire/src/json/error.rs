//! The faults of a JSON document, with messages for its author.

use std::fmt;

/// A document that is not JSON, or is more than the lexer takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JsonError {
    /// The kind of fault.
    pub kind: JsonErrorKind,
    /// The offset of the offending byte from the start of the document.
    pub at: u64,
}

/// A fault of a document. A byte is the one that was found instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonErrorKind {
    /// A value must begin here.
    ExpectedValue(u8),
    /// A value or `]` must stand here.
    ExpectedValueOrEnd(u8),
    /// A key must begin here.
    ExpectedKey(u8),
    /// A key or `}` must stand here.
    ExpectedKeyOrEnd(u8),
    /// A colon must follow the key.
    ExpectedColon(u8),
    /// `,` or `}` must follow a member of an object.
    ExpectedCommaOrBrace(u8),
    /// `,` or `]` must follow an element of an array.
    ExpectedCommaOrBracket(u8),
    /// Something follows the document.
    Trailing(u8),
    /// `true`, `false` or `null` is misspelt.
    BadLiteral(u8),
    /// A number breaks off or has a leading zero.
    BadNumber(u8),
    /// An unknown escape in a string.
    BadEscape(u8),
    /// `\u` is not followed by four hexadecimal digits.
    BadUnicodeEscape(u8),
    /// A control character in a string that must be escaped.
    ControlCharacter(u8),
    /// A string is not UTF-8.
    BadUtf8,
    /// Containers are nested deeper than allowed; the limit.
    TooDeep(u8),
    /// The document ends before its value does.
    UnexpectedEnd,
    /// The lexer has failed before and was not reset.
    Failed,
}

impl JsonError {
    pub(super) const fn new(kind: JsonErrorKind, at: u64) -> Self {
        Self { kind, at }
    }

    /// Whether the document is nested too deep.
    pub(crate) const fn is_too_deep(&self) -> bool {
        matches!(self.kind, JsonErrorKind::TooDeep(_))
    }
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.kind, self.at)
    }
}

impl std::error::Error for JsonError {}

impl fmt::Display for JsonErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (wanted, found) = match *self {
            Self::ExpectedValue(b) => ("expected a value", b),
            Self::ExpectedValueOrEnd(b) => ("expected a value or ']'", b),
            Self::ExpectedKey(b) => ("expected a key in double quotes", b),
            Self::ExpectedKeyOrEnd(b) => ("expected a key in double quotes or '}'", b),
            Self::ExpectedColon(b) => ("expected ':' after a key", b),
            Self::ExpectedCommaOrBrace(b) => ("expected ',' or '}'", b),
            Self::ExpectedCommaOrBracket(b) => ("expected ',' or ']'", b),
            Self::Trailing(b) => ("expected nothing more after the document", b),
            Self::BadLiteral(b) => ("expected true, false or null", b),
            Self::BadNumber(b) => ("expected the rest of a number", b),
            Self::BadEscape(b) => ("expected a known escape after '\\'", b),
            Self::BadUnicodeEscape(b) => ("expected four hexadecimal digits after '\\u'", b),
            Self::ControlCharacter(b) => {
                return write!(
                    f,
                    "a string holds the control character 0x{b:02x} unescaped"
                );
            }
            Self::BadUtf8 => return f.write_str("a string is not valid UTF-8"),
            Self::TooDeep(limit) => return write!(f, "nested deeper than {limit} levels"),
            Self::UnexpectedEnd => return f.write_str("the document ends before it is complete"),
            Self::Failed => return f.write_str("the document was already found faulty"),
        };
        match found {
            b' '..=b'~' => write!(f, "{wanted}, found '{}'", char::from(found)),
            _ => write!(f, "{wanted}, found byte 0x{found:02x}"),
        }
    }
}
