//! The endpoints of the public API: one table for dispatch, discovery, documents and tests.

use http::Method;
use tollgate_types::Format;

/// An endpoint of the public API, under the prefix `/v1` or, for clients of Gemini, `/v1beta`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// Status and discovery.
    Status,
    /// The models that the key can use.
    Models,
    /// One of these models.
    Model,
    /// Balance, limits and totals of the key.
    Usage,
    /// The usage of the key, request by request.
    UsageHistory,
    /// Chat completions.
    ChatCompletions,
    /// Responses.
    Responses,
    /// A stored response.
    StoredResponse,
    /// Cancels a stored response.
    CancelResponse,
    /// The input of a stored response.
    ResponseInput,
    /// Counts the input tokens of a responses request.
    InputTokens,
    /// Messages.
    Messages,
    /// Counts the input tokens of a messages request.
    CountTokens,
    /// The models that the key can use, as clients of Gemini read them.
    GeminiModels,
    /// One of these models.
    GeminiModel,
    /// Gemini, answered in one piece.
    GenerateContent,
    /// Gemini, answered as a stream.
    StreamGenerateContent,
    /// Counts the input tokens of a Gemini request.
    GeminiCountTokens,
    /// Vectors of texts.
    Embeddings,
    /// Documents in the order of their relevance to a query.
    Rerank,
    /// A path of a provider that the configuration opens.
    Passthrough,
}

/// One row of the table of endpoints.
#[derive(Debug)]
pub struct EndpointInfo {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// The methods that it accepts: `HEAD` if it accepts `GET`.
    pub methods: &'static [Method],
    /// The exact path; `{id}` is one segment, or the name of a model, which may contain `/`.
    pub path: &'static str,
    /// The wire format, if it has one.
    pub format: Option<Format>,
    /// Its purpose, in a few words.
    pub purpose: &'static str,
}

const READ: &[Method] = &[Method::GET, Method::HEAD];
const READ_OR_DELETE: &[Method] = &[Method::GET, Method::HEAD, Method::DELETE];
const POST: &[Method] = &[Method::POST];

/// The methods that the configuration can allow for a path of a provider.
const ANY: &[Method] = &[
    Method::GET,
    Method::POST,
    Method::PUT,
    Method::PATCH,
    Method::DELETE,
];

impl Endpoint {
    /// The table.
    pub const TABLE: &[EndpointInfo] = &[
        Self::Status.info(),
        Self::Models.info(),
        Self::Model.info(),
        Self::Usage.info(),
        Self::UsageHistory.info(),
        Self::ChatCompletions.info(),
        Self::Responses.info(),
        Self::StoredResponse.info(),
        Self::CancelResponse.info(),
        Self::ResponseInput.info(),
        Self::InputTokens.info(),
        Self::Messages.info(),
        Self::CountTokens.info(),
        Self::GeminiModels.info(),
        Self::GeminiModel.info(),
        Self::GenerateContent.info(),
        Self::StreamGenerateContent.info(),
        Self::GeminiCountTokens.info(),
        Self::Embeddings.info(),
        Self::Rerank.info(),
        Self::Passthrough.info(),
    ];

    /// Its row of the table.
    pub const fn info(self) -> EndpointInfo {
        let (methods, path, purpose) = match self {
            Self::Status => (READ, "/v1", "status and endpoint discovery"),
            Self::Models => (READ, "/v1/models", "the models that the key can use"),
            Self::Model => (READ, "/v1/models/{id}", "one of these models"),
            Self::Usage => (READ, "/v1/usage", "balance, limits and totals of the key"),
            Self::UsageHistory => (
                READ,
                "/v1/usage/history",
                "usage of the key, request by request",
            ),
            Self::ChatCompletions => (POST, "/v1/chat/completions", "chat completions"),
            Self::Responses => (POST, "/v1/responses", "responses"),
            Self::StoredResponse => (
                READ_OR_DELETE,
                "/v1/responses/{id}",
                "a response that the provider stores or the gateway remembers",
            ),
            Self::CancelResponse => (
                POST,
                "/v1/responses/{id}/cancel",
                "cancel a response that the provider stores",
            ),
            Self::ResponseInput => (
                READ,
                "/v1/responses/{id}/input_items",
                "the input of a response that the provider stores",
            ),
            Self::InputTokens => (
                POST,
                "/v1/responses/input_tokens",
                "count the input tokens of a responses request",
            ),
            Self::Messages => (POST, "/v1/messages", "messages"),
            Self::CountTokens => (
                POST,
                "/v1/messages/count_tokens",
                "count the input tokens of a messages request",
            ),
            Self::GeminiModels => (
                READ,
                "/v1beta/models",
                "the models that the key can use, for clients of Gemini",
            ),
            Self::GeminiModel => (READ, "/v1beta/models/{id}", "one of these models"),
            Self::GenerateContent => (
                POST,
                "/v1beta/models/{id}:generateContent",
                "Gemini's generateContent",
            ),
            Self::StreamGenerateContent => (
                POST,
                "/v1beta/models/{id}:streamGenerateContent",
                "the same as a stream; needs `?alt=sse`",
            ),
            Self::GeminiCountTokens => (
                POST,
                "/v1beta/models/{id}:countTokens",
                "count the input tokens of a Gemini request",
            ),
            Self::Embeddings => (POST, "/v1/embeddings", "embeddings"),
            Self::Rerank => (
                POST,
                "/v1/rerank",
                "documents by their relevance to a query; also `/v2/rerank`",
            ),
            Self::Passthrough => (
                ANY,
                "/passthrough/{provider}/{path}",
                "a path of a provider that the configuration opens",
            ),
        };
        EndpointInfo {
            endpoint: self,
            methods,
            path,
            format: self.format(),
            purpose,
        }
    }

