//! One attempt after another: which candidate is asked, and with which head.

use super::body::RequestBody;
use super::exchange::Exchange;
use super::stored;
use crate::upstreams::Pool;
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, Method};
use pingora_core::upstreams::peer::HttpPeer;
use pingora_http::RequestHeader;
use pingora_proxy::Session;
use std::sync::Arc;
use tollgate_filter::{Endpoint, RequestContext};
use tollgate_routing::{Credential, Deployment};
use tollgate_wire::body::BodyEdits;
use tollgate_wire::reasoning;

/// The candidates of a request, in order, and the one that is being asked.
#[derive(Default)]
pub struct Attempts {
    candidates: Vec<Candidate>,
    /// How many candidates were begun with.
    begun: usize,
    /// How many attempts were made, on whichever candidate.
    made: usize,
    /// How many of them met a connection that its provider had just closed.
    stale: usize,
    /// The name of the credential that the attempt under way uses; empty for none.
    credential: Option<Arc<str>>,
    /// The caller's fields that the attempt under way leaves out.
    dropped: Vec<&'static str>,
    /// The body as the attempt under way sends it.
    outgoing: Option<Bytes>,
}

/// Who can be asked.
#[derive(Clone)]
pub struct Candidate {
    /// The deployment.
    pub deployment: Arc<Deployment>,
    /// The connections to its provider.
    pub pool: Arc<Pool>,
    /// The credential that must be used, by name; else the provider's in turn.
    pub credential: Option<Arc<str>>,
}

impl Candidate {
    /// What to log in with: `None` where a certain one must be used and is gone.
    fn log_in(&self) -> Option<LogIn<'_>> {
        let Some(wanted) = &self.credential else {
            return Some(self.pool.credential().map_or(LogIn::Without, LogIn::With));
        };
        let known = &self.deployment.provider.credentials;
        let found = known.iter().find(|it| it.name == *wanted);
        match found {
            Some(credential) => Some(LogIn::With(credential)),
            None => wanted.is_empty().then_some(LogIn::Without),
        }
    }
}

/// How the gateway logs in to a provider.
#[derive(Clone, Copy)]
enum LogIn<'a> {
    With(&'a Credential),
    /// The provider asks for nothing.
    Without,
}

impl LogIn<'_> {
    /// The credential's name; empty for none.
    fn name(self) -> Arc<str> {
        match self {
            Self::With(credential) => Arc::clone(&credential.name),
            Self::Without => "".into(),
        }
    }
}

impl Attempts {
    /// How many candidates are tried at most.
    const MOST_CANDIDATES: usize = 8;
    /// How many attempts are made at most: each candidate may meet a connection or two
    /// that its provider has just closed.
    pub const MOST: usize = 16;

    /// Nothing tried yet.
    pub fn over(candidates: impl Iterator<Item = Candidate>) -> Self {
        Self {
            candidates: candidates.take(Self::MOST_CANDIDATES).collect(),
            ..Self::default()
        }
    }

    /// Goes on to the next candidate.
    pub fn advance(&mut self) -> Option<&Candidate> {
        let next = self.candidates.get(self.begun)?;
        self.begun = self.begun.saturating_add(1);
        Some(next)
    }

    /// The candidate that is being asked.
    pub fn current(&self) -> Option<&Candidate> {
        self.candidates.get(self.begun.checked_sub(1)?)
    }

    /// Goes back to the candidate that is being asked, to ask it again: it was not reached.
    pub const fn step_back(&mut self) {
        self.begun = self.begun.saturating_sub(1);
        self.stale = self.stale.saturating_add(1);
    }

    /// The body of the attempt under way; nothing the second time.
    pub const fn take_outgoing(&mut self) -> Option<Bytes> {
        self.outgoing.take()
    }

    /// How many attempts were made, without those that never reached their provider.
    pub const fn made(&self) -> usize {
        self.made.saturating_sub(self.stale)
    }

    /// The name of the credential of the attempt under way; empty where there is none.
    pub fn credential(&self) -> Arc<str> {
        self.credential.clone().unwrap_or_default()
    }

    /// The caller's fields that the attempt under way leaves out.
    pub fn dropped(&self) -> &[&'static str] {
        &self.dropped
    }

    /// Whether another attempt is within bounds.
    pub const fn may_go_on(&self) -> bool {
        self.made < Self::MOST
    }

    /// Whether there is another candidate to ask.
    pub fn has_next(&self) -> bool {
        self.begun < self.candidates.len() && self.may_go_on()
    }
}

