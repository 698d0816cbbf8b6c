//! Notes about a request that its answer needs: the request half writes them, the answer half
//! reads them.

use crate::names::ToolNames;
use std::{
    collections::{BTreeMap, HashSet},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
};
use tollgate_types::Format;

/// The facts about a request that the translation of its answer needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TranslationNotes {
    /// The caller's format: what the answer is written in.
    pub from: Format,
    /// The target's format: what the answer is read as.
    pub to: Format,
    /// The model's name as the caller wrote it; the answer's `model`.
    pub model: String,
    /// Chat callers: `stream_options.include_usage`, whether the stream has a chunk of usage. The
    /// target is always asked for usage.
    pub include_usage: bool,
    /// The tools that the target knows by another name, or as another kind.
    pub tools: ToolNames,
    /// The ids of earlier calls: the answer gives them to no other call.
    pub call_ids: CallIds,
    /// The parts of the model's reasoning that the caller asked for.
    pub reasoning: AskedReasoning,
    /// The check of the answer's text, because the target does not enforce the format.
    pub check: AnswerCheck,
    /// Responses callers: the answer is a summary of the conversation, and becomes a
    /// `compaction` item.
    pub compacts: bool,
    /// Responses callers: what the answer's `response` object repeats of the request.
    pub echo: Option<Box<ResponsesEcho>>,
    /// The sequences at which the gateway ends the answer by itself, where the target's format
    /// has none.
    pub stop: Arc<[String]>,
    /// The provider's name in the [seals](crate::seal) of the answer.
    pub backend: String,
    /// The provider may search the web by itself. `None`: the request did not allow it, and the
    /// answer leaves out any search.
    pub search: Option<AskedSearch>,
    /// Responses callers: the gateway remembers the answer, under ids of its own.
    pub memory: Option<MemoryNotes>,
}

/// The ids of the calls of a conversation. Only hashes are kept, because a new id in place of an
/// unused one does no harm.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallIds(HashSet<u64>);

impl CallIds {
    /// Notes these ids.
    pub fn new(ids: impl IntoIterator<Item: AsRef<str>>) -> Self {
        Self(ids.into_iter().map(|id| Self::hash(id.as_ref())).collect())
    }

    /// Whether an id is among them.
    pub fn contain(&self, id: &str) -> bool {
        let hash = Self::hash(id);
        self.0.contains(&hash)
    }

    fn hash(id: &str) -> u64 {
        let mut hasher = DefaultHasher::new();
        id.hash(&mut hasher);
        hasher.finish()
    }
}

/// The facts about an answer that the gateway remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryNotes {
    /// Whether the caller asked for sealed state. It is remembered in any case, because the
    /// provider needs it back.
    pub shows_state: bool,
}

impl TranslationNotes {
    /// Whether the gateway does by itself what the target's format has no field for.
    pub fn emulates(&self) -> bool {
        self.check != AnswerCheck::None || !self.stop.is_empty()
    }
}

/// The check of the text of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AnswerCheck {
    /// Nothing.
    #[default]
    None,
    /// It is one JSON object.
    JsonObject,
    /// The same, unless the model calls a tool: text may stand before the call.
    JsonObjectOrCall,
}

/// The parts of searches of the web that a caller asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AskedSearch {
    /// Responses: every page that was found (`include: [web_search_call.action.sources]`).
    pub sources: bool,
}

/// The parts of the model's reasoning that a caller asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AskedReasoning {
    /// Whether the text of the reasoning is shown, where the provider gives it. Chat: always;
    /// responses: `reasoning.summary` is given; messages: `thinking` is on and its `display` is
    /// not `omitted`.
    pub text: bool,
    /// Whether sealed state is handed out, to come back with the next request. Responses:
    /// `include` has `reasoning.encrypted_content`; messages: always; chat: never.
    pub state: bool,
    /// Whether text that is not shown is sealed for the caller where its provider signs nothing:
    /// chat. For callers that take seals, if they asked for reasoning or the provider requires its
    /// reasoning back.
    pub hidden: bool,
}

/// Fields of a responses request that its answer repeats, each as the JSON that the caller wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponsesEcho {
    given: BTreeMap<&'static str, Json>,
    /// The id of the answer that the request continues.
    pub previous_response_id: Option<Json>,
}

/// The fields that every response repeats, with the defaults of the format.
pub(crate) const ECHOED: [(&str, &str); 18] = [
    ("instructions", "null"),
    ("max_output_tokens", "null"),
    ("max_tool_calls", "null"),
    ("metadata", "{}"),
    ("parallel_tool_calls", "true"),
    ("prompt_cache_key", "null"),
    ("reasoning", r#"{"effort":null,"summary":null}"#),
    ("safety_identifier", "null"),
    ("service_tier", r#""default""#),
    ("store", "false"),
    ("temperature", "1.0"),
    ("text", r#"{"format":{"type":"text"}}"#),
    ("tool_choice", r#""auto""#),
    ("tools", "[]"),
    ("top_logprobs", "0"),
    ("top_p", "1.0"),
    ("truncation", r#""disabled""#),
    ("user", "null"),
];

impl ResponsesEcho {
    /// The value of a field. `None`: not given, so the format's default stands in the answer.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.given.get(name).map(|value| &**value)
    }

    /// Sets the value of a field, if it is one that answers repeat.
    pub fn set(&mut self, name: &str, value: Option<Json>) {
        let known = ECHOED.iter().find(|(known, _)| *known == name);
        match known.zip(value) {
            Some(((name, _), value)) => drop(self.given.insert(name, value)),
            None => drop(self.given.remove(name)),
        }
    }
}

/// A JSON value as the caller wrote it: well-formed, because the request was.
pub type Json = Box<str>;
