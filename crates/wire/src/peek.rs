//! Reads a request body in one pass, without a tree: what it asks for ([`RequestFacts`]) and where
//! the parts stand that the gateway may edit ([`Spans`]).
//!
//! The peek checks that the gateway can act on the body: it is one JSON object, no object that is
//! read has a key twice, and the fields that the gateway acts on are present and of the right type.
//! The provider checks the rest: names of tools, the order of messages.
//!
//! How text is measured: every string in the messages, the system prompt and the tools counts with
//! its unescaped length. If the model reads JSON as JSON (tool schemas, the input of a tool call,
//! the schema of an answer, unknown fields), keys and numbers count as well. Base64 payloads count
//! as media, links as text, identifiers of stored files and responses not at all. Besides this
//! likely measure there is an upper bound: the whole body without media.
//!
//! An integer has plain digits only: `1e3` and `5.0` are refused, because the gateway counts with
//! integers and providers disagree about such forms.

mod case;
mod error;
mod extensions;
mod keys;
pub(crate) mod location;
pub(crate) mod node;
#[cfg(test)]
mod tests;
mod texts;
mod walk;

pub use error::{ModelFault, PeekError};
pub use texts::Texts;

use crate::{
    address::Address,
    formats,
    json::{Lexer, Span},
};
use tollgate_types::{Format, RequestFacts};

/// Limits of a peek.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeekLimits {
    /// Nesting of containers, at most [`Lexer::MAX_DEPTH`].
    pub depth: u8,
    /// Keys in any one object that is read, including the body itself.
    pub keys: usize,
    /// Bytes of a key in an object that is read, unescaped.
    pub key_bytes: usize,
    /// Bytes of the model name, unescaped.
    pub model_bytes: usize,
    /// Identifiers of stored files, responses and conversations.
    pub stored_ids: usize,
    /// Further items of the input with an identifier.
    pub items: usize,
    /// Bytes of each identifier, unescaped.
    pub stored_id_bytes: usize,
    /// Whether a body without `model` is refused. Off if the operator has set a default model.
    pub model_required: bool,
}

impl Default for PeekLimits {
    fn default() -> Self {
        Self {
            depth: Lexer::MAX_DEPTH,
            keys: 128,
            key_bytes: 256,
            model_bytes: 256,
            stored_ids: 256,
            items: 8192,
            stored_id_bytes: 256,
            model_required: true,
        }
    }
}

/// The result of a peek.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peeked {
    /// What the request asks for.
    pub facts: RequestFacts,
    /// Where the parts stand that the gateway may edit.
    pub spans: Spans,
    /// Output limits under names that the format does not define, except `null`.
    pub other_limits: Vec<LimitSpan>,
    /// Where the texts stand that `auto` looks at; `None` without [`Peeker::with_texts`].
    pub texts: Option<Box<Texts>>,
    /// The conversation has reasoning that a translation sealed: no provider can read it.
    pub has_seals: bool,
    /// Counts of Gemini only: the request is in a member of the body, with the name of its model.
    pub wraps_request: bool,
    /// The body has the member `top_k`, which chat providers differ in.
    pub has_top_k: bool,
    /// The body has `temperature`, `top_p` or `top_k`.
    pub has_sampling: bool,
    /// Keys and values of the whole body: they, and not its bytes alone, decide what a closer look
    /// costs.
    pub values: u64,
}

/// The beginning of every seal that the translation makes.
pub const SEAL_TAG: &str = "tg1.";

/// The beginning of the same in base64, as signatures of Gemini are.
pub const ENCODED_SEAL_TAG: &str = "dGcx";