/// The peer of the next attempt: the next candidate that has an address.
pub fn next_peer(exchange: &mut Exchange) -> Option<Box<HttpPeer>> {
    let attempts = &mut exchange.attempts;
    while let Some(candidate) = attempts.advance() {
        if let Some(peer) = candidate.pool.peer() {
            attempts.made = attempts.made.saturating_add(1);
            return Some(peer);
        }
    }
    None
}

/// Makes ready what the attempt sends: the body, where there is one, and the head that goes
/// before it.
pub fn prepare(exchange: &mut Exchange, session: &Session) -> Option<RequestHeader> {
    let (body, dropped) = match &exchange.body {
        Some(body) => {
            let (edits, dropped) = edits(exchange, body)?;
            (Some(body.assemble(edits.into_splice())?), dropped)
        }
        None => (None, Vec::new()),
    };
    let candidate = exchange.attempts.current()?;
    let log_in = candidate.log_in()?;
    let request = exchange.request.as_ref()?;
    let mut parts = upstream_head(candidate, log_in, request, &session.req_header().headers)?;
    if request.endpoint.is_stored() {
        parts.method = session.req_header().method.clone();
        parts.uri = stored::target(parts.uri.path(), request.endpoint, session)?;
        parts.headers.remove(CONTENT_TYPE);
    }
    // A POST without a body says so.
    if body.is_some() || parts.method == Method::POST {
        let length = body.as_ref().map_or(0, Bytes::len);
        parts.headers.insert(CONTENT_LENGTH, length.into());
    }
    let name = log_in.name();
    exchange.attempts.credential = Some(name);
    exchange.attempts.outgoing = body;
    exchange.attempts.dropped = dropped;
    Some(parts.into())
}

/// The head that goes to the provider, built on what is the same for all its requests:
/// what is not put here or there does not leave.
fn upstream_head(
    candidate: &Candidate,
    log_in: LogIn<'_>,
    request: &RequestContext,
    caller: &HeaderMap,
) -> Option<http::request::Parts> {
    let format = request.format()?;
    let provider = &candidate.deployment.provider;
    let counts = request.endpoint == Endpoint::CountTokens;
    let base = candidate.pool.base(format, counts)?;
    let mut headers = base.headers.clone();
    // What a caller's header is passed as takes the place of the gateway's own, such as
    // `user-agent`; several of one name stay several.
    for name in &provider.pass_headers {
        if caller.contains_key(name) {
            headers.remove(name);
        }
        for value in caller.get_all(name) {
            headers.append(name.clone(), value.clone());
        }
    }
    for (name, _) in &request.upstream_headers {
        headers.remove(name);
    }
    for (name, value) in &request.upstream_headers {
        headers.append(name.clone(), value.clone());
    }
    // The operator's own come last: they win over what a caller sent.
    for (name, value) in &provider.headers {
        headers.insert(name.clone(), value.clone());
    }
    if let LogIn::With(credential) = log_in {
        let (name, value) = credential.header(format);
        headers.insert(name.clone(), value.clone());
    }
    let (mut head, ()) = http::Request::new(()).into_parts();
    head.method = Method::POST;
    head.uri = base.uri.clone();
    head.headers = headers;
    Some(head)
}

/// What an attempt changes in the body for its deployment, and the fields that it leaves out.
fn edits<'a>(
    exchange: &'a Exchange,
    body: &'a RequestBody,
) -> Option<(BodyEdits<'a>, Vec<&'static str>)> {
    let (request, candidate) = (exchange.request.as_ref()?, exchange.attempts.current()?);
    let (peeked, format) = (body.peeked(), request.format()?);
    let mut edits = BodyEdits::new(format, peeked);
    let asked_for = peeked.facts.model.as_deref().unwrap_or_default();
    let upstream_model = candidate.deployment.upstream_model(asked_for);
    if upstream_model != asked_for {
        edits.set_model(upstream_model);
    }
    if asks_for_usage(request) {
        edits.ask_for_usage();
    }
    let model = request.route.as_ref()?.model;
    let model = exchange.snapshot.catalog.model(model)?;
    if let Some(tokens) = request.output_limit {
        edits.set_output_limit(tokens);
    }
    let most_output = request.output_limit.or(model.max_output_tokens);
    let facts = &peeked.facts;
    let dropped = reasoning::fit(model.reasoning, format, facts, most_output, &mut edits);
    Some((edits, dropped))
}

/// Whether the gateway asks for the usage of a chat stream by itself, and so has to take
/// the chunk out again.
pub fn asks_for_usage(request: &RequestContext) -> bool {
    request.endpoint == Endpoint::ChatCompletions
        && request
            .facts
            .as_ref()
            .is_some_and(|facts| facts.stream && facts.include_usage != Some(true))
}
