//! Admits a request: all decisions before the first attempt.

use super::affinity;
use super::attempt::{self, Attempts, Candidate};
use super::body::{self, BodyFault, Reading, RequestBody};
use super::count;
use super::disconnect;
use super::exchange::Exchange;
use super::load;
use super::outgoing;
use super::passthrough::{self, Opened};
use super::reader;
use super::remembered;
use super::respond::{self, Local};
use super::stage::{Admitted, Stage};
use super::stored;
use super::unpack::Coding;
use crate::limits::Limits;
use crate::snapshot::Snapshot;
use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, ALLOW, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue, UPGRADE};
use http::{HeaderMap, Method};
use pingora::http::RequestHeader;
use pingora_proxy::Session;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;
use tollgate_engine::endpoints;
use tollgate_engine::pipeline::Part;
use tollgate_filter::{Endpoint, EndpointKind, Head, RequestContext, Verdict};
use tollgate_routing::plan::{PlanRequest, plan};
use tollgate_telemetry::clock;
use tollgate_telemetry::events::{self, HeadRefusal};
use tollgate_types::{ErrorCode, Format, Identity, PublicError};
use tollgate_wire::address::{self, Address};

/// The next step of a request after its admission.
pub enum Admission {
    /// A provider gets the request.
    Forward,
    /// The gateway answers.
    Answer(Local),
    /// The client has disconnected.
    Gone(Box<pingora_core::Error>),
}

impl From<PublicError> for Admission {
    fn from(error: PublicError) -> Self {
        Self::Answer(Local::error(error))
    }
}

impl From<BodyFault> for Admission {
    fn from(fault: BodyFault) -> Self {
        match fault {
            BodyFault::Refused(error) => error.into(),
            BodyFault::Gone(error) => Self::Gone(error),
        }
    }
}

/// Decides on a request, and reads its body if a model answers.
pub async fn admit(session: &mut Session, exchange: &mut Exchange) -> Admission {
    match try_admit(session, exchange).await {
        Ok(admission) | Err(admission) => admission,
    }
}

/// The steps of the admission. A step that ends it returns an error.
async fn try_admit(session: &mut Session, exchange: &mut Exchange) -> Result<Admission, Admission> {
    let snapshot = Arc::clone(&exchange.snapshot);
    let wants_websocket = take_offer(session);
    let uri = exchange.arrival.uri.clone();
    let has_google_key = session.req_header().headers.contains_key(GOOGLE_KEY);
    let matched = endpoints::match_path(uri.path())?.for_client(has_google_key);
    let request = RequestContext::new(exchange.id, matched.endpoint, exchange.arrival.client);
    exchange.stage = Stage::Matched {
        request,
        body: None,
    };
    if let (Endpoint::Passthrough, Some(rest)) = (matched.endpoint, matched.id) {
        exchange.opened = Some(Box::new(Opened::find(&snapshot, rest)?));
    }
    let methods = match &exchange.opened {
        Some(opened) => Cow::Owned(opened.path.methods()),
        None => Cow::Borrowed(endpoints::methods(matched.endpoint)),
    };
    check_head_size(session, &snapshot)?;
    check_once(session)?;
    load::check(exchange)?;
    let head = session.req_header();
    let allow = || endpoints::allow(&methods);
    if let Some(headers) = snapshot.cors.preflight(&head.method, &head.headers, allow) {
        return Ok(Admission::Answer(Local::of_headers(&headers)));
    }

    take_key_of_query(session, matched.endpoint)?;
    run_filters(Part::Head, session, exchange).await?;
    load::check_key(exchange)?;
    check_method(session, matched, &methods, wants_websocket)?;

    let identity = exchange.stage.identity().cloned();
    let identity =
        identity.ok_or_else(|| internal("the filters have admitted a request without a key"))?;
    match (matched.endpoint.kind(), matched.id) {
        (EndpointKind::Model(format), _) => {
            let address = endpoints::address(matched, uri.query())?;
            admit_to_model(session, exchange, format, address).await
        }
        (EndpointKind::Stored(_), Some(id)) => {
            let id = id.to_owned();
            admit_to_stored(session, exchange, &identity, &id).await
        }
        (EndpointKind::Passthrough, _) => admit_to_open_path(session, exchange, &identity).await,
        _ => {
            run_filters(Part::Local, session, exchange).await?;
            let body = answer_here(session, &snapshot, matched, &identity).await?;
            Ok(Admission::Answer(Local::json(body.into())))
        }
    }
}

