//! Responses that a provider stores for a client: access to them, and what the ledger remembers.
//!
//! The ledger knows which key owns a response.

use super::attempt::{Attempts, Candidate};
use super::exchange::Exchange;
use super::remembered;
use crate::snapshot::Snapshot;
use crate::upstreams::Pool;
use http::Method;
use pingora_proxy::Session;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;
use tollgate_engine::owned::Owned;
use tollgate_filter::{Endpoint, StoredItems};
use tollgate_ledger::{Due, InputDue, Unpaid};
use tollgate_routing::health::DeploymentHandle;
use tollgate_routing::plan::Why;
use tollgate_types::{
    ErrorCode, Format, Identity, LARGEST_WINDOW, OwnerFailure, PublicError, ReservationGuard as _,
    Shortage, StoredAt, Tariff,
};

/// The query parameters that the provider gets with a request for a stored item. `stream` is not one of them:
/// a stored stream is not replayed.
const PASSED: [&str; 6] = ["include", "include[]", "limit", "order", "after", "before"];

/// The provider that stores an item.
pub struct Holder {
    /// A deployment of its provider.
    pub handle: Arc<DeploymentHandle>,
    /// The index of the credential under which the item was created, among those of the deployment.
    pub credential: usize,
    /// The connections to its provider.
    pub pool: Arc<Pool>,
}

/// The only candidate for a request for a stored item.
///
/// # Errors
///
/// As [`holder`].
pub async fn attempts(
    snapshot: &Snapshot,
    identity: &Identity,
    id: &str,
) -> Result<Attempts, PublicError> {
    let Holder {
        handle,
        credential,
        pool,
    } = holder(snapshot, identity, id).await?;
    let mut attempts = Attempts::default();
    attempts.add(Candidate {
        handle,
        credential,
        // No other provider stores it.
        why: Why::LastResort,
        pool,
        format: Format::Responses,
        was_asked: false,
    });
    Ok(attempts)
}

/// The provider that stores an item of the key.
///
/// # Errors
///
/// 404 if the key does not own it, or if its provider is no longer in the configuration; 503 if the ledger
/// does not answer.
pub async fn holder(
    snapshot: &Snapshot,
    identity: &Identity,
    id: &str,
) -> Result<Holder, PublicError> {
    let at = match snapshot.owned.find(&identity.key, id).await {
        Ok(stored) => stored.at,
        Err(OwnerFailure::NotOwned) => return Err(unknown()),
        Err(OwnerFailure::Unavailable(_)) => {
            return Err(PublicError::new(
                ErrorCode::ServiceUnavailable,
                "the owner of this response cannot be checked now; retry in a few seconds",
            ));
        }
    };
    let holds = |it: &&Arc<DeploymentHandle>| {
        let deployment = &it.deployment;
        deployment.provider.name == at.provider && deployment.formats.contains(Format::Responses)
    };
    let handle = snapshot.fleet.all().find(holds).ok_or_else(unknown)?;
    let mut credentials = handle.credentials.iter();
    let credential = credentials.position(|it| *it.name() == *at.credential);
    let pool = snapshot.upstreams.pool(&at.provider);
    let (credential, pool) = credential.zip(pool).ok_or_else(unknown)?;
    Ok(Holder {
        handle: Arc::clone(handle),
        credential,
        pool: Arc::clone(pool),
    })
}

/// The stored responses and items that a request names.
fn named(exchange: &Exchange) -> Vec<Arc<str>> {
    let request = exchange.stage.request();
    let request = request.filter(|it| it.endpoint == Endpoint::Responses);
    let facts = request.and_then(|it| it.facts_if_read());
    let stores = facts.filter(|facts| facts.store != Some(false));
    let names = stores.into_iter().flat_map(|facts| {
        // An item with contents shows only what is in the request.
        let references = facts.items.iter().filter(|item| !item.has_contents);
        let references = references.map(|item| &item.id);
        let stored = facts.stored_ids.iter().map(|stored| &stored.id);
        stored.chain(references)
    });
    names.map(|id| id.as_str().into()).collect()
}

/// Looks up which of the named responses are not paid.
///
/// # Errors
///
/// There are too many of them, or the ledger does not answer.
pub async fn find_unpaid(exchange: &mut Exchange) -> Result<(), PublicError> {
    /// The most unpaid responses that one request can name.
    const MOST: usize = 64;
    let named = named(exchange);
    let identity = exchange.stage.identity().cloned();
    let snapshot = Arc::clone(&exchange.snapshot);
    let (Some(identity), false) = (identity, named.is_empty()) else {
        return Ok(());
    };
    let unpaid = snapshot.owned.unpaid(&identity.key, named).await;
    exchange.stored.unpaid = unpaid.map_err(|cause| {
        log::error!(
            "{}: the amount due for named responses is unknown: {cause}",
            exchange.id
        );
        let message = "the responses that the request names cannot be checked now; \
                       retry in a few seconds";
        PublicError::new(ErrorCode::ServiceUnavailable, message)
    })?;
    match exchange.stored.unpaid.first() {
        Some(first) if exchange.stored.unpaid.len() > MOST => {
            Err(PublicError::invalid_request(format!(
                "the request names more than {MOST} responses that were left before their end and are not \
             paid for: retrieve the response that made '{}', and others, first",
                first.id
            )))
        }
        _ => Ok(()),
    }
}

