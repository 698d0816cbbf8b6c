//! The inside of a string: escapes, UTF-8 and the collecting of what is wanted,
//! resumable at any byte. The closing quote is found here, the opening one before.

use super::{
    JsonError, JsonErrorKind,
    scan::{self, Passage},
    utf8::is_utf8,
};
use std::ops::ControlFlow;

/// What stands in collected contents for an escaped surrogate without its partner.
const REPLACEMENT: char = char::REPLACEMENT_CHARACTER;

/// A string on its way from one quote to the other.
#[derive(Debug, Default)]
pub(super) struct StringState {
    phase: Phase,
    /// The escaped high surrogate that was read last, waiting for its partner.
    surrogate: Option<u16>,
    /// The first bytes of a character that the end of a chunk cut.
    carry: [u8; 4],
    carry_len: usize,
    /// How much of the contents is wanted, and as far as it was read, collected.
    limit: usize,
    collected: Vec<u8>,
    full: bool,
    /// Length of the unescaped contents so far.
    len: u64,
}

#[derive(Clone, Copy, Debug, Default)]
enum Phase {
    #[default]
    Plain,
    Escape,
    Hex {
        digits: u8,
        value: u16,
    },
}

impl StringState {
    /// Begins a string of whose contents at most `limit` bytes are wanted, with the
    /// passage that stands at `at` in `chunk`. Goes on like [`advance`](Self::advance).
    pub(super) fn begin(
        &mut self,
        limit: usize,
        passage: Passage,
        chunk: &[u8],
        at: usize,
        base: u64,
    ) -> Result<Option<usize>, JsonError> {
        self.clear(limit);
        match self.take_passage(passage, chunk, at, base)? {
            ControlFlow::Continue(at) => self.advance(chunk, at, base),
            ControlFlow::Break(end) => Ok(end),
        }
    }

    fn clear(&mut self, limit: usize) {
        self.phase = Phase::Plain;
        self.surrogate = None;
        self.carry_len = 0;
        self.limit = limit;
        self.collected.clear();
        self.full = limit == 0;
        self.len = 0;
    }

    /// The unescaped contents as far as they were wanted.
    pub(super) fn contents(&self) -> &[u8] {
        &self.collected
    }

    /// The length of the whole contents, unescaped.
    pub(super) const fn len(&self) -> u64 {
        self.len
    }

    /// Reads on in `chunk` from `at`. Returns the place after the closing quote, or
    /// nothing when the string goes on after the chunk. `base` is the chunk's offset.
    pub(super) fn advance(
        &mut self,
        chunk: &[u8],
        mut at: usize,
        base: u64,
    ) -> Result<Option<usize>, JsonError> {
        let fault = |kind, at: usize| JsonError::new(kind, base.saturating_add(at as u64));
        loop {
            let Some(rest) = chunk.get(at..).filter(|rest| !rest.is_empty()) else {
                return Ok(None);
            };
            match self.phase {
                Phase::Plain if self.carry_len > 0 => {
                    let before = self.carry_len as u64;
                    let Some(taken) = self.complete_character(rest) else {
                        let start = base.saturating_add(at as u64).saturating_sub(before);
                        return Err(JsonError::new(JsonErrorKind::BadUtf8, start));
                    };
                    at += taken;
                }
                Phase::Plain => {
                    let passage = scan::passage(rest);
                    match self.take_passage(passage, chunk, at, base)? {
                        ControlFlow::Continue(next) => at = next,
                        ControlFlow::Break(end) => return Ok(end),
                    }
                }
                Phase::Escape => {
                    let byte = rest.first().copied().unwrap_or_default();
                    if !self.escape(byte) {
                        return Err(fault(JsonErrorKind::BadEscape(byte), at));
                    }
                    at += 1;
                }
                Phase::Hex { digits, value } => {
                    let byte = rest.first().copied().unwrap_or_default();
                    let digit = char::from(byte)
                        .to_digit(16)
                        .and_then(|d| u16::try_from(d).ok());
                    let Some(digit) = digit else {
                        return Err(fault(JsonErrorKind::BadUnicodeEscape(byte), at));
                    };
                    self.hex_digit(digits, (value << 4) | digit);
                    at += 1;
                }
            }
        }
    }

    /// Takes the passage at `at` and the byte that ends it. Continues after it, or breaks
    /// with what [`advance`](Self::advance) returns.
    #[inline]
    fn take_passage(
        &mut self,
        passage: Passage,
        chunk: &[u8],
        at: usize,
        base: u64,
    ) -> Result<ControlFlow<Option<usize>, usize>, JsonError> {
        let fault = |kind, at: usize| JsonError::new(kind, base.saturating_add(at as u64));
        let rest = chunk.get(at..).unwrap_or_default();
        let (source, after) = rest.split_at_checked(passage.len).unwrap_or((rest, &[]));
        self.take_source(source, passage, after.is_empty())
            .map_err(|valid| fault(JsonErrorKind::BadUtf8, at + valid))?;
        let end = at + source.len();
        match after.first() {
            None => Ok(ControlFlow::Break(None)),
            Some(b'"') => {
                self.settle_surrogate();
                Ok(ControlFlow::Break(Some(end + 1)))
            }
            Some(b'\\') => {
                self.phase = Phase::Escape;
                Ok(ControlFlow::Continue(end + 1))
            }
            Some(&byte) => Err(fault(JsonErrorKind::ControlCharacter(byte), end)),
        }
    }

