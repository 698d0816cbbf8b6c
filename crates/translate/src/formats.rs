//! One folder for each wire format, with the same files in each, and what the rest of the crate
//! must know of a format. The rest names no format.

pub(crate) mod chat;
pub(crate) mod converse;
pub(crate) mod gemini;
pub(crate) mod messages;
pub(crate) mod responses;

use crate::{
    AskedReasoning, Refusal, Target, TranslationNotes,
    answer::{read::ReadAnswer, write::Write},
    document::Value,
    features::TargetFeatures,
    names::NameLimits,
    request::{
        conversation::Conversation,
        read::rewrites::{Rewrites, Rewritten},
        scope::Scope,
        write::Writer,
    },
    table::{Kinds, Shape},
    unsealed::Unsealer,
};
use std::borrow::Cow;
use tollgate_types::{Format, PerFormat};

/// The rules of a format for the rest of the crate.
#[derive(Debug)]
pub(crate) struct FormatRules {
    /// How its clients speak it; `None` if providers alone do.
    pub(crate) client: Option<(&'static SourceRules, &'static ClientRules)>,
    pub(crate) target: TargetRules,
    pub(crate) provider: ProviderRules,
    /// Whether a request can end with the beginning of the answer.
    pub(crate) has_begun_answers: bool,
}