/// The header of the key of a Gemini client.
const GOOGLE_KEY: &str = "x-goog-api-key";

/// Moves the key of a Gemini client from the query into the header that stands for it. A head with
/// both has two values, which the filter `headers` refuses.
fn take_key_of_query(session: &mut Session, endpoint: Endpoint) -> Result<(), PublicError> {
    if endpoint.format() != Some(Format::Gemini) {
        return Ok(());
    }
    let head = session.req_header_mut();
    let pairs = head.uri.query().unwrap_or_default().split('&');
    let keys: Vec<_> = pairs
        .filter_map(|pair| pair.strip_prefix("key="))
        .map(|key| address::decode(key).and_then(|key| HeaderValue::try_from(key).ok()))
        .collect();
    for key in keys {
        let mut key = key.ok_or_else(PublicError::invalid_api_key)?;
        key.set_sensitive(true);
        let added = head.append_header(GOOGLE_KEY, key);
        added.map_err(|_| PublicError::invalid_api_key())?;
    }
    Ok(())
}

/// Admits a request that a model answers: reads the body, runs the filters that see it, and finds the
/// candidates.
async fn admit_to_model(
    session: &mut Session,
    exchange: &mut Exchange,
    format: Format,
    address: Address,
) -> Result<Admission, Admission> {
    let snapshot = Arc::clone(&exchange.snapshot);
    check_media_type(session)?;
    let coding = coding(session)?;
    read_body(session, exchange, format, coding, address).await?;
    remembered::resolve(exchange).await?;
    let passed = run_filters(Part::Body, session, exchange).await;
    take_guards(exchange);
    passed?;
    stored::find_unpaid(exchange).await?;
    exchange.stage.admit(&snapshot)?;
    find_candidates(exchange, &session.req_header().headers)?;
    if let Some(count) = count::without_asking(session, exchange).await? {
        return Ok(Admission::Answer(count));
    }
    let room = outgoing::wait_for_room(exchange).await;
    attempt::make_ready(exchange, room)?;
    Ok(Admission::Forward)
}

/// Admits a request for an item that a provider stores.
async fn admit_to_stored(
    session: &mut Session,
    exchange: &mut Exchange,
    identity: &Identity,
    id: &str,
) -> Result<Admission, Admission> {
    body::leave_out(session).await?;
    let passed = run_filters(Part::Stored, session, exchange).await;
    take_guards(exchange);
    passed?;
    if let Some(answer) = remembered::answer(session, exchange, identity, id).await? {
        return Ok(Admission::Answer(answer));
    }
    let snapshot = Arc::clone(&exchange.snapshot);
    exchange.attempts = stored::attempts(&snapshot, identity, id).await?;
    if exchange.arrival.method == Method::HEAD {
        // Providers do not answer HEAD, and the answer has no body.
        return Ok(Admission::Answer(Local::json(Bytes::new())));
    }
    stored::reserve_due(exchange, identity, id).await?;
    Ok(Admission::Forward)
}

/// Admits a request for an open path of a provider. Filters do not see its body, so it is read after them.
async fn admit_to_open_path(
    session: &mut Session,
    exchange: &mut Exchange,
    identity: &Identity,
) -> Result<Admission, Admission> {
    let coding = coding(session)?;
    passthrough::permit(exchange, identity)?;
    let passed = run_filters(Part::Passthrough, session, exchange).await;
    take_guards(exchange);
    passed?;
    passthrough::find_candidates(exchange)?;
    passthrough::read_body(session, exchange, coding).await?;
    attempt::make_ready(exchange, None)?;
    Ok(Admission::Forward)
}

