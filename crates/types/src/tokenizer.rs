//! Families of models that count tokens alike, as an operator names them.

use serde::{Deserialize, Serialize};

// Documents list them in this order.
crate::named! {
    /// A family of models that count the tokens of a request in the same way.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    pub enum Tokenizer {
        /// OpenAI's gpt-4o and gpt-4.1 (`o200k_base`).
        Openai = "openai",
        /// OpenAI's models that reason: the o series, gpt-5 and later.
        OpenaiReasoning = "openai_reasoning",
        /// OpenAI's models that see images in patches: the small ones, and those since gpt-5.4.
        OpenaiPatches = "openai_patches",
        /// The smallest of these.
        OpenaiNano = "openai_nano",
        /// OpenAI's gpt-4 and gpt-3.5 (`cl100k_base`).
        OpenaiCl100k = "openai_cl100k",
        /// OpenAI's open models (gpt-oss).
        OpenaiOpen = "openai_open",
        /// Anthropic's models up to 4.1.
        AnthropicEarly = "anthropic_early",
        /// Anthropic's models 4.5 and 4.6.
        Anthropic = "anthropic",
        /// Anthropic's models since Opus 4.7.
        AnthropicLarge = "anthropic_large",
        /// Google's Gemini and Gemma.
        Google = "google",
        /// Mistral's models.
        Mistral = "mistral",
        /// DeepSeek's models, and models distilled from them.
        Deepseek = "deepseek",
        /// Qwen.
        Qwen = "qwen",
        /// Meta's Llama 3 and 4.
        Llama = "llama",
        /// Zhipu's GLM.
        Glm = "glm",
        /// Any other.
        Other = "other",
    }
}
