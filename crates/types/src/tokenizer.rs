//! Families of models that count tokens alike, as an operator names them.

use serde::{Deserialize, Serialize};

/// A family of models that count the tokens of a request in the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Tokenizer {
    /// OpenAI's gpt-4o and gpt-4.1 (`o200k_base`).
    Openai,
    /// OpenAI's models that reason: the o series, gpt-5 and later.
    OpenaiReasoning,
    /// OpenAI's models that see images in patches: the small ones, and those since gpt-5.4.
    OpenaiPatches,
    /// The smallest of these.
    OpenaiNano,
    /// OpenAI's gpt-4 and gpt-3.5 (`cl100k_base`).
    OpenaiCl100k,
    /// OpenAI's open models (gpt-oss).
    OpenaiOpen,
    /// Anthropic's models up to 4.1.
    AnthropicEarly,
    /// Anthropic's models 4.5 and 4.6.
    Anthropic,
    /// Anthropic's models since Opus 4.7.
    AnthropicLarge,
    /// Google's Gemini and Gemma.
    Google,
    /// Mistral's models.
    Mistral,
    /// DeepSeek's models, and models distilled from them.
    Deepseek,
    /// Qwen.
    Qwen,
    /// Meta's Llama 3 and 4.
    Llama,
    /// Zhipu's GLM.
    Glm,
    /// Any other.
    Other,
}

impl Tokenizer {
    /// Every family, in the order in which documents list them.
    pub const ALL: [Self; 16] = [
        Self::Openai,
        Self::OpenaiReasoning,
        Self::OpenaiPatches,
        Self::OpenaiNano,
        Self::OpenaiCl100k,
        Self::OpenaiOpen,
        Self::AnthropicEarly,
        Self::Anthropic,
        Self::AnthropicLarge,
        Self::Google,
        Self::Mistral,
        Self::Deepseek,
        Self::Qwen,
        Self::Llama,
        Self::Glm,
        Self::Other,
    ];

    /// The name used in configuration and documents.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Openai => "openai",
            Self::OpenaiReasoning => "openai_reasoning",
            Self::OpenaiPatches => "openai_patches",
            Self::OpenaiNano => "openai_nano",
            Self::OpenaiCl100k => "openai_cl100k",
            Self::OpenaiOpen => "openai_open",
            Self::AnthropicEarly => "anthropic_early",
            Self::Anthropic => "anthropic",
            Self::AnthropicLarge => "anthropic_large",
            Self::Google => "google",
            Self::Mistral => "mistral",
            Self::Deepseek => "deepseek",
            Self::Qwen => "qwen",
            Self::Llama => "llama",
            Self::Glm => "glm",
            Self::Other => "other",
        }
    }
}
