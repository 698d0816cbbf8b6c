//! Which keys mean what, and where: the shapes of the three formats as far as the
//! gateway reads them. One table per kind of object.

use super::walk::Checked;
use tollgate_types::{Format, is_free_of_tokens};

/// The object or array around a value, as far as it matters to its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// An array; its elements are all of one slot.
    Array,
    /// The body itself.
    Top,
    /// A message, an item, a content part or anything else within them.
    Node,
    /// The same, directly in `input` or in a list of skills: its `id` may be all it has.
    Item,
    /// What holds a payload or a link to one: `image_url`, `input_audio`, `file` …
    Payload,
    /// Messages: the `source` of an image or a document.
    Source,
    /// A tool that is offered: its `type` says who runs it.
    Offered,
    /// A part of one.
    Tool,
    /// Chat: what a tool of the type `function` is.
    Function,
    StreamOptions,
    Reasoning,
    Thinking,
    OutputConfig,
    TextConfig,
    AnswerFormat,
    /// An object that matters for its `id` alone.
    Reference,
    /// Messages: the container, with the skills loaded into it.
    Container,
    /// Responses: a prompt template stored at the provider.
    Prompt,
    /// What an SDK should have put into the body itself (`extra_body`).
    Extra,
    /// Settings for the layers of a provider that is a gateway itself (`providerOptions`).
    ProviderOptions,
    /// Those of the gateway.
    GatewayOptions,
    /// What a provider that is a gateway itself does besides.
    Plugin,
    /// Names models besides `model`, if anything is in it; the path of the field.
    FurtherModels(&'static str),
    /// xAI: how to search.
    Search,
}

/// What a value means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    /// Nothing to the gateway, whatever is within.
    Ignored,
    /// JSON that the model reads as JSON.
    Json,
    /// Text, a node, or an array of these.
    Content,
    /// The same, of the `content` of a node.
    Said,
    /// The same, in the list of a responses request's items.
    Item,
    /// The same, of an item's `status`: how far it has come, and nothing of what it holds.
    Status,
    /// Text that may be a seal of the gateway's.
    Seal,
    /// The list of messages.
    Messages,
    /// A responses request's text or list of items.
    Input,
    /// Messages of the past that are calls of tools.
    ToolCalls,
    /// The `type` of a node.
    Type,
    /// The `role` of a message.
    Role,
    /// The `id` of an item.
    ItemId,
    /// A payload: base64 or an object that holds it.
    Payload(Medium),
    /// A link that may be a `data:` URL, or an object that holds one.
    Link(Medium),
    /// A payload of which the `type` beside it says whether it is text.
    MaybePayload,
    /// Messages: an object that holds a payload, a link or text.
    Source,
    /// The identifier of something stored at the provider, or several.
    StoredId,
    /// The same, or an object that has it as its `id`.
    Reference,
    Container,
    Skills,
    Prompt,
    /// A part of a tool.
    Tool,
    /// The list of the tools that are offered.
    Tools,
    /// Chat: the same in its older form.
    Functions,
    /// The `function` of one of them.
    Function,
    /// The name of one of them.
    ToolName,
    /// The `type` of one of them.
    ToolType,
    /// The model that one of them names.
    ToolModel,
    /// What has the provider run tools of its own, where it asks for anything.
    HostedTools,
    /// What makes the prompt of the messages.
    Template,
    /// The same as `HostedTools`, unless its `mode` is `off`.
    Search,
    Model,
    Stream,
    Limit(Limit),
    /// An output limit by a name that is not the format's own.
    OtherLimit(&'static str),
    /// How many answers are made.
    Choices(&'static str),
    /// What names models besides `model`; the path of the field.
    FurtherModels(&'static str),
    /// What a provider does besides: tools of its own.
    Plugins,
    /// The name of one of them.
    PluginId,
    /// Whether the object is to do anything (`enabled: false`, `mode: off`).
    Switch,
    /// An object that is looked into for a few keys.
    Within(Place),
    StreamOptions,
    IncludeUsage,
    Reasoning,
    Effort(EffortField),
    Thinking,
    ThinkingType,
    ThinkingBudget,
    OutputConfig,
    TextConfig,
    AnswerFormat,
    AnswerFormatType,
    Modalities,
    AudioOutput,
    Background,
    Store,
    Thread,
    /// `prompt_cache_key`: the name of a conversation.
    CacheKey,
    /// A setting that is checked and otherwise not acted on.
    Checked(Checked),
}

/// What a payload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Medium {
    Image,
    Document,
    Audio,
    Other,
}

/// The fields that limit the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    Tokens,
    CompletionTokens,
    OutputTokens,
}

impl Limit {
    pub(super) const fn field(self) -> &'static str {
        match self {
            Self::Tokens => "max_tokens",
            Self::CompletionTokens => "max_completion_tokens",
            Self::OutputTokens => "max_output_tokens",
        }
    }
}