/// Refuses to show an input that shows unpaid responses.
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
            log::error!(
                "{}: the amount due for an input is unknown: {cause}",
                exchange.id
            );
            Err(not_settled())
        }
    }
}

/// Reserves the amount due for a response that the key is about to retrieve: its request was charged an
/// estimate, and the rest is charged before the response is sent.
///
/// # Errors
///
/// The request that made the response is not settled, the balance is used up, or the ledger does not
/// answer.
pub async fn reserve_due(
    exchange: &mut Exchange,
    identity: &Identity,
    id: &str,
) -> Result<(), PublicError> {
    let snapshot = Arc::clone(&exchange.snapshot);
    let endpoint = exchange.stage.request().map(|request| request.endpoint);
    let owned = &snapshot.owned;
    match endpoint {
        // Deleting a response does not show its content.
        _ if exchange.arrival.method == Method::DELETE => return Ok(()),
        Some(Endpoint::StoredResponse | Endpoint::CancelResponse) => {}
        Some(Endpoint::ResponseInput) => return check_input(exchange, owned, identity, id).await,
        _ => return Ok(()),
    }
    // Before `due`: otherwise another request could charge the response in between.
    let paying = owned.begin_paying(id);
    let due = match owned.due(&identity.key, id).await {
        Ok(Due::Nothing) => return Ok(()),
        Ok(Due::Unknown) => return Err(not_settled()),
        Ok(Due::Rest(due)) => due,
        Err(cause) => {
            log::error!(
                "{}: the amount due for a response is unknown: {cause}",
                exchange.id
            );
            return Err(not_settled());
        }
    };
    // The client got this text, and paid for it.
    let is_seen = due.is_seen();
    let Some(paying) = paying else {
        return if is_seen { Ok(()) } else { Err(not_settled()) };
    };
    // An item of a response cannot be retrieved like one.
    let tariff = *due.tariff.as_deref().ok_or_else(unknown)?;
    let model = snapshot.catalog.catalog().served(&due.served);
    let most = model.and_then(|model| model.max_output_tokens);
    let most = most.unwrap_or(MOST_OUTPUT);
    let window = model.and_then(|model| model.context_window);
    let window = window.unwrap_or(LARGEST_WINDOW);
    let held = owned
        .reserve(&identity.key, &due, most, window, tariff)
        .await;
    let mut reservation = match held {
        Err(_) if is_seen => return Ok(()),
        held => held.map_err(|shortage| cannot_pay(exchange, &shortage))?,
    };
    reservation.set_prices(tariff.prices);
    reservation.set_arrival(exchange.arrival.at);
    exchange.settlement.reserve_due(reservation, due, paying);
    Ok(())
}

/// The most output tokens of a response whose model has no limit.
const MOST_OUTPUT: u64 = 128_000;

/// The error for a response whose charge is not settled yet.
fn not_settled() -> PublicError {
    let message = "the request that made this response is not settled yet; retry in a second";
    PublicError::new(ErrorCode::ServiceUnavailable, message)
        .with_retry_after(Duration::from_secs(1))
}

fn cannot_pay(exchange: &Exchange, shortage: &Shortage) -> PublicError {
    if let Shortage::Unavailable(cause) = shortage {
        log::error!("{}: the balance cannot be read: {cause}", exchange.id);
    }
    let error = shortage.public();
    let message = format!(
        "the rest of this response cannot be charged: {}",
        error.message
    );
    PublicError {
        message: message.into(),
        ..error
    }
}

/// The error for an item that the key does not own, or that its provider no longer stores.
pub fn unknown() -> PublicError {
    PublicError::new(
        ErrorCode::NotFound,
        "the stored response or item does not exist or was not made with this API key",
    )
}

/// The URI of a request for a stored item. `base`: the provider's path and query for the format.
pub fn target(base: &http::Uri, endpoint: Endpoint, session: &Session) -> Option<http::Uri> {
    let uri = &session.req_header().uri;
    let id = tollgate_engine::endpoints::match_path(uri.path())
        .ok()?
        .id?;
    let end = match endpoint {
        Endpoint::CancelResponse => "/cancel",
        Endpoint::ResponseInput => "/input_items",
        _ => "",
    };
    let mut target = format!("{}/{id}{end}", base.path());
    let pairs = uri.query().unwrap_or_default().split('&');
    let passed = pairs.filter(|pair| {
        let name = pair.split('=').next().unwrap_or(pair);
        PASSED.contains(&name) || name == "include%5B%5D"
    });
    for (index, pair) in base.query().into_iter().chain(passed).enumerate() {
        let mark = if index == 0 { '?' } else { '&' };
        // Writing to a string cannot fail.
        let _ = write!(target, "{mark}{pair}");
    }
    target.parse().ok()
}

