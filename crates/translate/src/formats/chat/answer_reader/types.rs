//! Types of the chat format, as far as an answer is read: what OpenAI writes and what others
//! write in its place.

use crate::{
    answer::{
        json::{self, Raw},
        parts::{
            Blob, Citation,
            Failure::{self, Broken},
        },
        read::{self, CitedPage, owned},
        text::RawText,
        write::escaped,
    },
    output::Output,
    seal::ReasoningForm,
};
use serde::Deserialize;

/// A message, whole, or what a chunk adds to it.
#[derive(Debug, Default, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct Message<'a> {
    content: Option<Raw<'a>>,
    pub(super) refusal: Option<RawText<'a>>,
    /// DeepSeek, Qwen, xAI, z.ai.
    reasoning_content: Option<RawText<'a>>,
    /// OpenRouter, Groq, vLLM.
    reasoning: Option<RawText<'a>>,
    /// OpenRouter.
    pub(super) reasoning_details: Option<Raw<'a>>,
    pub(super) tool_calls: Option<Vec<Call<'a>>>,
    /// The older form of `tool_calls`, for a single call.
    pub(super) function_call: Option<Function<'a>>,
    pub(super) annotations: Option<Raw<'a>>,
}

/// A piece of a message's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content<'a> {
    Text(RawText<'a>),
    Thinking(RawText<'a>),
}

impl<'a> Message<'a> {
    /// Content and the thinking in it: a string, or with Mistral a list of parts.
    pub(super) fn content(&self) -> Result<Vec<Content<'a>>, Failure> {
        let Some(content) = self.content else {
            return Ok(Vec::new());
        };
        if let Some(text) = RawText::of(content) {
            return Ok(vec![Content::Text(text)]);
        }
        let parts: Vec<Part<'a>> = json::read(content.get()).map_err(|_| Broken)?;
        Ok(parts.iter().flat_map(Part::content).collect())
    }

    /// Whether it has text, a refusal or a call.
    pub(super) fn says_something(&self) -> bool {
        let is_said = |text: Option<RawText<'_>>| text.is_some_and(|text| !text.is_empty());
        let is_text = |content: Raw<'a>| RawText::of(content).is_none_or(|text| !text.is_empty());
        self.content.is_some_and(is_text)
            || is_said(self.refusal)
            || self
                .tool_calls
                .as_ref()
                .is_some_and(|calls| !calls.is_empty())
            || self.function_call.as_ref().is_some_and(super::is_used)
    }

    /// Reasoning by whichever name it has; from the details where it stands in them alone.
    pub(super) fn reasoning(&self, details: &[Detail<'a>]) -> impl Iterator<Item = RawText<'a>> {
        let named = [self.reasoning_content, self.reasoning];
        let named = named.into_iter().flatten().find(|text| !text.is_empty());
        let detailed = details.iter().filter_map(|it| it.text.or(it.summary));
        named
            .into_iter()
            .chain(detailed.filter(move |_| named.is_none()))
    }
}

/// A part of a content that is a list.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct Part<'a> {
    text: Option<RawText<'a>>,
    /// A string, or a list of parts.
    thinking: Option<Raw<'a>>,
}

impl<'a> Part<'a> {
    fn content(&self) -> Vec<Content<'a>> {
        let parts = read::entries(self.thinking).filter_map(|part: Self| part.text);
        let thinking = self.thinking.and_then(RawText::of).into_iter().chain(parts);
        let thinking = thinking.map(Content::Thinking);
        thinking.chain(self.text.map(Content::Text)).collect()
    }
}

/// An entry of `reasoning_details`.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct Detail<'a> {
    #[serde(rename = "type")]
    kind: Option<RawText<'a>>,
    text: Option<RawText<'a>>,
    summary: Option<RawText<'a>>,
    signature: Option<RawText<'a>>,
    data: Option<RawText<'a>>,
    id: Option<RawText<'a>>,
    format: Option<RawText<'a>>,
    index: Option<Raw<'a>>,
}

impl Detail<'_> {
    /// The entry without what the caller sees of it, where only its provider can read the
    /// rest.
    pub(super) fn blob(&self) -> Option<Blob> {
        let is_opaque = |text: Option<RawText<'_>>| text.is_some_and(|text| !text.is_empty());
        if !is_opaque(self.signature) && !is_opaque(self.data) {
            return None;
        }
        let mut entry = Output::default();
        entry.begin_object();
        let members = [
            ("type", self.kind),
            ("signature", self.signature),
            ("data", self.data),
            ("id", self.id),
            ("format", self.format),
        ];
        for (name, value) in members {
            if let Some(value) = value {
                escaped(entry.key(name), value.as_str());
            }
        }
        if let Some(index) = self.index.and_then(|index| index.get().parse().ok()) {
            entry.key("index").number(index);
        }
        entry.end_object();
        Some(Blob {
            form: ReasoningForm::Details,
            item_id: owned(self.id),
            payload: String::from_utf8(entry.into_bytes()).ok()?,
        })
    }
}

/// A tool call, whole or what a chunk adds to it.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct Call<'a> {
    pub(super) index: Option<u64>,
    pub(super) id: Option<RawText<'a>>,
    pub(super) function: Option<Function<'a>>,
    custom: Option<Custom<'a>>,
    extra_content: Option<Raw<'a>>,
}

/// What Google writes beside a call.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct ExtraContent<'a> {
    google: Option<GoogleContent<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct GoogleContent<'a> {
    thought_signature: Option<RawText<'a>>,
}

/// The function that a call is for.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct Function<'a> {
    pub(super) name: Option<RawText<'a>>,
    /// A string; some providers write the value itself.
    pub(super) arguments: Option<Raw<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
struct Custom<'a> {
    name: Option<RawText<'a>>,
    input: Option<RawText<'a>>,
}

impl Function<'_> {
    pub(super) fn has_arguments(&self) -> bool {
        let arguments = self.arguments.map(read::arguments);
        arguments.is_some_and(|contents| !contents.is_empty())
    }
}

impl<'a> Call<'a> {
    /// Google's signature of the call: without it the next request is refused.
    pub(super) fn signature(&self) -> Option<Blob> {
        let extra: ExtraContent<'_> = json::read(self.extra_content?.get()).ok()?;
        let signature = owned(extra.google?.thought_signature);
        (!signature.is_empty()).then_some(Blob::new(ReasoningForm::CallSignature, signature))
    }

    /// The custom tool's name and input. Some providers write an empty one beside functions.
    pub(super) fn custom(&self) -> Option<(Option<RawText<'a>>, RawText<'a>)> {
        let custom = self.custom.as_ref()?;
        let is_there = |text: Option<RawText<'_>>| text.is_some_and(|text| !text.is_empty());
        let is_used = is_there(custom.name) || is_there(custom.input);
        is_used.then(|| (custom.name, custom.input.unwrap_or_default()))
    }
}

/// An entry of `annotations`.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "'de: 'a"))]
pub(super) struct Annotation<'a> {
    url_citation: Option<CitedPage<'a>>,
}

impl Annotation<'_> {
    /// The page that it names, where it names one.
    pub(super) fn page(&self) -> Option<Citation> {
        self.url_citation.as_ref()?.citation()
    }
}
