//! The count itself: a machine of a few states over the bytes of JSON strings, escapes
//! undone on the way.

use super::words::{self, Kind, Table};
use tollgate_types::TextSample;

/// Letters of the longest word of the table.
const LONGEST: u32 = 16;
/// The bit by which ASCII tells small letters from capitals.
const SMALL: u8 = 0x20;

/// Counts over any number of texts.
#[derive(Debug)]
pub(super) struct Scanner {
    table: &'static Table,
    sample: TextSample,
    /// Whether the user speaks: only then words and lists tell what is asked for.
    is_question: bool,
    escape: Escape,
    word: Word,
    /// Back quotes in a row.
    quotes: u8,
    line: Line,
    /// The byte before was a backslash of the text itself.
    after_backslash: bool,
    /// Bytes of a character that are still to come, and what it is.
    rest: u8,
}

/// Where in an escape of JSON the text is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Escape {
    #[default]
    None,
    Begun,
    Unicode {
        value: u16,
        digits: u8,
    },
}

/// Where in a line the text is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Line {
    /// Nothing but blanks yet.
    #[default]
    Start,
    /// A dash, an asterisk or digits, which may begin an item of a list.
    Bullet,
    Number,
    NumberEnded,
    Inside,
}

/// The word that is being read.
#[derive(Clone, Copy, Debug, Default)]
struct Word {
    packed: u128,
    len: u32,
    last: u8,
    is_identifier: bool,
}

/// What an ASCII byte is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Letter,
    Digit,
    Underscore,
    Blank,
    Newline,
    /// What code is full of.
    Symbol,
    BackQuote,
    Backslash,
    Other,
    /// Part of a character beyond ASCII.
    High,
}

const CLASSES: [Class; 256] = classes();

#[expect(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "worked out by the compiler, which refuses what is out of bounds"
)]
const fn classes() -> [Class; 256] {
    let mut classes = [Class::Other; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = match byte as u8 {
            b'a'..=b'z' | b'A'..=b'Z' => Class::Letter,
            b'0'..=b'9' => Class::Digit,
            b'_' => Class::Underscore,
            b' ' | b'\t' => Class::Blank,
            b'\n' | b'\r' => Class::Newline,
            b'{' | b'}' | b'[' | b']' | b';' | b'=' | b'<' | b'>' | b'|' | b'&' | b'#' | b'@'
            | b'$' | b'%' | b'^' | b'~' | b'+' | b'/' => Class::Symbol,
            b'`' => Class::BackQuote,
            b'\\' => Class::Backslash,
            0x80..=0xFF => Class::High,
            _ => Class::Other,
        };
        byte += 1;
    }
    classes
}

const fn class(byte: u8) -> Class {
    #[expect(
        clippy::indexing_slicing,
        reason = "a byte is always within 256 entries"
    )]
    CLASSES[byte as usize]
}

impl Scanner {
    pub(super) fn new() -> Self {
        Self {
            table: words::table(),
            sample: TextSample::default(),
            is_question: false,
            escape: Escape::None,
            word: Word::default(),
            quotes: 0,
            line: Line::Start,
            after_backslash: false,
            rest: 0,
        }
    }

    /// A text begins; `is_question` where the user speaks.
    pub(super) fn begin(&mut self, is_question: bool) {
        self.is_question = is_question;
        self.escape = Escape::None;
        self.line = Line::Start;
        self.after_backslash = false;
        self.quotes = 0;
        self.rest = 0;
    }

