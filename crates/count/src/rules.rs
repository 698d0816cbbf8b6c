//! The known rules by which families of models count a request, and their sources.
//!
//! Each preset holds for the models of one family. Which model is of which family is for the
//! caller to say; [`Family::of_model`] is a guess by the names that the providers use.

mod script;

pub use script::Digits;

use crate::{
    Vocabulary,
    media::{DocumentRule, ImageRule},
};
use tollgate_types::Tokenizer;

/// How one family of models turns a request into tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// The vocabulary that text is counted with.
    pub vocabulary: Vocabulary,
    /// Tokens of this family's own vocabulary to one of that.
    pub text_factor: f32,
    /// How the family's own vocabulary takes numbers.
    pub digits: Digits,
    /// Tokens that a Chinese, Japanese or Korean character has beyond what that vocabulary says.
    pub per_cjk: f32,
    /// Whether what stands before `</think>` in an earlier answer is taken out again.
    pub drops_think: bool,
    /// Tokens of every request.
    pub constant: u32,
    /// Tokens around every message, its role among them.
    pub per_message: u32,
    /// How tools are shown to the model.
    pub tool_style: ToolStyle,
    /// Tokens of every request that offers tools.
    pub tools_constant: u32,
    /// Tokens around every tool that is offered.
    pub per_tool: u32,
    /// Tokens of a request that demands the call of a tool, beyond those.
    pub tools_forced: u32,
    /// Tokens around every call of a tool.
    pub per_tool_call: u32,
    /// Tokens around every result of one, where it is no message of its own.
    pub per_tool_result: u32,
    /// Tokens around the schema of an answer.
    pub answer_schema: u32,
    /// Tokens of a request that asks for thinking.
    pub thinking: u32,
    /// The cost of images.
    pub image: ImageRule,
    /// The cost of files that are not text.
    pub document: DocumentRule,
    /// Whether the vocabulary is the models' own, so that no text has more tokens than it says.
    pub is_own_vocabulary: bool,
    /// By how much a count is wrong at most, 95 times of 100:
    /// a part of the count,
    pub error_p95: f32,
    /// and tokens,
    pub error_tokens: u32,
    /// and tokens where tools are offered.
    pub tools_error_tokens: u32,
    /// Bytes of text up to which every byte is counted; of more, a sample.
    pub exact_bytes: u64,
}

impl Rules {
    /// Tokens that texts cannot exceed: no vocabulary in use makes more than one token of a
    /// byte. Where a published one has `counted` them and is not the models' own, plain text is
    /// taken to have half as many again at most, or one token for two bytes if that is more: small
    /// vocabularies cut long words of other languages into pieces. Bytes that some vocabularies
    /// know one by one come on top.
    pub(crate) fn most_of<'t>(
        &self,
        texts: impl Iterator<Item = &'t str> + Clone,
        counted: Option<u64>,
    ) -> u64 {
        let bytes: u64 = texts.clone().map(|text| text.len() as u64).sum();
        match counted {
            None => bytes,
            Some(counted) if self.is_own_vocabulary => counted,
            Some(counted) => {
                let rare: u64 = texts.map(rare_bytes).sum();
                let plain = bytes.saturating_sub(rare).div_ceil(2);
                let counted = counted.saturating_add(counted.div_ceil(2));
                counted.max(plain).saturating_add(rare).min(bytes)
            }
        }
    }
}

/// Digits, bytes of letters beyond ASCII, and line ends, tabs and other control characters behind
/// one another.
fn rare_bytes(text: &str) -> u64 {
    let mut is_behind_control = false;
    let is_rare = |byte: &u8| {
        let is_run = is_behind_control && byte.is_ascii_control();
        is_behind_control = byte.is_ascii_control();
        is_run || !byte.is_ascii() || byte.is_ascii_digit()
    };
    text.bytes().filter(is_rare).count() as u64
}

/// How tools are shown to a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolStyle {
    /// As type declarations, one line a property: OpenAI.
    Declarations,
    /// As the JSON of name, description and schema.
    Json,
}

/// Text of which every byte is counted, by default: 10 to 50 ms of one core.
const EXACT_BYTES: u64 = 256 * 1024;

impl Default for Rules {
    fn default() -> Self {
        Tokenizer::Other.rules()
    }
}

/// The known rules of the families of models.
pub trait Family: Sized {
    /// The family of a model, by the name that its provider gives it. A guess: a name says
    /// nothing where the operator chose it.
    fn of_model(name: &str) -> Self;

