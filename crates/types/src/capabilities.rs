//! What providers of one format differ in: what a request may hold that goes to them.

use serde::{Deserialize, Serialize};

/// What a provider can, of what not every provider of its formats can.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Capabilities {
    /// It marks what is worth caching: `cache_control` in messages,
    /// `prompt_cache_breakpoint` in chat and responses.
    pub cache_breakpoints: bool,
    /// Events of its streams that its formats do not define, by their `type`; in chat by the
    /// `object` of their chunks. They pass to callers of the same format. Any other unknown
    /// event ends a stream as an error.
    pub stream_events: Vec<String>,
    /// What only a chat provider differs in.
    pub chat: ChatCapabilities,
    /// What only a responses provider differs in.
    pub responses: ResponsesCapabilities,
    /// What only a messages provider differs in.
    pub messages: MessagesCapabilities,
}

impl Default for Capabilities {
    fn default() -> Self {
        Self {
            cache_breakpoints: true,
            stream_events: Vec::new(),
            chat: ChatCapabilities::ALL,
            responses: ResponsesCapabilities::ALL,
            messages: MessagesCapabilities::ALL,
        }
    }
}

/// What chat providers differ in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChatCapabilities {
    /// It knows `max_completion_tokens`; otherwise the limit goes as `max_tokens`, also for clients
    /// of chat.
    pub max_completion_tokens: bool,
    /// It knows `stream_options`; otherwise the field is left out, also for clients of chat, and
    /// the provider reports the usage of streams without being asked.
    pub stream_options: bool,
    /// It knows the role `developer`; otherwise such messages go as `system`.
    pub developer_role: bool,
    /// It takes instructions between other messages; otherwise such a message goes as the
    /// user's, in `<system-reminder>`. Templates of some open models refuse them.
    pub system_in_the_middle: bool,
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

impl ChatCapabilities {
    /// What the format's own provider can.
    pub const ALL: Self = Self {
        max_completion_tokens: true,
        stream_options: true,
        developer_role: true,
        system_in_the_middle: true,
        effort_with_tools: true,
        reasoning_content: false,
        top_k: false,
        custom_tools: true,
        openai: true,
    };
}

impl Default for ChatCapabilities {
    fn default() -> Self {
        Self::ALL
    }
}

/// What responses providers differ in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ResponsesCapabilities {
    /// It hands out and takes back `reasoning.encrypted_content`.
    pub encrypted_reasoning: bool,
    /// It searches the web by itself (`web_search`), for callers of messages that offer such a
    /// search. It costs extra there; otherwise the tool is taken out with notice.
    pub web_search: bool,
}

impl ResponsesCapabilities {
    /// What the format's own provider can without being asked to do more than answer.
    pub const ALL: Self = Self {
        encrypted_reasoning: true,
        web_search: false,
    };
}

impl Default for ResponsesCapabilities {
    fn default() -> Self {
        Self::ALL
    }
}

/// What messages providers differ in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MessagesCapabilities {
    /// It takes the role `system` between other messages; otherwise such a message goes as
    /// the user's, in `<system-reminder>`.
    pub system_in_the_middle: bool,
    /// Thinking is asked for as `adaptive` with an effort; otherwise as `enabled` with a budget.
    pub adaptive_thinking: bool,
    /// Thinking can be turned off.
    pub thinking_can_be_disabled: bool,
    /// It knows `output_config.format`.
    pub structured_output: bool,
    /// It searches the web by itself (`web_search_20250305`), for callers of responses that
    /// offer such a search. It costs extra there; otherwise the tool is taken out with notice.
    pub web_search: bool,
}

impl MessagesCapabilities {
    /// What the format's own provider can without being asked to do more than answer.
    pub const ALL: Self = Self {
        system_in_the_middle: true,
        adaptive_thinking: true,
        thinking_can_be_disabled: true,
        structured_output: true,
        web_search: false,
    };
}

impl Default for MessagesCapabilities {
    fn default() -> Self {
        Self::ALL
    }
}
