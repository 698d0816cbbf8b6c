//! Writes the contents of strings as JSON has them.

/// The letter that follows the backslash of a byte that must be escaped, or 0.
static ESCAPES: [u8; 256] = escapes();

const fn escapes() -> [u8; 256] {
    let mut table = [0; 256];
    let mut rest: &mut [u8] = &mut table;
    let mut byte: u8 = 0;
    while let Some((letter, after)) = rest.split_first_mut() {
        *letter = match byte {
            b'"' | b'\\' => byte,
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0x08 => b'b',
            0x0c => b'f',
            0..=0x1f => b'u',
            _ => 0,
        };
        byte = byte.wrapping_add(1);
        rest = after;
    }
    table
}

fn letter(byte: u8) -> u8 {
    ESCAPES.get(usize::from(byte)).copied().unwrap_or_default()
}

/// Where the first byte stands that must be escaped. Most texts that are written here are
/// short and have none, so they are looked at eight bytes at a time.
fn first_escaped(text: &[u8]) -> Option<usize> {
    let (words, _) = text.as_chunks::<8>();
    let plain = words.iter().take_while(|word| !has_escaped(**word)).count();
    let start = plain.saturating_mul(8);
    let rest = text.get(start..).unwrap_or_default();
    let at = rest.iter().position(|byte| letter(*byte) != 0)?;
    Some(start.saturating_add(at))
}

/// Whether one of eight bytes must be escaped: a control character, a quote or a backslash.
const fn has_escaped(word: [u8; 8]) -> bool {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    let word = u64::from_le_bytes(word);
    let quotes = word ^ (ONES * b'"' as u64);
    let backslashes = word ^ (ONES * b'\\' as u64);
    // A byte that is less than what is taken from it gets its highest bit, and so may the one
    // behind it, which changes nothing. Bytes that had it are of letters of other scripts.
    let controls = word.wrapping_sub(ONES * 0x20);
    let zeros = quotes.wrapping_sub(ONES) | backslashes.wrapping_sub(ONES);
    (controls | zeros) & !word & (ONES * 0x80) != 0
}

/// Appends the contents of a string as JSON writes them.
pub fn escape_into(text: &[u8], out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(at) = first_escaped(rest) {
        let Some((plain, [byte, after @ ..])) = rest.split_at_checked(at) else {
            break;
        };
        out.extend_from_slice(plain);
        let letter = letter(*byte);
        out.extend_from_slice(&[b'\\', letter]);
        if letter == b'u' {
            let hex = |digit: u8| b"0123456789abcdef".get(usize::from(digit)).copied();
            out.extend_from_slice(b"00");
            out.extend(hex(*byte >> 4));
            out.extend(hex(*byte & 0xf));
        }
        rest = after;
    }
    out.extend_from_slice(rest);
}
