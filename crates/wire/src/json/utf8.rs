//! Whether bytes are UTF-8.

/// Whether the bytes are UTF-8. A library that uses the widest registers of the processor judges them: long texts have
/// a dash or an accent here and there, at each of which the standard library's judgement becomes slow.
pub(super) fn is_utf8(bytes: &[u8]) -> bool {
    simdutf8::basic::from_utf8(bytes).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_sequence_of_four_bytes_is_judged_as_the_library_does() {
        // The bounds of each range of RFC 3629, and one beyond.
        let edges = [
            0x00, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf, 0xe0,
            0xe1, 0xec, 0xed, 0xee, 0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xff,
        ];
        for a in edges {
            for b in edges {
                for c in edges {
                    for d in edges {
                        // Short ones are judged by other code than long ones.
                        let short = [a, b, c, d];
                        let long = [&[b'x'; 126][..], &short, &[b'x'; 30]].concat();
                        let expected = std::str::from_utf8(&short).is_ok();
                        assert_eq!(is_utf8(&short), expected, "{short:x?}");
                        assert_eq!(is_utf8(&long), expected, "{short:x?} within a text");
                    }
                }
            }
        }
    }

    proptest! {
        #[test]
        fn text_is_judged_as_the_library_does(
            text in "[a-z\u{e9}\u{2014}\u{4e2d}\u{1f600}]{0,300}",
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