/// Takes over the reservation and limits that the filters have taken, even if one has refused the request.
pub fn take_guards(exchange: &mut Exchange) {
    if let Some(request) = exchange.stage.request_mut() {
        request.body = None;
        exchange.settlement.take(request, exchange.arrival.at);
    }
}

async fn answer_here(
    session: &Session,
    snapshot: &Snapshot,
    matched: endpoints::Matched<'_>,
    identity: &Arc<Identity>,
) -> Result<Vec<u8>, PublicError> {
    let catalog = snapshot.catalog.catalog();
    let query = session.req_header().uri.query().unwrap_or_default();
    match (matched.endpoint, matched.id) {
        (Endpoint::Status, _) => Ok(endpoints::status(catalog, identity)),
        (Endpoint::Models, _) => endpoints::list_models(catalog, identity, query),
        (Endpoint::Model, Some(name)) => {
            endpoints::retrieve_model(catalog, identity, &endpoints::model_in_path(name)?)
        }
        (Endpoint::GeminiModels, _) => endpoints::list_gemini_models(catalog, identity, query),
        (Endpoint::GeminiModel, Some(name)) => {
            endpoints::retrieve_gemini_model(catalog, identity, &endpoints::model_in_path(name)?)
        }
        (Endpoint::Usage, _) => snapshot.usage.summary(identity).await,
        (Endpoint::UsageHistory, _) => snapshot.usage.history(identity, query).await,
        _ => Err(internal("no handler for this endpoint")),
    }
}

/// Runs the filters of a phase, until the request times out or the client disconnects.
async fn run_filters(
    part: Part,
    session: &mut Session,
    exchange: &mut Exchange,
) -> Result<(), Admission> {
    let snapshot = Arc::clone(&exchange.snapshot);
    let ends = exchange.request_ends().into();
    let Some(request) = exchange.stage.request_mut() else {
        return Ok(());
    };
    // The filters read the head while the session watches the connection.
    let head = take_head(session);
    let filters = snapshot.pipeline.run(part, view(&head), request);
    let filters = disconnect::while_connected(session, filters);
    let decided = tokio::time::timeout_at(ends, filters).await;
    *session.req_header_mut() = head;
    let decided = decided.map_err(|_| out_of_time())?;
    match decided.map_err(Admission::Gone)?? {
        Verdict::Continue => Ok(()),
        Verdict::Answer {
            status,
            content_type,
            body,
        } => Err(Admission::Answer(Local::new(status, content_type, body))),
    }
}

/// Takes the head out of the session, after Pingora has read the length of the body from it.
fn take_head(session: &mut Session) -> RequestHeader {
    session.is_body_done();
    let (empty, ()) = http::Request::new(()).into_parts();
    std::mem::replace(session.req_header_mut(), empty.into())
}

fn out_of_time() -> PublicError {
    PublicError::new(
        ErrorCode::ServiceUnavailable,
        "the request reached its time limit before the gateway contacted a provider; retry in a few seconds",
    )
}

fn view(head: &RequestHeader) -> Head<'_> {
    Head {
        method: &head.method,
        path: head.uri.path(),
        headers: &head.headers,
    }
}

/// Refuses duplicates of two headers over HTTP/2. Over HTTP/1.1, they were refused before.
fn check_once(session: &Session) -> Result<(), PublicError> {
    if !session.is_http2() {
        return Ok(());
    }
    let headers = &session.req_header().headers;
    for name in [CONTENT_LENGTH, CONTENT_TYPE] {
        if headers.get_all(&name).iter().nth(1).is_some() {
            let message = format!("the request has two {name} headers");
            return Err(PublicError::invalid_request(message));
        }
    }
    Ok(())
}