/// A format as that of a client's request.
#[derive(Debug)]
pub(crate) struct SourceRules {
    /// The objects of a request, the body first.
    pub(crate) shapes: &'static [&'static [&'static Shape]],
    /// The sets of kinds of objects in a request.
    pub(crate) kinds: &'static [&'static [&'static Kinds]],
    /// Rewrites the values that the reader cannot borrow from the request.
    pub(crate) rewrite: Option<fn(Value<'_>) -> Rewrites>,
    /// Fails if a field is unknown, refused, of the wrong type or out of bounds.
    pub(crate) read:
        for<'d> fn(Value<'d>, &Rewritten<'d>, &mut Scope<'_>) -> Result<Conversation<'d>, Refusal>,
    /// The name of a field in the spelling of the table, if the format has another one.
    pub(crate) spelling: Option<fn(&str) -> Cow<'_, str>>,
    pub(crate) paths: SourcePaths,
    /// Whether a strict schema may leave members open or optional.
    pub(crate) has_open_schemas: bool,
    /// The field whose contents are remembered with the answer, if a request can refer to an
    /// earlier answer.
    pub(crate) remembered: Option<&'static str>,
    /// The parts of the model's reasoning that the client sees.
    pub(crate) asked_reasoning: fn(&Conversation<'_>, ReasoningUse) -> AskedReasoning,
    /// Leaves out what a translation sealed, for a provider of the same format.
    pub(crate) unseal: fn(&mut Unsealer, Value<'_>),
}

/// Which side needs the reasoning of an answer besides the client.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReasoningUse {
    /// The gateway remembers the answer.
    pub(crate) is_remembered: bool,
    /// The provider refuses the next request without it.
    pub(crate) is_returned: bool,
}

/// Where a request has what refusals and notices name.
#[derive(Debug)]
pub(crate) struct SourcePaths {
    /// The list of messages or items.
    pub(crate) turns: &'static str,
    pub(crate) stop: &'static str,
    pub(crate) parallel: &'static str,
    pub(crate) arguments: &'static str,
    pub(crate) tool_schema: &'static str,
    pub(crate) answer_format: &'static str,
    pub(crate) answer_schema: &'static str,
    pub(crate) json_object: &'static str,
    /// Its own paths of a field that the other formats call by one name.
    pub(crate) own: &'static [(&'static str, &'static str)],
}

/// A format as that of the provider's request.
#[derive(Debug)]
pub(crate) struct TargetRules {
    /// The fates of the features of a conversation.
    pub(crate) features: &'static TargetFeatures,
    pub(crate) write: WriteRequest,
    /// Whether the provider searches the web.
    pub(crate) has_search: fn(&Target<'_>) -> bool,
    /// Whether the provider has tools that take free text.
    pub(crate) has_custom_tools: fn(&Target<'_>) -> bool,
    /// Whether the provider refuses a request without its earlier reasoning.
    pub(crate) returns_reasoning: fn(&Target<'_>) -> bool,
    /// Whether a model cannot read the reasoning of the provider's other models.
    pub(crate) binds_reasoning: bool,
    /// Whether the provider takes an effort beside tools.
    pub(crate) has_effort_with_tools: fn(&Target<'_>) -> bool,
    /// Whether the provider takes `top_k`.
    pub(crate) has_top_k: fn(&Target<'_>) -> bool,
    /// The types of images that are taken as data; `None`: all.
    pub(crate) image_types: Option<&'static [&'static str]>,
    /// Whether documents are PDF or plain text, and text goes as a block of text.
    pub(crate) has_text_documents: bool,
    /// Whether tools have cache marks, and automatic caching counts as one of the marks.
    pub(crate) has_tool_marks: bool,
    /// How many cache marks the result of a tool has, at most.
    pub(crate) marks_of_result: usize,
    /// Whether a tool's schema must be a single object, and a strict one has no bounds.
    pub(crate) merges_schemas: bool,
    /// Whether a tool that is not strict must be declared so.
    pub(crate) declares_strictness: bool,
    pub(crate) has_stop_sequences: bool,
    pub(crate) has_json_objects: bool,
    pub(crate) tool_names: NameLimits,
    /// Bytes of a call's id, at most.
    pub(crate) call_id_length: usize,
    /// Whether ids consist of letters, digits, `_` and `-`, and each call has its own.
    pub(crate) has_plain_ids: bool,
    /// Whether the provider takes ids of nine letters and digits alone.
    pub(crate) has_short_ids: fn(&Target<'_>) -> bool,
}

/// Writes the members of the body.
type WriteRequest = fn(&mut Writer<'_, '_>, &Conversation<'_>) -> Result<(), Refusal>;

impl TargetRules {
    /// The rules of most formats.
    pub(crate) const fn of(features: &'static TargetFeatures, write: WriteRequest) -> Self {
        Self {
            features,
            write,
            has_search: |_| false,
            has_custom_tools: |_| false,
            returns_reasoning: |_| false,
            binds_reasoning: false,
            has_effort_with_tools: |_| true,
            has_top_k: |_| true,
            image_types: None,
            has_text_documents: false,
            has_tool_marks: false,
            marks_of_result: 0,
            merges_schemas: false,
            declares_strictness: false,
            has_stop_sequences: true,
            has_json_objects: true,
            tool_names: NameLimits::up_to(64),
            call_id_length: 64,
            has_plain_ids: false,
            has_short_ids: |_| false,
        }
    }
}

/// A format as that of the answer to a client.
#[derive(Debug)]
pub(crate) struct ClientRules {
    pub(crate) stream: fn(&TranslationNotes) -> Box<dyn Write>,
    pub(crate) body: fn(&TranslationNotes) -> Box<dyn Write>,
    /// How the ids of calls begin that the gateway makes.
    pub(crate) call_id_prefix: &'static str,
    /// Whether ids consist of letters, digits, `_` and `-`.
    pub(crate) has_plain_ids: bool,
    /// Whether the arguments of a call are an object, and no call takes free text.
    pub(crate) has_object_arguments: bool,
    /// Where seals of searches and citations stand.
    pub(crate) search_seals: SealPlace,
}

/// Where the seal of a search or a citation stands in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SealPlace {
    /// Nowhere: the format has no searches.
    None,
    /// In the block itself.
    Inside,
    /// Beside it, as reasoning.
    Beside,
}

/// A format as that of a provider's answer.
#[derive(Debug)]
pub(crate) struct ProviderRules {
    pub(crate) reader: fn() -> Box<dyn ReadAnswer>,
    /// Whether reasoning comes with a signature.
    pub(crate) signs_reasoning: bool,
}

static FORMATS: PerFormat<&FormatRules> = PerFormat {
    chat: &chat::RULES,
    responses: &responses::RULES,
    messages: &messages::RULES,
    gemini: &gemini::RULES,
    converse: &converse::RULES,
    // Never translated.
    embeddings: &chat::RULES,
    rerank: &chat::RULES,
};

/// The rules of a format.
pub(crate) fn rules(format: Format) -> &'static FormatRules {
    FORMATS[format]
}

/// A format as that of a client's request; `None` if no client speaks it.
pub(crate) fn source(format: Format) -> Option<&'static SourceRules> {
    Some(rules(format).client?.0)
}

/// A format as that of the answer to a client. Notes of a translation exist for formats of
/// clients only; for another one this is chat.
pub(crate) fn client(format: Format) -> &'static ClientRules {
    rules(format)
        .client
        .map_or(&chat::CLIENT, |(_, client)| client)
}
