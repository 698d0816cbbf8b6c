//! What a provider has stored for a caller: who may ask for it, and what is remembered.
//!
//! Whether a key made it is the ledger's to know.

use super::attempt::{Attempts, Candidate};
use super::exchange::Exchange;
use super::respond;
use crate::snapshot::Snapshot;
use crate::upstreams::Pool;
use http::Method;
use pingora_proxy::Session;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;
use tollgate_filter::{Endpoint, Stored, StoredAt, StoredThings};
use tollgate_ledger::{Due, Refused};
use tollgate_routing::health::Place;
use tollgate_routing::plan::Why;
use tollgate_types::{ErrorCode, Format, Identity, PublicError};

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
    let mut found = owned.find(&identity.key, id);
    if let Stored::Miss(pending) = found {
        found = pending.await;
    }
    let at = match found {
        Stored::Yours { at, .. } => at,
        Stored::NotYours => return Err(unknown()),
        Stored::Unavailable | Stored::Miss(_) => {
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
    let request = exchange.request.as_ref();
    let shows_output = request.is_some_and(|request| {
        let endpoint = request.endpoint;
        matches!(
            endpoint,
            Endpoint::StoredResponse | Endpoint::CancelResponse
        )
    });
    // Deleting a response shows nothing of it.
    let (Some(owned), true) = (
        &snapshot.owned,
        shows_output && exchange.target.0 != Method::DELETE,
    ) else {
        return Ok(());
    };
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
    let reservation = held.map_err(|refused| cannot_pay(exchange, &refused))?;
    exchange.toll.hold_due(reservation, due, paying);
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

fn cannot_pay(exchange: &Exchange, refused: &Refused) -> PublicError {
    let (code, message) = match refused {
        Refused::Exhausted => (
            ErrorCode::QuotaExhausted,
            "the API key has no tokens left to pay for the rest of this response: \
             GET /v1/usage shows its balance",
        ),
        Refused::Expired => (ErrorCode::InvalidApiKey, "the API key is not valid"),
        Refused::Busy => (
            ErrorCode::RateLimitExceeded,
            "the API key's remaining tokens are held by its other requests; retry in a few seconds",
        ),
        Refused::Unavailable(cause) => {
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
    let Some(request) = &exchange.request else {
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
        // Of what is translated no identifier is told.
        exchange.noted.is_over = true;
        return;
    }
    let at = || StoredAt {
        provider: Arc::clone(&candidate.deployment.provider.name),
        credential: exchange.attempts.credential(),
    };
    let remember = |ids: &[Box<str>], noted: &mut usize, tokens: Option<u64>| {
        for id in ids.get(*noted..).unwrap_or_default() {
            owned.remember(&identity.key, id, &at(), tokens, None);
        }
        *noted = ids.len();
    };
    let charged = exchange.toll.charged(exchange.id);
    let noted = &mut exchange.noted;
    // What is in a container is no input by itself.
    remember(&facts.containers, &mut noted.containers, Some(0));
    let asked = request.facts.as_ref();
    let stores = asked.is_some_and(|facts| facts.store != Some(false));
    if candidate.format != Format::Responses || !stores {
        return;
    }
    if let Some(id) = facts.id.as_deref().filter(|_| !noted.has_id) {
        owned.remember(&identity.key, id, &at(), None, charged);
        noted.has_id = true;
    }
    remember(&facts.stored_ids, &mut noted.within, None);
}

/// Remembers how much input what was noted makes in a later request: at most all tokens of this one.
pub fn measure(exchange: &Exchange, tokens: u64) {
    let noted = exchange.noted;
    let Some(facts) = exchange.answer.facts().filter(|_| noted.has_id) else {
        return;
    };
    let identity = exchange
        .request
        .as_ref()
        .and_then(|it| it.identity.as_ref());
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
    let charged = exchange.toll.charged(exchange.id);
    let of_response = facts.id.iter().map(|id| (id, charged));
    for (id, request) in of_response.chain(within.iter().map(|id| (id, None))) {
        owned.remember(&identity.key, id, &at, Some(tokens), request);
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
