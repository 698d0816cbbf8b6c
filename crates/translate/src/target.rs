//! The target of a translation: values, never the catalog itself.

use tollgate_types::{
    ChatCapabilities, Effort, MessagesCapabilities, ReasoningMode, ResponsesCapabilities,
};

/// The target of a translation.
#[derive(Clone, Debug)]
pub struct Target<'a> {
    /// The model's name at the provider.
    pub model: &'a str,
    /// The provider's name in seals: providers that read each other's reasoning share it.
    pub backend: &'a str,
    /// The most tokens that the model can put out, where known.
    pub max_output_tokens: Option<u64>,
    /// The most tokens of output that are held for an answer, where that is known: no limit
    /// that the translation makes up or raises goes beyond.
    pub reserved_output: Option<u64>,
    /// How the model reasons.
    pub reasoning: ReasoningMode,
    /// The efforts that the model takes, from least to most; empty: all of the format.
    pub efforts: &'a [Effort],
    /// Whether the model takes `temperature`, `top_p`, `top_k` and penalties.
    pub sampling: bool,
    /// Whether the provider marks what is worth caching: `cache_control` in messages,
    /// `prompt_cache_breakpoint` in chat and responses.
    pub cache_breakpoints: bool,
    /// The most stop sequences that the provider takes, if not as many as its format's own.
    pub max_stop_sequences: Option<usize>,
    /// The differences between chat providers.
    pub chat: ChatCapabilities,
    /// The differences between responses providers.
    pub responses: ResponsesCapabilities,
    /// The differences between messages providers.
    pub messages: MessagesCapabilities,
    /// Gemini: the model takes levels of thinking, not budgets, and checks the signatures of calls.
    pub thinking_levels: bool,
    /// Fields that the operator allows to be dropped with notice (`lossy: allow`).
    pub lossy: Lossy<'a>,
    /// Fields that the operator does not allow to be dropped (`strict`).
    pub strict: Strict<'a>,
    /// Responses callers: whether the gateway remembers the answer.
    pub memory: AnswerMemory,
    /// Responses callers: the answer that the request goes on from, where its conversation has been
    /// put into the request. The new answer repeats the id.
    pub previous_response: Option<&'a str>,
    /// The model that the request is for, if its body names none. Gemini callers name it in the address.
    pub asked_model: Option<&'a str>,
    /// Gemini callers: whether the address asks for a stream.
    pub asked_stream: bool,
}

/// Whether the gateway remembers an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AnswerMemory {
    /// It remembers none: a request to store the answer is refused.
    #[default]
    Off,
    /// Not this one: the caller does not want it, or the request is too large.
    Skip,
    /// This one.
    Keep,
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

/// The fields that must not be dropped, by the paths that notices name: a request that holds one
/// which cannot be carried is refused. `input[].*` stands for every unknown field at a place.
#[derive(Clone, Copy, Debug, Default)]
pub struct Strict<'a>(pub &'a [String]);

impl Strict<'_> {
    /// Whether the field at `path` must not be dropped.
    pub fn forbids(&self, path: &str) -> bool {
        self.0.iter().any(|forbidden| forbidden == path)
    }
}

impl<'a> Target<'a> {
    /// Whether the model is one of Anthropic's, by its name.
    pub(crate) fn is_claude(&self) -> bool {
        self.model.contains("claude")
    }

    /// A target that can do what the format's own provider can.
    pub const fn new(model: &'a str, backend: &'a str) -> Self {
        Self {
            model,
            backend,
            max_output_tokens: None,
            reserved_output: None,
            reasoning: ReasoningMode::ProviderDefault,
            efforts: &[],
            sampling: true,
            cache_breakpoints: true,
            max_stop_sequences: None,
            chat: ChatCapabilities::ALL,
            responses: ResponsesCapabilities::ALL,
            messages: MessagesCapabilities::ALL,
            thinking_levels: true,
            lossy: Lossy(&[]),
            strict: Strict(&[]),
            memory: AnswerMemory::Off,
            previous_response: None,
            asked_model: None,
            asked_stream: false,
        }
    }
}