    /// Where its answers come from.
    pub const fn kind(self) -> EndpointKind {
        match self {
            Self::Status
            | Self::Models
            | Self::Model
            | Self::Usage
            | Self::UsageHistory
            | Self::GeminiModels
            | Self::GeminiModel => EndpointKind::Local,
            Self::ChatCompletions => EndpointKind::Model(Format::Chat),
            Self::Responses | Self::InputTokens => EndpointKind::Model(Format::Responses),
            Self::Messages | Self::CountTokens => EndpointKind::Model(Format::Messages),
            Self::GenerateContent | Self::StreamGenerateContent | Self::GeminiCountTokens => {
                EndpointKind::Model(Format::Gemini)
            }
            Self::Embeddings => EndpointKind::Model(Format::Embeddings),
            Self::Rerank => EndpointKind::Model(Format::Rerank),
            Self::StoredResponse | Self::CancelResponse | Self::ResponseInput => {
                EndpointKind::Stored(Format::Responses)
            }
            Self::Passthrough => EndpointKind::Passthrough,
        }
    }

    /// Whether a model answers: the request has a body that names it.
    pub const fn is_model_endpoint(self) -> bool {
        matches!(self.kind(), EndpointKind::Model(_))
    }

    /// Whether it only counts the tokens of the request, which is free.
    pub const fn is_count(self) -> bool {
        matches!(
            self,
            Self::InputTokens | Self::CountTokens | Self::GeminiCountTokens
        )
    }

    /// Whether its answers have output tokens.
    pub const fn has_output(self) -> bool {
        !matches!(self, Self::Embeddings | Self::Rerank)
    }

    /// Whether the gateway itself answers.
    pub const fn is_local(self) -> bool {
        matches!(self.kind(), EndpointKind::Local)
    }

    /// Whether its path names an item that a provider stores.
    pub const fn is_stored(self) -> bool {
        matches!(self.kind(), EndpointKind::Stored(_))
    }

    /// The path in the table. Keys can be limited to endpoints by their paths.
    pub const fn path(self) -> &'static str {
        self.info().path
    }

    /// The wire format, if it has one.
    pub const fn format(self) -> Option<Format> {
        match self.kind() {
            EndpointKind::Local if matches!(self, Self::GeminiModels | Self::GeminiModel) => {
                Some(Format::Gemini)
            }
            EndpointKind::Local | EndpointKind::Passthrough => None,
            EndpointKind::Model(format) | EndpointKind::Stored(format) => Some(format),
        }
    }
}

/// Where the answers of an endpoint come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointKind {
    /// The gateway answers.
    Local,
    /// A model answers, or its tokens are counted. The request has a body in this format.
    Model(Format),
    /// A provider returns an item that it stores, in this format.
    Stored(Format),
    /// One provider answers. The gateway reads neither the body of the request nor that of the answer.
    Passthrough,
}

#[cfg(test)]
mod tests {
    use super::{Endpoint, Method};

    #[test]
    fn head_is_answered_wherever_get_is() {
        let rows = Endpoint::TABLE.iter();
        for row in rows.filter(|row| row.endpoint != Endpoint::Passthrough) {
            let has = |method| row.methods.contains(&method);
            assert_eq!(has(Method::GET), has(Method::HEAD), "{row:?}");
        }
    }

    #[test]
    fn no_path_stands_twice() {
        for row in Endpoint::TABLE {
            let same = Endpoint::TABLE
                .iter()
                .filter(|other| other.path == row.path);
            assert_eq!(same.count(), 1, "{row:?}");
        }
    }
}
