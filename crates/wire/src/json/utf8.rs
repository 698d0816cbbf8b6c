//! Whether bytes are UTF-8, for text that is mostly ASCII: what people write to models is, but for
//! a dash or an accent here and there.
//!
//! ASCII is passed over register by register, and the shorter characters are looked at here;
//! the rest is the standard library's to judge, which takes three times as long on such text.

use wide::u8x16;

/// Bytes of a vector register.
const LANES: usize = 16;

/// Whether the bytes are UTF-8.
pub(super) fn is_utf8(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    loop {
        rest = match rest {
            [] => return true,
            [0..=0x7f, ..] => rest.get(ascii(rest)..).unwrap_or_default(),
            // Of three bytes those that can be neither overlong nor a surrogate (RFC 3629,
            // section 4).
            [
                0xe1..=0xec | 0xee..=0xef,
                0x80..=0xbf,
                0x80..=0xbf,
                after @ ..,
            ]
            | [0xc2..=0xdf, 0x80..=0xbf, after @ ..] => after,
            other => {
                // No character has an ASCII byte in it.
                let run = other.iter().take_while(|byte| !byte.is_ascii()).count();
                let (run, after) = other.split_at_checked(run).unwrap_or((other, &[]));
                if std::str::from_utf8(run).is_err() {
                    return false;
                }
                after
            }
        };
    }
}

/// How many bytes are ASCII, from the first on.
fn ascii(bytes: &[u8]) -> usize {
    let (registers, rest) = bytes.as_chunks::<LANES>();
    let mut len = 0;
    for lanes in registers {
        let marks = u8x16::new(*lanes).to_bitmask();
        if marks != 0 {
            return len + marks.trailing_zeros() as usize;
        }
        len += LANES;
    }
    len + rest.iter().take_while(|byte| byte.is_ascii()).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_sequence_of_three_bytes_is_judged_as_the_library_does() {
        // The bounds of each range of RFC 3629, and one beyond.
        let edges = [
            0x00, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf, 0xe0,
            0xe1, 0xec, 0xed, 0xee, 0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xff,
        ];
        for a in edges {
            for b in edges {
                for c in edges {
                    for d in edges {
                        let bytes = [a, b, c, d];
                        let expected = std::str::from_utf8(&bytes).is_ok();
                        assert_eq!(is_utf8(&bytes), expected, "{bytes:x?}");
                    }
                }
            }
        }
    }

    proptest! {
        #[test]
        fn text_is_judged_as_the_library_does(
            text in "[a-z\u{e9}\u{2014}\u{4e2d}\u{1f600}]{0,80}",
            at in any::<prop::sample::Index>(),
            byte in any::<u8>(),
        ) {
            prop_assert!(is_utf8(text.as_bytes()));
            let mut bytes = text.into_bytes();
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            prop_assert_eq!(is_utf8(&bytes), std::str::from_utf8(&bytes).is_ok());
        }
    }
}
