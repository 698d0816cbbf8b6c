//! Reads the list of nodes out of a body that is known to be JSON.
//!
//! A request's body was read by the lexer when it arrived. Reading it again to translate it
//! only has to find where values begin and end, and steps over what is in strings. Of a body
//! that is no JSON after all the list may be nonsense, but the reading ends, and nothing that
//! walks the list leaves it.

use super::{Document, DocumentError, Node, NodeKind, Tape};
use memchr::{memchr, memchr_iter};
use tollgate_wire::json::{Container, JsonError, JsonErrorKind, Sink, Span};

impl<'a> Document<'a> {
    /// Reads a document that a lexer has read before.
    ///
    /// # Errors
    /// It has 4 GiB or more, or is so little JSON that it has no values or open ends.
    pub fn of_valid(bytes: &'a [u8]) -> Result<Self, DocumentError> {
        if u32::try_from(bytes.len()).is_err() {
            return Err(DocumentError::TooLarge);
        }
        let mut scan = Scan {
            bytes,
            at: 0,
            tape: Tape::for_body(bytes),
        };
        while let Some(byte) = bytes.get(scan.at) {
            scan.step(*byte)?;
        }
        let nodes = scan.tape.nodes;
        let is_one_value = nodes
            .first()
            .is_some_and(|root: &Node| root.next as usize == nodes.len());
        if is_one_value && scan.tape.open.is_empty() {
            Ok(Self { bytes, nodes })
        } else {
            Err(broken(JsonErrorKind::UnexpectedEnd, bytes.len()))
        }
    }
}

struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
    tape: Tape,
}

impl Scan<'_> {
    /// Goes on by what begins with `byte`.
    fn step(&mut self, byte: u8) -> Result<(), DocumentError> {
        match byte {
            b' ' | b'\n' | b'\r' | b'\t' | b',' | b':' => self.at = self.at.saturating_add(1),
            b'"' => self.text()?,
            b'{' => self.begin(Container::Object)?,
            b'[' => self.begin(Container::Array)?,
            b'}' => self.end(Container::Object)?,
            b']' => self.end(Container::Array)?,
            b't' => self.value(NodeKind::True, 4),
            b'n' => self.value(NodeKind::Null, 4),
            b'f' => self.value(NodeKind::False, 5),
            b'-' | b'0'..=b'9' => {
                let length = self.rest().iter().take_while(|byte| is_of_number(**byte));
                let length = length.count();
                self.value(NodeKind::Number, length);
            }
            _ => return Err(broken(JsonErrorKind::ExpectedValue(byte), self.at)),
        }
        Ok(())
    }

    fn rest(&self) -> &[u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    fn value(&mut self, kind: NodeKind, length: usize) {
        let end = self.at.saturating_add(length).min(self.bytes.len());
        let span = Span {
            start: self.at as u64,
            end: end as u64,
        };
        self.tape.push(kind, span);
        self.at = end;
    }

    fn text(&mut self) -> Result<(), DocumentError> {
        let inside = self.rest().get(1..).unwrap_or_default();
        if let Some(length) = short_string(inside) {
            self.value(NodeKind::Text, length.saturating_add(2));
            return Ok(());
        }
        let length = long_string(inside)
            .ok_or_else(|| broken(JsonErrorKind::UnexpectedEnd, self.bytes.len()))?;
        let content = inside.get(..length).unwrap_or_default();
        let kind = match memchr(b'\\', content) {
            None => NodeKind::Text,
            Some(_) => NodeKind::EscapedText,
        };
        self.value(kind, length.saturating_add(2));
        Ok(())
    }

    fn begin(&mut self, container: Container) -> Result<(), DocumentError> {
        self.tape.begin(container, self.at as u64)?;
        self.at = self.at.saturating_add(1);
        Ok(())
    }

    fn end(&mut self, container: Container) -> Result<(), DocumentError> {
        if self.tape.open.is_empty() {
            return Err(broken(JsonErrorKind::UnexpectedEnd, self.at));
        }
        self.at = self.at.saturating_add(1);
        self.tape.end(container, self.at as u64)?;
        Ok(())
    }
}

/// The length of contents that have no escape and are not much longer than a word, as keys are,
/// found eight bytes at a time: a search for the quote costs more before it begins.
#[inline]
pub(crate) fn short_string(inside: &[u8]) -> Option<usize> {
    const MOST_WORDS: usize = 3;
    let (words, _) = inside.as_chunks::<8>();
    let mut words = words.iter().take(MOST_WORDS).zip((0_usize..).step_by(8));
    let (place, start) = words.find_map(|(word, start)| Some((first_end(*word)?, start)))?;
    let length = start.saturating_add(place);
    (inside.get(length) == Some(&b'"')).then_some(length)
}

/// The length of any contents: up to the first quote before which there is an even number of
/// backslashes.
pub(crate) fn long_string(inside: &[u8]) -> Option<usize> {
    memchr_iter(b'"', inside).find(|quote| {
        let before = inside.get(..*quote).unwrap_or_default();
        let backslashes = before.iter().rev().take_while(|byte| **byte == b'\\');
        backslashes.count().is_multiple_of(2)
    })
}

/// Which of eight bytes is the first quote or backslash.
#[inline]
const fn first_end(word: [u8; 8]) -> Option<usize> {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    let word = u64::from_le_bytes(word);
    let quotes = word ^ (ONES * b'"' as u64);
    let backslashes = word ^ (ONES * b'\\' as u64);
    // What is subtracted may be borrowed from bytes behind the first one alone.
    let zeros = quotes.wrapping_sub(ONES) | backslashes.wrapping_sub(ONES);
    let ends = zeros & !word & (ONES * 0x80);
    match ends {
        0 => None,
        ends => Some((ends.trailing_zeros() / 8) as usize),
    }
}

const fn is_of_number(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E')
}

fn broken(kind: JsonErrorKind, at: usize) -> DocumentError {
    JsonError {
        kind,
        at: at as u64,
    }
    .into()
}
