//! Exact counts, samples, and text that is made to be slow.

use super::*;
use proptest::prelude::*;

/// The counts of OpenAI's cookbook, "How to count tokens with tiktoken".
#[test]
fn published_examples_have_their_published_counts() {
    for (text, o200k, cl100k) in [
        ("antidisestablishmentarianism", 6, 6),
        ("2 + 2 = 4", 7, 7),
        ("お誕生日おめでとう", 8, 9),
        ("", 0, 0),
    ] {
        assert_eq!(Vocabulary::O200k.count(text), o200k, "{text}");
        assert_eq!(Vocabulary::Cl100k.count(text), cl100k, "{text}");
    }
}

#[test]
fn the_marks_of_special_tokens_are_plain_text() {
    assert!(Vocabulary::O200k.count("<|endoftext|>") > 1);
}

fn sum(texts: &[&str], exact_bytes: u64) -> Sum {
    Vocabulary::O200k.count_all(texts.iter().copied(), exact_bytes)
}

#[test]
fn up_to_the_bound_every_byte_is_counted() {
    let text = "one two three ".repeat(10);
    let exact = Vocabulary::O200k.count(&text) * 2;
    let counted = sum(&[&text, &text], text.len() as u64 * 2);
    assert_eq!((counted.tokens, counted.error), (exact, 0.0));
}

#[test]
fn beyond_the_bound_a_sample_stands_for_the_whole_and_says_how_well() {
    let prose = "The gateway counts what it can and says what it cannot. ".repeat(4000);
    let digits = "3.14159265358979 ".repeat(8000);
    let mixed = [prose.as_str(), digits.as_str()].repeat(2);
    let exact: u64 = mixed.iter().map(|text| Vocabulary::O200k.count(text)).sum();
    let Sum { tokens, error } = sum(&mixed, 64 * 1024);
    let off = tokens.abs_diff(exact) as f64 / exact as f64;
    assert!(error > 0.0 && error < 0.2, "{error}");
    assert!(off <= error, "{tokens} for {exact}: {off} and not {error}");
}

#[test]
fn many_short_texts_are_sampled_as_one_long_one() {
    let texts = vec!["hello there"; 20_000];
    let Sum { tokens, .. } = sum(&texts, 8 * 1024);
    assert!(tokens.abs_diff(40_000) < 400, "{tokens}");
}

proptest! {
    #[test]
    fn blocks_are_the_text_in_pieces(text in "(é|漢|😀|[a-z ]{1,40}){0,900}") {
        let pieces: Vec<&str> = blocks(&text).collect();
        prop_assert!(pieces.iter().all(|it| !it.is_empty() && it.len() <= BLOCK));
        prop_assert_eq!(pieces.concat(), text);
    }

    #[test]
    fn a_text_has_no_more_tokens_than_bytes(text in any::<String>()) {
        for vocabulary in [Vocabulary::O200k, Vocabulary::Cl100k] {
            let tokens = vocabulary.count(&text);
            prop_assert!(tokens <= text.len() as u64);
            prop_assert!((tokens == 0) == text.is_empty());
        }
    }
}
