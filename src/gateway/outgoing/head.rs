//! Builds the request head of an attempt. Headers and query parameters of the client are not forwarded
//! unless this module adds them.

use super::purpose;
use crate::gateway::attempt::{Candidate, LogIn};
use crate::gateway::exchange::Exchange;
use crate::gateway::passthrough;
use crate::gateway::stored;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Method};
use pingora::http::RequestHeader;
use pingora_proxy::Session;
use std::time::SystemTime;
use tollgate_filter::RequestContext;
use tollgate_providers::Proof;
use tollgate_types::Format;
use tollgate_wire::headers as wire_headers;

/// Begins the attempt that was prepared, and builds its head.
pub fn begin(exchange: &mut Exchange, session: &mut Session) -> Option<RequestHeader> {
    let candidate = exchange.attempts.current()?;
    let request = exchange.stage.request()?;
    let LogIn { name, proof } = candidate.log_in()?;
    let mut parts = upstream_head(exchange, candidate, proof.as_ref(), request, session)?;
    parts.uri = match &exchange.attempts.outgoing.uri {
        Some(uri) => uri.clone(),
        // The path of a request for a stored item has no model.
        None => candidate
            .pool
            .base(candidate.format, purpose(request))?
            .uri("")?,
    };
    if request.endpoint.is_stored() {
        parts.method = session.req_header().method.clone();
        parts.uri = stored::target(&parts.uri, request.endpoint, session)?;
        parts.headers.remove(CONTENT_TYPE);
    }
    if exchange.opened.is_some() {
        parts.method = session.req_header().method.clone();
    }
    if let Some(beta) = beta(session, request, candidate) {
        parts.uri = with_query(&parts.uri, beta)?;
    }
    if let Some(Proof::Query(secret)) = &proof {
        parts.uri = with_query(&parts.uri, secret.expose())?;
    }
    let prices = match &request.fixed {
        Some(fixed) => fixed.tariff.prices,
        None => candidate.prices().copied(),
    };
    let upload = exchange.upload().map(|upload| upload.length);
    exchange.settlement.set_prices(prices);
    let body = &exchange.attempts.begin(name).body;
    if let Some(length) = upload {
        parts.headers.remove(CONTENT_LENGTH);
        // Pingora sends chunks if the length is not known.
        parts
            .headers
            .extend(length.map(|it| (CONTENT_LENGTH, it.into())));
    // Methods that expect a body have a length of 0 without one (RFC 9110, section 8.6). Pingora would send
    // chunks if the client's body was left out.
    } else if body.is_some()
        || matches!(parts.method, Method::POST | Method::PUT | Method::PATCH)
        || !session.is_body_empty()
    {
        let length = body.as_ref().map_or(0, Bytes::len);
        parts.headers.insert(CONTENT_LENGTH, length.into());
    } else {
        parts.headers.remove(CONTENT_LENGTH);
    }
    if let Some(trace) = &exchange.trace {
        trace.inject(&mut parts.headers);
    }
    // Last, because a signature covers the whole head.
    if let Some(Proof::Signature(signer)) = proof {
        let body = body.as_deref().unwrap_or_default();
        signer.sign(&mut parts, body, SystemTime::now()).ok()?;
    }
    Some(parts.into())
}

/// The only query parameter that is forwarded: `beta`, to providers of messages.
fn beta<'a>(
    session: &'a Session,
    request: &RequestContext,
    candidate: &Candidate,
) -> Option<&'a str> {
    const MOST_BYTES: usize = 64;
    let is_messages = |format| format == Some(Format::Messages);
    if !is_messages(request.format()) || !is_messages(Some(candidate.format)) {
        return None;
    }
    let query = session.req_header().uri.query()?;
    let is_plain = |value: &str| {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
        value.len() <= MOST_BYTES && value.bytes().all(is_part)
    };
    let mut pairs = query.split('&');
    pairs.find(|pair| pair.strip_prefix("beta=").is_some_and(is_plain))
}

/// A path with one more parameter.
fn with_query(base: &http::Uri, pair: &str) -> Option<http::Uri> {
    let mark = if base.query().is_some() { '&' } else { '?' };
    format!("{base}{mark}{pair}").parse().ok()
}

/// The head for the provider, built on the head that all its requests share.
fn upstream_head(
    exchange: &Exchange,
    candidate: &Candidate,
    proof: Option<&Proof>,
    request: &RequestContext,
    session: &Session,
) -> Option<http::request::Parts> {
    let caller = &session.req_header().headers;
    let format = candidate.format;
    let provider = &candidate.deployment.provider;
    let base = candidate.pool.base(format, purpose(request))?;
    let mut headers = base.headers.clone();
    let of_path = exchange
        .opened
        .as_deref()
        .and_then(passthrough::passed_headers);
    if of_path.is_some() {
        headers.remove(CONTENT_TYPE);
        headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
    }
    // A client's header replaces the gateway's own, such as `user-agent`. Duplicates stay.
    for name in provider
        .pass_headers
        .iter()
        .chain(of_path.into_iter().flatten())
    {
        if caller.contains_key(name) {
            headers.remove(name);
        }
        for value in caller.get_all(name) {
            headers.append(name.clone(), value.clone());
        }
    }
    let of_format = |(name, _): &&(HeaderName, HeaderValue)| wire_headers::is_known(format, name);
    for (name, _) in request.upstream_headers.iter().filter(of_format) {
        headers.remove(name);
    }
    for (name, value) in request.upstream_headers.iter().filter(of_format) {
        headers.append(name.clone(), value.clone());
    }
    // A client of another format cannot name a version.
    if let Some((name, version)) = wire_headers::version(format)
        && !headers.contains_key(name)
    {
        headers.insert(name.clone(), version.clone());
    }
    // The operator's headers come last: they replace the client's.
    for (name, value) in &provider.headers {
        headers.insert(name.clone(), value.clone());
    }
    if let Some(Proof::Header(name, value)) = proof {
        headers.insert(name.clone(), value.clone());
    }
    let (mut head, ()) = http::Request::new(()).into_parts();
    head.method = Method::POST;
    head.headers = headers;
    Some(head)
}
