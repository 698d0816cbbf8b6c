//! What a provider has stored for a caller: who may ask for it, and what is remembered.
//!
//! Whether a key made it is the ledger's to know.

use super::attempt::{Attempts, Candidate};
use super::exchange::Exchange;
use super::remembered;
use super::respond;
use crate::owned::Owned;
use crate::snapshot::Snapshot;
use crate::upstreams::Pool;
use http::Method;
use pingora_proxy::Session;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;
use tollgate_filter::{Endpoint, StoredThings};
use tollgate_ledger::{Due, InputDue};
use tollgate_routing::health::Place;
use tollgate_routing::plan::Why;
use tollgate_types::{ErrorCode, Format, Identity, OwnerFailure, PublicError, Shortage, StoredAt};

/// The parameters of a query that go upstream with a request for a stored thing: they say
/// which part of it is wanted. A stored stream is not played again: `stream` is none of them.
const PASSED: [&str; 6] = ["include", "include[]", "limit", "order", "after", "before"];

/// Who has stored a thing.
pub struct Holder {
    /// A deployment of its provider.
    pub place: Arc<Place>,
    /// The credential under which it was made, among those of the deployment.
    pub seat: usize,
    /// The connections to its provider.
    pub pool: Arc<Pool>,
}

/// The one provider that can be asked for a stored thing.
///
/// # Errors
///
/// As [`holder`].
pub async fn attempts(
    snapshot: &Snapshot,
    identity: &Identity,
    id: &str,
) -> Result<Attempts, PublicError> {
    let Holder { place, seat, pool } = holder(snapshot, identity, id).await?;
    let mut attempts = Attempts::default();
    attempts.add(Candidate {
        place,
        seat,
        // There is nobody else to ask.
        why: Why::LastResort,
        pool,
        format: Format::Responses,
    });
    Ok(attempts)
}

/// The provider that has stored a thing which the key made.
///
/// # Errors
///
/// 404 for what another key made, what nobody made, and what was made at a provider that the
/// configuration has no more; 503 while nobody can say.
pub async fn holder(
    snapshot: &Snapshot,
    identity: &Identity,
    id: &str,
) -> Result<Holder, PublicError> {
    let Some(owned) = &snapshot.owned else {
        return Err(respond::internal_error());
    };
    let at = match owned.find(&identity.key, id).await {
        Ok(stored) => stored.at,
        Err(OwnerFailure::NotOwned) => return Err(unknown()),
        Err(OwnerFailure::Unavailable(_)) => {
            return Err(PublicError::new(
                ErrorCode::ServiceUnavailable,
                "it cannot be checked at the moment whose this is: try again shortly",
            ));
        }
    };
    let holds = |it: &&Arc<Place>| {
        let deployment = &it.deployment;
        deployment.provider.name == at.provider && deployment.formats.contains(Format::Responses)
    };
    let place = snapshot.fleet.all().find(holds).ok_or_else(unknown)?;
    let mut seats = place.seats.iter();
    let seat = seats.position(|it| *it.name() == *at.credential);
    let pool = snapshot.upstreams.pool(&at.provider);
    let (seat, pool) = seat.zip(pool).ok_or_else(unknown)?;
    Ok(Holder {
        place: Arc::clone(place),
        seat,
        pool: Arc::clone(pool),
    })
}

/// What a request for a stored response names that its provider has stored. Must come before the
/// filters, which take the items away.
pub fn named(exchange: &Exchange) -> Vec<Arc<str>> {
    let request = exchange.stage.request();
    let request = request.filter(|it| it.endpoint == Endpoint::Responses);
    let facts = request.and_then(|it| it.facts.as_ref());
    let stores = facts.filter(|facts| facts.store != Some(false));
    let names = stores.into_iter().flat_map(|facts| {
        // An item with contents shows no more than the request itself.
        let references = facts.items.iter().filter(|item| !item.has_contents);
        let references = references.map(|item| &item.id);
        facts.stored_ids.iter().chain(references)
    });
    names.map(|id| id.as_str().into()).collect()
}

/// Finds out what is not paid for of what a request names.
///
/// # Errors
///
/// It is more than is remembered of one response, or the ledger does not answer.
pub async fn find_unpaid(exchange: &mut Exchange, named: Vec<Arc<str>>) -> Result<(), PublicError> {
    /// Responses that are not paid for and that one request can name.
    const MOST: usize = 64;
    let identity = exchange.stage.identity().cloned();
    let snapshot = Arc::clone(&exchange.snapshot);
    let (Some(owned), Some(identity), false) = (&snapshot.owned, identity, named.is_empty()) else {
        return Ok(());
    };
    let unpaid = owned.unpaid(&identity.key, named).await;
    exchange.unpaid = unpaid.map_err(|cause| {
        log::error!("{}: what is due for named responses: {cause}", exchange.id);
        let message = "the responses that the request names cannot be checked at the moment; \
                       retry in a few seconds";
        PublicError::new(ErrorCode::ServiceUnavailable, message)
    })?;
    match exchange.unpaid.first() {
        Some(first) if exchange.unpaid.len() > MOST => Err(PublicError::invalid_request(format!(
            "the request names more than {MOST} responses that were left before their end and are not \
             paid for: retrieve the response that made '{}', and others, first",
            first.id
        ))),
        _ => Ok(()),
    }
}

