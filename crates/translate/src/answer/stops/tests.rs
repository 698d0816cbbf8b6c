use super::*;
use proptest::prelude::*;

/// What leaves of the pieces, and the sequence that was found.
fn cut<'a>(
    sequences: &[&str],
    pieces: impl IntoIterator<Item = &'a str>,
) -> (Vec<String>, Option<String>) {
    let sequences: Arc<[String]> = sequences.iter().map(|it| (*it).to_owned()).collect();
    let mut stops = Stops::new(&sequences).unwrap();
    let mut left = Vec::new();
    let mut take = |passed: Passed| {
        let contents = String::from_utf8(passed.text.into_bytes()).unwrap();
        left.push(RawText::escaped(&contents).unescape().into_owned());
    };
    for piece in pieces {
        let written = serde_json::to_string(piece).unwrap();
        take(stops.push(RawText::escaped(&written[1..written.len() - 1])));
    }
    take(stops.end());
    (left, stops.found().map(ToOwned::to_owned))
}

#[test]
fn text_that_may_begin_a_sequence_is_held_until_the_next_piece_decides() {
    let (left, found) = cut(&["<end>"], ["a", "b<", "en", "x<e", "nd", ">", "c"]);
    assert_eq!(left, ["a", "b", "", "<enx", "", "", "", ""]);
    assert_eq!(found.as_deref(), Some("<end>"));
    let (left, found) = cut(&["Ö\n"], ["aÖ", "Ö", "Ö\nb"]);
    assert_eq!(left, ["a", "Ö", "Ö", ""]);
    assert_eq!(found.as_deref(), Some("Ö\n"));
    let (left, found) = cut(&["stop"], ["a", "sto"]);
    assert_eq!(left, ["a", "", "sto"]);
    assert_eq!(found, None);
}

#[test]
fn the_sequence_counts_that_is_complete_first() {
    let (left, found) = cut(&["abcd", "bc"], ["xabcd"]);
    assert_eq!(
        (left.concat().as_str(), found.as_deref()),
        ("xa", Some("bc"))
    );
    let (left, found) = cut(&["bc", "abc"], ["xabc"]);
    assert_eq!(
        (left.concat().as_str(), found.as_deref()),
        ("x", Some("abc"))
    );
}

#[test]
fn text_without_a_sequence_leaves_as_it_was_written() {
    let mut stops = Stops::new(&["x".to_owned()].into()).unwrap();
    let passed = stops.push(RawText::escaped(r"a\/\u0062"));
    assert_eq!(passed.text.as_bytes(), br"a\/\u0062");
}

proptest! {
    #[test]
    fn the_same_leaves_however_the_text_is_cut(
        text in "[abö\"\\n]{0,30}",
        sequences in proptest::collection::vec("[abö\"\\n]{1,4}", 1..4),
        sizes in proptest::collection::vec(1..4_usize, 30),
    ) {
        let sequences: Vec<_> = sequences.iter().map(String::as_str).collect();
        let mut pieces: Vec<String> = Vec::new();
        let mut sizes = sizes.into_iter();
        let mut chars = text.chars().peekable();
        while chars.peek().is_some() {
            pieces.push(chars.by_ref().take(sizes.next().unwrap_or(1)).collect());
        }
        let (left, found) = cut(&sequences, pieces.iter().map(String::as_str));
        let (whole, found_whole) = cut(&sequences, [text.as_str()]);
        prop_assert_eq!(left.concat(), whole.concat());
        prop_assert_eq!(&found, &found_whole);
        let ends = sequences.iter().filter_map(|it| Some(text.find(it)? + it.len()));
        prop_assert_eq!(found.is_some(), ends.clone().min().is_some());
        if let Some(found) = found {
            prop_assert_eq!(whole.concat().len() + found.len(), ends.min().unwrap());
        } else {
            prop_assert_eq!(whole.concat(), text);
        }
    }
}
