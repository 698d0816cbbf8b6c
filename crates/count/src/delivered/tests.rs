//! The estimate of an answer, beside the count of the whole.

use super::*;
use crate::{Family as _, Tokenizer, Vocabulary};
use proptest::prelude::*;
use tollgate_types::Format;
use tollgate_wire::answer::AnswerReport;
use tollgate_wire::stream::{StreamOptions, StreamScanner};

#[test]
fn an_answer_of_which_a_sample_is_known_is_like_it() {
    let rules = Tokenizer::Openai.rules();
    let text = "one two three four ".repeat(500);
    let whole = Vocabulary::O200k.count(&text);
    let tokens = tokens_of_sample(&text[..950], text.len() as u64, &rules);
    assert!(tokens.abs_diff(whole) <= whole / 50, "{tokens} for {whole}");
    let exact = tokens_of_sample(&text, text.len() as u64, &rules);
    assert_eq!(exact, whole);
    assert_eq!(tokens_of_sample("", 400, &rules), 100);
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
    tokens_of_sample(&scanner.text_sample(), scanner.text_bytes(), &rules)
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