    /// The rules of a family.
    ///
    /// Sources: the OpenAI cookbook ("How to count tokens with tiktoken") for the framing of
    /// messages, and OpenAI's guide to images; Anthropic's pages on vision, on PDF and on the
    /// prices of tool use; Google's page on tokens; of open models the templates of chats that
    /// are published with them, the reports on Qwen and Llama 3 for their vocabularies, and
    /// DeepSeek's page on tokens. What no page says (factors of vocabularies, framing of tools)
    /// is measured on recorded traffic: docs/reference/token-counts.md.
    fn rules(self) -> Rules;
}

impl Family for Tokenizer {
    fn of_model(name: &str) -> Self {
        let name = name.to_ascii_lowercase();
        let has = |part: &str| name.contains(part);
        let is_claude = has("claude") || has("anthropic");
        if is_claude && LARGE_CLAUDES.into_iter().any(has) {
            Self::AnthropicLarge
        } else if is_claude && EARLY_CLAUDES.into_iter().any(has) {
            Self::AnthropicEarly
        } else if is_claude {
            Self::Anthropic
        } else if has("gpt-oss") {
            Self::OpenaiOpen
        } else if has("gpt-3.5") || (has("gpt-4") && !has("gpt-4o") && !has("gpt-4.")) {
            Self::OpenaiCl100k
        } else if has("gpt-") && has("-nano") {
            Self::OpenaiNano
        } else if PATCHED_GPTS.into_iter().any(has) {
            Self::OpenaiPatches
        } else if REASONING_GPTS.into_iter().any(has) {
            Self::OpenaiReasoning
        } else if has("gpt-") || has("chatgpt") {
            Self::Openai
        } else if has("gemini") || has("gemma") {
            Self::Google
        } else if MISTRALS.into_iter().any(has) {
            Self::Mistral
        } else if has("deepseek") {
            // Before those that it was distilled into: the frame is its own.
            Self::Deepseek
        } else if has("qwen") || has("qwq") {
            Self::Qwen
        } else if has("llama") {
            Self::Llama
        } else if has("glm-") {
            Self::Glm
        } else {
            Self::Other
        }
    }

    fn rules(self) -> Rules {
        match self {
            Self::Openai => OPENAI,
            Self::OpenaiReasoning => Rules {
                constant: 2,
                image: ImageRule::Tiles {
                    base: 70,
                    tile: 140,
                },
                ..OPENAI
            },
            Self::OpenaiPatches => Rules {
                constant: 2,
                image: ImageRule::Patches {
                    most: 1536,
                    factor: 1.62,
                },
                ..OPENAI
            },
            Self::OpenaiNano => Rules {
                constant: 2,
                image: ImageRule::Patches {
                    most: 1536,
                    factor: 2.46,
                },
                ..OPENAI
            },
            Self::OpenaiCl100k => Rules {
                vocabulary: Vocabulary::Cl100k,
                ..OPENAI
            },
            Self::OpenaiOpen => Rules {
                // The system message that its template always has.
                constant: 66,
                tools_constant: 16,
                image: ImageRule::Flat { tokens: 0 },
                error_p95: 0.3,
                ..OPENAI
            },
            Self::AnthropicEarly => Rules {
                // By the page on prices, for Claude 4.
                tools_constant: 346,
                tools_forced: 0,
                ..ANTHROPIC
            },
            Self::Anthropic => ANTHROPIC,
            Self::AnthropicLarge => Rules {
                // From 1.0 to 1.35, by the text.
                text_factor: 1.2,
                error_p95: 0.18,
                thinking: 0,
                image: ImageRule::Area {
                    long_side: 2576,
                    most: 4784,
                },
                ..ANTHROPIC
            },
            Self::Google => Rules {
                text_factor: 1.0,
                digits: Digits::Single,
                constant: 0,
                per_message: 1,
                tools_constant: 0,
                image: ImageRule::Crops,
                document: DocumentRule {
                    bytes_per_page: 60_000,
                    tokens_per_page: 258,
                },
                ..OTHER
            },
            Self::Mistral => Rules {
                text_factor: 1.0,
                digits: Digits::Single,
                // The beginning of the text; [INST] and [/INST].
                constant: 1,
                per_message: 2,
                tools_constant: 10,
                ..OTHER
            },
            Self::Deepseek => Rules {
                text_factor: 1.0,
                per_cjk: PER_CJK_OF_CHINESE,
                drops_think: true,
                // The beginning of the text, and whose turn it is.
                constant: 2,
                per_message: 1,
                ..OTHER
            },
            Self::Qwen => Rules {
                text_factor: 1.0,
                digits: Digits::Single,
                per_cjk: PER_CJK_OF_CHINESE,
                drops_think: true,
                // <|im_start|>, the role and a line; <|im_end|> and a line behind a message.
                constant: 3,
                per_message: 5,
                ..OTHER
            },
            Self::Llama => Rules {
                text_factor: 1.0,
                // The beginning of the text and the answer's header; header and end of each.
                constant: 5,
                per_message: 5,
                ..OTHER
            },
            Self::Glm => Rules {
                text_factor: 1.0,
                per_cjk: PER_CJK_OF_CHINESE,
                drops_think: true,
                // [gMASK]<sop>, whose turn it is, and that it thinks or not.
                constant: 4,
                per_message: 1,
                ..OTHER
            },
            Self::Other => OTHER,
        }
    }
}

