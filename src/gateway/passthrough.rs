//! Requests for the open paths of providers: images, audio, files, batches. They go to one provider, unread.
//!
//! `streamed_body` forwards large bodies. The charge is fixed: `settlement` charges it once the
//! provider has answered with 2xx.

use super::attempt::{Attempts, Candidate};
use super::body::{self, RequestBody};
use super::exchange::Exchange;
use super::load;
use super::outgoing::Outgoing;
use super::respond;
use super::streamed_body::StreamedBody;
use super::unpack::Coding;
use crate::limits::BodyLimits;
use crate::snapshot::Snapshot;
use http::header::{ACCEPT, CONTENT_DISPOSITION, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use pingora_proxy::Session;
use std::fmt::Write as _;
use std::slice;
use std::sync::Arc;
use std::time::Instant;
use tollgate_engine::open_path::{self, OpenPath};
use tollgate_filter::FixedCharge;
use tollgate_routing::plan::plan;
use tollgate_routing::{Credential, PassthroughRule};
use tollgate_telemetry::clock;
use tollgate_types::{ErrorCode, Identity, PublicError, Usage};
use tollgate_wire::address;
use tollgate_wire::fault::{FaultClass, UpstreamFault};

/// Names of query parameters that carry a credential: those of clients do not go to the provider.
const CREDENTIALS: [&str; 10] = [
    "key",
    "api_key",
    "api-key",
    "apikey",
    "access_token",
    "token",
    "authorization",
    "subscription-key",
    "x-api-key",
    "x-goog-api-key",
];

/// A request for an open path.
pub struct Opened {
    /// The path.
    pub path: OpenPath,
    /// The entry that matches it, once its key is known.
    pub rule: Option<Arc<PassthroughRule>>,
    /// Its body, if it is not read in advance.
    pub upload: Option<StreamedBody>,
}

impl Opened {
    /// The open path of a request whose key is not known yet. `rest` follows `/passthrough/` in the path.
    ///
    /// # Errors
    ///
    /// 404: the configuration does not open the path.
    pub fn find(snapshot: &Snapshot, rest: &str) -> Result<Self, PublicError> {
        Ok(Self {
            path: OpenPath::find(snapshot.catalog.catalog(), rest)?,
            rule: None,
            upload: None,
        })
    }
}

/// Finds the entry for the key, and notes the charge.
///
/// # Errors
///
/// The key may not use the path.
pub fn permit(exchange: &mut Exchange, identity: &Identity) -> Result<(), PublicError> {
    let method = &exchange.arrival.method;
    let opened = exchange
        .opened
        .as_mut()
        .ok_or_else(respond::internal_error)?;
    let rule = opened.path.rule(method, identity)?;
    let fixed = open_path::charge(rule);
    opened.rule = Some(Arc::clone(rule));
    if let Some(request) = exchange.stage.request_mut() {
        request.fixed = Some(fixed);
    }
    Ok(())
}

/// Finds the credentials of the provider, in the order in which they are asked.
///
/// # Errors
///
/// None of them can be used now.
pub fn find_candidates(exchange: &mut Exchange) -> Result<(), PublicError> {
    let snapshot = Arc::clone(&exchange.snapshot);
    let found = exchange.opened.as_ref().and_then(|opened| {
        let pool = snapshot.upstreams.pool(&opened.path.provider.name)?;
        let handle = snapshot.fleet.open_path(opened.rule.as_ref()?)?;
        Some((&opened.path, handle, pool))
    });
    let (path, handle, pool) = found.ok_or_else(respond::internal_error)?;
    let open = path.open().ok_or_else(respond::internal_error)?;
    let asked = path.asked(clock::steady_ms(Instant::now()), fastrand::u64(..));
    let mut attempts = Attempts::default();
    attempts.left_out = plan(slice::from_ref(handle), &open.balancing, &asked, |choice| {
        attempts.add(Candidate::new(&choice, handle, pool));
    });
    let now = asked.now;
    // Set before a refusal, whose record lists the candidates that were left out.
    exchange.attempts = attempts;
    match exchange.attempts.is_empty() {
        true => exchange.attempts.check_left_out(now),
        false => Ok(()),
    }
}

/// The body of an attempt, as it came. `None`: the request is not for an open path.
pub fn outgoing(exchange: &Exchange) -> Option<Outgoing> {
    let opened = exchange.opened.as_ref()?;
    let query = exchange.arrival.uri.query().unwrap_or_default();
    let target = opened.path.target(&without_credentials(query))?;
    let body = exchange.stage.body().map(RequestBody::whole);
    Some(Outgoing {
        body: body.filter(|body| !body.is_empty()),
        uri: target.parse().ok(),
        ..Outgoing::default()
    })
}

fn without_credentials(query: &str) -> String {
    let mut kept = String::with_capacity(query.len());
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let name = pair.split('=').next().unwrap_or(pair);
        let name = address::decode(name)
            .unwrap_or_default()
            .to_ascii_lowercase();
        if !CREDENTIALS.contains(&name.as_str()) {
            let mark = if kept.is_empty() { "" } else { "&" };
            // Writing to a string cannot fail.
            let _ = write!(kept, "{mark}{pair}");
        }
    }
    kept
}

/// The names of the caller's headers that the provider gets.
pub fn passed_headers(opened: &Opened) -> Option<impl Iterator<Item = &HeaderName>> {
    static ALWAYS: [HeaderName; 2] = [CONTENT_TYPE, ACCEPT];
    let rule = opened.rule.as_ref()?;
    Some(ALWAYS.iter().chain(&rule.pass_headers))
}

