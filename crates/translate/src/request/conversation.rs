//! The contents of a request, independent of its format: readers write it, writers read it.
//!
//! It decides nothing. Everything in it borrows from the request's [`Document`]. The table refuses
//! or drops every field that the target cannot carry, so none of them is here.
//!
//! [`Document`]: crate::document::Document

use crate::{
    document::{Text, Value},
    notes::{AnswerCheck, ResponsesEcho},
};
use std::borrow::Cow;
use tollgate_types::Effort;

/// A request.
#[derive(Debug, Default)]
pub(crate) struct Conversation<'d> {
    /// The model's name as the caller wrote it.
    pub(crate) model: String,
    pub(crate) stream: bool,
    /// Chat: whether the caller asked for a chunk of usage.
    pub(crate) include_usage: bool,
    pub(crate) turns: Vec<Turn<'d>>,
    pub(crate) tools: Vec<Tool<'d>>,
    /// The provider is to search the web by itself: only where it can.
    pub(crate) search: Option<WebSearch<'d>>,
    /// Whether the caller wants to see every page that a search found.
    pub(crate) search_sources: bool,
    /// The provider's own tools were offered and taken out.
    pub(crate) lost_tools: bool,
    pub(crate) choice: Option<Choice<'d>>,
    /// Whether several tools may be called in one answer, where the caller says so.
    pub(crate) parallel: Option<bool>,
    /// The output limit, in tokens.
    pub(crate) limit: Option<u64>,
    /// The field that gave it, or would have.
    pub(crate) limit_field: &'static str,
    pub(crate) sampling: Sampling<'d>,
    pub(crate) stop: Vec<Text<'d>>,
    pub(crate) format: Option<AnswerFormat<'d>>,
    pub(crate) reasoning: Reasoning,
    pub(crate) verbosity: Option<Text<'d>>,
    pub(crate) user: User<'d>,
    pub(crate) service_tier: Option<Text<'d>>,
    pub(crate) cache: CacheRequests<'d>,
    /// Whether log probabilities are asked for.
    pub(crate) logprobs: bool,
    pub(crate) top_logprobs: Option<Value<'d>>,
    /// Whether the caller takes sealed reasoning.
    pub(crate) encrypted_reasoning: bool,
    /// The moderation that the provider shall do, as it stands in the request.
    pub(crate) moderation: Option<Value<'d>>,
    /// Whether the answer is to be a summary of the conversation.
    pub(crate) compacts: bool,
    /// Whether, and when, the answer's text must be one JSON object.
    pub(crate) check: AnswerCheck,
    pub(crate) echo: Option<Box<ResponsesEcho>>,
}

/// The role of a speaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    System,
    Developer,
    User,
    Assistant,
}

impl Role {
    /// Whether it instructs the model, rather than talking with it.
    pub(crate) const fn instructs(self) -> bool {
        matches!(self, Self::System | Self::Developer)
    }
}

/// The contents of one side until the other continues.
#[derive(Debug)]
pub(crate) struct Turn<'d> {
    pub(crate) role: Role,
    pub(crate) blocks: Vec<Block<'d>>,
    /// Its place in the caller's list of messages or items; `None`: it is not from there.
    pub(crate) at: Option<usize>,
}

impl Turn<'_> {
    /// Whether the turn has content: many formats refuse empty texts and messages.
    pub(crate) fn has_content(&self) -> bool {
        self.blocks.iter().any(|block| match block {
            Block::Text(text) | Block::Refusal(text) => !text.words.is_blank(),
            Block::Thought(_) | Block::Search(_) => false,
            Block::Image(_) | Block::Document(_) | Block::Call(_) | Block::Result(_) => true,
        })
    }
}

