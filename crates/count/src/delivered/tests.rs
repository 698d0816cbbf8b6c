//! The count of an answer piece by piece, beside that of the whole.

use super::*;
use crate::{Family as _, Tokenizer};
use proptest::prelude::*;

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
