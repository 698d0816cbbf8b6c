//! The passages of every shape against a scan of one byte at a time.

use super::*;
use proptest::prelude::*;

/// What `passage` must find: where it ends and how many bytes its escapes save.
fn slowly(bytes: &[u8]) -> (usize, usize) {
    let (mut len, mut saved) = (0, 0);
    loop {
        let rest = &bytes[len..];
        match rest {
            [b'\\', ..] => match slow_escape(rest) {
                Some((source, contents)) => {
                    len += source;
                    saved += source - contents;
                }
                None => return (len, saved),
            },
            [b'"' | 0..0x20, ..] | [] => return (len, saved),
            _ => len += 1,
        }
    }
}

/// How long the escape at the start of `bytes` is, in the document and undone, going by
/// what serde_json takes for a string.
fn slow_escape(bytes: &[u8]) -> Option<(usize, usize)> {
    [2, 6, 12].into_iter().find_map(|len| {
        let source = std::str::from_utf8(bytes.get(..len)?).ok()?;
        let contents: String = serde_json::from_str(&format!("\"{source}\"")).ok()?;
        (contents.chars().count() == 1).then_some((len, contents.len()))
    })
}

fn assert_found(bytes: &[u8]) {
    let found = passage(bytes);
    let text = bytes.escape_ascii();
    assert_eq!((found.len, found.saved), slowly(bytes), "{text}");
    let is_ascii = bytes[..found.len].is_ascii();
    assert!(is_ascii || !found.ascii, "{text}");
}

#[test]
fn every_byte_at_every_place_ends_a_passage_or_does_not() {
    for len in [1, 7, 8, 9, 31, 33, 64, 97, 140, 200] {
        for place in 0..len {
            for byte in 0..=u8::MAX {
                let mut bytes = vec![b'a'; len];
                bytes[place] = byte;
                assert_found(&bytes);
            }
        }
    }
}

#[test]
fn every_byte_after_a_backslash_at_every_place_is_an_escape_or_is_not() {
    for len in [2, 8, 9, 33, 97, 140, 200] {
        for place in 0..len - 1 {
            for byte in 0..=u8::MAX {
                let mut bytes = vec![b'a'; len];
                bytes[place] = b'\\';
                bytes[place + 1] = byte;
                assert_found(&bytes);
            }
        }
    }
}

#[test]
fn backslashes_and_escaped_ones_are_distinguished_across_blocks() {
    for before in 0..140 {
        for backslashes in 0..140 {
            let bytes = [
                b"x".repeat(before),
                b"\\".repeat(backslashes),
                b"\"x\"".to_vec(),
            ];
            assert_found(&bytes.concat());
        }
    }
}

#[test]
fn whole_unicode_escapes_are_passed_over_wherever_blocks_meet() {
    let texts = [
        r"\u0041",
        r"\u00e9",
        r"\uFFFF",
        r"\u5929\u5730",
        r"\ud83d\ude00",
        r"\uD83D\uDE00\n",
        r"\ud83d\ude00\ud83d\ude00",
        r"\ud83d\\",
        r"\ud83dx",
        r"\ud83d\u0041",
        r"\ud83d\ud83d",
        r"\ude00",
        r"\u12g4",
        r"\u",
        r"\u123",
        r"\U0041",
        r"\\u0041",
        r"\\\u0041",
        r"\u+123",
    ];
    for text in texts {
        for before in 0..140 {
            for after in [
                "",
                "\"",
                "x",
                "\\",
                " \\n and more of it, so much that it fills another block. \"",
            ] {
                let bytes = [&b"x".repeat(before), text.as_bytes(), after.as_bytes()].concat();
                assert_found(&bytes);
            }
        }
    }
}

#[test]
fn a_passage_ends_at_the_first_of_several_ends() {
    for gap in 0..140 {
        for (plain, ends) in [(b" ", b"\x00\"\\"), (b"!", b"\"!#"), (b" ", b"\\x\x1f")] {
            let bytes = [plain.repeat(gap), ends.to_vec(), b"x".repeat(90)].concat();
            assert_eq!(passage(&bytes).len, gap);
        }
    }
}

#[test]
fn ascii_is_known_as_ascii() {
    assert!(passage(&b"a".repeat(300)).ascii);
    assert!(passage(b"short").ascii);
    assert!(passage(&br#"say \"hello\" "#.repeat(30)).ascii);
}

proptest! {
    #[test]
    fn a_passage_is_what_a_slow_scan_finds(
        bytes in proptest::collection::vec(
            prop_oneof![
                40 => Just(b"a".to_vec()), 6 => Just(b"\\".to_vec()), 3 => Just(b"n".to_vec()),
                2 => Just(vec![0xc3]), 1 => Just(b"\"".to_vec()), 1 => Just(b"u".to_vec()),
                2 => Just(br"\u00e9".to_vec()), 2 => Just(br"\ud83d\ude00".to_vec()),
                1 => Just(br"\ud83d".to_vec()), 1 => any::<u8>().prop_map(|byte| vec![byte]),
            ],
            0..400,
        ),
    ) {
        assert_found(&bytes.concat());
    }
}
