//! The differences between providers of one format: what their requests may contain.

use serde::{Deserialize, Serialize};

/// The capabilities in which providers of one format differ. Requests are adapted to them, even in the
/// provider's own format.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Capabilities {
    /// Accepts cache marks: `cache_control` in messages, `prompt_cache_breakpoint` in chat and responses;
    /// otherwise they are dropped with notice.
    pub cache_breakpoints: bool,
    /// Top-level fields of requests that it refuses, such as `seed`: they are dropped with notice.
    pub refused_fields: Vec<String>,
    /// The most stop sequences that it accepts; requests with more are refused. Default: requests in its own format are
    /// not checked, and translated ones have at most those of the format: 4 in chat, 5 in Gemini.
    pub max_stop_sequences: Option<u16>,
    /// Events of its streams that its formats do not define, by their `type`; in chat by the
    /// `object` of their chunks. Clients of the same format get them. Any other unknown
    /// event ends a stream as an error.
    pub stream_events: Vec<String>,
    /// Capabilities of chat providers.
    pub chat: ChatCapabilities,
    /// Capabilities of responses providers.
    pub responses: ResponsesCapabilities,
    /// Capabilities of messages providers.
    pub messages: MessagesCapabilities,
}

impl Default for Capabilities {
    fn default() -> Self {
        Self {
            cache_breakpoints: true,
            refused_fields: Vec::new(),
            max_stop_sequences: None,
            stream_events: Vec::new(),
            chat: ChatCapabilities::ALL,
            responses: ResponsesCapabilities::ALL,
            messages: MessagesCapabilities::ALL,
        }
    }
}

/// The capabilities in which chat providers differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChatCapabilities {
    /// Accepts `max_completion_tokens`; otherwise the limit is sent as `max_tokens`.
    pub max_completion_tokens: bool,
    /// Accepts `stream_options`; otherwise the field is left out, and the provider must report the usage
    /// of streams by itself.
    pub stream_options: bool,
    /// Accepts the role `developer`; otherwise such messages are sent as `system`.
    pub developer_role: bool,
    /// Accepts several system messages, anywhere. Otherwise the gateway joins the leading ones and sends later
    /// ones as user messages in `<system-reminder>`. Templates of some open models refuse them.
    pub system_in_the_middle: bool,
    /// Accepts `reasoning_effort` together with `tools`; otherwise a model with `reasoning: adaptive` or `extended` is
    /// sent `none` beside tools, unless its `efforts` lack that, and another effort is dropped with notice.
    pub effort_with_tools: bool,
    /// Needs its `reasoning_content` back with the tool calls that followed it, or a blank with those of
    /// another provider. Clients of chat return it themselves.
    pub reasoning_content: bool,
    /// Accepts `top_k`; otherwise it is dropped with notice.
    pub top_k: bool,
    /// Has tools with free text (`custom`); otherwise they are sent as functions.
    pub custom_tools: bool,
    /// Accepts only nine letters and digits as the id of a tool call; the gateway replaces other ids by a part of
    /// their hash.
    pub short_call_ids: bool,
    /// Accepts newer fields of OpenAI: `safety_identifier`, `verbosity`, `prompt_cache_key`,
    /// `service_tier`, `metadata`, and lists of parts in every message; otherwise the fields are dropped
    /// with notice, and texts are joined.
    pub openai: bool,
}

impl ChatCapabilities {
    /// The capabilities of the format's own provider.
    pub const ALL: Self = Self {
        max_completion_tokens: true,
        stream_options: true,
        developer_role: true,
        system_in_the_middle: true,
        effort_with_tools: true,
        reasoning_content: false,
        top_k: false,
        custom_tools: true,
        short_call_ids: false,
        openai: true,
    };
}

impl Default for ChatCapabilities {
    fn default() -> Self {
        Self::ALL
    }
}

/// The capabilities in which responses providers differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ResponsesCapabilities {
    /// Returns and accepts `reasoning.encrypted_content`; otherwise it is left out.
    pub encrypted_reasoning: bool,
    /// Has a web search (`web_search`), for clients of messages that offer one; otherwise the tool
    /// is dropped with notice. The provider bills it separately.
    pub web_search: bool,
}

impl ResponsesCapabilities {
    /// The capabilities of the format's own provider, without hosted tools.
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

/// The capabilities in which messages providers differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MessagesCapabilities {
    /// Accepts the role `system` between other messages; otherwise such a message is sent as the
    /// user's, in `<system-reminder>`.
    pub system_in_the_middle: bool,
    /// Thinking is requested as `adaptive` with an effort; otherwise as `enabled` with a budget.
    pub adaptive_thinking: bool,
    /// Thinking can be turned off; otherwise a request to do so is dropped with notice.
    pub thinking_can_be_disabled: bool,
    /// Accepts `output_config.format`; otherwise requests with it are refused.
    pub structured_output: bool,
    /// Has a web search (`web_search_20250305`), for clients of responses that offer one; otherwise
    /// the tool is dropped with notice. The provider bills it separately.
    pub web_search: bool,
}

impl MessagesCapabilities {
    /// The capabilities of the format's own provider, without hosted tools.
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