    /// Bytes of the text, as they stand in the body.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        self.sample.bytes = self.sample.bytes.saturating_add(len);
        let mut rest = bytes;
        while let Some((&byte, after)) = rest.split_first() {
            rest = match self.escape {
                Escape::None => self.plain(byte, rest, after),
                Escape::Begun => {
                    self.escaped(byte);
                    after
                }
                Escape::Unicode { value, digits } => {
                    self.unicode(byte, value, digits);
                    after
                }
            };
        }
    }

    /// The beginning of `text`, whose first byte stands before `after` and in no escape: as much
    /// as is of one kind. What is left of it.
    #[inline]
    fn plain<'t>(&mut self, byte: u8, text: &'t [u8], after: &'t [u8]) -> &'t [u8] {
        match class(byte) {
            Class::Letter => self.word(text),
            Class::Blank => {
                // Many blanks are one.
                self.byte(byte);
                after_run(text, |byte| class(byte) == Class::Blank).1
            }
            Class::High => {
                let (run, rest) = after_run(text, |byte| byte >= 0x80);
                self.high(run);
                rest
            }
            Class::BackQuote => {
                let (run, rest) = after_run(text, |byte| byte == b'`');
                self.back_quotes(run.len());
                rest
            }
            Class::Backslash => match after.split_first() {
                Some((&next, after)) if next != b'u' => {
                    self.escaped(next);
                    after
                }
                _ => {
                    self.escape = Escape::Begun;
                    after
                }
            },
            _ => {
                self.byte(byte);
                after
            }
        }
    }

    /// The letters that `text` begins with: a word as a whole where it is seen to be one, which
    /// is how nearly all of them come; else letters of one.
    #[inline]
    fn word<'t>(&mut self, text: &'t [u8]) -> &'t [u8] {
        let (mut len, mut last, mut has_hump) = (0, 0, 0);
        for &byte in text {
            if class(byte) != Class::Letter {
                break;
            }
            // Small letters have a bit that capitals have not.
            has_hump |= last & !byte & SMALL;
            last = byte;
            len += 1;
        }
        let Some((letters, after)) = text.split_at_checked(len) else {
            return &[];
        };
        if self.word.len > 0 || !ends_word(after) {
            self.letters(letters);
            return after;
        }
        self.whole_word(letters, has_hump != 0);
        // A blank behind a word changes nothing.
        match after.split_first() {
            Some((b' ', rest)) => rest,
            _ => after,
        }
    }

    #[inline]
    fn whole_word(&mut self, word: &[u8], is_identifier: bool) {
        self.begin_word();
        let len = u32::try_from(word.len()).unwrap_or(u32::MAX);
        let sample = &mut self.sample;
        sample.letters = sample.letters.saturating_add(len);
        count(&mut sample.words);
        if is_identifier && len > 3 {
            count(&mut sample.identifiers);
        }
        if self.table.may_have(word) {
            let small = word.iter().map(u8::to_ascii_lowercase);
            self.told(small.fold(0, words::pack));
        }
    }

    /// What the first letter of a word changes.
    #[inline]
    fn begin_word(&mut self) {
        self.quotes = 0;
        self.line = Line::Inside;
        if self.after_backslash {
            count(&mut self.sample.math_marks);
            self.after_backslash = false;
        }
    }

    /// The text ends, or goes on elsewhere.
    pub(super) fn end(&mut self) {
        self.end_word();
    }

    pub(super) fn finish(self) -> TextSample {
        self.sample
    }

    /// The byte after a backslash of JSON.
    fn escaped(&mut self, byte: u8) {
        self.escape = Escape::None;
        match byte {
            b'n' => self.byte(b'\n'),
            b'r' => self.byte(b'\r'),
            b't' => self.byte(b'\t'),
            b'b' | b'f' => self.byte(b' '),
            b'u' => {
                self.escape = Escape::Unicode {
                    value: 0,
                    digits: 0,
                };
            }
            other => self.byte(other),
        }
    }

    /// A digit of a character that is written as a number.
    fn unicode(&mut self, byte: u8, value: u16, digits: u8) {
        let Some(digit) = char::from(byte).to_digit(16) else {
            // No body has this; a text that was cut into begins with it.
            self.escape = Escape::None;
            return self.byte(byte);
        };
        let value = value << 4 | u16::try_from(digit).unwrap_or(0);
        if digits < 3 {
            let digits = digits + 1;
            self.escape = Escape::Unicode { value, digits };
            return;
        }
        self.escape = Escape::None;
        match u8::try_from(value) {
            Ok(ascii) if ascii < 0x80 => self.byte(ascii),
            _ => {
                self.end_word();
                self.line = Line::Inside;
                self.character(u32::from(value));
            }
        }
    }

    #[inline]
    fn byte(&mut self, byte: u8) {
        let class = class(byte);
        if class == Class::Letter {
            return self.letters(&[byte]);
        }
        if class == Class::High {
            return self.high(&[byte]);
        }
        if class == Class::BackQuote {
            return self.back_quotes(1);
        }
        match class {
            Class::Digit | Class::Underscore if self.word.len > 0 => {
                self.word.is_identifier |= class == Class::Underscore;
                self.word.packed = words::pack(self.word.packed, byte);
                self.word.last = byte;
                self.word.len += 1;
                return;
            }
            _ => self.end_word(),
        }
        self.after_backslash = class == Class::Backslash;
        if matches!(class, Class::Symbol | Class::Underscore | Class::Backslash) {
            count(&mut self.sample.symbols);
        }
        self.quotes = 0;
        self.lines(byte, class);
    }

    fn letters(&mut self, run: &[u8]) {
        let len = u32::try_from(run.len()).unwrap_or(u32::MAX);
        self.sample.letters = self.sample.letters.saturating_add(len);
        if self.word.len == 0 {
            self.begin_word();
        }
        let word = &mut self.word;
        word.len = word.len.saturating_add(len);
        // A word that is too long for the table need not be known.
        let is_short = word.len <= LONGEST;
        for &byte in run {
            word.is_identifier |= byte.is_ascii_uppercase() && word.last.is_ascii_lowercase();
            word.last = byte;
            if is_short {
                word.packed = words::pack(word.packed, byte.to_ascii_lowercase());
            }
        }
    }

    #[inline]
    fn end_word(&mut self) {
        let word = self.word;
        if word.len == 0 {
            return;
        }
        self.word = Word::default();
        let sample = &mut self.sample;
        count(&mut sample.words);
        if word.is_identifier && word.len > 3 {
            count(&mut sample.identifiers);
        }
        if (2..=LONGEST).contains(&word.len) {
            self.told(word.packed);
        }
    }

    /// What a word of the table tells.
    fn told(&mut self, packed: u128) {
        let sample = &mut self.sample;
        match self.table.kind(packed) {
            Some(Kind::Code) => count(&mut sample.code_words),
            Some(Kind::Math) => count(&mut sample.math_words),
            Some(Kind::Hard) if self.is_question => count(&mut sample.hard_words),
            Some(Kind::Easy) if self.is_question => count(&mut sample.easy_words),
            _ => {}
        }
    }

    /// Three in a row are a fence, and so are more.
    fn back_quotes(&mut self, run: usize) {
        self.end_word();
        self.after_backslash = false;
        self.line = Line::Inside;
        let before = self.quotes;
        let run = u8::try_from(run).unwrap_or(u8::MAX);
        self.quotes = before.saturating_add(run);
        if before < 3 && self.quotes >= 3 {
            count(&mut self.sample.fences);
        }
    }

    /// Keeps where in its line the text is, and counts items of lists.
    fn lines(&mut self, byte: u8, class: Class) {
        self.line = match (self.line, class) {
            (_, Class::Newline) => Line::Start,
            (Line::Start, Class::Blank) => Line::Start,
            (Line::Start, _) if matches!(byte, b'-' | b'*') => Line::Bullet,
            (Line::Start | Line::Number, Class::Digit) => Line::Number,
            (Line::Number, _) if matches!(byte, b'.' | b')') => Line::NumberEnded,
            (Line::Bullet | Line::NumberEnded, Class::Blank) => {
                if self.is_question {
                    count(&mut self.sample.list_items);
                }
                Line::Inside
            }
            _ => Line::Inside,
        };
    }

    /// Bytes of characters beyond ASCII.
    fn high(&mut self, run: &[u8]) {
        self.end_word();
        self.line = Line::Inside;
        self.after_backslash = false;
        self.quotes = 0;
        for &byte in run {
            // The first byte after the lead tells enough of what the character is.
            if byte >= 0xC0 {
                self.rest = byte;
            } else if self.rest != 0 {
                let lead = std::mem::take(&mut self.rest);
                self.character(approximate(lead, byte));
            }
        }
    }

    /// A character beyond ASCII, of which a look at the block is enough.
    fn character(&mut self, code: u32) {
        let sample = &mut self.sample;
        match code {
            // Mathematical operators, arrows between them, and letters made for formulas.
            0x2190..=0x21FF
            | 0x2200..=0x22FF
            | 0x2A00..=0x2AFF
            | 0x1D400..=0x1D7FF
            | 0xB1
            | 0xD7 => {
                count(&mut sample.math_marks);
            }
            // Latin, with and without marks.
            0xC0..=0x24F | 0x1E00..=0x1EFF => count(&mut sample.letters),
            // Greek to the scripts of Asia, what stands behind the punctuation, and beyond.
            0x370..=0x1DFF | 0x2C00..=0x2DFF | 0x3040..=0xD7FF | 0xF900..=0xFDFF | 0x20000.. => {
                count(&mut sample.letters);
                count(&mut sample.other_letters);
            }
            // Punctuation, emoji, halves of pairs.
            _ => {}
        }
    }
}

