//! The count of an answer piece by piece, beside that of the whole.

use super::*;
use crate::{Family as _, Tokenizer};
use proptest::prelude::*;
use tollgate_types::Format;
use tollgate_wire::answer::AnswerReport;
use tollgate_wire::stream::{StreamOptions, StreamScanner};

fn delivered<'t>(pieces: impl IntoIterator<Item = &'t str>) -> u64 {
    let mut delivered = Delivered::new(&Tokenizer::Openai.rules());
    pieces.into_iter().for_each(|piece| delivered.push(piece));
    delivered.tokens()
}

const ANSWER: &str = "The capital of France is Paris.\n\nIt has some 2,100,000 people, \
    and `fn main() {}` is a program. 東京は日本の首都です。 Antidisestablishmentarianism!";

#[test]
fn an_answer_in_pieces_has_the_tokens_of_the_whole() {
    let whole = Vocabulary::O200k.count(ANSWER);
    let pieces: Vec<String> = ANSWER.chars().map(String::from).collect();
    let counted = delivered(pieces.iter().map(String::as_str));
    assert!(counted.abs_diff(whole) <= 2, "{counted} for {whole}");
    assert_eq!(delivered([ANSWER]), whole);
    assert_eq!(delivered([]), 0);
}

#[test]
fn a_word_without_end_is_counted_in_constant_memory() {
    let mut delivered = Delivered::new(&Tokenizer::Openai.rules());
    for _ in 0..10_000 {
        delivered.push("abcdefghij");
    }
    assert!(delivered.tail.capacity() <= 4 * crate::vocabulary::BLOCK);
    let whole = Vocabulary::O200k.count(&"abcdefghij".repeat(10_000));
    let counted = delivered.tokens();
    assert!(
        counted.abs_diff(whole) < whole / 10,
        "{counted} for {whole}"
    );
}

#[test]
fn an_answer_of_which_a_sample_is_known_is_like_it() {
    let rules = Tokenizer::Openai.rules();
    let text = "one two three four ".repeat(500);
    let whole = Vocabulary::O200k.count(&text);
    let tokens = Delivered::of_sample(&text[..950], text.len() as u64, &rules);
    assert!(tokens.abs_diff(whole) <= whole / 50, "{tokens} for {whole}");
    let exact = Delivered::of_sample(&text, text.len() as u64, &rules);
    assert_eq!(exact, whole);
    assert_eq!(Delivered::of_sample("", 400, &rules), 100);
}

proptest! {
    #[test]
    fn any_cuts_give_about_the_same(
        text in "([a-zA-Z]{1,9}[ .,\n]|漢字|😀|[0-9]{1,5} ){20,200}",
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
    ) {
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len())).collect();
        places.retain(|place| text.is_char_boundary(*place));
        places.extend([0, text.len()]);
        places.sort_unstable();
        let pieces = places.windows(2).map(|pair| &text[pair[0]..pair[1]]);
        let (counted, whole) = (delivered(pieces), Vocabulary::O200k.count(&text));
        prop_assert!(counted.abs_diff(whole) <= whole / 10 + 2, "{} for {}", counted, whole);
    }
}

/// The estimate for a text that a caller has read in these pieces.
fn estimate(text: &str, is_ascii: bool, piece: usize) -> u64 {
    let mut scanner = StreamScanner::new(Format::Chat, StreamOptions::default());
    let characters: Vec<_> = text.chars().collect();
    for piece in characters.chunks(piece) {
        let piece: String = piece.iter().collect();
        let mut said = serde_json::to_string(&piece).unwrap();
        if is_ascii {
            let escape = |unit: u16| format!("\\u{unit:04x}");
            let escaped = said.encode_utf16().map(|unit| match u8::try_from(unit) {
                Ok(ascii) if ascii.is_ascii() => char::from(ascii).to_string(),
                _ => escape(unit),
            });
            said = escaped.collect();
        }
        let event = format!("data: {{\"choices\":[{{\"delta\":{{\"content\":{said}}}}}]}}\n\n");
        scanner.push(&event.into(), &mut Vec::new());
    }
    let rules = Tokenizer::Openai.rules();
    Delivered::of_sample(&scanner.text_sample(), scanner.text_bytes(), &rules)
}

/// Texts without spaces, cheap and dear.
fn dense() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("the_quick_brown_fox_jumps_over_the_lazy_dog_".to_owned()),
        "[0-9a-f]{60}",
        "[0-9]{60}",
        "[\u{4e00}-\u{9fa5}]{60}",
        "人工智能正在改变我们的生活方式每天都有新的发现和应用出现",
        "[а-я]{60}",
        "(😀|🧬|🪢|🫠){40}",
        "[!-/:-@]{60}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn no_layout_makes_a_text_cheap(
        source in dense(),
        block in 1_usize..120,
        gap in "( {1,90}|\n{1,90}|\t{1,40}|[ \n\t]{1,60}| {900,1100})",
        is_ascii in any::<bool>(),
        piece in prop_oneof![Just(3_usize), Just(16), Just(5000)],
    ) {
        let mut characters = source.chars().cycle();
        let mut text = String::new();
        while text.len() < 12_000 {
            text.extend(characters.by_ref().take(block));
            text.push_str(&gap);
        }
        let whole = Vocabulary::O200k.count(&text);
        let counted = estimate(&text, is_ascii, piece);
        prop_assert!(counted * 10 >= whole * 7, "{} for {}: {:?}", counted, whole, &text[..text.floor_char_boundary(300)]);
        // A text that is white space and little else is cheap in any case.
        let most = whole * 2 + text.len() as u64 / 20;
        prop_assert!(counted <= most, "{} for {}: {:?}", counted, whole, &text[..text.floor_char_boundary(300)]);
    }
}
