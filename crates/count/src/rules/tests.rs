//! Which names are of which family, and what a configuration can say.

use super::*;

#[test]
fn the_names_of_providers_tell_the_family() {
    for (name, family) in [
        ("gpt-4o-2024-08-06", Family::Openai),
        ("openai/gpt-4o-mini", Family::Openai),
        ("gpt-4.1", Family::Openai),
        ("gpt-5", Family::OpenaiReasoning),
        ("o3-mini", Family::OpenaiReasoning),
        ("gpt-5-mini", Family::OpenaiPatches),
        ("gpt-5.6", Family::OpenaiPatches),
        ("gpt-4.1-nano", Family::OpenaiNano),
        ("gpt-4-turbo", Family::OpenaiCl100k),
        ("gpt-3.5-turbo", Family::OpenaiCl100k),
        ("openai/gpt-oss-120b", Family::OpenaiOpen),
        ("claude-3-7-sonnet", Family::AnthropicEarly),
        ("claude-sonnet-4-5", Family::Anthropic),
        ("anthropic/claude-sonnet-4.6", Family::Anthropic),
        ("claude-opus-4-8", Family::AnthropicLarge),
        ("google/gemini-2.5-flash", Family::Google),
        ("magistral-medium-latest", Family::Mistral),
        ("qwen/qwen3-32b", Family::Other),
        ("deepseek-v4-flash", Family::Other),
        ("", Family::Other),
    ] {
        assert_eq!(Family::of_model(name), family, "{name}");
    }
}

#[test]
fn a_configuration_names_only_what_differs_and_nothing_unknown() {
    let rules: Rules = serde_json::from_str(
        r#"{"vocabulary":"cl100k","text_factor":1.3,"image":{"flat":{"tokens":400}}}"#,
    )
    .unwrap();
    assert_eq!(rules.vocabulary, Vocabulary::Cl100k);
    assert_eq!(rules.image, ImageRule::Flat { tokens: 400 });
    assert_eq!(rules.per_message, Rules::default().per_message);
    assert!(serde_json::from_str::<Rules>(r#"{"factor":1}"#).is_err());
}

#[test]
fn every_family_survives_being_written_and_read() {
    for family in Family::ALL {
        let text = serde_json::to_string(&family.rules()).unwrap();
        assert_eq!(
            serde_json::from_str::<Rules>(&text).unwrap(),
            family.rules()
        );
        let name = serde_json::to_string(&family).unwrap();
        assert_eq!(name, format!("\"{}\"", family.as_str()));
    }
}
