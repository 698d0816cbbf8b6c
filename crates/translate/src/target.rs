//! What the request half is told of the target: values, never the catalog itself.

use tollgate_types::{Effort, ReasoningMode};

/// Whom a request is translated for.
#[derive(Clone, Debug)]
pub struct Target<'a> {
    /// The model's name at the provider.
    pub model: &'a str,
    /// Who answers, as seals name it: providers that read each other's reasoning share it.
    pub backend: &'a str,
    /// The most tokens that the model can put out, where known.
    pub max_output_tokens: Option<u64>,
    /// How the model reasons.
    pub reasoning: ReasoningMode,
    /// The efforts that the model takes, from least to most; empty: all of the format.
    pub efforts: &'a [Effort],
    /// Whether the model takes `temperature`, `top_p` and `top_k`.
    pub sampling: bool,
    /// Whether the provider marks what is worth caching: `cache_control` in messages,
    /// `prompt_cache_breakpoint` in chat and responses.
    pub cache_marks: bool,
    /// What only a chat provider differs in.
    pub chat: ChatAbilities,
    /// What only a responses provider differs in.
    pub responses: ResponsesAbilities,
    /// What only a messages provider differs in.
    pub messages: MessagesAbilities,
    /// Fields that the operator allows to be dropped with notice (`lossy: allow`).
    pub lossy: Lossy<'a>,
}

/// What chat providers differ in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChatAbilities {
    /// It knows `max_completion_tokens`; otherwise the limit goes as `max_tokens`.
    pub max_completion_tokens: bool,
    /// It knows the role `developer`; otherwise such messages go as `system`.
    pub developer_role: bool,
    /// It takes `reasoning_effort` beside `tools`; otherwise the effort is left out with notice.
    pub effort_with_tools: bool,
    /// It wants its own `reasoning_content` back with the tool calls that followed it.
    pub reasoning_content: bool,
    /// It knows `top_k`.
    pub top_k: bool,
    /// It has tools that take free text (`custom`); otherwise they go as functions.
    pub custom_tools: bool,
    /// It knows the newer fields of OpenAI's own: `safety_identifier`, `verbosity`,
    /// `prompt_cache_key`, `service_tier`, `metadata`, and lists of parts in every message.
    pub openai: bool,
}

/// What responses providers differ in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponsesAbilities {
    /// It hands out and takes back `reasoning.encrypted_content`.
    pub encrypted_reasoning: bool,
    /// It has a `web_search` of its own.
    pub web_search: bool,
}

/// What messages providers differ in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessagesAbilities {
    /// It takes the role `system` between other messages; otherwise such a message goes as
    /// the user's, in `<system-reminder>`.
    pub system_in_the_middle: bool,
    /// Thinking is asked for as `adaptive` with an effort; otherwise as `enabled` with a budget.
    pub adaptive_thinking: bool,
    /// Thinking can be turned off.
    pub thinking_can_be_disabled: bool,
    /// It has a `web_search` of its own.
    pub web_search: bool,
    /// It knows `output_config.format`.
    pub structured_output: bool,
}

/// The fields that the operator allows to be dropped, by the paths of the table
/// (`stop`, `messages[].name`).
#[derive(Clone, Copy, Debug, Default)]
pub struct Lossy<'a>(pub &'a [String]);

impl Lossy<'_> {
    /// Whether the field at a path of the table may be dropped.
    pub fn allows(&self, path: &str) -> bool {
        self.0.iter().any(|allowed| allowed == path)
    }
}

impl<'a> Target<'a> {
    /// A target that can do what the format's own provider can.
    pub const fn new(model: &'a str, backend: &'a str) -> Self {
        Self {
            model,
            backend,
            max_output_tokens: None,
            reasoning: ReasoningMode::ProviderDefault,
            efforts: &[],
            sampling: true,
            cache_marks: true,
            chat: ChatAbilities {
                max_completion_tokens: true,
                developer_role: true,
                effort_with_tools: true,
                reasoning_content: false,
                top_k: false,
                custom_tools: true,
                openai: true,
            },
            responses: ResponsesAbilities {
                encrypted_reasoning: true,
                web_search: true,
            },
            messages: MessagesAbilities {
                system_in_the_middle: true,
                adaptive_thinking: true,
                thinking_can_be_disabled: true,
                web_search: true,
                structured_output: true,
            },
            lossy: Lossy(&[]),
        }
    }
}
