//! One event as the template of those like it, which then pass without being read.
//!
//! Most events of a stream differ from the last one in their text only. A template is an event cut
//! into parts that must come again byte for byte, and values between them of which only the length
//! matters: its text, strings without a meaning, its number. An event that fits says the same as
//! the template. An event that is unusual in any way, or cut by a chunk, does not fit and is read
//! in full.
//!
//! This file decides which events can be templates and which events fit them. The scanner decides
//! what happens to an event.

use super::framing::{Framer, Token};
use crate::{
    answer::{
        kind::EventKind,
        reader::{Reader, ValueRole},
    },
    formats::rules::DocumentRules,
    json::{
        Container, JsonError, Lexer, Literal, Number, Sink, Span, Text, Want, string_to_its_end,
    },
};
use std::ops::Range;

/// The longest event that is made a template, in bytes.
const MAX_BYTES: usize = 2048;
/// The most values of one event that may differ.
const MAX_HOLES: usize = 12;
/// The longest `sequence_number` that fits, in digits; every such number is a `u64`.
const MAX_DIGITS: usize = 18;
/// How many events are read at most before another one is made a template.
const LONGEST_PAUSE: u32 = 63;

/// The template of a stream, as it changes.
#[derive(Debug, Default)]
pub(super) struct Templates {
    template: Option<Template>,
    /// Events that are read before another one is made a template.
    wait: u32,
    /// The wait after that. It grows with each template that no event fits.
    pause: u32,
}

/// An event that fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fit {
    /// Bytes of the whole block, its blank line included.
    pub(super) len: usize,
    /// Where in it the text stands, escaped as it came.
    pub(super) text: Range<usize>,
    /// Bytes of the text, unescaped.
    pub(super) text_bytes: usize,
    /// Its `sequence_number`.
    pub(super) sequence: Option<u64>,
    /// It is more than a sign that more will come.
    pub(super) counts: bool,
}

#[derive(Debug)]
struct Template {
    /// The parts that must come again, one after the other.
    constants: Vec<u8>,
    /// The values between them, in order.
    holes: Vec<Hole>,
    counts: bool,
}

/// A value that may differ.
#[derive(Clone, Copy, Debug)]
struct Hole {
    /// Where in the constants it stands.
    at: usize,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// The string that is the text.
    Text,
    /// A string without a meaning.
    Unread,
    /// The number of the event.
    Sequence,
}

impl Templates {
    /// The event at the start of `bytes`, if it fits.
    #[inline]
    pub(super) fn fit(&mut self, bytes: &[u8]) -> Option<Fit> {
        let fit = self.template.as_ref()?.fit(bytes)?;
        self.pause = self.pause.saturating_sub(1);
        Some(fit)
    }

    /// Makes a template of an event that was read and has passed, now and then.
    pub(super) fn learn(&mut self, rules: &'static DocumentRules, kind: EventKind, block: &[u8]) {
        if self.wait > 0 {
            self.wait -= 1;
            return;
        }
        self.wait = self.pause;
        self.pause = self.pause.saturating_mul(2).saturating_add(1);
        self.pause = self.pause.min(LONGEST_PAUSE);
        if let Some(template) = Template::of(rules, kind, block) {
            self.template = Some(template);
        }
    }
}

impl Template {
    /// `None` if another event like it could say more than its text and its number.
    fn of(rules: &'static DocumentRules, kind: EventKind, block: &[u8]) -> Option<Self> {
        // If all lines end in the same way, the next line begins right after the block.
        if block.len() > MAX_BYTES || !block.ends_with(b"\n\n") || block.contains(&b'\r') {
            return None;
        }
        let data = only_data(block)?;
        let mut learner = Learner::new(rules);
        let mut lexer = Lexer::new();
        lexer.feed(block.get(data.clone())?, &mut learner).ok()?;
        let texts = learner.holes.iter().filter(|(_, it)| *it == What::Text);
        if !lexer.is_complete()
            || !learner.reader.says_text_alone()
            || texts.count() != 1
            || learner.holes.len() > MAX_HOLES
            // Keys and numbers in the arguments of a call are text besides.
            || learner.reader.text_so_far(&lexer) != learner.text
        {
            return None;
        }
        let mut constants = Vec::with_capacity(block.len());
        let mut holes = Vec::with_capacity(learner.holes.len());
        let mut done = 0;
        for (span, what) in learner.holes {
            let from = data.start.checked_add(usize::try_from(span.start).ok()?)?;
            let to = data.start.checked_add(usize::try_from(span.end).ok()?)?;
            constants.extend_from_slice(block.get(done..from)?);
            holes.push(Hole {
                at: constants.len(),
                what,
            });
            done = to;
        }
        constants.extend_from_slice(block.get(done..)?);
        Some(Self {
            constants,
            holes,
            counts: kind != EventKind::Preamble,
        })
    }

