//! Which bytes may stand where in a head, looked up in one table.

/// `tchar` (RFC 9110, section 5.6.2).
pub(super) const TOKEN: u8 = 1;
/// Bytes of a value (RFC 9110, section 5.5), including those above ASCII.
pub(super) const VALUE: u8 = 2;
/// Bytes of a target: printable ones that need no escape in it.
pub(super) const TARGET: u8 = 4;
/// Bytes of a host with a port, without the other parts of an address.
pub(super) const AUTHORITY: u8 = 8;

/// Whether all `bytes` are of this class. Heads are short and nearly always good, so every
/// byte is looked at: a loop that could end early is slower.
pub(super) fn all_are(class: u8, bytes: &[u8]) -> bool {
    let classes = |byte: &u8| CLASSES.get(usize::from(*byte)).copied().unwrap_or_default();
    let common = |known, byte| known & classes(byte);
    bytes.iter().fold(class, common) == class
}

static CLASSES: [u8; 256] = table();

#[expect(clippy::indexing_slicing, reason = "the compiler runs it")]
const fn table() -> [u8; 256] {
    let mut classes = [0; 256];
    let mut byte: u8 = 0;
    loop {
        classes[byte as usize] = classes_of(byte);
        match byte.checked_add(1) {
            Some(next) => byte = next,
            None => return classes,
        }
    }
}

const fn classes_of(byte: u8) -> u8 {
    let mut classes = 0;
    if is_token(byte) {
        classes |= TOKEN;
    }
    if matches!(byte, b'\t' | 0x20..=0x7e | 0x80..=0xff) {
        classes |= VALUE;
    }
    if matches!(byte, 0x21..=0x7e)
        && !matches!(byte, b'#' | b'"' | b'<' | b'>' | b'\\' | b'^' | b'`')
    {
        classes |= TARGET;
    }
    if byte.is_ascii_alphanumeric()
        || matches!(byte, b'.' | b'-' | b'_' | b'~' | b':' | b'[' | b']' | b'%')
    {
        classes |= AUTHORITY;
    }
    classes
}

const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        )
}
