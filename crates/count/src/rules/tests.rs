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
        ("qwen/qwen3-32b", Family::Qwen),
        ("deepseek-v4-flash", Family::Deepseek),
        ("deepseek-r1-distill-llama-70b", Family::Deepseek),
        ("meta-llama/llama-4-scout-17b-16e-instruct", Family::Llama),
        ("zai/GLM-5.2", Family::Glm),
        ("kimi-k2", Family::Other),
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

#[test]
fn a_configuration_can_name_every_family_by_its_name() {
    for family in Family::ALL {
        let name = format!("\"{}\"", family.as_str());
        let named: Tokenizer = serde_json::from_str(&name).unwrap();
        assert_eq!(Family::from(named), family);
    }
}

#[test]
fn numbers_and_scripts_count_as_the_familys_vocabulary_takes_them() {
    let tokens = |family: Family, text: &str| {
        let counted = Vocabulary::O200k.count(text);
        family.rules().tokens_of(std::iter::once(text), counted)
    };
    let number = "1234567 is 20";
    let grouped = tokens(Family::Llama, number);
    assert_eq!(grouped, Vocabulary::O200k.count(number));
    // Seven digits are three groups, two are one.
    assert_eq!(tokens(Family::Qwen, number), grouped + 4 + 1);
    let chinese = "天地玄黄宇宙洪荒日月盈昃辰宿列张";
    assert_eq!(
        tokens(Family::Deepseek, chinese) + 2,
        tokens(Family::Llama, chinese),
        "a tenth of sixteen, rounded"
    );
}
