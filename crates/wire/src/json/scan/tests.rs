//! The passages of every shape against a scan of one byte at a time.

use super::*;
use proptest::prelude::*;

/// What `passage` must find: where it ends and how many escapes it has.
fn slowly(bytes: &[u8]) -> (usize, usize) {
    let (mut len, mut escapes) = (0, 0);
    loop {
        match bytes[len..] {
            [b'\\', byte, ..] if simple_escape(byte).is_some() => {
                len += 2;
                escapes += 1;
            }
            [byte, ..] if !is_end(byte) => len += 1,
            _ => return (len, escapes),
        }
    }
}

fn assert_found(bytes: &[u8]) {
    let found = passage(bytes);
    let text = bytes.escape_ascii();
    assert_eq!((found.len, found.escapes), slowly(bytes), "{text}");
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
fn backslashes_are_told_from_escaped_ones_across_blocks() {
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
                40 => Just(b'a'), 6 => Just(b'\\'), 3 => Just(b'n'), 2 => Just(0xc3),
                1 => Just(b'"'), 1 => Just(b'u'), 1 => any::<u8>(),
            ],
            0..400,
        ),
    ) {
        assert_found(&bytes);
    }
}
