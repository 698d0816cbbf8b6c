//! Reads the list of nodes out of JSON that the lexer has checked.
//!
//! It only has to find where values begin and end, and steps over the contents of strings. Of a
//! body that is no JSON after all the list may be nonsense, but the reading ends, and nothing that
//! walks the list leaves it.

use super::{Document, DocumentError, Node, NodeKind};
use crate::json::{JsonError, JsonErrorKind};
use memchr::{memchr, memchr_iter};

/// Bytes of a body for each node that is reserved before the reading begins. A conversation has
/// hundreds; a dense body makes the list grow.
const BYTES_PER_NODE: usize = 96;

/// Reads a list of at most so many nodes.
pub(super) fn read(bytes: &[u8], most_nodes: usize) -> Result<Document<'_>, DocumentError> {
    if u32::try_from(bytes.len()).is_err() {
        return Err(DocumentError::TooLarge);
    }
    let mut scan = Scan {
        bytes,
        at: 0,
        nodes: Vec::with_capacity(bytes.len() / BYTES_PER_NODE + 8),
        open: Vec::with_capacity(8),
    };
    while let Some(byte) = bytes.get(scan.at) {
        scan.step(*byte)?;
        if scan.nodes.len() > most_nodes {
            return Err(DocumentError::TooDense);
        }
    }
    let nodes = scan.nodes;
    let is_one_value = nodes
        .first()
        .is_some_and(|root: &Node| root.next as usize == nodes.len());
    match is_one_value && scan.open.is_empty() {
        true => Ok(Document { bytes, nodes }),
        false => Err(broken(JsonErrorKind::UnexpectedEnd, bytes.len())),
    }
}

struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
    nodes: Vec<Node>,
    /// The containers that are still open.
    open: Vec<usize>,
}

impl Scan<'_> {
    /// Goes on by what begins with `byte`.
    fn step(&mut self, byte: u8) -> Result<(), DocumentError> {
        match byte {
            b' ' | b'\n' | b'\r' | b'\t' | b',' | b':' => self.at = self.at.saturating_add(1),
            b'"' => self.text()?,
            b'{' => self.begin(NodeKind::Object),
            b'[' => self.begin(NodeKind::Array),
            b'}' | b']' => self.end()?,
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

    #[inline]
    fn value(&mut self, kind: NodeKind, length: usize) {
        let end = self.at.saturating_add(length).min(self.bytes.len());
        self.nodes.push(Node {
            start: narrow(self.at),
            end: narrow(end),
            next: narrow(self.nodes.len()).saturating_add(1),
            kind,
        });
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

    fn begin(&mut self, container: NodeKind) {
        self.open.push(self.nodes.len());
        self.value(container, 1);
    }

    fn end(&mut self) -> Result<(), DocumentError> {
        let open = self.open.pop();
        let open = open.ok_or_else(|| broken(JsonErrorKind::UnexpectedEnd, self.at))?;
        self.at = self.at.saturating_add(1);
        let next = narrow(self.nodes.len());
        if let Some(node) = self.nodes.get_mut(open) {
            node.end = narrow(self.at);
            node.next = next;
        }
        Ok(())
    }
}

/// Offsets fit: a document has less than 4 GiB, and a node has at least one byte.
fn narrow(offset: usize) -> u32 {
    u32::try_from(offset).unwrap_or(u32::MAX)
}

/// The length of contents that have no escape and are not much longer than a word, as keys are,
/// found eight bytes at a time: a search for the quote costs more before it begins.
#[inline]
pub fn short_string(inside: &[u8]) -> Option<usize> {
    const MOST_WORDS: usize = 3;
    let (words, _) = inside.as_chunks::<8>();
    let mut words = words.iter().take(MOST_WORDS).zip((0_usize..).step_by(8));
    let (place, start) = words.find_map(|(word, start)| Some((first_end(*word)?, start)))?;
    let length = start.saturating_add(place);
    (inside.get(length) == Some(&b'"')).then_some(length)
}

/// The length of any contents: up to the first quote before which there is an even number of
/// backslashes.
pub fn long_string(inside: &[u8]) -> Option<usize> {
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
