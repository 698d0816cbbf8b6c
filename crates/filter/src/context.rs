//! The request as filters see it.

use crate::{Endpoint, ModelHandle};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use std::{fmt, net::IpAddr, sync::Arc};
use tollgate_types::{
    AdmissionGuard, Format, Identity, InputCount, RequestFacts, RequestId, ReservationGuard,
    StoredAt,
};

/// The head of the request as the caller sent it, borrowed from the connection.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// The method.
    pub method: &'a Method,
    /// The path, without the query.
    pub path: &'a str,
    /// The headers, untouched. What of them goes upstream is not decided here: the
    /// gateway builds the upstream's head from an allow-list.
    pub headers: &'a HeaderMap,
}

/// What is known of a request so far. Each filter reads what it needs and adds what it found.
pub struct RequestContext {
    /// The request's identifier, on every answer and in every log line.
    pub id: RequestId,
    /// The endpoint that was asked.
    pub endpoint: Endpoint,
    /// The client's address, where it is known.
    pub client: Option<IpAddr>,
    /// The one credential of the request, normalized; taken by the `key` filter.
    pub credential: Option<Secret>,
    /// Who asks.
    pub identity: Option<Arc<Identity>>,
    /// What one pass over the body found; `None` before the body was read.
    pub facts: Option<RequestFacts>,
    /// The body, while filters run that may have it counted.
    pub body: Option<Bytes>,
    /// How many tokens the input has, where it was counted.
    pub input: Option<InputCount>,
    /// Where the things are stored that the request names: only there can it be answered.
    pub stored_at: Option<StoredAt>,
    /// The input that they make, in tokens; `None`: the size of one of them is not known.
    pub stored_tokens: Option<u64>,
    /// Which model answers.
    pub route: Option<Route>,
    /// Headers to send to the provider, beyond those that the gateway sets itself.
    pub upstream_headers: Vec<(HeaderName, HeaderValue)>,
    /// Headers to put on the answer.
    pub answer_headers: Vec<(HeaderName, HeaderValue)>,
    /// The output limit that goes upstream instead of the caller's, in tokens of each answer.
    pub output_limit: Option<u64>,
    /// The output tokens that are reserved for each answer. No provider gets a greater output limit.
    pub reserved_output: Option<u64>,
    /// What the request has taken of its key's limits.
    pub admission: Option<Box<dyn AdmissionGuard>>,
    /// The tokens that are reserved for the request.
    pub reservation: Option<Box<dyn ReservationGuard>>,
}

impl RequestContext {
    /// A request of which only the address is known.
    pub fn new(id: RequestId, endpoint: Endpoint, client: Option<IpAddr>) -> Self {
        Self {
            id,
            endpoint,
            client,
            credential: None,
            identity: None,
            facts: None,
            body: None,
            input: None,
            stored_at: None,
            stored_tokens: Some(0),
            route: None,
            upstream_headers: Vec::new(),
            answer_headers: Vec::new(),
            output_limit: None,
            reserved_output: None,
            admission: None,
            reservation: None,
        }
    }

    /// The caller's wire format, where the endpoint has one.
    pub const fn format(&self) -> Option<Format> {
        self.endpoint.format()
    }
}

/// Which model answers a request.
#[derive(Clone, Debug)]
pub struct Route {
    /// The model in the catalog of this request's configuration.
    pub model: ModelHandle,
    /// Its identifier, for logs, metrics and the `x-model` header.
    pub model_id: Arc<str>,
    /// Why this model, if the gateway chose it (`auto`).
    pub reason: Option<Arc<str>>,
}

/// A text that must not be printed.
#[derive(Clone)]
pub struct Secret(Box<str>);

impl Secret {
    /// Hides a text.
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// The hidden text.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}