    #[inline]
    fn fit(&self, bytes: &[u8]) -> Option<Fit> {
        let mut fit = Fit {
            len: 0,
            text: 0..0,
            text_bytes: 0,
            sequence: None,
            counts: self.counts,
        };
        let (mut rest, mut done) = (bytes, 0);
        for hole in &self.holes {
            rest = rest.strip_prefix(self.constants.get(done..hole.at)?)?;
            done = hole.at;
            match hole.what {
                What::Text | What::Unread => {
                    let contents = rest.strip_prefix(b"\"")?;
                    let (len, unescaped) = string_to_its_end(contents)?;
                    if hole.what == What::Text {
                        let start = bytes.len() - contents.len();
                        fit.text = start..start + len;
                        fit.text_bytes = unescaped;
                    }
                    rest = contents.get(len..)?.strip_prefix(b"\"")?;
                }
                What::Sequence => {
                    let (number, after) = whole_number(rest)?;
                    fit.sequence = Some(number);
                    rest = after;
                }
            }
        }
        rest = rest.strip_prefix(self.constants.get(done..)?)?;
        fit.len = bytes.len() - rest.len();
        Some(fit)
    }
}

/// Where the data of a block stand, if it has one data line.
fn only_data(block: &[u8]) -> Option<Range<usize>> {
    let (mut framer, mut rest, mut found) = (Framer::between_blocks(), block, None);
    while let Some(token) = framer.next(&mut rest) {
        if let Token::Data(piece) = token {
            let end = block.len().checked_sub(rest.len())?;
            let before = found.replace(end.checked_sub(piece.len())?..end);
            if before.is_some() {
                return None;
            }
        }
    }
    found
}

/// The number at the start of `bytes`, and the rest.
fn whole_number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit());
    let (digits, after) = bytes.split_at_checked(digits.take(MAX_DIGITS + 1).count())?;
    // JSON has no leading zeros.
    if digits.len() > MAX_DIGITS || (digits.len() > 1 && digits.starts_with(b"0")) {
        return None;
    }
    let number = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some((number, after))
}

/// Reads an event as the first of its stream, and notes the values that may differ.
struct Learner {
    reader: Reader,
    holes: Vec<(Span, What)>,
    /// Bytes of the strings that are text, unescaped.
    text: u64,
}

impl Learner {
    fn new(rules: &'static DocumentRules) -> Self {
        Self {
            reader: Reader::new(rules),
            holes: Vec::new(),
            text: 0,
        }
    }
}

impl Sink for Learner {
    type Error = JsonError;

    fn want_key(&mut self) -> Want {
        self.reader.want_key()
    }

    fn want_string(&mut self) -> Want {
        self.reader.want_string()
    }

    fn key(&mut self, key: Text<'_>) -> Result<(), JsonError> {
        self.reader.key(key)
    }

    fn string(&mut self, text: Text<'_>) -> Result<(), JsonError> {
        match self.reader.string_role() {
            ValueRole::Text => {
                self.text = self.text.saturating_add(text.len);
                self.holes.push((text.span, What::Text));
            }
            ValueRole::Unread => self.holes.push((text.span, What::Unread)),
            ValueRole::Read => {}
        }
        self.reader.string(text)
    }

    fn number(&mut self, number: Number<'_>) -> Result<(), JsonError> {
        if self.reader.is_at_sequence() {
            self.holes.push((number.span, What::Sequence));
        }
        self.reader.number(number)
    }

    fn literal(&mut self, literal: Literal, span: Span) -> Result<(), JsonError> {
        self.reader.literal(literal, span)
    }

    fn begin(&mut self, container: Container, at: u64) -> Result<(), JsonError> {
        self.reader.begin(container, at)
    }

    fn end(&mut self, container: Container, end: u64) -> Result<(), JsonError> {
        self.reader.end(container, end)
    }
}

#[cfg(test)]
mod tests;