/// Adds the headers of the provider's answer that the client gets.
pub fn pass_answer(exchange: &Exchange, upstream: &HeaderMap, answer: &mut HeaderMap) {
    static ALWAYS: [HeaderName; 2] = [CONTENT_TYPE, CONTENT_DISPOSITION];
    let opened = exchange.opened.as_ref();
    let Some(rule) = opened.and_then(|opened| opened.rule.as_ref()) else {
        return;
    };
    // The type keeps its parameters, such as the boundary of parts.
    answer.remove(CONTENT_TYPE);
    for name in ALWAYS.iter().chain(&rule.answer_headers) {
        // The gateway's own headers stay.
        if !answer.contains_key(name) {
            let values = upstream.get_all(name).iter();
            answer.extend(values.map(|value| (name.clone(), value.clone())));
        }
    }
}

/// The usage of a request that is charged. `None`: the request is not for an open path.
pub fn usage(exchange: &Exchange) -> Option<Usage> {
    exchange.opened.as_ref().map(|_| FixedCharge::USAGE)
}

/// Whether the provider can have acted on an attempt with this failure, so that another attempt could act a
/// second time.
pub fn may_have_acted(exchange: &Exchange, fault: &UpstreamFault) -> bool {
    let was_refused = matches!(fault.status, Some(401 | 402 | 403 | 429));
    let was_not_sent = matches!(
        fault.class,
        FaultClass::Unreachable | FaultClass::OutOfFiles
    );
    has_effects(exchange) && !was_refused && !was_not_sent
}

/// Whether it must not be sent twice.
pub fn has_effects(exchange: &Exchange) -> bool {
    exchange.opened.is_some() && exchange.arrival.method != Method::GET
}

/// The failure as one of an open path: the path is not a model, and the client has chosen it.
pub fn of_open_path(exchange: &Exchange, fault: UpstreamFault) -> UpstreamFault {
    let is_redirect = matches!(fault.status, Some(300..=399));
    let is_of_model = matches!(
        fault.class,
        FaultClass::InvalidModel | FaultClass::ContextLength(_)
    );
    match exchange.opened.is_some() && (is_redirect || is_of_model) {
        true => UpstreamFault {
            class: FaultClass::InvalidRequest,
            ..fault
        },
        false => fault,
    }
}

/// The error for a client, if the status of the provider's answer says more than its class.
pub fn public_error(exchange: &Exchange, fault: &UpstreamFault) -> Option<PublicError> {
    exchange.opened.as_ref()?;
    match fault.status? {
        304 => Some(PublicError::new(
            ErrorCode::UpstreamError,
            "the provider answered 304, which the gateway does not forward: retry without conditional headers such as if-none-match",
        )),
        300..=399 => Some(PublicError::new(
            ErrorCode::UpstreamError,
            "the provider answered with a redirect, which the gateway does not follow",
        )),
        404 | 410 => Some(PublicError::new(
            ErrorCode::NotFound,
            "the provider has nothing at this path",
        )),
        _ => None,
    }
}

/// Reads the body, or arranges that it is forwarded while it arrives.
///
/// # Errors
///
/// It is too large, or cannot be read.
pub async fn read_body(
    session: &mut Session,
    exchange: &mut Exchange,
    coding: Option<Coding>,
) -> Result<(), body::BodyFault> {
    let opened = exchange.opened.as_mut();
    let opened = opened.ok_or_else(respond::internal_error)?;
    let most = opened.rule.as_ref().map_or(0, |rule| rule.body);
    let mut credentials = opened.path.provider.credentials.iter();
    // A signature covers the whole body.
    let is_signed = credentials.any(Credential::signs);
    let length = body::declared_length(session)?;
    if length.is_some_and(|length| length > most) {
        return Err(body::too_large(most).into());
    }
    if is_signed {
        refuse_unsignable(opened, session)?;
    }
    let limits = exchange.snapshot.limits.body;
    let is_streamed = length.map_or(!session.is_body_done(), |it| it > StreamedBody::FROM);
    if is_streamed && !is_signed && coding.is_none() {
        body::send_continue(session).await?;
        opened.upload = Some(StreamedBody::new(length, most, limits));
        return Ok(());
    }
    let limits = BodyLimits {
        size: most.min(limits.size),
        ..limits
    };
    let (bounds, shares) = (load::bounds(exchange), load::shares(exchange).cloned());
    let read =
        body::RequestBody::read(session, None, coding, limits, bounds, shares.as_ref()).await?;
    exchange.stage.set_body(read);
    Ok(())
}

/// A signature covers some of the headers that pass, and only text.
fn refuse_unsignable(opened: &Opened, session: &Session) -> Result<(), PublicError> {
    let headers = &session.req_header().headers;
    let is_text = |value: &HeaderValue| value.to_str().is_ok();
    for name in passed_headers(opened).into_iter().flatten() {
        if !headers.get_all(name).iter().all(is_text) {
            return Err(PublicError::invalid_request(format!(
                "the header '{name}' has bytes above ASCII, which the provider's signature cannot cover"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::without_credentials;

    #[test]
    fn the_query_passes_without_credentials() {
        for (query, expected) in [
            ("", ""),
            ("limit=2&after=a%26b", "limit=2&after=a%26b"),
            ("key=sk-1&limit=2", "limit=2"),
            ("limit=2&API_KEY=x&access%5Ftoken=y&&k=1", "limit=2&k=1"),
            ("%6Bey=x&api%2Dkey", ""),
        ] {
            assert_eq!(without_credentials(query), expected, "{query}");
        }
    }
}