/// A piece of a turn.
#[derive(Debug)]
pub(crate) enum Block<'d> {
    Text(TextBlock<'d>),
    /// The assistant declined.
    Refusal(TextBlock<'d>),
    Image(Image<'d>),
    Document(File<'d>),
    Call(Call<'d>),
    Result(CallResult<'d>),
    Thought(Thought<'d>),
    Search(Search<'d>),
}

#[derive(Debug)]
pub(crate) struct TextBlock<'d> {
    pub(crate) words: Words<'d>,
    pub(crate) cache: Option<CacheMark<'d>>,
    /// Its citations, as they stand in the request.
    pub(crate) cited: Option<Value<'d>>,
    /// Whether it is the first block of a message that was joined to the one before.
    pub(crate) begins: bool,
}

impl<'d> TextBlock<'d> {
    /// Words with nothing beside them.
    pub(crate) const fn of(words: Words<'d>) -> Self {
        Self {
            words,
            cache: None,
            cited: None,
            begins: false,
        }
    }

    /// Whether nothing stands beside the words.
    pub(crate) const fn is_bare(&self) -> bool {
        self.cache.is_none() && self.cited.is_none()
    }
}

/// Text, from the request or of the gateway's own making.
#[derive(Debug)]
pub(crate) enum Words<'d> {
    /// As it stands in the request, escaped.
    Asked(Text<'d>),
    Made(String),
}

impl Words<'_> {
    /// Whether there is nothing in it at all.
    pub(crate) const fn is_empty(&self) -> bool {
        match self {
            Self::Asked(text) => text.is_empty(),
            Self::Made(text) => text.is_empty(),
        }
    }

    /// Whether there is nothing to read in it.
    pub(crate) fn is_blank(&self) -> bool {
        match self {
            Self::Asked(text) => text.is_blank(),
            Self::Made(text) => text.trim().is_empty(),
        }
    }
}

/// A mark that what stands before it is worth caching.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CacheMark<'d> {
    /// How long, in the words of the target's format.
    pub(crate) ttl: Option<Text<'d>>,
    /// The path that the table knows it by.
    pub(crate) path: &'static str,
}

#[derive(Debug)]
pub(crate) struct Image<'d> {
    pub(crate) source: Source<'d>,
    pub(crate) detail: Option<Text<'d>>,
}

#[derive(Debug)]
pub(crate) struct File<'d> {
    pub(crate) source: Source<'d>,
    pub(crate) name: Option<Text<'d>>,
}

/// Where an image or a document comes from.
#[derive(Debug)]
pub(crate) enum Source<'d> {
    /// Base64, as it stands in the request.
    Data {
        media_type: Cow<'d, str>,
        data: &'d [u8],
    },
    /// An address, which the gateway passes on and never fetches.
    Url(Text<'d>),
}

/// The assistant calls a tool.
#[derive(Debug)]
pub(crate) struct Call<'d> {
    pub(crate) id: Text<'d>,
    pub(crate) name: Text<'d>,
    pub(crate) namespace: Option<Text<'d>>,
    pub(crate) input: Input<'d>,
}

#[derive(Debug)]
pub(crate) enum Input<'d> {
    /// A JSON object, as it stands in the request.
    Object(Value<'d>),
    /// JSON in a string.
    Json(Text<'d>),
    /// Free text: the call of a custom tool.
    Free(Text<'d>),
}

/// The result of a tool call.
#[derive(Debug)]
pub(crate) struct CallResult<'d> {
    /// The call's.
    pub(crate) id: Text<'d>,
    pub(crate) content: Vec<Block<'d>>,
    pub(crate) is_error: bool,
}

/// Reasoning of an earlier turn.
#[derive(Debug)]
pub(crate) struct Thought<'d> {
    /// Its text, in pieces.
    pub(crate) text: Vec<Text<'d>>,
    /// A seal, or a provider's own blob.
    pub(crate) state: Option<Text<'d>>,
    /// The paths that the table knows it by: where its text and its state stand.
    pub(crate) paths: &'static [&'static str],
}

/// A search that an earlier answer's provider made by itself.
#[derive(Debug)]
pub(crate) struct Search<'d> {
    /// A seal, or a provider's own blob. Responses has it in the reasoning that follows.
    pub(crate) state: Option<Text<'d>>,
    /// The paths that the table knows it by.
    pub(crate) paths: &'static [&'static str],
}

/// The tool by which a provider searches the web.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WebSearch<'d> {
    /// How it was offered: twice alike is once.
    pub(crate) offer: Option<Value<'d>>,
    /// The only domains that may be searched.
    pub(crate) allowed: Option<Value<'d>>,
    /// Domains that may not be searched.
    pub(crate) blocked: Option<Value<'d>>,
    /// Where the user is.
    pub(crate) location: Option<Location<'d>>,
    /// How often it may search for one answer.
    pub(crate) max_uses: Option<u64>,
}