    /// Takes the source of a passage. `cut`: it reaches the end of the chunk, so that its
    /// last character may be incomplete. Fails with the number of bytes that are valid.
    fn take_source(&mut self, source: &[u8], passage: Passage, cut: bool) -> Result<(), usize> {
        if source.is_empty() {
            return Ok(());
        }
        self.settle_surrogate();
        let mut whole = source;
        if !passage.ascii
            && !is_utf8(source)
            && let Err(error) = std::str::from_utf8(source)
        {
            let valid = error.valid_up_to();
            let (before, partial) = source.split_at_checked(valid).ok_or(valid)?;
            if error.error_len().is_some() || !cut {
                return Err(valid);
            }
            self.carry_len = partial.len();
            let (carry, _) = self
                .carry
                .split_at_mut_checked(partial.len())
                .ok_or(valid)?;
            carry.copy_from_slice(partial);
            whole = before;
        }
        self.measure(whole.len().saturating_sub(passage.saved));
        if passage.has_escapes() {
            self.unescape(whole);
        } else {
            self.keep(whole);
        }
        Ok(())
    }

    /// Keeps what a source with whole escapes stands for, as far as it is wanted.
    fn unescape(&mut self, mut source: &[u8]) {
        if !self.full {
            let room = self.limit.saturating_sub(self.collected.len());
            self.collected.reserve(room.min(source.len()));
        }
        while !self.full {
            let escape = memchr::memchr(b'\\', source).unwrap_or(source.len());
            let (plain, rest) = source.split_at_checked(escape).unwrap_or((source, &[]));
            self.keep(plain);
            let Some((character, len)) = scan::escape(rest) else {
                return;
            };
            self.keep(character.encode_utf8(&mut [0; 4]).as_bytes());
            source = rest.get(len..).unwrap_or_default();
        }
    }

    /// Takes the bytes that complete a cut character, as far as they are there.
    /// Returns how many they are, or nothing where they do not fit.
    fn complete_character(&mut self, rest: &[u8]) -> Option<usize> {
        let mut taken = 0;
        for &byte in rest {
            *self.carry.get_mut(self.carry_len)? = byte;
            self.carry_len += 1;
            taken += 1;
            let carry = self.carry;
            let character = carry.get(..self.carry_len)?;
            match std::str::from_utf8(character) {
                Ok(_) => {
                    self.carry_len = 0;
                    self.collect(character);
                    break;
                }
                Err(error) if error.error_len().is_some() => return None,
                Err(_) => {}
            }
        }
        Some(taken)
    }

    /// Takes the byte after a backslash; `false` where it is no escape.
    fn escape(&mut self, byte: u8) -> bool {
        if byte == b'u' {
            self.phase = Phase::Hex {
                digits: 0,
                value: 0,
            };
            return true;
        }
        let Some(character) = scan::simple_escape(byte) else {
            return false;
        };
        self.phase = Phase::Plain;
        self.settle_surrogate();
        self.collect(&[character]);
        true
    }

    /// Takes a digit of `\uXXXX`; `digits` came before it, `value` includes it.
    fn hex_digit(&mut self, digits: u8, value: u16) {
        if digits < 3 {
            self.phase = Phase::Hex {
                digits: digits + 1,
                value,
            };
            return;
        }
        self.phase = Phase::Plain;
        match (self.surrogate.take(), value) {
            (Some(high), 0xdc00..=0xdfff) => {
                let pair = char::decode_utf16([high, value]).next();
                self.collect_char(pair.and_then(Result::ok).unwrap_or(REPLACEMENT));
            }
            (pending, value) => {
                if pending.is_some() {
                    self.collect_char(REPLACEMENT);
                }
                if matches!(value, 0xd800..=0xdbff) {
                    self.surrogate = Some(value);
                } else {
                    self.collect_char(char::from_u32(value.into()).unwrap_or(REPLACEMENT));
                }
            }
        }
    }

    /// A high surrogate that was not followed by its partner stays alone.
    fn settle_surrogate(&mut self) {
        if self.surrogate.take().is_some() {
            self.collect_char(REPLACEMENT);
        }
    }

    fn collect_char(&mut self, character: char) {
        self.collect(character.encode_utf8(&mut [0; 4]).as_bytes());
    }

    /// Takes whole characters into the contents.
    fn collect(&mut self, characters: &[u8]) {
        self.measure(characters.len());
        self.keep(characters);
    }

    fn measure(&mut self, len: usize) {
        self.len = self.len.saturating_add(len as u64);
    }

    /// Keeps whole characters as far as they are wanted.
    fn keep(&mut self, characters: &[u8]) {
        if self.full {
            return;
        }
        let room = self.limit.saturating_sub(self.collected.len());
        let taken = prefix(characters, room);
        self.full = taken.len() < characters.len();
        self.collected.extend_from_slice(taken);
    }
}

/// The longest prefix of whole characters that has at most `limit` bytes.
#[inline]
pub(crate) fn prefix(characters: &[u8], limit: usize) -> &[u8] {
    let Some(mut taken) = characters.get(..limit) else {
        return characters;
    };
    // Cut within a character: step back to its first byte.
    while is_continuation(characters.get(taken.len())) {
        taken = taken.split_last().map_or(&[], |(_, before)| before);
    }
    taken
}

fn is_continuation(byte: Option<&u8>) -> bool {
    byte.is_some_and(|byte| byte & 0xc0 == 0x80)
}
