//! Finds the end of a passage in a string: the bytes and escapes that need no attention of
//! their own. This is where nearly all bytes of a large body are spent.
//!
//! Bytes are looked at in blocks, as bit masks: one bit for each byte that may end the
//! passage. Only at a set bit a byte is looked at by itself, and an escape that is whole is
//! passed over there and then.

use wide::u8x16;

/// Part of a string, as far as it holds plain bytes and whole escapes. After it stands what
/// ends it or must be looked at more closely, or nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Passage {
    /// How many bytes the passage has in the document.
    pub len: usize,
    /// How many fewer it has once its escapes are undone; each of them saves some.
    pub saved: usize,
    /// Whether the passage is surely ASCII. `false` may be a false alarm: bytes after
    /// its end may have been looked at too.
    pub ascii: bool,
}

impl Passage {
    /// How many bytes the passage has once it is unescaped.
    pub(super) const fn unescaped_len(self) -> usize {
        self.len.saturating_sub(self.saved)
    }

    /// Whether there is an escape in it.
    pub(super) const fn has_escapes(self) -> bool {
        self.saved > 0
    }
}

/// The character of a simple escape, by the byte after its backslash.
#[inline]
pub(super) const fn simple_escape(byte: u8) -> Option<u8> {
    match byte {
        b'"' | b'\\' | b'/' => Some(byte),
        b'b' => Some(0x08),
        b'f' => Some(0x0c),
        b'n' => Some(b'\n'),
        b'r' => Some(b'\r'),
        b't' => Some(b'\t'),
        _ => None,
    }
}

/// How long a simple escape is.
const SIMPLE_LEN: usize = br"\n".len();
/// How long `\uXXXX` is.
const UNIT_LEN: usize = br"\u0000".len();

/// The character that the escape at the start of `bytes` stands for and the length of the
/// escape, if it is whole. An escaped surrogate is so only together with its partner.
#[inline]
pub(super) fn escape(bytes: &[u8]) -> Option<(char, usize)> {
    match bytes {
        [b'\\', byte, ..] if *byte != b'u' => {
            simple_escape(*byte).map(|byte| (byte.into(), SIMPLE_LEN))
        }
        _ => unicode_escape(bytes),
    }
}

fn unicode_escape(bytes: &[u8]) -> Option<(char, usize)> {
    let (unit, rest) = code_unit(bytes)?;
    if let Some(character) = char::from_u32(unit.into()) {
        return Some((character, UNIT_LEN));
    }
    let (low, _) = code_unit(rest)?;
    let pair = char::decode_utf16([unit, low]).next()?.ok()?;
    Some((pair, 2 * UNIT_LEN))
}

/// The same for an escaped surrogate without its partner.
pub(super) fn surrogate(bytes: &[u8]) -> Option<(char, usize)> {
    code_unit(bytes).map(|_| (char::REPLACEMENT_CHARACTER, UNIT_LEN))
}

/// The UTF-16 code unit of the `\uXXXX` at the start of `bytes`, and what follows it.
#[inline]
fn code_unit(bytes: &[u8]) -> Option<(u16, &[u8])> {
    let (&[b'\\', b'u', a, b, c, d], rest) = bytes.split_first_chunk::<UNIT_LEN>()? else {
        return None;
    };
    let [a, b, c, d] =
        [a, b, c, d].map(|byte| HEX.get(usize::from(byte)).copied().unwrap_or(NO_DIGIT));
    let is_number = (a | b | c | d) < NO_DIGIT;
    is_number.then(|| (u16::from_be_bytes([a << 4 | b, c << 4 | d]), rest))
}

/// Bytes of a vector register.
const LANES: usize = 16;
/// Most strings of a dense document end within so many registers; they are not worth the
/// set-up of the block loop.
const SHORT: usize = 2;

/// Measures the passage at the start of `bytes`.
#[inline(always)]
pub(super) fn passage(bytes: &[u8]) -> Passage {
    let mut seen = u8x16::ZERO;
    let mut len = 0;
    for lanes in bytes.as_chunks::<LANES>().0.iter().take(SHORT) {
        let lanes = u8x16::new(*lanes);
        seen |= lanes;
        let marks = backslashes(lanes) | quotes_and_controls(lanes);
        if marks != 0 {
            let end = len + marks.trailing_zeros() as usize;
            if bytes.get(end) == Some(&b'\\') {
                break;
            }
            return Passage {
                len: end,
                saved: 0,
                ascii: is_ascii(seen),
            };
        }
        len += LANES;
    }
    long_passage(bytes, len, seen)
}

/// Bytes looked at together: as many as a mask has bits.
const BLOCK: usize = u64::BITS as usize;

/// Goes on in blocks after the first plain bytes, of which `seen` are all the bits.
fn long_passage(bytes: &[u8], plain: usize, seen: u8x16) -> Passage {
    let mut scan = Scan {
        at: plain,
        seen,
        ..Scan::default()
    };
    let (blocks, rest) = bytes.get(plain..).unwrap_or_default().as_chunks();
    let end = blocks
        .iter()
        .find_map(|block| scan.pass(block, bytes))
        // What fills up the last block ends nothing but an escape that is not whole.
        .or_else(|| scan.pass(&pad(rest), bytes));
    Passage {
        len: end.unwrap_or(bytes.len()),
        saved: scan.saved,
        ascii: is_ascii(scan.seen),
    }
}

/// Fills up the last bytes.
fn pad(rest: &[u8]) -> [u8; BLOCK] {
    let mut padded = [b' '; BLOCK];
    if let Some((start, _)) = padded.split_at_mut_checked(rest.len()) {
        start.copy_from_slice(rest);
    }
    padded
}

