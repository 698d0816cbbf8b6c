//! The arguments of a tool call as they come in pieces: whether they are whole, and what a
//! custom tool's input is within them.
//!
//! Decides when a call is complete, so that the next may begin, and whether its arguments are
//! the object that a format needs. Repairs nothing.

use crate::answer::text::RawText;
use std::borrow::Cow;
use tollgate_wire::json::{Container, JsonError, Lexer, Sink, unescape_into};

/// A check of arguments in pieces.
#[derive(Debug, Default)]
pub(crate) struct Arguments {
    lexer: Lexer,
    shape: Shape,
    is_broken: bool,
    has_any: bool,
    scratch: Vec<u8>,
}

/// The outermost container.
#[derive(Debug, Default)]
struct Shape(Option<Container>);

impl Sink for Shape {
    type Error = JsonError;

    fn begin(&mut self, container: Container, _: u64) -> Result<(), JsonError> {
        self.0.get_or_insert(container);
        Ok(())
    }
}

impl Arguments {
    /// Reads the next piece of the string that holds the arguments.
    pub(crate) fn push(&mut self, piece: RawText<'_>) {
        if piece.is_empty() || self.is_broken {
            return;
        }
        let text = match piece.as_str().contains('\\') {
            false => piece.as_str().as_bytes(),
            true => {
                self.scratch.clear();
                unescape_into(piece.as_str().as_bytes(), &mut self.scratch);
                &self.scratch
            }
        };
        self.has_any |= !text.trim_ascii().is_empty();
        self.is_broken = self.lexer.feed(text, &mut self.shape).is_err();
    }

    /// Nothing came but white space: the tool takes no arguments.
    pub(crate) const fn is_empty(&self) -> bool {
        !self.has_any && !self.is_broken
    }

    /// A whole JSON object came.
    pub(crate) fn is_object(&self) -> bool {
        !self.is_broken && self.lexer.is_complete() && self.shape.0 == Some(Container::Object)
    }

    /// Nothing that comes can belong to the arguments any more.
    pub(crate) const fn is_over(&self) -> bool {
        self.is_broken || self.lexer.is_complete()
    }
}

/// Takes the input of a custom tool out of the arguments of the function that stands for it:
/// `{"input":"…"}`. Nothing at all, and an object without members, are a call without input.
#[derive(Debug, Default)]
pub(crate) struct CustomInput {
    place: Place,
    /// An escape that a piece has cut: it leaves when it is whole.
    escape: String,
    /// The first half of a pair at the end of a piece, as it was written.
    half: String,
    /// What the last piece let out: contents of a JSON string.
    left: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    /// Before the value, so many bytes of what must stand there behind.
    Before(usize),
    /// In the value.
    Input,
    /// Behind it; only the end of the object may follow.
    After,
    Broken,
    #[default]
    Start,
}

/// The bytes before the input, white space apart.
const BEFORE: &[u8] = b"{\"input\":\"";

impl CustomInput {
    /// Reads the next piece of the arguments, and returns the part of the input that it completes.
    pub(crate) fn push(&mut self, piece: RawText<'_>) -> RawText<'_> {
        self.left.clear();
        let whole = with_half(&mut self.half, piece);
        for c in RawText::escaped(&whole).unescape().chars() {
            self.step(c);
        }
        RawText::escaped(&self.left)
    }

    /// The input has come to its end, or there is none.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self.place, Place::After | Place::Start | Place::Before(0))
    }

    fn step(&mut self, c: char) {
        self.place = match self.place {
            Place::Start => {
                self.place = Place::Before(0);
                return self.step(c);
            }
            // Within the key white space counts.
            Place::Before(read) if c.is_ascii_whitespace() && !(2..8).contains(&read) => self.place,
            // No member: no input.
            Place::Before(1) if c == '}' => Place::After,
            Place::Before(read) => match BEFORE.get(read) {
                Some(&byte) if c == char::from(byte) => match read + 1 {
                    all if all == BEFORE.len() => Place::Input,
                    read => Place::Before(read),
                },
                _ => Place::Broken,
            },
            Place::Input => return self.input(c),
            Place::After if c == '}' || c.is_ascii_whitespace() => Place::After,
            Place::After | Place::Broken => Place::Broken,
        };
    }

    /// One character of the value. Escapes leave whole, and both halves of a pair together.
    fn input(&mut self, c: char) {
        let is_half = self.escape.len() == UNIT;
        if is_half && c != '\\' {
            // The second half of the pair is missing.
            self.release();
        }
        if !self.escape.is_empty() {
            self.escape.push(c);
            if is_whole_escape(&self.escape) {
                self.release();
            }
            return;
        }
        match c {
            '"' => self.place = Place::After,
            '\\' => self.escape.push(c),
            _ => self.left.push(c),
        }
    }

    fn release(&mut self) {
        self.left.push_str(&self.escape);
        self.escape.clear();
    }
}

/// The length of `\uXXXX`.
const UNIT: usize = 6;

/// A piece after the `half` of a pair that the one before ended with; keeps the half that it ends with itself.
pub(crate) fn with_half<'a>(half: &mut String, piece: RawText<'a>) -> Cow<'a, str> {
    if half.is_empty() {
        let (whole, end) = split_half(piece.as_str());
        end.clone_into(half);
        return Cow::Borrowed(whole);
    }
    let joined = format!("{half}{}", piece.as_str());
    let (whole, end) = split_half(&joined);
    end.clone_into(half);
    Cow::Owned(whole.to_owned())
}

/// Cuts the first half of a pair off the end of contents.
fn split_half(contents: &str) -> (&str, &str) {
    let whole = || (contents, "");
    let at = contents.len().checked_sub(UNIT);
    let Some((before, last)) = at.and_then(|at| contents.split_at_checked(at)) else {
        return whole();
    };
    // A backslash behind another one is a character.
    let backslashes = before.bytes().rev().take_while(|byte| *byte == b'\\');
    match last.starts_with("\\u") && !is_whole_escape(last) && backslashes.count() % 2 == 0 {
        true => (before, last),
        false => whole(),
    }
}

/// Whether an escape, or a pair of them, is complete.
fn is_whole_escape(escape: &str) -> bool {
    match escape.as_bytes() {
        [_] => false,
        [_, kind] => *kind != b'u',
        // The first half of a pair waits for the second.
        [
            _,
            _,
            b'd' | b'D',
            b'8' | b'9' | b'a' | b'b' | b'A' | b'B',
            _,
            _,
        ] => false,
        [.., kind] if escape.len() == UNIT + 2 => *kind != b'u',
        _ => escape.len() == UNIT || escape.len() >= 2 * UNIT,
    }
}

#[cfg(test)]
mod tests;