fn check_head_size(session: &Session, snapshot: &Snapshot) -> Result<(), PublicError> {
    const HEADERS_TOO_LARGE: u16 = 431;
    let head = session.req_header();
    let headers = head
        .headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len() + 4);
    let size = head.raw_path().len().saturating_add(headers.sum());
    let most = snapshot.limits.head_bytes;
    let message = if size > most {
        format!("the request head is larger than {most} bytes")
    } else if head.headers.len() > Limits::MOST_HEADERS {
        // Over HTTP/1.1, it was refused before.
        format!("the request has more than {} headers", Limits::MOST_HEADERS)
    } else {
        return Ok(());
    };
    events::head_refused(HeadRefusal::TooLarge);
    Err(PublicError::new(ErrorCode::RequestTooLarge, message).with_status(HEADERS_TOO_LARGE))
}

/// Removes the offer of another protocol. Returns whether that is a WebSocket; a client that offers
/// anything else, such as HTTP/2, works without it (RFC 9110, section 7.8).
fn take_offer(session: &mut Session) -> bool {
    let offers = session.req_header_mut().remove_header(&UPGRADE);
    offers.is_some_and(|offers| is_websocket(&offers))
}

fn check_method(
    session: &Session,
    matched: endpoints::Matched<'_>,
    methods: &[Method],
    wants_websocket: bool,
) -> Result<(), Admission> {
    let method = &session.req_header().method;
    endpoints::check_method(matched, methods, method, wants_websocket).map_err(|error| {
        let is_found = error.code != ErrorCode::NotFound;
        let mut answer = Local::error(error);
        if wants_websocket {
            answer.add(UPGRADE, HeaderValue::from_static("HTTP/1.1"));
        } else if is_found && let Ok(allowed) = HeaderValue::from_str(&endpoints::allow(methods)) {
            answer.add(ALLOW, allowed);
        }
        Admission::Answer(answer)
    })
}

fn is_websocket(offers: &HeaderValue) -> bool {
    let mut offers = offers.as_bytes().split(|byte| *byte == b',');
    offers.any(|offer| offer.trim_ascii().eq_ignore_ascii_case(b"websocket"))
}

const UNSUPPORTED_MEDIA_TYPE: u16 = 415;

fn check_media_type(session: &Session) -> Result<(), PublicError> {
    if reader::is_of_type(&session.req_header().headers, "application/json") {
        return Ok(());
    }
    Err(
        PublicError::invalid_request("the content type must be application/json")
            .with_status(UNSUPPORTED_MEDIA_TYPE),
    )
}

/// How the body is compressed (RFC 9110, sections 8.4 and 15.5.16).
fn coding(session: &Session) -> Result<Option<Coding>, Admission> {
    Coding::of(&session.req_header().headers, Coding::OF_REQUESTS).map_err(|_| {
        let message = format!(
            "the content-encoding is not supported: send one of {}, or none",
            Coding::ACCEPTED
        );
        let error = PublicError::invalid_request(message).with_status(UNSUPPORTED_MEDIA_TYPE);
        let mut answer = Local::error(error);
        answer.add(ACCEPT_ENCODING, HeaderValue::from_static(Coding::ACCEPTED));
        Admission::Answer(answer)
    })
}

async fn read_body(
    session: &mut Session,
    exchange: &mut Exchange,
    format: Format,
    coding: Option<Coding>,
    address: Address,
) -> Result<(), Admission> {
    let limits = exchange.snapshot.limits;
    let bounds = load::bounds(exchange);
    let shares = load::shares(exchange).cloned();
    let reading = reading(exchange);
    let peeker = body::peeker(format, reading).with_address(address);
    let read = RequestBody::read(
        session,
        Some(peeker),
        coding,
        limits.body,
        bounds,
        shares.as_ref(),
    );
    match read.await {
        Ok(read) => {
            exchange.stage.set_body(read);
            note_facts(exchange, reading);
            Ok(())
        }
        Err(fault) => Err(fault.into()),
    }
}

