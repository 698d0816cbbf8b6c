//! What a request asks for, in words that the three formats share.
//!
//! Each format reads its own JSON into an [`Ask`]; [`crate::plan`] decides the answer
//! from it and knows no format.

use crate::{search::Offer, seed::Seed};
use serde_json::Value;

/// One request, understood.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) seed: Seed,
    pub(crate) model: String,
    pub(crate) stream: bool,
    /// The text of the last thing that the user said.
    pub(crate) said: String,
    /// What tools answered since then, in order.
    pub(crate) tool_results: Vec<String>,
    /// How many calls were made since then.
    pub(crate) called: usize,
    /// How many thoughts came back, over the whole conversation.
    pub(crate) thoughts: usize,
    pub(crate) tools: Vec<Tool>,
    /// The provider's own search of the web, where it is offered.
    pub(crate) search: Option<Offer>,
    /// How many searches came back, over the whole conversation.
    pub(crate) searches: usize,
    pub(crate) tool_choice: ToolChoice,
    /// Whether one answer may hold several calls.
    pub(crate) parallel: bool,
    /// The most tokens of output.
    pub(crate) max_tokens: Option<u64>,
    pub(crate) stop: Vec<String>,
    pub(crate) shape: Shape,
    pub(crate) thinking: Thinking,
    /// How many alternative answers.
    pub(crate) choices: usize,
    pub(crate) input: InputTokens,
}

/// A tool that the caller offers.
#[derive(Clone, Debug)]
pub(crate) struct Tool {
    pub(crate) name: String,
    pub(crate) description: String,
    /// The group that a call must name with it (responses format).
    pub(crate) namespace: Option<String>,
    pub(crate) input: ToolInput,
}

/// What a tool takes.
#[derive(Clone, Debug)]
pub(crate) enum ToolInput {
    /// Arguments that satisfy a JSON Schema.
    Schema(Value),
    /// A text of any form (a `custom` tool).
    Text,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ToolChoice {
    Auto,
    None,
    Required,
    Named(String),
}

/// The form that the answer must have.
#[derive(Clone, Debug)]
pub(crate) enum Shape {
    Text,
    AnyObject,
    Schema(Value),
}

/// Whether the model reasons before it answers, and what the caller sees of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Thinking {
    Off,
    /// Paid for, but not shown.
    Hidden,
    Shown,
}

/// Input tokens, each counted once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct InputTokens {
    pub(crate) fresh: u64,
    pub(crate) cache_read: u64,
    pub(crate) cache_write: u64,
}

impl InputTokens {
    /// Tokens of which the provider's cache holds none.
    pub(crate) fn fresh(fresh: u64) -> Self {
        Self {
            fresh,
            ..Self::default()
        }
    }

    pub(crate) fn total(self) -> u64 {
        self.fresh + self.cache_read + self.cache_write
    }
}

impl Ask {
    /// A request that says `said` and asks for nothing else.
    pub(crate) fn plain(model: &str, said: &str) -> Self {
        Self {
            seed: Seed::of(said.as_bytes()),
            model: model.to_owned(),
            stream: false,
            said: said.to_owned(),
            tool_results: Vec::new(),
            called: 0,
            thoughts: 0,
            tools: Vec::new(),
            search: None,
            searches: 0,
            tool_choice: ToolChoice::Auto,
            parallel: true,
            max_tokens: None,
            stop: Vec::new(),
            shape: Shape::Text,
            thinking: Thinking::Off,
            choices: 1,
            input: InputTokens::default(),
        }
    }
}

/// The seed of a request: of everything in it but the field `stream`, which
/// must not change the answer.
pub(crate) fn seed(body: &Value) -> Seed {
    let mut body = body.clone();
    if let Some(fields) = body.as_object_mut() {
        fields.shift_remove("stream");
        fields.shift_remove("stream_options");
    }
    Seed::of(body.to_string().as_bytes())
}

/// What a cache of prompts would say to the input of the OpenAI formats: a prompt of
/// 1,024 tokens or more that continues a conversation is known up to a multiple of 128.
pub(crate) fn prompt_cache(input: u64, continues: bool) -> InputTokens {
    let known = if continues && input >= 1024 {
        input / 2 / 128 * 128
    } else {
        0
    };
    InputTokens {
        fresh: input - known,
        cache_read: known,
        cache_write: 0,
    }
}