/// A code point out of the first two bytes of a character; the low bits are lost.
fn approximate(lead: u8, next: u8) -> u32 {
    let next = u32::from(next & 0x3F);
    match lead {
        0xC0..=0xDF => u32::from(lead & 0x1F) << 6 | next,
        0xE0..=0xEF => u32::from(lead & 0x0F) << 12 | next << 6,
        _ => u32::from(lead & 0x07) << 18 | next << 12,
    }
}

/// The bytes of one kind that a text begins with, and the rest.
#[inline]
fn after_run(text: &[u8], is: impl Fn(u8) -> bool) -> (&[u8], &[u8]) {
    let run = text.iter().take_while(|byte| is(**byte)).count();
    text.split_at_checked(run).unwrap_or((text, &[]))
}

/// Whether what follows letters is known and ends their word. Of escapes, that is those which
/// are no letter whatever they say.
#[inline]
fn ends_word(after: &[u8]) -> bool {
    match after {
        [] => false,
        [b'\\', next, ..] => matches!(next, b'n' | b'r' | b't' | b'"' | b'\\' | b'/'),
        [b'\\'] => false,
        [byte, ..] => !matches!(class(*byte), Class::Digit | Class::Underscore),
    }
}

fn count(counter: &mut u32) {
    *counter = counter.saturating_add(1);
}