/// The approximate location of the user.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Location<'d> {
    pub(crate) city: Option<Text<'d>>,
    pub(crate) country: Option<Text<'d>>,
    pub(crate) region: Option<Text<'d>>,
    pub(crate) timezone: Option<Text<'d>>,
}

/// A tool that the caller offers.
#[derive(Debug)]
pub(crate) struct Tool<'d> {
    pub(crate) name: Text<'d>,
    pub(crate) namespace: Option<Text<'d>>,
    pub(crate) namespace_description: Option<Text<'d>>,
    pub(crate) description: Option<Text<'d>>,
    pub(crate) takes: Takes<'d>,
    pub(crate) cache: Option<CacheMark<'d>>,
}

/// The input of a tool.
#[derive(Debug)]
pub(crate) enum Takes<'d> {
    /// An object by a JSON schema; `None`: an object without members.
    Object {
        schema: Option<Value<'d>>,
        strict: Option<bool>,
    },
    /// Free text, by a grammar where there is one.
    Free(Option<Grammar<'d>>),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Grammar<'d> {
    pub(crate) syntax: Text<'d>,
    pub(crate) definition: Text<'d>,
}

/// Which tools the model is to call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Choice<'d> {
    Auto,
    None,
    /// Any, but one at least.
    Required,
    Tool {
        name: Text<'d>,
        namespace: Option<Text<'d>>,
    },
    /// The provider's search of the web.
    Search,
}

impl Choice<'_> {
    /// Whether the model must call a tool.
    pub(crate) const fn is_forced(self) -> bool {
        matches!(self, Self::Required | Self::Tool { .. } | Self::Search)
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sampling<'d> {
    pub(crate) temperature: Option<Value<'d>>,
    pub(crate) top_p: Option<Value<'d>>,
    pub(crate) top_k: Option<Value<'d>>,
    pub(crate) seed: Option<Value<'d>>,
    pub(crate) presence_penalty: Option<Value<'d>>,
    pub(crate) frequency_penalty: Option<Value<'d>>,
}

/// The form of the answer; `None` is plain text.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AnswerFormat<'d> {
    JsonObject,
    Schema {
        name: Option<Text<'d>>,
        description: Option<Text<'d>>,
        schema: Option<Value<'d>>,
        strict: Option<bool>,
    },
}

/// How the caller wants the model to reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reasoning {
    pub(crate) effort: Option<Effort>,
    /// The field that gives it, by its path in the table.
    pub(crate) effort_field: &'static str,
    /// Tokens to think with: messages' `budget_tokens`.
    pub(crate) budget: Option<u64>,
    pub(crate) mode: Option<ThinkingMode>,
    /// Whether the text of the reasoning is to be shown; `None`: not said.
    pub(crate) shown: Option<bool>,
}

/// Messages: `thinking.type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ThinkingMode {
    Enabled,
    Adaptive,
    Disabled,
    BetweenTools,
}

/// The end user's id for the provider.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct User<'d> {
    /// Chat and responses: `user`.
    pub(crate) user: Option<Text<'d>>,
    /// Chat and responses: `safety_identifier`.
    pub(crate) safety_identifier: Option<Text<'d>>,
    /// Messages: `metadata.user_id`.
    pub(crate) user_id: Option<Text<'d>>,
    /// Chat and responses: `metadata`.
    pub(crate) metadata: Option<Value<'d>>,
}

/// Chat and responses: what the caller says about caching, apart from marks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CacheRequests<'d> {
    pub(crate) key: Option<Text<'d>>,
    pub(crate) retention: Option<Text<'d>>,
    pub(crate) mode: Option<Text<'d>>,
    pub(crate) ttl: Option<Text<'d>>,
}

impl CacheRequests<'_> {
    /// Whether what requests share is to be cached without marks.
    pub(crate) fn is_automatic(&self) -> bool {
        self.key.is_some() || self.mode.is_some_and(|mode| mode.is("implicit"))
    }
}