/// The facts to look for in the body of a request.
pub fn reading(exchange: &Exchange) -> Reading {
    let request = exchange.stage.request();
    let catalog = exchange.snapshot.catalog.catalog();
    Reading {
        counts_tokens: request.is_some_and(|it| it.endpoint.is_count()),
        notes_texts: catalog.has_profiles(),
    }
}

/// Shows the filters what the body asks for.
pub fn note_facts(exchange: &mut Exchange, reading: Reading) {
    let Stage::Matched {
        request,
        body: Some(body),
    } = &mut exchange.stage
    else {
        return;
    };
    let catalog = exchange.snapshot.catalog.catalog();
    let mut facts = body.peeked().facts.clone();
    let named = facts.model.as_deref();
    // A request without a model may get a profile, if the default is one.
    if reading.notes_texts && named.is_none_or(|name| catalog.profile(name).is_some()) {
        facts.conversation = body.inspect_conversation().map(Box::new);
    }
    request.set_facts(facts);
    request.body = body.in_one_piece();
}

/// Finds the candidates of an admitted request; none if the gateway counts its tokens itself.
///
/// # Errors
///
/// Every candidate is full or lacks a token, or the provider that stores an item is gone.
fn find_candidates(exchange: &mut Exchange, headers: &HeaderMap) -> Result<(), PublicError> {
    let admitted = exchange.stage.admitted();
    let Some(admitted) = admitted.filter(|it| !is_counted_here(it)) else {
        return Ok(());
    };
    let Some(served) = exchange.snapshot.served(admitted.handle) else {
        return Ok(());
    };
    let asked = plan_request(exchange, admitted, served.has_choice, headers);
    let mut attempts = Attempts::default();
    let needs_price = exchange.settlement.pays_money();
    let tiers = &admitted.facts().tiers;
    let balancing = &admitted.model.balancing;
    attempts.left_out = plan(&served.handles, balancing, &asked, |choice| {
        let handle = served.handles.get(choice.deployment);
        let pool = served.pools.get(choice.deployment);
        // A model without a price cannot be paid in money.
        let handle = handle.filter(|it| !needs_price || it.deployment.is_priced(tiers));
        if let Some((handle, pool)) = handle.zip(pool) {
            attempts.add(Candidate::new(&choice, handle, pool));
        }
    });
    let PlanRequest {
        now, counts_tokens, ..
    } = asked;
    let is_stored = asked.stored_at.is_some();
    // Set before a refusal, whose record lists the candidates that were left out.
    exchange.attempts = attempts;
    if exchange.attempts.is_empty() && !counts_tokens {
        exchange.attempts.check_left_out(now)?;
        if is_stored {
            return Err(stored::unknown());
        }
    }
    Ok(())
}

/// Whether the gateway counts the tokens of the request itself.
fn is_counted_here(admitted: &Admitted) -> bool {
    match admitted.request.endpoint {
        // Few providers of responses have a counter.
        Endpoint::InputTokens => true,
        // The name of the model within it is not that of the provider.
        Endpoint::GeminiCountTokens => admitted.body.peeked().wraps_request,
        _ => false,
    }
}

fn plan_request<'a>(
    exchange: &Exchange,
    admitted: &'a Admitted,
    has_choice: bool,
    headers: &HeaderMap,
) -> PlanRequest<'a> {
    let stored_at = admitted.request.stored_at.as_ref();
    PlanRequest {
        format: admitted.format,
        counts_tokens: admitted.request.endpoint.is_count(),
        stored_at: stored_at.map(|at| (&*at.provider, &*at.credential)),
        conversation: match has_choice {
            true => affinity::of(exchange, admitted, headers),
            false => None,
        },
        tokens: admitted.facts().likely_input_tokens(),
        now: clock::steady_ms(Instant::now()),
        random: fastrand::u64(..),
    }
}

fn internal(cause: &'static str) -> PublicError {
    log::error!("{cause}");
    respond::internal_error()
}