/// Where the parts of a body stand that the gateway may edit. Offsets count from the start of the
/// body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spans {
    /// The top-level object.
    pub top: ObjectSpan,
    /// The value of `model`.
    pub model: Option<Span>,
    /// The value of `stream`.
    pub stream: Option<Span>,
    /// The output limit in the field of the format.
    pub output_limit: Option<LimitSpan>,
    /// The output limit in an older field of the format (`max_tokens` of chat).
    pub older_output_limit: Option<LimitSpan>,
    /// The object in which the format keeps the output limit, and its inside; no inside if it is
    /// `null` (`generationConfig` of Gemini).
    pub output_settings: Option<(Span, Option<ObjectSpan>)>,
    /// The value of `stream_options` (chat, responses), `null` included.
    pub stream_options: Option<Span>,
    /// The inside of `stream_options`, if it is an object.
    pub stream_options_object: Option<ObjectSpan>,
    /// The value of `stream_options.include_usage` (chat), `null` included.
    pub include_usage: Option<Span>,
    /// The value of the effort in the field of the format: `reasoning_effort`, `reasoning.effort`,
    /// `output_config.effort`, `thinkingLevel`.
    pub effort: Option<Span>,
    /// The value of `thinking` (messages).
    pub thinking: Option<Span>,
    /// The value of `thinking.budget_tokens` (messages).
    pub thinking_budget: Option<Span>,
    /// The value of `prompt_cache_key` (chat, responses), if it is a string.
    pub cache_key: Option<Span>,
    /// The beginning of the conversation: its list up to the end of the first message of the user,
    /// or an input that is one text. Empty if the user says nothing.
    pub beginning: Option<Span>,
}

/// An output limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitSpan {
    /// Where its value stands.
    pub span: Span,
    /// The limit in tokens; `None` if the value is `null`, limits nothing, or lifts the other limits.
    pub tokens: Option<u64>,
    /// The value is the `true` of `auto_max_new_tokens`, which makes a server ignore the other limits.
    pub lifts: bool,
}

/// Where a member can be inserted into an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectSpan {
    /// The offset after the opening brace.
    pub inside: u64,
    /// The object has no members.
    pub is_empty: bool,
}

/// Reads one request body, chunk by chunk.
///
/// ```
/// use tollgate_types::Format;
/// use tollgate_wire::peek::{PeekLimits, Peeker};
///
/// let mut peeker = Peeker::new(Format::Chat, &PeekLimits::default());
/// let body = br#"{"model":"alpha-opus-4-8","messages":[{"role":"user","content":""}],"stream":true}"#;
/// peeker.push(&body[..20])?;
/// peeker.push(&body[20..])?;
/// let peeked = peeker.finish()?;
/// assert_eq!(peeked.facts.model.as_deref(), Some("alpha-opus-4-8"));
/// assert!(peeked.facts.stream);
/// # Ok::<(), tollgate_wire::peek::PeekError>(())
/// ```
#[derive(Debug)]
pub struct Peeker {
    lexer: Lexer,
    walk: walk::Walk,
}

impl Peeker {
    /// A peeker for a request in this format.
    pub fn new(format: Format, limits: &PeekLimits) -> Self {
        Self {
            lexer: Lexer::with_max_depth(limits.depth),
            walk: walk::Walk::new(formats::rules(format), limits),
        }
    }

    /// For a request that only asks for a count of its tokens: it needs no output limit.
    #[must_use]
    pub const fn for_count(mut self) -> Self {
        self.walk.output_limit_required = false;
        self.walk.counts = true;
        self
    }

    /// Reads some members of a body, which need not be a whole request.
    ///
    /// # Errors
    /// A member has a value that the gateway refuses.
    pub fn peek_members(format: Format, members: &[u8]) -> Result<Peeked, PeekError> {
        let mut peeker = Self::new(format, &PeekLimits::default());
        peeker.push(members)?;
        peeker.lexer.finish(&mut peeker.walk)?;
        Ok(peeker.walk.into_found())
    }

    /// With the facts that the address of the request names.
    #[must_use]
    pub fn with_address(mut self, address: Address) -> Self {
        self.walk.take(address);
        self
    }

    /// Lets the peeker note where the texts stand that `auto` looks at
    /// ([`crate::conversation::inspect`]).
    #[must_use]
    pub fn with_texts(mut self) -> Self {
        self.walk.keep_texts();
        self
    }

    /// Reads the next chunk of the body.
    ///
    /// # Errors
    /// The gateway cannot act on the body. The peeker cannot go on.
    pub fn push(&mut self, chunk: &[u8]) -> Result<(), PeekError> {
        self.lexer.feed(chunk, &mut self.walk)
    }

    /// Ends the body and returns the result.
    ///
    /// # Errors
    /// The body is incomplete, or lacks a required field.
    pub fn finish(mut self) -> Result<Peeked, PeekError> {
        self.lexer.finish(&mut self.walk)?;
        self.walk.finish()
    }
}
