//! Which names are of which family, and how each counts.

use super::*;

#[test]
fn the_names_of_providers_give_the_family() {
    for (name, family) in [
        ("gpt-4o-2024-08-06", Tokenizer::Openai),
        ("openai/gpt-4o-mini", Tokenizer::Openai),
        ("gpt-4.1", Tokenizer::Openai),
        ("gpt-5", Tokenizer::OpenaiReasoning),
        ("o3-mini", Tokenizer::OpenaiReasoning),
        ("gpt-5-mini", Tokenizer::OpenaiPatches),
        ("gpt-5.6", Tokenizer::OpenaiPatches),
        ("gpt-4.1-nano", Tokenizer::OpenaiNano),
        ("gpt-4-turbo", Tokenizer::OpenaiCl100k),
        ("gpt-3.5-turbo", Tokenizer::OpenaiCl100k),
        ("openai/gpt-oss-120b", Tokenizer::OpenaiOpen),
        ("claude-3-7-sonnet", Tokenizer::AnthropicEarly),
        ("claude-sonnet-4-5", Tokenizer::Anthropic),
        ("anthropic/claude-sonnet-4.6", Tokenizer::Anthropic),
        ("claude-opus-4-8", Tokenizer::AnthropicLarge),
        ("google/gemini-2.5-flash", Tokenizer::Google),
        ("magistral-medium-latest", Tokenizer::Mistral),
        ("qwen/qwen3-32b", Tokenizer::Qwen),
        ("deepseek-v4-flash", Tokenizer::Deepseek),
        ("deepseek-r1-distill-llama-70b", Tokenizer::Deepseek),
        (
            "meta-llama/llama-4-scout-17b-16e-instruct",
            Tokenizer::Llama,
        ),
        ("zai/GLM-5.2", Tokenizer::Glm),
        ("kimi-k2", Tokenizer::Other),
        ("", Tokenizer::Other),
    ] {
        assert_eq!(Tokenizer::of_model(name), family, "{name}");
    }
}

#[test]
fn a_configuration_can_name_every_family_by_its_name() {
    for family in Tokenizer::ALL {
        let name = format!("\"{}\"", family.as_str());
        assert_eq!(serde_json::from_str::<Tokenizer>(&name).unwrap(), family);
    }
}

#[test]
fn numbers_and_scripts_count_as_the_familys_vocabulary_takes_them() {
    let tokens = |family: Tokenizer, text: &str| {
        let counted = Vocabulary::O200k.count(text);
        family.rules().tokens_of(std::iter::once(text), counted)
    };
    let number = "1234567 is 20";
    let grouped = tokens(Tokenizer::Llama, number);
    assert_eq!(grouped, Vocabulary::O200k.count(number));
    // Seven digits are three groups, two are one.
    assert_eq!(tokens(Tokenizer::Qwen, number), grouped + 4 + 1);
    let chinese = "天地玄黄宇宙洪荒日月盈昃辰宿列张";
    assert_eq!(
        tokens(Tokenizer::Deepseek, chinese) + 2,
        tokens(Tokenizer::Llama, chinese),
        "a tenth of sixteen, rounded"
    );
}