/// A passage on its way, block by block.
#[derive(Default)]
struct Scan {
    /// Where the next block stands.
    at: usize,
    /// All the bits that its bytes have.
    seen: u8x16,
    saved: usize,
    /// One if the first byte of the next block is escaped.
    carry: u64,
    /// The place after the last pair of escaped surrogates.
    after_pair: usize,
}

impl Scan {
    /// Passes over the next block of `bytes`; returns where the passage ends, if it does.
    #[inline(always)]
    fn pass(&mut self, block: &[u8; BLOCK], bytes: &[u8]) -> Option<usize> {
        let at = self.at;
        self.at += BLOCK;
        let marks = self.look_at(block);
        if marks.backslashes | marks.ends | self.carry == 0 {
            return None;
        }
        let escaped = self.escaped(marks.backslashes);
        let ends = marks.ends & !escaped;
        let before_end = (ends & ends.wrapping_neg()).wrapping_sub(1);
        let mut letters = escaped & before_end;
        while letters != 0 {
            let place = letters.trailing_zeros() as usize;
            let backslash = (at + place).wrapping_sub(1);
            if is_simple(block, place) {
                self.saved += 1;
            } else if backslash >= self.after_pair {
                let Some(escape) = measure_unicode(bytes, backslash) else {
                    return Some(backslash);
                };
                self.saved += escape.saved;
                if escape.len > UNIT_LEN {
                    self.after_pair = backslash + escape.len;
                }
            }
            letters &= letters - 1;
        }
        (ends != 0).then(|| at + ends.trailing_zeros() as usize)
    }

    /// Marks the bytes that a backslash stands before which is not escaped itself.
    #[inline(always)]
    fn escaped(&mut self, backslashes: u64) -> u64 {
        /// Every other byte, from the first.
        const EVEN: u64 = u64::MAX / 0b11;
        let runs = backslashes & !self.carry;
        // Adding its first bit to a run clears it.
        let starts = runs & !(runs << 1);
        let even_runs = runs & !runs.wrapping_add(starts & EVEN);
        // Of a run every other one escapes, from its first.
        let escaping = runs & !(even_runs ^ EVEN);
        let escaped = escaping << 1 | self.carry;
        self.carry = escaping >> (BLOCK - 1);
        escaped
    }

    #[inline(always)]
    fn look_at(&mut self, block: &[u8; BLOCK]) -> Marks {
        let mut marks = Marks::default();
        for lanes in block.as_chunks::<LANES>().0.iter().rev() {
            let lanes = u8x16::new(*lanes);
            self.seen |= lanes;
            marks.backslashes = marks.backslashes << LANES | backslashes(lanes);
            marks.ends = marks.ends << LANES | quotes_and_controls(lanes);
        }
        marks
    }
}

/// The length of a `\uXXXX`, or of a pair of them, and the bytes saved by unescaping it.
struct Escape {
    len: usize,
    saved: usize,
}

/// Measures the escape at a place, apart from the loop that is better off without it.
#[inline(never)]
fn measure_unicode(bytes: &[u8], at: usize) -> Option<Escape> {
    let (character, len) = unicode_escape(bytes.get(at..)?)?;
    let saved = len.saturating_sub(character.len_utf8());
    Some(Escape { len, saved })
}

/// Bits for the bytes of a block.
#[derive(Default)]
struct Marks {
    backslashes: u64,
    /// Quotes and control characters.
    ends: u64,
}

#[inline]
fn is_simple(block: &[u8; BLOCK], place: usize) -> bool {
    block
        .get(place)
        .and_then(|&byte| SIMPLE.get(usize::from(byte)))
        .is_some_and(|simple| *simple)
}

#[inline(always)]
fn backslashes(lanes: u8x16) -> u64 {
    lanes.simd_eq(u8x16::splat(b'\\')).to_bitmask().into()
}

#[inline(always)]
fn quotes_and_controls(lanes: u8x16) -> u64 {
    // With this bit flipped the quote stands right behind the control characters, which only
    // change places among themselves.
    const FLIP: u8 = 0x02;
    const LAST: u8 = b'"' ^ FLIP;
    let flipped = lanes ^ u8x16::splat(FLIP);
    flipped
        .min(u8x16::splat(LAST))
        .simd_eq(flipped)
        .to_bitmask()
        .into()
}

/// Whether none of the bytes seen has the highest bit.
#[inline(always)]
fn is_ascii(seen: u8x16) -> bool {
    seen.to_bitmask() == 0
}

/// [`simple_escape`] of every byte: one look instead of eight comparisons.
static SIMPLE: [bool; 256] = simple_escapes();

const fn simple_escapes() -> [bool; 256] {
    let mut table = [false; 256];
    let mut rest: &mut [bool] = &mut table;
    let mut byte = 0;
    while let Some((simple, after)) = rest.split_first_mut() {
        *simple = simple_escape(byte).is_some();
        byte = byte.wrapping_add(1);
        rest = after;
    }
    table
}

/// The value in [`HEX`] for a byte that is no digit: a bit that no digit has.
const NO_DIGIT: u8 = 0x10;

/// The value of every byte as a hexadecimal digit.
static HEX: [u8; 256] = hex_digits();

const fn hex_digits() -> [u8; 256] {
    let mut table = [NO_DIGIT; 256];
    let mut rest: &mut [u8] = &mut table;
    let mut byte = 0_u8;
    while let Some((digit, after)) = rest.split_first_mut() {
        *digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'A'..=b'F' => byte - b'A' + 10,
            _ => NO_DIGIT,
        };
        byte = byte.wrapping_add(1);
        rest = after;
    }
    table
}

#[cfg(test)]
mod tests;