/// The fields that ask for an effort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EffortField {
    /// Chat.
    ReasoningEffort,
    /// Responses; in chat some providers know it too.
    Reasoning,
    /// Messages.
    OutputConfig,
}

impl EffortField {
    pub(super) const fn field(self) -> &'static str {
        match self {
            Self::ReasoningEffort => "reasoning_effort",
            Self::Reasoning => "reasoning.effort",
            Self::OutputConfig => "output_config.effort",
        }
    }

    /// Whether this is where the format itself has the effort.
    pub(super) const fn is_of(self, format: Format) -> bool {
        matches!(
            (self, format),
            (Self::ReasoningEffort, Format::Chat)
                | (Self::Reasoning, Format::Responses)
                | (Self::OutputConfig, Format::Messages)
        )
    }
}

impl Place {
    /// What the value of a key means here.
    pub(super) fn slot(self, format: Format, key: &[u8]) -> Slot {
        match self {
            Self::Array => Slot::Ignored,
            Self::Top => top(format, key),
            Self::Node => node(format, key),
            Self::Item => match key {
                b"id" | b"skill_id" => Slot::ItemId,
                b"status" => Slot::Status,
                _ => node(format, key),
            },
            Self::Payload => payload(key),
            Self::Source => source(key),
            Self::Offered => match key {
                b"type" => Slot::ToolType,
                // A namespace of tools.
                b"tools" => Slot::Tools,
                b"model" => Slot::ToolModel,
                b"function" => Slot::Function,
                b"name" => Slot::ToolName,
                _ => tool(key),
            },
            Self::Tool => tool(key),
            Self::Function => match key {
                b"name" => Slot::ToolName,
                _ => tool(key),
            },
            Self::StreamOptions => match (format, key) {
                (Format::Chat, b"include_usage") => Slot::IncludeUsage,
                _ => Slot::Ignored,
            },
            Self::Reasoning => match key {
                b"effort" => Slot::Effort(EffortField::Reasoning),
                _ => Slot::Ignored,
            },
            Self::Thinking => match key {
                b"type" => Slot::ThinkingType,
                b"budget_tokens" => Slot::ThinkingBudget,
                _ => Slot::Ignored,
            },
            Self::OutputConfig => match key {
                b"effort" => Slot::Effort(EffortField::OutputConfig),
                b"format" => Slot::AnswerFormat,
                _ => Slot::Ignored,
            },
            Self::TextConfig => match key {
                b"format" => Slot::AnswerFormat,
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
            Self::Extra => match top(format, key) {
                Slot::Checked(_) => Slot::Ignored,
                slot => slot,
            },
            Self::ProviderOptions => match key {
                b"gateway" => Slot::Within(Self::GatewayOptions),
                _ => Slot::Ignored,
            },
            Self::GatewayOptions => match key {
                b"models" => Slot::FurtherModels("providerOptions.gateway.models"),
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
            Self::Search => match key {
                b"mode" => Slot::Switch,
                _ => Slot::Ignored,
            },
        }
    }
}

fn top(format: Format, key: &[u8]) -> Slot {
    match (format, key) {
        (_, b"model") => Slot::Model,
        (_, b"stream") => Slot::Stream,
        (_, b"tools") => Slot::Tools,
        (Format::Chat, b"functions") => Slot::Functions,

        (Format::Messages, b"mcp_servers") => Slot::HostedTools,

        (Format::Chat, b"messages") => Slot::Messages,
        (Format::Chat, b"max_tokens") => Slot::Limit(Limit::Tokens),
        (Format::Chat, b"max_completion_tokens") => Slot::Limit(Limit::CompletionTokens),
        (Format::Chat, b"n") => Slot::Choices("n"),
        (Format::Chat, b"reasoning_effort") => Slot::Effort(EffortField::ReasoningEffort),
        (Format::Chat, b"response_format") => Slot::AnswerFormat,
        (Format::Chat, b"modalities") => Slot::Modalities,
        (Format::Chat, b"audio") => Slot::AudioOutput,
        (Format::Chat, b"prediction") => Slot::Content,
        (Format::Chat | Format::Responses, b"stream_options") => Slot::StreamOptions,
        (Format::Chat | Format::Responses, b"reasoning") => Slot::Reasoning,
        (Format::Chat | Format::Responses, b"prompt_cache_key") => Slot::CacheKey,

        (Format::Responses, b"input") => Slot::Input,
        (Format::Responses, b"instructions") => Slot::Content,
        (Format::Responses, b"max_output_tokens") => Slot::Limit(Limit::OutputTokens),
        (Format::Responses, b"text") => Slot::TextConfig,
        (Format::Responses, b"background") => Slot::Background,
        (Format::Responses, b"store") => Slot::Store,
        (Format::Responses, b"previous_response_id" | b"conversation") => Slot::Reference,
        (Format::Responses, b"prompt") => Slot::Prompt,

        (Format::Messages, b"messages") => Slot::Messages,
        (Format::Messages, b"system") => Slot::Content,
        (Format::Messages, b"max_tokens") => Slot::Limit(Limit::Tokens),
        (Format::Messages, b"thinking") => Slot::Thinking,
        (Format::Messages, b"output_config") => Slot::OutputConfig,
        (Format::Messages, b"output_format") => Slot::AnswerFormat,
        (Format::Messages, b"container") => Slot::Container,
        (Format::Messages, b"thread") => Slot::Thread,
        _ => match Checked::of(format, key) {
            Some(checked) => Slot::Checked(checked),
            None => of_servers(key),
        },
    }
}

/// Fields of no format's, that servers which speak one take besides, in any of them: several
/// make a chat request of whatever they are sent, and pass on what they do not know.
///
/// Output limits and numbers of answers: llama.cpp (`n_predict` and `n_cmpl`, whose aliases are
/// the names of chat), Ollama, text-generation-inference and its like,
/// text-generation-webui (`auto_max_new_tokens`), `KoboldCpp` and
/// `TabbyAPI` (`max_length`), vLLM (`best_of`), and the names that the formats have from each
/// other. Models: OpenRouter, `LiteLLM`, NanoGPT, the messages format, and Vercel's gateway. Input
/// from elsewhere: OpenRouter, xAI, Azure, `DashScope`.
fn of_servers(key: &[u8]) -> Slot {
    match key {
        b"max_tokens" => Slot::OtherLimit("max_tokens"),
        b"max_completion_tokens" => Slot::OtherLimit("max_completion_tokens"),
        b"max_output_tokens" => Slot::OtherLimit("max_output_tokens"),
        b"n_predict" => Slot::OtherLimit("n_predict"),
        b"num_predict" => Slot::OtherLimit("num_predict"),
        b"max_new_tokens" => Slot::OtherLimit("max_new_tokens"),
        b"max_length" => Slot::OtherLimit("max_length"),
        b"auto_max_new_tokens" => Slot::OtherLimit("auto_max_new_tokens"),
        b"max_tokens_to_sample" => Slot::OtherLimit("max_tokens_to_sample"),
        b"maxTokens" => Slot::OtherLimit("maxTokens"),

        b"n" => Slot::Choices("n"),
        b"n_cmpl" => Slot::Choices("n_cmpl"),
        b"best_of" => Slot::Choices("best_of"),

        b"models" => Slot::FurtherModels("models"),
        b"route" => Slot::FurtherModels("route"),
        b"preset" => Slot::FurtherModels("preset"),
        b"fallbacks" => Slot::FurtherModels("fallbacks"),
        b"context_window_fallbacks" => Slot::FurtherModels("context_window_fallbacks"),
        b"content_policy_fallbacks" => Slot::FurtherModels("content_policy_fallbacks"),
        b"user_config" => Slot::FurtherModels("user_config"),
        b"router_settings_override" => Slot::FurtherModels("router_settings_override"),
        b"advisor" => Slot::FurtherModels("advisor"),
        b"providerOptions" => Slot::Within(Place::ProviderOptions),
        b"extra_body" => Slot::Within(Place::Extra),

        b"plugins" => Slot::Plugins,
        b"chat_template" => Slot::Template,
        b"search_parameters" => Slot::Search,
        b"web_search_options" | b"data_sources" | b"enable_search" => Slot::HostedTools,
        _ if is_free_of_tokens(key) => Slot::Ignored,
        // A chat template may read it.
        _ => Slot::Json,
    }
}

fn node(format: Format, key: &[u8]) -> Slot {
    match (format, key) {
        (_, b"type") => Slot::Type,
        (_, b"role") => Slot::Role,
        (_, b"content") => Slot::Said,
        (_, b"tools") => Slot::Tools,
        (_, b"file_id" | b"container_id") => Slot::StoredId,
        (Format::Messages, b"source") => Slot::Source,
        // Where each format keeps what only a provider can read.
        (Format::Messages, b"signature" | b"data" | b"encrypted_content" | b"encrypted_index")
        | (Format::Responses, b"encrypted_content")
        | (Format::Chat, b"data") => Slot::Seal,
        // A tool call of messages, and a tool search of responses.
        (Format::Messages, b"input") | (Format::Responses, b"arguments") => Slot::Json,
        (Format::Messages, _) => Slot::Content,

        (_, b"image_url") => Slot::Link(Medium::Image),
        (_, b"file_url" | b"document_url") => Slot::Link(Medium::Document),
        (_, b"audio_url") => Slot::Link(Medium::Audio),
        (_, b"video_url") => Slot::Link(Medium::Other),
        (_, b"input_audio") => Slot::Payload(Medium::Audio),
        (_, b"file_data") => Slot::Payload(Medium::Document),
        (Format::Chat, b"file") => Slot::Payload(Medium::Document),
        (Format::Chat, b"tool_calls" | b"function_call") => Slot::ToolCalls,
        // An answer in sound that the provider keeps, named by its id.
        (Format::Chat, b"audio") => Slot::Reference,
        (Format::Responses, b"result") => Slot::MaybePayload,
        _ => Slot::Content,
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