/// Refuses to show the input of a response that shows what is not paid for.
async fn check_input(
    exchange: &Exchange,
    owned: &Owned,
    identity: &Identity,
    id: &str,
) -> Result<(), PublicError> {
    match owned.due_of_input(&identity.key, id).await {
        Ok(InputDue::Nothing) => Ok(()),
        Ok(InputDue::Unknown) => Err(not_settled()),
        Ok(InputDue::Unpaid(shown)) => Err(PublicError::invalid_request(format!(
            "this input shows '{shown}', of a response that was left before its end and is not paid \
             for: retrieve that response first (GET /v1/responses/{{id}})"
        ))),
        Err(cause) => {
            log::error!("{}: what is due for an input: {cause}", exchange.id);
            Err(not_settled())
        }
    }
}

/// Holds what is due for a response that the key is about to retrieve: its request was charged an
/// estimate, and what the response says that it used is charged before it leaves.
///
/// # Errors
///
/// The request that had it made is still under way, the balance is used up, or the ledger does not
/// answer.
pub async fn hold_due(
    exchange: &mut Exchange,
    identity: &Identity,
    id: &str,
) -> Result<(), PublicError> {
    let snapshot = Arc::clone(&exchange.snapshot);
    let endpoint = exchange.stage.request().map(|request| request.endpoint);
    let Some(owned) = &snapshot.owned else {
        return Ok(());
    };
    match endpoint {
        // Deleting a response shows nothing of it.
        _ if exchange.target.0 == Method::DELETE => return Ok(()),
        Some(Endpoint::StoredResponse | Endpoint::CancelResponse) => {}
        Some(Endpoint::ResponseInput) => return check_input(exchange, owned, identity, id).await,
        _ => return Ok(()),
    }
    let due = match owned.due(&identity.key, id).await {
        Ok(Due::Nothing) => return Ok(()),
        Ok(Due::Unknown) => return Err(not_settled()),
        Ok(Due::Rest(due)) => due,
        Err(cause) => {
            log::error!("{}: what is due for a response: {cause}", exchange.id);
            return Err(not_settled());
        }
    };
    let paying = owned.begin_paying(id).ok_or_else(not_settled)?;
    let model = snapshot.catalog.catalog().resolve(&due.served);
    let weights = model.map(|model| model.weights).unwrap_or_default();
    let most = model.and_then(|model| model.max_output_tokens);
    let most = most.unwrap_or(MOST_OUTPUT);
    let held = owned.hold(&identity.key, &due, most, weights).await;
    let reservation = held.map_err(|shortage| cannot_pay(exchange, &shortage))?;
    exchange.settlement.hold_due(reservation, due, paying);
    Ok(())
}

/// Output tokens of a response whose model does not say how many it can have.
const MOST_OUTPUT: u64 = 128_000;

/// The error for a response whose charge is not settled yet.
fn not_settled() -> PublicError {
    let message = "the request that made this response is not settled yet; retry in a second";
    PublicError::new(ErrorCode::ServiceUnavailable, message)
        .with_retry_after(Duration::from_secs(1))
}

fn cannot_pay(exchange: &Exchange, shortage: &Shortage) -> PublicError {
    let (code, message) = match shortage {
        Shortage::Exhausted => (
            ErrorCode::QuotaExhausted,
            "the API key has no tokens left to pay for the rest of this response: \
             GET /v1/usage shows its balance",
        ),
        Shortage::Expired => (ErrorCode::InvalidApiKey, "the API key is not valid"),
        Shortage::Busy => (
            ErrorCode::RateLimitExceeded,
            "the API key's remaining tokens are held by its other requests; retry in a few seconds",
        ),
        Shortage::Unavailable(cause) => {
            log::error!("{}: a balance cannot be had: {cause}", exchange.id);
            (
                ErrorCode::ServiceUnavailable,
                "balances cannot be checked at the moment; retry in a few seconds",
            )
        }
    };
    PublicError::new(code, message)
}

/// The error for a thing that another key made, nobody made, or its provider has no more.
pub fn unknown() -> PublicError {
    PublicError::new(
        ErrorCode::NotFound,
        "it does not exist or was not made with this API key",
    )
}

