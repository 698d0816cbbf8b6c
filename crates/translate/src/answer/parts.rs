//! The parts of an answer, in words common to all formats.
//!
//! Decides how an answer and its tool calls are called in the caller's format, and why it
//! ended. Readers make these parts of a provider's answer, writers make the caller's answer
//! of them, whole or as a stream.

use crate::{
    TranslationNotes, answer::text::RawText, formats::ClientRules, names::ToolKind,
    seal::ReasoningForm,
};
use Failure::{Broken, Unfit};
use std::{borrow::Cow, collections::HashSet};
use tollgate_types::{RequestId, Usage};
use tollgate_wire::{answer::AnswerReport, fault::UpstreamFault};

/// Why a provider's answer does not become the client's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It cannot be written in the client's format, or is no answer.
    Broken,
    /// The provider succeeded, but the model did not write the form that the request asks for.
    Unfit,
}

impl From<Failure> for UpstreamFault {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Broken => Self::broken_answer(),
            Failure::Unfit => Self::unfit_answer(),
        }
    }
}

/// The facts about an answer that its provider does not send.
#[derive(Clone, Copy, Debug)]
pub struct AnswerContext {
    /// The request that it answers.
    pub request: RequestId,
    /// When it was asked, in unix seconds: for providers that do not say when they answered.
    pub created: u64,
    /// The input tokens by the gateway's own count or estimate, for streams that begin with their number; zero
    /// if only the provider can count them.
    pub input_tokens: u64,
}

/// The answering model, as the client's format shows it.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    /// The provider's id without its prefix, in letters that every format takes. The request's
    /// where the provider gave none, and where the answer is remembered by it.
    pub(crate) id: String,
    /// The model, as the caller called it.
    pub(crate) model: String,
    /// When, in unix seconds.
    pub(crate) created: u64,
    /// The input: by the provider's report if the first event has one, else by the gateway.
    pub(crate) input: Usage,
}

impl Head {
    pub(crate) fn new(
        report: &impl AnswerReport,
        notes: &TranslationNotes,
        context: &AnswerContext,
    ) -> Self {
        let facts = report.facts();
        let reported = report.usage();
        let id = plain_id(facts.id.as_deref().unwrap_or_default());
        Self {
            id: match id.is_empty() || notes.memory.is_some() {
                true => plain_id(context.request.as_str()),
                false => id,
            },
            model: notes.model.clone(),
            created: match facts.created_at {
                Some(created) if created > 0 => created,
                _ => context.created,
            },
            input: match reported.usage.total_input() {
                1.. if !reported.absurd => Usage {
                    output: 0,
                    reasoning: 0,
                    ..reported.usage
                },
                _ => Usage {
                    input: context.input_tokens,
                    ..Usage::default()
                },
            },
        }
    }

    /// The answer's id with the prefix of a format.
    pub(crate) fn answer_id(&self, prefix: &str) -> String {
        [prefix, &self.id].concat()
    }
}

/// An id without the prefix of its format, as far as other formats take it.
fn plain_id(id: &str) -> String {
    const PREFIXES: [&str; 5] = ["chatcmpl-", "resp_", "msg_", "gen-", "req_"];
    const LONGEST: usize = 64;
    let mut prefixes = PREFIXES.iter();
    let bare = prefixes
        .find_map(|prefix| id.strip_prefix(prefix))
        .unwrap_or(id);
    let is_plain_byte = |byte| is_plain(&char::from(byte));
    if bare.len() <= LONGEST && bare.bytes().all(is_plain_byte) {
        return bare.to_owned();
    }
    let mut plain = String::with_capacity(bare.len().min(LONGEST));
    plain.extend(bare.chars().filter(is_plain).take(LONGEST));
    plain
}

const fn is_plain(c: &char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

/// A call of one of the caller's tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ToolCall {
    /// By which the caller's answer names the call.
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) namespace: Option<String>,
    /// It takes free text instead of arguments.
    pub(crate) is_custom: bool,
}

/// A call as the provider wrote it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NativeCall<'a> {
    pub(crate) id: RawText<'a>,
    pub(crate) name: RawText<'a>,
    /// It holds free text.
    pub(crate) is_custom: bool,
}

/// Gives calls their ids and their caller's names, and knows those given.
#[derive(Debug)]
pub(crate) struct ToolCalls {
    rules: &'static ClientRules,
    ids: HashSet<String>,
    /// The least number of the next made id.
    next: usize,
}

impl ToolCalls {
    /// More calls in one answer are absurd.
    const MOST: usize = 1024;
    /// No format takes a name so long, in bytes.
    const LONGEST_NAME: usize = 1024;

    pub(crate) fn new(rules: &'static ClientRules) -> Self {
        Self {
            rules,
            ids: HashSet::new(),
            next: 0,
        }
    }

    /// The call as the caller must see it.
    pub(crate) fn name(
        &mut self,
        call: NativeCall<'_>,
        head: &Head,
        notes: &TranslationNotes,
    ) -> Result<ToolCall, Failure> {
        let native = call.name.unescape();
        if native.is_empty() {
            return Err(Broken);
        }
        if native.len() > Self::LONGEST_NAME || self.ids.len() >= Self::MOST {
            return Err(Unfit);
        }
        let id = self.id(&call.id.unescape(), head, notes);
        Ok(match notes.tools.caller_tool(&native) {
            Some(tool) => ToolCall {
                id,
                name: tool.name.clone(),
                namespace: tool.namespace.clone(),
                is_custom: tool.kind == ToolKind::Custom || call.is_custom,
            },
            None => ToolCall {
                id,
                name: native.into_owned(),
                namespace: None,
                is_custom: call.is_custom,
            },
        })
    }