/// A Chinese character is 0.6 tokens by DeepSeek's page and 0.55 to 0.67 by Alibaba's on Qwen,
/// where `o200k_base` makes some 0.7 of one.
const PER_CJK_OF_CHINESE: f32 = -0.1;

/// Parts of the names of Anthropic's models since Opus 4.7.
const LARGE_CLAUDES: [&str; 7] = [
    "opus-4-7", "opus-4.7", "opus-4-8", "opus-4.8", "opus-5", "sonnet-5", "fable",
];
/// Parts of the names of Anthropic's models up to 4.1.
const EARLY_CLAUDES: [&str; 8] = [
    "claude-2",
    "claude-3",
    "opus-4-0",
    "opus-4-1",
    "opus-4.1",
    "opus-4-2025",
    "sonnet-4-0",
    "sonnet-4-2025",
];
/// Parts of the names of OpenAI's models that see images in patches.
const PATCHED_GPTS: [&str; 6] = [
    "gpt-4.1-mini",
    "gpt-5-mini",
    "gpt-5.4",
    "gpt-5.5",
    "gpt-5.6",
    "o4-mini",
];
/// Parts of the names of OpenAI's models that reason.
const REASONING_GPTS: [&str; 6] = ["gpt-5", "o1", "o3", "o4", "computer-use", "codex"];
const MISTRALS: [&str; 5] = ["mistral", "magistral", "mixtral", "pixtral", "codestral"];

const OPENAI: Rules = Rules {
    text_factor: 1.0,
    // The answer's own header.
    constant: 3,
    per_message: 4,
    tool_style: ToolStyle::Declarations,
    tools_constant: 0,
    per_tool: 0,
    per_tool_call: 9,
    per_tool_result: 8,
    answer_schema: 6,
    image: ImageRule::Tiles {
        base: 85,
        tile: 170,
    },
    is_own_vocabulary: true,
    error_p95: 0.05,
    error_tokens: 4,
    tools_error_tokens: 110,
    ..OTHER
};

const ANTHROPIC: Rules = Rules {
    text_factor: 1.0,
    constant: 3,
    per_message: 4,
    // The system prompt that tools bring is longer than the page on prices says.
    tools_constant: 490,
    tools_forced: 100,
    per_tool: 20,
    per_tool_call: 25,
    per_tool_result: 20,
    answer_schema: 120,
    thinking: 29,
    document: DocumentRule {
        bytes_per_page: 60_000,
        tokens_per_page: 2500,
    },
    error_p95: 0.12,
    error_tokens: 30,
    tools_error_tokens: 200,
    ..OTHER
};

const OTHER: Rules = Rules {
    vocabulary: Vocabulary::O200k,
    text_factor: 1.1,
    digits: Digits::Grouped,
    per_cjk: 0.0,
    drops_think: false,
    constant: 2,
    per_message: 3,
    tool_style: ToolStyle::Json,
    tools_constant: 60,
    tools_forced: 0,
    per_tool: 8,
    per_tool_call: 10,
    per_tool_result: 6,
    answer_schema: 0,
    thinking: 0,
    image: ImageRule::Area {
        long_side: 1568,
        most: 1600,
    },
    document: DocumentRule {
        bytes_per_page: 60_000,
        tokens_per_page: 1200,
    },
    is_own_vocabulary: false,
    error_p95: 0.3,
    error_tokens: 50,
    tools_error_tokens: 300,
    exact_bytes: EXACT_BYTES,
};

#[cfg(test)]
mod tests;
