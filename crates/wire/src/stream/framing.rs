//! Server-sent events as the WHATWG specification frames them ("9.2.6 Interpreting an event
//! stream"): line ends LF, CR and CRLF, comments, a byte order mark, a missing space after
//! the colon, chunks cut anywhere.
//!
//! Decides which bytes are data, name or the end of a block. What they mean is the scanner's.

use memchr::memchr2;

/// What the framer found next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// The byte order mark at the start of the stream.
    ByteOrderMark,
    /// A data line begins.
    DataLine,
    /// A piece of the value of the data line that began last.
    Data(&'a [u8]),
    /// An event line begins.
    NameLine,
    /// A piece of the value of the event line that began last.
    Name(&'a [u8]),
    /// A line ended, and nothing but comments came since the last block.
    CommentEnd,
    /// A line begins within a block that is neither data nor a name: a comment, `id`, `retry`
    /// or an unknown field.
    OtherLine,
    /// A block ended with its blank line.
    BlockEnd,
    /// The line feed of the CRLF whose carriage return ended the last chunk, and a block or
    /// comment with it: it belongs to what went before.
    LateLineFeed,
}

/// The field that a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Comment,
    Data,
    Event,
    /// `id`, `retry`, or unknown.
    Other,
}

const LONGEST_NAME: usize = b"event".len();

/// Where in a line the framer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Location {
    /// At the start of the stream, so many bytes of a byte order mark behind.
    ByteOrderMark(usize),
    LineStart,
    /// In the field's name, so many bytes of it behind.
    Name([u8; LONGEST_NAME], usize),
    /// Right after the colon: one space is no part of the value.
    AfterColon(Field),
    Value(Field),
}

/// The framer of one stream.
#[derive(Debug)]
pub(super) struct Framer {
    place: Location,
    /// The last byte was a carriage return: a line feed now belongs to it.
    after_return: bool,
    /// A field other than a comment was met in this block.
    has_fields: bool,
}

impl Framer {
    pub(super) const fn new() -> Self {
        Self {
            place: Location::ByteOrderMark(0),
            after_return: false,
            has_fields: false,
        }
    }

    /// A framer behind the end of a block.
    pub(super) const fn between_blocks() -> Self {
        Self {
            place: Location::LineStart,
            after_return: false,
            has_fields: false,
        }
    }

    /// Whether the next byte belongs to a comment before the fields of a block.
    pub(super) const fn is_in_comment(&self) -> bool {
        self.is_in_other_line() && !self.has_fields
    }

    /// Whether the next byte belongs to a line that is neither data nor a name.
    pub(super) const fn is_in_other_line(&self) -> bool {
        matches!(
            self.place,
            Location::AfterColon(Field::Comment | Field::Other)
                | Location::Value(Field::Comment | Field::Other)
        )
    }

    /// Whether a block begins with the next byte.
    pub(super) const fn is_between_blocks(&self) -> bool {
        matches!(self.place, Location::LineStart) && !self.after_return && !self.has_fields
    }

