//! A request as filters see it.

use crate::{Endpoint, ModelHandle};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use std::{fmt, net::IpAddr, sync::Arc};
use tollgate_types::{
    AdmissionGuard, ErrorCode, Format, Identity, InputCount, PublicError, RequestFacts, RequestId,
    ReservationGuard, StoredAt, Tariff, Usage,
};

/// The head of a request as the client sent it.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// The method.
    pub method: &'a Method,
    /// The path, without the query.
    pub path: &'a str,
    /// The headers. The provider gets none of them as they are: the gateway builds the head that it
    /// sends from an allow-list and from [`RequestContext::upstream_headers`].
    pub headers: &'a HeaderMap,
}

/// The state of a request that filters share. Each filter reads what it needs and adds what it finds.
pub struct RequestContext {
    /// The request's id: a header of every answer, and a field of every log line.
    pub id: RequestId,
    /// The endpoint of the request.
    pub endpoint: Endpoint,
    /// The client's address, if it is known.
    pub client: Option<IpAddr>,
    /// The API key that the client sent. Set by `headers`, taken by `key`.
    pub credential: Option<Secret>,
    /// The key's holder and permissions. Set by `key`.
    pub identity: Option<Arc<Identity>>,
    /// See [`Self::facts`].
    facts: Option<RequestFacts>,
    /// The body, for counting its tokens.
    pub body: Option<Bytes>,
    /// The number of input tokens, if it was counted. Set by `context` or `quota`.
    pub input: Option<InputCount>,
    /// The provider and credential that store the items that the request names: no other provider can answer
    /// it. Set by `stored`.
    pub stored_at: Option<StoredAt>,
    /// The input tokens of the stored items. `None` if the size of one is unknown.
    pub stored_tokens: Option<u64>,
    /// The model that answers. Set by `model`.
    pub route: Option<Route>,
    /// The charge, if it depends neither on the content of the request nor on that of its answer.
    pub fixed: Option<FixedCharge>,
    /// Headers for the provider, in addition to those that the gateway sets.
    pub upstream_headers: Vec<(HeaderName, HeaderValue)>,
    /// Headers for the answer.
    pub answer_headers: Vec<(HeaderName, HeaderValue)>,
    /// The output limit that the provider gets instead of the client's, in tokens of each answer. Set by
    /// `quota`.
    pub output_limit: Option<u64>,
    /// The output tokens that are reserved for each answer: no provider gets a higher limit. Set by
    /// `quota`.
    pub reserved_output: Option<u64>,
    /// The part of its key's limits that the request uses. Set by `limits`; dropping it gives it back.
    pub admission: Option<Box<dyn AdmissionGuard>>,
    /// The tokens that are reserved on its key's balance. Set by `quota`.
    pub reservation: Option<Box<dyn ReservationGuard>>,
    /// State that a filter keeps for this request, by its type.
    pub extensions: http::Extensions,
}

impl RequestContext {
    /// A request that no filter has seen.
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
            fixed: None,
            route: None,
            upstream_headers: Vec::new(),
            answer_headers: Vec::new(),
            output_limit: None,
            reserved_output: None,
            admission: None,
            reservation: None,
            extensions: http::Extensions::new(),
        }
    }

    /// The holder of the request's key.
    ///
    /// # Errors
    ///
    /// No filter has set it. A filter that uses it must declare `after: &["key"]`.
    pub fn identity(&self) -> Result<&Arc<Identity>, PublicError> {
        let identity = self.identity.as_ref();
        identity.ok_or_else(|| PublicError::new(ErrorCode::InternalError, "the request has no key"))
    }

    /// The settings that the body has. Read-only: the request that is sent and its settlement follow the body,
    /// so a change here would reach neither.
    ///
    /// ```compile_fail,E0616
    /// # use tollgate_filter::RequestContext;
    /// fn stream(request: &mut RequestContext) {
    ///     if let Some(facts) = &mut request.facts {
    ///         facts.stream = true;
    ///     }
    /// }
    /// ```
    ///
    /// # Errors
    ///
    /// The body was not read. A filter that uses the facts must declare `Phases::BODY`.
    pub fn facts(&self) -> Result<&RequestFacts, PublicError> {
        let facts = self.facts.as_ref();
        facts.ok_or_else(|| PublicError::new(ErrorCode::InternalError, "the body was not read"))
    }

    /// The settings that the body has. `None` if the body was not read.
    pub const fn facts_if_read(&self) -> Option<&RequestFacts> {
        self.facts.as_ref()
    }

    /// The model name that the request asks for: its own, or else `default_model`.
    pub fn model_asked(&self) -> Option<&str> {
        let named = self.facts.as_ref().and_then(|facts| facts.model.as_deref());
        named.or_else(|| self.route.as_ref()?.default_name.as_deref())
    }

    /// Sets what the body asks for. The gateway does so before the filters that see the body; filters
    /// must not.
    pub fn set_facts(&mut self, facts: RequestFacts) {
        self.facts = Some(facts);
    }

    /// The client's wire format, if the endpoint has one.
    pub const fn format(&self) -> Option<Format> {
        self.endpoint.format()
    }
}

/// The model that answers a request.
#[derive(Clone, Debug)]
pub struct Route {
    /// The model in the catalog of the request's configuration.
    pub model: ModelHandle,
    /// Its id, for logs, metrics and the `x-model` header.
    pub model_id: Arc<str>,
    /// Why this model, if the gateway chose it (`auto`).
    pub reason: Option<Arc<str>>,
    /// The name of `default_model`, if the request names no model.
    pub default_name: Option<Arc<str>>,
}

/// A charge that the configuration fixes.
#[derive(Clone, Debug)]
pub struct FixedCharge {
    /// The name that the record has in place of a model.
    pub name: Arc<str>,
    /// The charge of the request, which counts as one token of output.
    pub tariff: Tariff,
}

impl FixedCharge {
    /// The usage of a request that is charged.
    pub const USAGE: Usage = Usage {
        input: 0,
        cache_read: 0,
        cache_write: 0,
        output: 1,
        reasoning: 0,
    };

    /// The tokens that it takes.
    pub fn tokens(&self) -> u64 {
        self.tariff.weights.charge(&Self::USAGE)
    }
}

/// A text that is never printed.
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
