//! The meaning of keys and values of a request, and the tables that the formats share.
//! The tables of a format itself stand in `formats/*.rs`.

use super::extensions;
use crate::formats::rules::FormatRules;

/// The object or array around a value: it decides what keys mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Location {
    /// An array; all its elements have one slot.
    Array,
    /// The body itself.
    Top,
    /// A message, an item, a content part, or anything else within them.
    Node,
    /// The same, directly in the list of items or in a list of skills: it can consist of its
    /// `id` alone.
    Item,
    /// An object with a payload or a link to one: `image_url`, `input_audio`, `file` …
    Payload,
    /// The `source` of an image or a document.
    Source,
    /// An object with a payload or the address of a file, and its media type.
    Blob,
    /// A tool that the request offers: its `type` says whether the provider runs it.
    Offered,
    /// A part of a tool.
    Tool,
    /// A tool of Google's, or a part of one.
    HostedTool,
    /// The `function` of a tool of that type.
    Function,
    StreamOptions,
    Thinking,
    AnswerFormat,
    /// Another object of settings.
    Table(Table),
    /// The same, where the output limit is one of the keys.
    OutputSettings(Table),
    /// An object of which only the `id` matters.
    Reference,
    /// A container, with the skills loaded into it.
    Container,
    /// A prompt template stored at the provider.
    Prompt,
    /// Members that an SDK should have put into the body itself (`extra_body`).
    Extra,
    /// Members of Gemini's format in a chat request.
    Google,
    /// Settings for the layers of a provider that is a gateway itself (`providerOptions`).
    ProviderOptions,
    /// The settings of the gateway layer.
    GatewayOptions,
    /// A plugin of a provider that is a gateway itself.
    Plugin,
    /// An object that names models besides `model`, if it has a member; the path of the field.
    FurtherModels(&'static str),
    /// An object that chooses among the providers of a gateway, if it has a member; the path of the field.
    Place(&'static str),
    /// How to search (xAI).
    Search,
    /// A whole request within a request that only asks for a count of its tokens (Gemini).
    Counted,
}

/// The meaning of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// Nothing, whatever it contains.
    Ignored,
    /// JSON that the model reads as JSON.
    Json,
    /// Text, a node, or an array of these.
    Content,
    /// The query of a rerank.
    Query,
    /// The `content` of a node.
    NodeContent,
    /// An entry of a list of items.
    Item,
    /// The `status` of an item: it says how far the item has come, not what it contains.
    Status,
    /// Text that may be a seal of the gateway.
    Seal,
    /// The conversation: a list, or in some formats a text.
    Conversation,
    /// Tool calls in messages of the past.
    ToolCalls,
    /// The `type` of a node.
    Type,
    /// The `role` of a message.
    Role,
    /// The `id` of an item.
    ItemId,
    /// A payload: base64 or an object with base64 in it.
    Payload(Medium),
    /// A link that may be a `data:` URL, or an object with such a link in it.
    Link(Medium),
    /// A payload that is text if the `type` beside it says so.
    MaybePayload,
    /// An object with a payload, a link or text in it.
    Source,
    /// An object with a payload or the address of a file, and its media type.
    Blob,
    /// That media type.
    MediaType,
    /// The identifier of something stored at the provider, or several.
    StoredId,
    /// The address of a file, which can be one that Google stores.
    FileUri,
    /// The same, or an object with it as `id`.
    Reference,
    Container,
    Skills,
    Prompt,
    /// A part of a tool.
    Tool,
    /// The list of tools that the request offers.
    Tools,
    /// The same in its older form.
    Functions,
    /// The `function` of a tool.
    Function,
    /// The name of a tool.
    ToolName,
    /// The `type` of a tool.
    ToolType,
    /// The model that a tool names.
    ToolModel,
    /// Has the provider run its own tools, unless the value is empty.
    HostedTools,
    /// The template that turns the messages into the prompt.
    Template,
    /// The same as `HostedTools`, unless its `mode` is `off`.
    Search,
    Model,
    /// A model that must equal the model of the path; the name of its field.
    PathModel(&'static str),
    Stream,
    /// The output limit of the format.
    OutputLimit,
    /// An older field for the output limit.
    OlderOutputLimit(&'static str),
    /// An output limit under a name that the format does not define.
    OtherLimit(&'static str),
    /// The number of answers; the field.
    Choices(&'static str),
    /// Names models besides `model`; the path of the field.
    FurtherModels(&'static str),
    /// Additional work of the provider: its own tools.
    Plugins,
    /// The name of a plugin.
    PluginId,
    /// Turns the object off (`enabled: false`, `mode: off`).
    Switch,
    /// The kind of a change that the provider makes in a long conversation.
    ChangeKind,
    /// An object in which a few keys matter, or a list of them.
    Within(Location),
    /// An object of settings.
    Settings(&'static Settings),
    IncludeUsage,
    /// Asks for thinking, unless the value is empty.
    Thinks,
    /// The expected answer, which the model reads.
    Prediction,
    /// How hard the model thinks; the path of the field.
    Effort(&'static str),
    ThinkingType,
    ThinkingBudget,
    AnswerFormatType,
    /// The media type of the answer.
    AnswerMediaType,
    Seed,
    Modalities,
    AudioOutput,
    /// How fast the answer comes; the field.
    Tier(&'static str),
    /// Where the model runs.
    InferenceGeo,
    /// Chooses among the providers of a gateway; the path of the field.
    Place(&'static str),
    /// Asks for an id instead of an answer; the field.
    Background(&'static str),
    Store,
    Thread,
    /// `prompt_cache_key`: the name of a conversation.
    CacheKey,
    /// A setting that is only checked.
    Checked(Checked),
}

/// The kind of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Medium {
    Image,
    Document,
    Audio,
    Other,
}

/// An object of settings: a key of the body means it, or of other settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// The path of the field.
    pub(crate) field: &'static str,
    pub(crate) location: Location,
}

/// The meaning of keys in an object of which only a few matter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table(pub(crate) fn(&[u8]) -> Slot);

impl PartialEq for Table {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::fn_addr_eq(self.0, other.0)
    }
}

impl Eq for Table {}

/// A field of the body that is only checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checked {
    Temperature,
    TopP,
    PresencePenalty,
    FrequencyPenalty,
    ParallelToolCalls,
    /// A string or an object.
    ToolChoice,
    /// An object.
    ToolChoiceObject,
    Stop,
    StopSequences,
}

/// A change that the provider makes in a long conversation, of `context_management`.
pub(crate) const CHANGE: Slot = Slot::Within(Location::Table(Table(|key| match key {
    b"type" => Slot::ChangeKind,
    _ => Slot::Json,
})));

/// An object whose other members are read as JSON, if at all: arguments of a chat template, or settings of Gemini in
/// a chat request.
pub(super) const THINKING_ARGUMENTS: Slot = Slot::Within(Location::Table(Table(|key| match key {
    b"enable_thinking" | b"reasoning_effort" | b"thinking" | b"thinkingBudget"
    | b"thinkingLevel" | b"thinking_budget" | b"thinking_level" => Slot::Thinks,
    _ => Slot::Json,
})));

impl Location {
    /// The meaning of the value of a key at this place.
    pub(super) fn slot(self, format: &FormatRules, key: &[u8]) -> Slot {
        match self {
            Self::Array => Slot::Ignored,
            Self::Top => (format.request.top)(key),
            Self::Node => (format.request.node)(key),
            Self::Item => match key {
                b"id" | b"skill_id" => Slot::ItemId,
                b"status" => Slot::Status,
                _ => (format.request.node)(key),
            },
            Self::Payload => payload(key),
            Self::Source => source(key),
            Self::Blob => match key {
                b"mimeType" | b"mime_type" => Slot::MediaType,
                b"data" => Slot::MaybePayload,
                b"fileUri" | b"file_uri" => Slot::FileUri,
                _ => Slot::Content,
            },
            Self::Offered => match key {
                b"functionDeclarations" | b"function_declarations" => Slot::Tool,
                _ if format.request.tools.kind_is_key => Slot::HostedTools,
                b"type" => Slot::ToolType,
                // A namespace of tools.
                b"tools" => Slot::Tools,
                b"model" => Slot::ToolModel,
                b"function" => Slot::Function,
                b"name" => Slot::ToolName,
                _ => tool(key),
            },
            Self::Tool => tool(key),
            Self::HostedTool => match key {
                b"dataStore"
                | b"data_store"
                | b"datastore"
                | b"engine"
                | b"fileSearchStoreNames"
                | b"file_search_store_names"
                | b"ragCorpora"
                | b"rag_corpora"
                | b"ragCorpus"
                | b"rag_corpus"
                | b"ragFileIds"
                | b"rag_file_ids" => Slot::StoredId,
                _ => Slot::Within(Self::HostedTool),
            },
            Self::Function => match key {
                b"name" => Slot::ToolName,
                _ => tool(key),
            },
            Self::StreamOptions => match key {
                b"include_usage" if format.usage.is_on_request => Slot::IncludeUsage,
                _ => Slot::Ignored,
            },
            Self::Table(table) | Self::OutputSettings(table) => (table.0)(key),
            Self::Thinking => match key {
                b"type" => Slot::ThinkingType,
                b"budget_tokens" => Slot::ThinkingBudget,
                _ => Slot::Ignored,
            },
            Self::AnswerFormat => match key {
                b"type" => Slot::AnswerFormatType,
                b"schema" | b"json_schema" => Slot::Json,
                _ => Slot::Ignored,
            },
            Self::Reference => match key {
                b"id" => Slot::StoredId,
                _ => Slot::Ignored,
            },
            Self::Container => match key {
                b"id" => Slot::StoredId,
                b"skills" => Slot::Skills,
                _ => Slot::Ignored,
            },
            Self::Prompt => match key {
                b"id" => Slot::StoredId,
                b"variables" => Slot::Content,
                _ => Slot::Ignored,
            },
            Self::Extra => match (format.request.top)(key) {
                Slot::Checked(_) => Slot::Ignored,
                slot => slot,
            },
            Self::Google => match key {
                b"cachedContent" | b"cached_content" => Slot::StoredId,
                b"thinkingConfig" | b"thinking_config" => THINKING_ARGUMENTS,
                _ => Slot::Json,
            },
            Self::ProviderOptions => match key {
                b"gateway" => Slot::Within(Self::GatewayOptions),
                _ => Slot::Ignored,
            },
            Self::GatewayOptions => match key {
                b"models" => Slot::FurtherModels("providerOptions.gateway.models"),
                b"only" => Slot::Place("providerOptions.gateway.only"),
                b"order" => Slot::Place("providerOptions.gateway.order"),
                b"sort" => Slot::Place("providerOptions.gateway.sort"),
                _ => Slot::Ignored,
            },
            Self::Plugin => match key {
                b"model" | b"models" | b"analysis_models" | b"allowed_models" => {
                    Slot::FurtherModels("plugins[].model")
                }
                b"id" => Slot::PluginId,
                b"enabled" => Slot::Switch,
                _ => Slot::Ignored,
            },
            Self::FurtherModels(field) => Slot::FurtherModels(field),
            Self::Place(field) => Slot::Place(field),
            Self::Search => match key {
                b"mode" => Slot::Switch,
                _ => Slot::Ignored,
            },
            Self::Counted => match key {
                b"model" => Slot::PathModel("generateContentRequest.model"),
                _ => (format.request.top)(key),
            },
        }
    }
}

/// The meaning of a key of the body in every format, or as an extension.
pub(crate) fn top(key: &[u8]) -> Slot {
    match key {
        b"model" => Slot::Model,
        b"stream" => Slot::Stream,
        b"tools" => Slot::Tools,
        b"temperature" => Slot::Checked(Checked::Temperature),
        b"top_p" => Slot::Checked(Checked::TopP),
        b"seed" => Slot::Seed,
        _ => extensions::slot(key),
    }
}

/// The meaning of a key of a node in every format.
pub(crate) fn node(key: &[u8]) -> Slot {
    match key {
        b"type" => Slot::Type,
        b"role" => Slot::Role,
        b"content" => Slot::NodeContent,
        b"tools" => Slot::Tools,
        b"file_id" | b"container_id" => Slot::StoredId,
        _ => Slot::Content,
    }
}

/// `stream_options` and `reasoning` in the formats of OpenAI.
pub(crate) static STREAM_OPTIONS: Settings = Settings {
    field: "stream_options",
    location: Location::StreamOptions,
};
pub(crate) static REASONING: Settings = Settings {
    field: "reasoning",
    location: Location::Table(Table(|key| match key {
        b"effort" => Slot::Effort("reasoning.effort"),
        b"enabled" | b"max_tokens" | b"mode" => Slot::Thinks,
        _ => Slot::Ignored,
    })),
};

/// The meaning of a key of a node in the formats of OpenAI.
pub(crate) fn openai_node(key: &[u8]) -> Slot {
    match key {
        b"image_url" => Slot::Link(Medium::Image),
        b"file_url" | b"document_url" => Slot::Link(Medium::Document),
        b"audio_url" => Slot::Link(Medium::Audio),
        b"video_url" => Slot::Link(Medium::Other),
        b"input_audio" => Slot::Payload(Medium::Audio),
        b"file_data" => Slot::Payload(Medium::Document),
        _ => node(key),
    }
}

fn payload(key: &[u8]) -> Slot {
    match key {
        b"url" => Slot::Link(Medium::Other),
        b"data" | b"file_data" => Slot::Payload(Medium::Other),
        b"file_id" => Slot::StoredId,
        _ => Slot::Content,
    }
}

fn source(key: &[u8]) -> Slot {
    match key {
        b"type" => Slot::Type,
        b"data" => Slot::MaybePayload,
        b"file_id" => Slot::StoredId,
        _ => Slot::Content,
    }
}

fn tool(key: &[u8]) -> Slot {
    match key {
        b"parameters" | b"input_schema" | b"output_schema" | b"schema" | b"input_examples"
        | b"format" | b"filters" => Slot::Json,
        b"file_id" | b"file_ids" | b"container" | b"container_id" | b"vector_store_ids"
        | b"skill_id" => Slot::StoredId,
        _ => Slot::Tool,
    }
}