    /// Takes the next token off the front of `rest`; nothing when `rest` is used up.
    pub(super) fn next<'a>(&mut self, rest: &mut &'a [u8]) -> Option<Token<'a>> {
        loop {
            let (&byte, after) = rest.split_first()?;
            if std::mem::take(&mut self.after_return) && byte == b'\n' {
                *rest = after;
                if !self.has_fields {
                    return Some(Token::LateLineFeed);
                }
                continue;
            }
            let found = match self.place {
                Location::ByteOrderMark(read) => self.byte_order_mark(read, rest),
                Location::LineStart => self.line_start(rest),
                Location::Name(name, len) => self.name(name, len, rest),
                Location::AfterColon(field) => {
                    if byte == b' ' {
                        *rest = after;
                    }
                    self.place = Location::Value(field);
                    None
                }
                Location::Value(field) => self.value(field, rest),
            };
            if found.is_some() {
                return found;
            }
        }
    }

    fn byte_order_mark<'a>(&mut self, read: usize, rest: &mut &'a [u8]) -> Option<Token<'a>> {
        const MARK: &[u8] = b"\xef\xbb\xbf";
        match (MARK.get(read), rest.split_first()) {
            (Some(mark), Some((byte, after))) if mark == byte => {
                *rest = after;
                self.place = Location::ByteOrderMark(read + 1);
                if read + 1 == MARK.len() {
                    self.place = Location::LineStart;
                    return Some(Token::ByteOrderMark);
                }
            }
            // Half a mark is the start of a field without a meaning.
            (Some(_), _) if read > 0 => {
                self.begin_value(Field::Other);
                return Some(Token::OtherLine);
            }
            _ => self.place = Location::LineStart,
        }
        None
    }

    fn line_start<'a>(&mut self, rest: &mut &'a [u8]) -> Option<Token<'a>> {
        if let Some(value) = rest.strip_prefix(b"data:") {
            *rest = value;
            return self.begin_field(Field::Data);
        }
        match rest.first()? {
            b'\n' | b'\r' => {
                self.line_end(rest);
                self.has_fields = false;
                Some(Token::BlockEnd)
            }
            _ => {
                self.place = Location::Name([0; LONGEST_NAME], 0);
                None
            }
        }
    }

    fn name<'a>(
        &mut self,
        mut name: [u8; LONGEST_NAME],
        len: usize,
        rest: &mut &'a [u8],
    ) -> Option<Token<'a>> {
        let (&byte, after) = rest.split_first()?;
        let ends_line = matches!(byte, b'\n' | b'\r');
        if byte == b':' || ends_line {
            if !ends_line {
                *rest = after;
            }
            let field = match name.get(..len) {
                Some(b"") => Field::Comment,
                Some(b"data") => Field::Data,
                Some(b"event") => Field::Event,
                _ => Field::Other,
            };
            return self.begin_field(field);
        }
        match name.get_mut(len) {
            Some(place) => {
                *place = byte;
                *rest = after;
                self.place = Location::Name(name, len + 1);
            }
            None => {
                self.begin_value(Field::Other);
                return Some(Token::OtherLine);
            }
        }
        None
    }

    fn begin_field<'a>(&mut self, field: Field) -> Option<Token<'a>> {
        self.begin_value(field);
        self.place = Location::AfterColon(field);
        match field {
            Field::Data => Some(Token::DataLine),
            Field::Event => Some(Token::NameLine),
            Field::Comment => self.has_fields.then_some(Token::OtherLine),
            Field::Other => Some(Token::OtherLine),
        }
    }

    fn begin_value(&mut self, field: Field) {
        self.has_fields |= field != Field::Comment;
        self.place = Location::Value(field);
    }

    fn value<'a>(&mut self, field: Field, rest: &mut &'a [u8]) -> Option<Token<'a>> {
        let end = memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
        let (value, after) = rest.split_at_checked(end)?;
        *rest = after;
        if value.is_empty() {
            self.line_end(rest);
            let comment = field == Field::Comment && !self.has_fields;
            return comment.then_some(Token::CommentEnd);
        }
        match field {
            Field::Data => Some(Token::Data(value)),
            Field::Event => Some(Token::Name(value)),
            Field::Comment | Field::Other => None,
        }
    }

    /// Takes the line end at the front of `rest`, as much of it as is there.
    fn line_end(&mut self, rest: &mut &[u8]) {
        self.place = Location::LineStart;
        *rest = match rest {
            [b'\r', b'\n', after @ ..] | [b'\n', after @ ..] => after,
            [b'\r', after @ ..] => {
                self.after_return = after.is_empty();
                after
            }
            _ => rest,
        };
    }
}

/// The lines of a block that are its data and its name, and the line ends of the others that
/// end the block: what a caller may see of it.
pub(super) fn without_other_lines(block: &[u8]) -> Vec<u8> {
    const NAMES: [&[u8]; 2] = [b"data", b"event"];
    let mut kept = Vec::with_capacity(block.len());
    let mut rest = block;
    while !rest.is_empty() {
        let end = memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
        let (line, after) = rest.split_at_checked(end).unwrap_or((rest, &[]));
        let line_end = match after {
            [b'\r', b'\n', ..] => 2,
            [] => 0,
            _ => 1,
        };
        let name = line.split(|byte| *byte == b':').next().unwrap_or(line);
        if line.is_empty() || NAMES.contains(&name) {
            let (whole, _) = rest.split_at_checked(end + line_end).unwrap_or((rest, &[]));
            kept.extend_from_slice(whole);
        } else if kept.ends_with(b"\r")
            && after.get(..line_end).is_some_and(|it| it.ends_with(b"\n"))
        {
            // Otherwise a line feed that follows would be a part of the line end before this line.
            kept.push(b'\n');
        }
        rest = after.get(line_end..).unwrap_or_default();
    }
    kept
}

#[cfg(test)]
mod tests;