/// The path and query under which a provider is asked for a stored thing, behind the path
/// that it serves the format at.
pub fn target(base: &str, endpoint: Endpoint, session: &Session) -> Option<http::Uri> {
    let uri = &session.req_header().uri;
    let id = crate::endpoints::match_path(uri.path()).ok()?.id?;
    let end = match endpoint {
        Endpoint::CancelResponse => "/cancel",
        Endpoint::ResponseInput => "/input_items",
        _ => "",
    };
    let mut target = format!("{base}/{id}{end}");
    let pairs = uri.query().unwrap_or_default().split('&');
    let passed = pairs.filter(|pair| {
        let name = pair.split('=').next().unwrap_or(pair);
        PASSED.contains(&name) || name == "include%5B%5D"
    });
    for (place, pair) in passed.enumerate() {
        let mark = if place == 0 { '?' } else { '&' };
        // Writing to a string cannot fail.
        let _ = write!(target, "{mark}{pair}");
    }
    target.parse().ok()
}

/// Remembers whose the response is that is being answered with, and whose its items and its
/// conversation are, as soon as their identifiers are known and where the provider stores them;
/// and whose the containers are in which its tools ran, which are there in any case.
pub fn note(exchange: &mut Exchange) {
    if exchange.noted.is_over {
        return;
    }
    let Some(request) = exchange.stage.request() else {
        return;
    };
    if !matches!(request.endpoint, Endpoint::Responses | Endpoint::Messages) {
        exchange.noted.is_over = true;
        return;
    }
    let Some(facts) = exchange.answer.facts() else {
        return;
    };
    let (Some(owned), Some(identity), Some(candidate)) = (
        &exchange.snapshot.owned,
        &request.identity,
        exchange.attempts.current(),
    ) else {
        return;
    };
    if request.format() != Some(candidate.format) {
        // A translated answer shows no identifier of its provider.
        remembered::note(exchange);
        return;
    }
    let at = || StoredAt {
        provider: Arc::clone(&candidate.deployment.provider.name),
        credential: exchange.attempts.credential(),
    };
    let remember = |ids: &[Box<str>], noted: &mut usize, tokens, request| {
        for id in ids.get(*noted..).unwrap_or_default() {
            owned.remember(&identity.key, id, &at(), tokens, request);
        }
        *noted = ids.len();
    };
    let charged = exchange.settlement.charged(exchange.id);
    let unpaid = &exchange.unpaid;
    let noted = &mut exchange.noted;
    // What is in a container is no input by itself.
    remember(&facts.containers, &mut noted.containers, Some(0), None);
    let asked = request.facts.as_ref();
    let stores = asked.is_some_and(|facts| facts.store != Some(false));
    if candidate.format != Format::Responses || !stores {
        return;
    }
    if let Some(id) = facts.id.as_deref().filter(|_| !noted.has_id) {
        owned.remember(&identity.key, id, &at(), None, charged);
        owned.remember_shown(&identity.key, id, &at(), unpaid);
        noted.has_id = true;
    }
    remember(&facts.stored_ids, &mut noted.within, None, charged);
}

/// Remembers how much input what was noted makes in a later request: at most all tokens of this one.
pub fn measure(exchange: &Exchange, tokens: u64) {
    let noted = exchange.noted;
    let Some(facts) = exchange.answer.facts().filter(|_| noted.has_id) else {
        return;
    };
    let identity = exchange.stage.identity();
    let (Some(owned), Some(identity), Some(candidate)) = (
        &exchange.snapshot.owned,
        identity,
        exchange.attempts.current(),
    ) else {
        return;
    };
    let at = StoredAt {
        provider: Arc::clone(&candidate.deployment.provider.name),
        credential: exchange.attempts.credential(),
    };
    let within = facts.stored_ids.get(..noted.within).unwrap_or_default();
    let charged = exchange.settlement.charged(exchange.id);
    for id in facts.id.iter().chain(within) {
        owned.remember(&identity.key, id, &at, Some(tokens), charged);
    }
}

/// Notes that a request has paid for the response that was noted, with everything that it shows.
pub fn note_paid(exchange: &Exchange) {
    let Some(facts) = exchange.answer.facts().filter(|_| exchange.noted.has_id) else {
        return;
    };
    let Some(owned) = exchange
        .snapshot
        .owned
        .as_ref()
        .filter(|_| exchange.unpaid.is_empty())
    else {
        return;
    };
    let within = facts.stored_ids.get(..exchange.noted.within);
    for id in facts.id.iter().chain(within.unwrap_or_default()) {
        owned.note_paid(id);
    }
}

/// What of an answer is remembered so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Noted {
    /// There is nothing to remember.
    is_over: bool,
    /// The response itself is.
    has_id: bool,
    /// How many of what is stored with it are.
    within: usize,
    /// How many of the containers in which its tools ran are.
    containers: usize,
}
