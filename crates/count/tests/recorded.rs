//! Counts of recorded requests beside what their providers reported.

#![allow(clippy::unwrap_used)]

#[path = "../examples/evaluate/recorded.rs"]
mod recorded;

use recorded::Case;
use tollgate_count::Tokenizer;

fn cases() -> Vec<Case> {
    let folder = recorded::folder();
    if !folder.is_dir() {
        eprintln!("skipped: no recorded traffic in {}", folder.display());
        return Vec::new();
    }
    let cases = recorded::cases(&folder).unwrap();
    assert!(cases.len() >= 100, "only {} requests", cases.len());
    cases
}

/// A few recordings contradict others of the same body, or were shortened after they were made.
#[test]
fn plain_text_to_models_of_the_o200k_vocabulary_is_counted_to_the_token() {
    let cases = cases();
    let plain: Vec<&Case> = cases
        .iter()
        .filter(|case| recorded::is_plain_o200k(case))
        .collect();
    let wrong: Vec<String> = plain
        .iter()
        .filter(|case| case.count.tokens != case.reported)
        .map(|case| {
            let Case {
                model,
                format,
                body,
                reported,
                ..
            } = case;
            let tokens = case.count.tokens;
            format!("{tokens} for {reported} by {model} in {format}: {body}")
        })
        .collect();
    assert!(wrong.len() * 8 <= plain.len(), "{}", wrong.join("\n"));
}

#[test]
fn half_of_the_requests_to_the_large_families_are_counted_within_a_tenth() {
    let cases = cases();
    for family in [
        Tokenizer::Openai,
        Tokenizer::OpenaiReasoning,
        Tokenizer::Anthropic,
    ] {
        let mut errors: Vec<f64> = cases
            .iter()
            .filter(|case| case.family == family && case.is_self_contained())
            .map(|case| case.error(case.count.tokens))
            .collect();
        errors.sort_by(f64::total_cmp);
        let median = errors.get(errors.len() / 2).copied().unwrap_or_default();
        assert!(median <= 0.1, "{family:?}: {median}");
    }
}

/// Of the other families there are too few requests to too many models.
const STATED: [Tokenizer; 6] = [
    Tokenizer::Openai,
    Tokenizer::OpenaiReasoning,
    Tokenizer::OpenaiPatches,
    Tokenizer::AnthropicEarly,
    Tokenizer::Anthropic,
    Tokenizer::AnthropicLarge,
];

#[test]
fn the_error_that_a_family_states_holds_for_95_of_100_requests() {
    let cases = cases();
    for family in STATED {
        let of_family: Vec<&Case> = cases
            .iter()
            .filter(|case| case.family == family && case.is_self_contained())
            .collect();
        let beyond: Vec<String> = of_family
            .iter()
            .filter(|case| case.error(case.count.tokens) > f64::from(case.count.error_p95))
            .map(|case| {
                format!(
                    "{} for {} by {}",
                    case.count.tokens, case.reported, case.model
                )
            })
            .collect();
        assert!(
            beyond.len() * 20 <= of_family.len().max(20),
            "{family:?}: {}",
            beyond.join("\n")
        );
    }
}