/// Remembers the owner of the response, its items and its conversation, as soon as their ids are known and
/// if the provider stores them; and the owner of the containers in which its tools ran.
pub fn note(exchange: &mut Exchange) {
    if exchange.stored.is_over {
        return;
    }
    let Some(request) = exchange.stage.request() else {
        return;
    };
    if !matches!(request.endpoint, Endpoint::Responses | Endpoint::Messages) {
        exchange.stored.is_over = true;
        return;
    }
    let Some(facts) = exchange.answer.facts() else {
        return;
    };
    let (Some(identity), Some(candidate)) = (&request.identity, exchange.attempts.current()) else {
        return;
    };
    let owned = &exchange.snapshot.owned;
    if request.format() != Some(candidate.format) {
        // A translated answer has no ids of its provider.
        remembered::note(exchange);
        return;
    }
    let at = || StoredAt {
        provider: Arc::clone(&candidate.deployment.provider.name),
        credential: exchange.attempts.credential(),
    };
    let remember = |ids: &[Box<str>], noted: &mut usize, tokens, request| {
        for id in ids.get(*noted..).unwrap_or_default() {
            owned.remember(&identity.key, id, &at(), tokens, request, None);
        }
        *noted = ids.len();
    };
    let charged = exchange.settlement.charged(exchange.id);
    let noted = &mut exchange.stored;
    // A container adds no input by itself.
    remember(&facts.containers, &mut noted.containers, Some(0), None);
    let asked = request.facts_if_read();
    let stores = asked.is_some_and(|facts| facts.store != Some(false));
    if candidate.format != Format::Responses || !stores {
        return;
    }
    if let Some(id) = facts.id.as_deref().filter(|_| !noted.has_id) {
        noted.tariff = exchange.stage.admitted().map(|admitted| {
            Arc::new(Tariff {
                weights: admitted.model.weights,
                prices: exchange.settlement.prices(),
                ..Tariff::default()
            })
        });
        let tariff = noted.tariff.clone();
        owned.remember(&identity.key, id, &at(), None, charged, tariff);
        owned.remember_shown(&identity.key, id, &at(), &noted.unpaid);
        noted.has_id = true;
    }
    remember(&facts.stored_ids, &mut noted.within, None, charged);
}

/// Remembers how much input the response makes in a later request: at most all tokens of this one.
pub fn measure(exchange: &Exchange, tokens: u64) {
    let noted = &exchange.stored;
    let Some(facts) = exchange.answer.facts().filter(|_| noted.has_id) else {
        return;
    };
    let identity = exchange.stage.identity();
    let (Some(identity), Some(candidate)) = (identity, exchange.attempts.current()) else {
        return;
    };
    let owned = &exchange.snapshot.owned;
    let at = StoredAt {
        provider: Arc::clone(&candidate.deployment.provider.name),
        credential: exchange.attempts.credential(),
    };
    let within = facts.stored_ids.get(..noted.within).unwrap_or_default();
    let charged = exchange.settlement.charged(exchange.id);
    let remember = |id: &str, tariff| {
        owned.remember(&identity.key, id, &at, Some(tokens), charged, tariff);
    };
    if let Some(id) = &facts.id {
        remember(id, noted.tariff.clone());
    }
    for id in within {
        remember(id, None);
    }
}

/// Notes that the request has paid for the response and for everything that it shows.
pub fn note_paid(exchange: &Exchange) {
    let has_paid = exchange.stored.has_id && exchange.stored.unpaid.is_empty();
    let Some(facts) = exchange.answer.facts().filter(|_| has_paid) else {
        return;
    };
    let within = facts.stored_ids.get(..exchange.stored.within);
    for id in facts.id.iter().chain(within.unwrap_or_default()) {
        exchange.snapshot.owned.note_paid(id);
    }
}

/// What the ledger knows of stored responses: those that a request names, and its own.
#[derive(Default)]
pub struct StoredNotes {
    /// Responses that the request names and that are not paid: the input of its own response shows them.
    unpaid: Vec<Unpaid>,
    /// There is nothing to remember.
    is_over: bool,
    /// The ledger knows the response.
    has_id: bool,
    /// The weights and prices of its request, once it is known.
    tariff: Option<Arc<Tariff>>,
    /// How many items of the response it knows.
    within: usize,
    /// How many containers it knows.
    containers: usize,
}