    /// The provider's id, unless another call of the conversation has it: some providers count calls anew in
    /// each answer. Otherwise an id that depends only on the answer and the place of the call.
    fn id(&mut self, native: &str, head: &Head, notes: &TranslationNotes) -> String {
        const LONGEST: usize = 256;
        let kept: Cow<'_, str> = match self.rules.has_plain_ids {
            true => {
                let chars = native.chars().map(|c| if is_plain(&c) { c } else { '_' });
                chars.collect::<String>().into()
            }
            false => native.into(),
        };
        let is_known = |id: &str| self.ids.contains(id) || notes.call_ids.contain(id);
        let is_usable = !kept.is_empty() && kept.len() <= LONGEST;
        let id = match is_usable && !is_known(&kept) {
            true => kept.into_owned(),
            false => {
                let prefix = self.rules.call_id_prefix;
                let made = |number| (number, format!("{prefix}_{}_{number}", head.id));
                let mut made = (self.next.max(self.ids.len())..).map(made);
                let found = made.find(|(_, id)| !is_known(id));
                let (number, id) = found.unwrap_or_default();
                self.next = number;
                id
            }
        };
        self.ids.insert(id.clone());
        id
    }
}

/// Reasoning that only its provider can read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Blob {
    pub(crate) form: ReasoningForm,
    pub(crate) item_id: String,
    pub(crate) payload: String,
}

impl Blob {
    /// Of no item with an id of its own.
    pub(crate) const fn new(form: ReasoningForm, payload: String) -> Self {
        Self {
            form,
            item_id: String::new(),
            payload,
        }
    }

    /// How much it holds, in bytes.
    pub(crate) fn size(&self) -> usize {
        self.payload.len().saturating_add(self.item_id.len())
    }
}

/// A web page that a text refers to. Texts are contents of JSON strings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Citation {
    pub(crate) url: String,
    pub(crate) title: String,
    /// From where to where, in characters of the text; the whole text where the provider
    /// does not say.
    pub(crate) range: Option<(u64, u64)>,
    /// The citation as its provider wrote it, where it searched the web: JSON.
    pub(crate) native: Option<String>,
}

impl Citation {
    /// The longest address and title together, in bytes.
    const LONGEST: usize = 16 * 1024;

    /// A citation of the page at `url`, unless there is none, or a monstrous one.
    pub(crate) fn new(
        url: RawText<'_>,
        title: Option<RawText<'_>>,
        range: Option<(u64, u64)>,
    ) -> Option<Self> {
        let title = title.unwrap_or_default();
        let size = url.as_str().len().saturating_add(title.as_str().len());
        (!url.is_empty() && size <= Self::LONGEST).then(|| Self {
            url: url.as_str().to_owned(),
            title: title.as_str().to_owned(),
            range,
            native: None,
        })
    }

    /// How much it holds, in bytes.
    pub(crate) fn size(&self) -> usize {
        let native = self.native.as_ref().map_or(0, String::len);
        let page = self.url.len().saturating_add(self.title.len());
        page.saturating_add(native)
    }

    /// The same citation, with what its provider wrote.
    #[must_use]
    pub(crate) fn with_native(mut self, native: &str) -> Self {
        self.native = (native.len() <= Self::LONGEST).then(|| native.to_owned());
        self
    }
}

/// A search of the web that the provider made by itself. Texts are contents of JSON strings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Search {
    /// The query: words; for a page, its address or the text that was searched for in it.
    pub(crate) query: String,
    /// Whether words were searched for. Reading a page costs no search.
    pub(crate) is_search: bool,
    pub(crate) pages: Vec<Page>,
    /// Why there is nothing, in the words of messages.
    pub(crate) failure: Option<&'static str>,
    /// The data that returns to the provider with the next request.
    pub(crate) blob: Option<Blob>,
}

/// A page that a search found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) url: String,
    /// Where the provider does not say: the address once more.
    pub(crate) title: String,
    /// How old it is, in the provider's words.
    pub(crate) age: Option<String>,
}

impl Search {
    /// Pages of one search, at most; further ones are left out.
    pub(crate) const MOST_PAGES: usize = 256;

    /// About how much it holds, in bytes.
    pub(crate) fn size(&self) -> usize {
        let page = |page: &Page| {
            let age = page.age.as_ref().map_or(0, String::len);
            page.url
                .len()
                .saturating_add(page.title.len())
                .saturating_add(age)
        };
        let pages = self.pages.iter().map(page).fold(0, usize::saturating_add);
        let blob = self.blob.as_ref().map_or(0, |blob| blob.payload.len());
        pages.saturating_add(blob).saturating_add(self.query.len())
    }

    /// A search of which nothing came.
    pub(crate) fn failed() -> Self {
        Self {
            failure: Some("unavailable"),
            ..Self::default()
        }
    }
}

/// How an answer ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ending {
    pub(crate) stop: Stop,
    /// The caller's sequence at which the gateway has ended it.
    pub(crate) sequence: Option<String>,
    /// `None`: the provider reported none.
    pub(crate) usage: Option<Usage>,
    /// How often the provider searched the web.
    pub(crate) searches: u64,
}

/// Why an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    Done,
    ToolCalls,
    MaxTokens,
    /// The model declined in a text, which is whole.
    Declined,
    /// The provider withheld the answer, or the rest of it.
    Refused,
}
