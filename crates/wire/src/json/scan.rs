//! Finds the end of a plain run in a string: the bytes that need no attention of
//! their own. This is where nearly all bytes of a large body are spent.

/// A run of bytes that are neither a quote, a backslash nor a control character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// How long the run is. After it stands a byte that ends it, or nothing.
    pub len: usize,
    /// Whether the run is surely ASCII. `false` may be a false alarm: bytes after
    /// the end of the run may have been looked at too.
    pub ascii: bool,
}

/// Bytes looked at together in long strings; a whole number of vector registers.
const BLOCK: usize = 64;
/// Most strings of a dense document end within this many bytes; they are not
/// worth the set-up of the block loop.
const SHORT: usize = 32;
const WORD: usize = size_of::<u64>();

/// Measures the plain run at the start of `bytes`.
#[inline]
pub(super) fn plain_run(bytes: &[u8]) -> Run {
    let mut high = 0;
    let mut len = 0;
    let (words, _) = bytes.as_chunks::<WORD>();
    for word in words.iter().take(SHORT / WORD) {
        let word = u64::from_le_bytes(*word);
        high |= word;
        let hits = ends(word);
        if hits != 0 {
            return run(len + first(hits), high);
        }
        len += WORD;
    }
    long_run(bytes, len, high)
}

/// Goes on after the first bytes: blocks, then words, then single bytes.
fn long_run(bytes: &[u8], mut len: usize, mut high: u64) -> Run {
    let (blocks, _) = bytes.get(len..).unwrap_or_default().as_chunks::<BLOCK>();
    for block in blocks {
        let (ends, bits) = block_ends(block);
        if ends {
            break;
        }
        high |= u64::from(bits) << 56;
        len += BLOCK;
    }
    let (words, tail) = bytes.get(len..).unwrap_or_default().as_chunks::<WORD>();
    for word in words {
        let word = u64::from_le_bytes(*word);
        high |= word;
        let hits = ends(word);
        if hits != 0 {
            return run(len + first(hits), high);
        }
        len += WORD;
    }
    for &byte in tail {
        if is_end(byte) {
            break;
        }
        high |= u64::from(byte);
        len += 1;
    }
    run(len, high)
}

const fn is_end(byte: u8) -> bool {
    byte == b'"' || byte == b'\\' || byte < 0x20
}

/// Whether a block holds a byte that ends a run, and all its bits together.
/// Without branches, so that the compiler uses vector registers.
#[inline]
fn block_ends(block: &[u8; BLOCK]) -> (bool, u8) {
    let mut ends = 0;
    let mut bits = 0;
    for &byte in block {
        ends |= u8::from(byte == b'"') | u8::from(byte == b'\\') | u8::from(byte < 0x20);
        bits |= byte;
    }
    (ends != 0, bits)
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

#[inline]
const fn run(len: usize, seen: u64) -> Run {
    Run {
        len,
        ascii: seen & HIGHS == 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_at_every_place_ends_a_run_or_does_not() {
        for len in [1, 7, 8, 9, 31, 33, 64, 97, 140, 200] {
            for place in 0..len {
                for byte in 0..=u8::MAX {
                    let mut bytes = vec![b'a'; len];
                    bytes[place] = byte;
                    let found = plain_run(&bytes);
                    let expected = if is_end(byte) { place } else { len };
                    assert_eq!(found.len, expected, "byte {byte} at {place} of {len}");
                    let high_in_run = byte >= 0x80;
                    assert!(
                        !(high_in_run && found.ascii),
                        "byte {byte} at {place} of {len}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_run_ends_at_the_first_of_several_ends() {
        for gap in 0..20 {
            let bytes = [b" ".repeat(gap), b"\x00\"\\".to_vec(), b"x".repeat(90)].concat();
            assert_eq!(plain_run(&bytes).len, gap);
            let bytes = [b"!".repeat(gap), b"\"!#\x1f".to_vec(), b"x".repeat(90)].concat();
            assert_eq!(plain_run(&bytes).len, gap);
        }
    }

    #[test]
    fn ascii_is_known_as_ascii() {
        assert!(plain_run(&b"a".repeat(300)).ascii);
        assert!(plain_run(b"short").ascii);
    }
}
