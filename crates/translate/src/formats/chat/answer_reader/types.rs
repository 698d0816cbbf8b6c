//! Types of the chat format, as far as an answer is read: what OpenAI writes and what others
//! write in its place.

use crate::{
    answer::{
        json::{self, Raw},
        parts::{
            Blob, Citation,
            Failure::{self, Broken},
        },
        read::owned,
        text::RawText,
        write::escaped,
    },
    output::Output,
    seal::ReasoningForm,
};
use serde::Deserialize;

/// A message, whole, or what a chunk adds to it.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Message<'a> {
    #[serde(borrow, default)]
    content: Option<Raw<'a>>,
    #[serde(borrow, default)]
    pub(super) refusal: Option<RawText<'a>>,
    /// DeepSeek, Qwen, xAI, z.ai.
    #[serde(borrow, default)]
    reasoning_content: Option<RawText<'a>>,
    /// OpenRouter, Groq, vLLM.
    #[serde(borrow, default)]
    reasoning: Option<RawText<'a>>,
    /// OpenRouter.
    #[serde(borrow, default)]
    pub(super) reasoning_details: Option<Vec<Detail<'a>>>,
    #[serde(borrow, default)]
    pub(super) tool_calls: Option<Vec<Call<'a>>>,
    /// What `tool_calls` were called before there were several.
    #[serde(borrow, default)]
    pub(super) function_call: Option<Function<'a>>,
    #[serde(borrow, default)]
    pub(super) annotations: Option<Vec<Annotation<'a>>>,
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

    /// Reasoning by whichever name it has; from the details where it stands in them alone.
    pub(super) fn reasoning(&self) -> impl Iterator<Item = RawText<'a>> {
        let named = [self.reasoning_content, self.reasoning];
        let named = named.into_iter().flatten().find(|text| !text.is_empty());
        let details = self.reasoning_details.iter().flatten();
        let detailed = details.filter_map(|detail| detail.text.or(detail.summary));
        named
            .into_iter()
            .chain(detailed.filter(move |_| named.is_none()))
    }
}

/// A part of a content that is a list.
#[derive(Debug, Deserialize)]
struct Part<'a> {
    #[serde(borrow, default)]
    text: Option<RawText<'a>>,
    #[serde(borrow, default)]
    thinking: Option<Vec<Part<'a>>>,
}

impl<'a> Part<'a> {
    fn content(&self) -> Vec<Content<'a>> {
        let thinking = self.thinking.iter().flatten().filter_map(|part| part.text);
        let thinking = thinking.map(Content::Thinking);
        thinking.chain(self.text.map(Content::Text)).collect()
    }
}

/// An entry of `reasoning_details`.
#[derive(Debug, Deserialize)]
pub(super) struct Detail<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Option<RawText<'a>>,
    #[serde(borrow, default)]
    text: Option<RawText<'a>>,
    #[serde(borrow, default)]
    summary: Option<RawText<'a>>,
    #[serde(borrow, default)]
    signature: Option<RawText<'a>>,
    #[serde(borrow, default)]
    data: Option<RawText<'a>>,
    #[serde(borrow, default)]
    id: Option<RawText<'a>>,
    #[serde(borrow, default)]
    format: Option<RawText<'a>>,
    #[serde(default)]
    index: Option<u64>,
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
        if let Some(index) = self.index {
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
pub(super) struct Call<'a> {
    #[serde(default)]
    pub(super) index: Option<u64>,
    #[serde(borrow, default)]
    pub(super) id: Option<RawText<'a>>,
    #[serde(borrow, default)]
    pub(super) function: Option<Function<'a>>,
    #[serde(borrow, default)]
    custom: Option<Custom<'a>>,
}

/// The function that a call is for.
#[derive(Debug, Deserialize)]
pub(super) struct Function<'a> {
    #[serde(borrow, default)]
    pub(super) name: Option<RawText<'a>>,
    /// A string; some providers write the object itself.
    #[serde(borrow, default)]
    pub(super) arguments: Option<Raw<'a>>,
}

#[derive(Debug, Deserialize)]
struct Custom<'a> {
    #[serde(borrow, default)]
    name: Option<RawText<'a>>,
    #[serde(borrow, default)]
    input: Option<RawText<'a>>,
}

impl<'a> Call<'a> {
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
pub(super) struct Annotation<'a> {
    #[serde(borrow, default)]
    url_citation: Option<UrlCitation<'a>>,
}

#[derive(Debug, Deserialize)]
struct UrlCitation<'a> {
    #[serde(borrow, default)]
    url: RawText<'a>,
    #[serde(borrow, default)]
    title: Option<RawText<'a>>,
    #[serde(default)]
    start_index: Option<u64>,
    #[serde(default)]
    end_index: Option<u64>,
}

impl Annotation<'_> {
    /// The page that it names, where it names one.
    pub(super) fn page(&self) -> Option<Citation> {
        let page = self.url_citation.as_ref()?;
        let range = page.start_index.zip(page.end_index);
        Citation::new(page.url, page.title, range)
    }
}
