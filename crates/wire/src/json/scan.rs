//! Finds the end of a passage in a string: the bytes and simple escapes that need no
//! attention of their own. This is where nearly all bytes of a large body are spent.

/// Part of a string, as far as it holds plain bytes and simple escapes only: those of
/// a backslash and one character. After it stands a byte that ends it, or nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Passage {
    /// How many bytes the passage has in the document.
    pub len: usize,
    /// How many of them are the backslash of an escape.
    pub escapes: usize,
    /// Whether the passage is surely ASCII. `false` may be a false alarm: bytes after
    /// its end may have been looked at too.
    pub ascii: bool,
}

impl Passage {
    /// How many bytes the passage has once it is unescaped.
    pub(super) const fn unescaped_len(self) -> usize {
        self.len.saturating_sub(self.escapes)
    }
}

/// What a simple escape stands for, by the byte after its backslash.
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

const WORD: usize = size_of::<u64>();
/// Most strings of a dense document end within so many words; they are not worth the
/// set-up of the block loop.
const SHORT: usize = 4;

/// Measures the passage at the start of `bytes`.
#[inline(always)]
pub(super) fn passage(bytes: &[u8]) -> Passage {
    let mut high = 0;
    let mut len = 0;
    let (words, _) = bytes.as_chunks::<WORD>();
    for word in words.iter().take(SHORT) {
        let word = u64::from_le_bytes(*word);
        high |= word;
        let hits = ends(word);
        if hits != 0 {
            let end = len + first(hits);
            if begins_escape(bytes, end) {
                break;
            }
            return Passage {
                len: end,
                escapes: 0,
                ascii: high & HIGHS == 0,
            };
        }
        len += WORD;
    }
    long_passage(bytes, len, high)
}

/// Bytes looked at together: a whole number of vector registers.
const BLOCK: usize = 64;
/// A block and the byte after it, which an escape at its end needs.
const WINDOW: usize = BLOCK + 1;
/// Marks of a block's bytes, four bits for each.
type Marks = [u64; BLOCK / MARKED];
const MARK_BITS: u32 = 4;
/// How many bytes are marked by a word.
const MARKED: usize = 64 / MARK_BITS as usize;

/// Goes on in blocks after the first plain bytes, of which `high` are all the bits.
fn long_passage(bytes: &[u8], plain: usize, mut high: u64) -> Passage {
    let mut at = plain;
    let mut escapes = Escapes::default();
    let mut is_quiet = true;
    let end = loop {
        if is_quiet {
            at += plain_blocks(bytes.get(at..).unwrap_or_default(), &mut high);
        }
        let rest = bytes.get(at..).unwrap_or_default();
        let padded;
        let window = match rest.first_chunk() {
            Some(window) => window,
            None => {
                padded = pad(rest);
                &padded
            }
        };
        let block = window.first_chunk().unwrap_or(&[0; BLOCK]);
        high |= bits(block);
        let marks = marks(block);
        is_quiet = marks == Marks::default();
        if let Some(end) = escapes.pass(window, &marks) {
            break at + end;
        }
        if rest.len() <= BLOCK {
            break bytes.len();
        }
        at += BLOCK;
    };
    Passage {
        len: end,
        escapes: escapes.count,
        ascii: high & HIGHS == 0,
    }
}

/// Measures the blocks that hold nothing but plain bytes. Long runs of them are passed
/// over faster by asking whether there is an end than by asking where.
#[inline(never)]
fn plain_blocks(bytes: &[u8], high: &mut u64) -> usize {
    let mut len = 0;
    for block in bytes.as_chunks::<BLOCK>().0 {
        let mut ends = 0;
        let mut bits = 0;
        for &byte in block {
            ends |= u8::from(is_end(byte));
            bits |= byte;
        }
        if ends != 0 {
            break;
        }
        *high |= u64::from(bits) << 56;
        len += BLOCK;
    }
    len
}

/// Fills up the last bytes with such as end nothing.
fn pad(rest: &[u8]) -> [u8; WINDOW] {
    let mut padded = [b' '; WINDOW];
    if let Some((start, _)) = padded.split_at_mut_checked(rest.len()) {
        start.copy_from_slice(rest);
    }
    padded
}

/// All the bits of a block together.
#[inline]
fn bits(block: &[u8; BLOCK]) -> u64 {
    let (words, _) = block.as_chunks();
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    words.fold(0, |bits, word| bits | word)
}

/// The simple escapes of a passage, block by block.
#[derive(Default)]
struct Escapes {
    count: usize,
    /// The place after the last one, from the start of the next block.
    resume: usize,
}

impl Escapes {
    /// Passes over the escapes of a block; returns where the passage ends, if it does.
    #[inline]
    fn pass(&mut self, window: &[u8; WINDOW], marks: &Marks) -> Option<usize> {
        for (start, &marks) in (0..BLOCK).step_by(MARKED).zip(marks) {
            let mut marks = marks;
            while marks != 0 {
                let bit = marks.trailing_zeros();
                let place = start + (bit / MARK_BITS) as usize;
                if place < self.resume {
                    marks &= !(0xf << bit);
                    continue;
                }
                if !begins_escape(window, place) {
                    return Some(place);
                }
                self.count += 1;
                self.resume = place + 2;
                marks &= !(0xff << bit);
            }
        }
        self.resume = self.resume.saturating_sub(BLOCK);
        None
    }
}

/// Whether a simple escape stands at `at`, whole.
#[inline]
fn begins_escape(bytes: &[u8], at: usize) -> bool {
    bytes.get(at) == Some(&b'\\')
        && bytes
            .get(at + 1)
            .and_then(|&byte| SIMPLE.get(usize::from(byte)))
            .is_some_and(|simple| *simple)
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

#[inline]
const fn is_end(byte: u8) -> bool {
    (byte == b'"') | (byte == b'\\') | (byte < 0x20)
}

/// Marks the bytes of a block that end a plain run. Without branches and in steps of
/// whole arrays, so that the compiler uses vector registers; four bits for each byte
/// because halving pairs is what they do well. It must stay a function of its own:
/// within the loop that calls it the compiler takes the arrays apart.
#[inline(never)]
fn marks(block: &[u8; BLOCK]) -> Marks {
    let ends = block.map(|byte| if is_end(byte) { 0xff } else { 0 });
    let mut halved = [0; BLOCK / 2];
    for (half, pair) in halved.iter_mut().zip(ends.as_chunks().0) {
        [*half, _] = (u16::from_le_bytes(*pair) >> MARK_BITS).to_le_bytes();
    }
    let mut marks = Marks::default();
    for (marks, word) in marks.iter_mut().zip(halved.as_chunks().0) {
        *marks = u64::from_le_bytes(*word);
    }
    marks
}

const ONES: u64 = u64::MAX / 0xff;
const HIGHS: u64 = ONES << 7;

/// Marks, by its highest bit, each byte of a word that ends a run. Marks above the
/// lowest may be false (a borrow runs upwards), so only the lowest is of use.
#[inline]
const fn ends(word: u64) -> u64 {
    let quote = word ^ (ONES * b'"' as u64);
    let backslash = word ^ (ONES * b'\\' as u64);
    let control = word.wrapping_sub(ONES * 0x20);
    let zeros = (quote.wrapping_sub(ONES) & !quote) | (backslash.wrapping_sub(ONES) & !backslash);
    (zeros | (control & !word)) & HIGHS
}

/// The place of the lowest marked byte.
#[inline]
const fn first(hits: u64) -> usize {
    (hits.trailing_zeros() / 8) as usize
}

#[cfg(test)]
mod tests;
