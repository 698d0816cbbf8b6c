//! One attempt after another: which candidate is asked, and with which head.

use super::body::RequestBody;
use super::exchange::Exchange;
use crate::upstreams::Pool;
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HeaderValue};
use http::{HeaderMap, Method};
use pingora_core::upstreams::peer::HttpPeer;
use pingora_http::RequestHeader;
use std::sync::Arc;
use tollgate_filter::{Endpoint, RequestContext};
use tollgate_routing::Deployment;
use tollgate_wire::body::BodyEdits;

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

/// Makes ready what the attempt sends: the body, and the head that goes before it.
pub fn prepare(exchange: &mut Exchange, caller: &HeaderMap) -> Option<RequestHeader> {
    let body = exchange.body.as_ref()?;
    let body = body.assemble(edits(exchange, body)?.into_splice())?;
    let head = upstream_head(
        exchange.attempts.current()?,
        exchange.request.as_ref()?,
        caller,
        body.len(),
    );
    exchange.attempts.outgoing = Some(body);
    head
}

/// The head that goes to the provider, built on what is the same for all its requests:
/// what is not put here or there does not leave.
fn upstream_head(
    candidate: &Candidate,
    request: &RequestContext,
    caller: &HeaderMap,
    body_length: usize,
) -> Option<RequestHeader> {
    let format = request.format()?;
    let provider = &candidate.deployment.provider;
    let counts = request.endpoint == Endpoint::CountTokens;
    let base = candidate.pool.base(format, counts)?;
    let mut headers = base.headers.clone();
    headers.insert(CONTENT_LENGTH, HeaderValue::from(body_length));
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
    if let Some(credential) = candidate.pool.credential() {
        let (name, value) = credential.header(format);
        headers.insert(name.clone(), value.clone());
    }
    let (mut head, ()) = http::Request::new(()).into_parts();
    head.method = Method::POST;
    head.uri = base.uri.clone();
    head.headers = headers;
    Some(head.into())
}

/// What an attempt changes in the body for its deployment.
fn edits<'a>(exchange: &'a Exchange, body: &'a RequestBody) -> Option<BodyEdits<'a>> {
    let (request, candidate) = (exchange.request.as_ref()?, exchange.attempts.current()?);
    let peeked = body.peeked();
    let mut edits = BodyEdits::new(request.format()?, peeked);
    let asked_for = peeked.facts.model.as_deref().unwrap_or_default();
    let upstream_model = candidate.deployment.upstream_model(asked_for);
    if upstream_model != asked_for {
        edits.set_model(upstream_model);
    }
    if let Some(tokens) = request.output_limit {
        edits.set_output_limit(tokens);
    }
    if asks_for_usage(request) {
        edits.ask_for_usage();
    }
    Some(edits)
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
