//! Answers that the gateway remembers: it inserts them into requests that refer to them, keeps answers
//! that it has translated, and returns a single one on request.
//!
//! `tollgate_translate::references` decides which answer a reference names; `tollgate_ledger`, how much is
//! remembered and where.

use super::admission;
use super::body::RequestBody;
use super::exchange::Exchange;
use super::load;
use super::memory_permit::{MemoryPermit, SMALL};
use super::respond::{self, Local};
use super::stage::Admitted;
use crate::snapshot::Snapshot;
use bytes::Bytes;
use http::Method;
use pingora_proxy::Session;
use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;
use tollgate_engine::accounts::Remembering;
use tollgate_filter::{Endpoint, StoredItems};
use tollgate_ledger::{MemoryLookup, Remembered, StoreError, Unavailable};
use tollgate_telemetry::events::Shed;
use tollgate_translate::AnswerMemory;
use tollgate_translate::references::{self, Reference, Turn, Turns, Unresolved};
use tollgate_types::{
    ErrorCode, Format, Identity, OwnerFailure, PublicError, RequestFacts, RequestId,
};

/// The client's own request, if remembered answers were inserted into the one that is sent.
pub struct OriginalRequest {
    /// Its `input`, as JSON.
    pub input: Bytes,
    /// The answer that the request continues.
    pub previous: Option<RequestId>,
    /// Whether reasoning items that are not remembered were left out.
    pub forgot_reasoning: bool,
    /// Bytes of the whole request.
    pub length: u64,
}

/// The part of a request that is kept until its answer is remembered.
pub struct Kept {
    input: Bytes,
    previous: Option<RequestId>,
}

/// Looks up the answers of one key, and counts the memory that they use.
struct OfKey<'a> {
    lookup: &'a MemoryLookup<'a>,
    permit: RefCell<MemoryPermit>,
}

/// Why answers cannot be looked up.
enum LookupFault {
    Store(StoreError),
    /// There is no memory for them.
    Memory(Shed),
}

impl From<StoreError> for LookupFault {
    fn from(fault: StoreError) -> Self {
        Self::Store(fault)
    }
}

impl OfKey<'_> {
    fn count(&self, bytes: usize) -> Result<(), LookupFault> {
        /// Bytes of memory per byte of an answer: it is read, parsed and written into the request.
        const OF_A_BYTE: u64 = 3;
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let grown = self
            .permit
            .borrow_mut()
            .grow(bytes.saturating_mul(OF_A_BYTE));
        grown.map_err(LookupFault::Memory)
    }
}

impl Turns for OfKey<'_> {
    type Error = LookupFault;

    fn response(&self, id: RequestId) -> Result<Option<Bytes>, LookupFault> {
        let found = self.lookup.response(id)?;
        self.count(found.as_ref().map_or(0, Bytes::len))?;
        Ok(found)
    }

    fn turn(&self, id: RequestId) -> Result<Option<Turn>, LookupFault> {
        let found = self.lookup.answer(id)?;
        let size = |it: &Remembered| it.input.len().saturating_add(it.response.len());
        self.count(found.as_ref().map_or(0, size))?;
        Ok(found.map(|it| Turn {
            previous: it.previous,
            input: it.input,
            response: it.response,
        }))
    }
}

/// Inserts remembered answers into a request that refers to them. From here on, the conversation is its
/// input.
///
/// # Errors
///
/// 404 if an answer is neither remembered nor stored by a provider for this key, 413 if the conversation
/// is larger than a request may be, 503 if the look-up fails or there is no memory for it.
pub async fn resolve(exchange: &mut Exchange) -> Result<(), PublicError> {
    /// The memory that parsing a value of the body takes, in bytes.
    const OF_A_VALUE: u64 = 32;
    let snapshot = Arc::clone(&exchange.snapshot);
    let Some((remembering, identity, body)) = referring(exchange, &snapshot) else {
        return Ok(());
    };
    let length = body.len();
    let most = usize::try_from(snapshot.limits.body.size).unwrap_or(usize::MAX);
    let whole = body.whole();
    let mut permit =
        MemoryPermit::new(load::bounds(exchange), load::shares(exchange)).beside(length);
    let of_body = length.saturating_mul(2);
    let of_values = body.peeked().values.saturating_mul(OF_A_VALUE);
    permit
        .grow(of_body.saturating_add(of_values))
        .map_err(load::shed)?;
    // The look-up owns the permit, because it may run longer than this request waits for it.
    let found = remembering.memory.look_up(&identity.key, move |lookup| {
        let permit = RefCell::new(permit);
        let answers = OfKey { lookup, permit };
        let found = references::resolve(&whole, most, &answers);
        (found, answers.permit.into_inner())
    });
    let (found, mut permit) = found.await.map_err(|fault| unavailable(exchange, &fault))?;
    let resolved = match found {
        Ok(resolved) => resolved,
        Err(Unresolved::TooLarge) => return Err(too_large(most)),
        Err(Unresolved::Lookup(LookupFault::Store(fault))) => {
            return Err(unavailable(exchange, &fault));
        }
        Err(Unresolved::Lookup(LookupFault::Memory(shed))) => return Err(load::shed(shed)),
    };
    check_unknown(&snapshot, &identity, &resolved.unknown).await?;
    let kept = u64::try_from(resolved.body.len()).unwrap_or(u64::MAX);
    permit.shrink_to(kept);
    let original = OriginalRequest {
        input: resolved.input,
        previous: resolved.previous,
        forgot_reasoning: resolved.forgot_reasoning,
        length,
    };
    let reading = admission::reading(exchange);
    if let Some(body) = exchange.stage.body_mut() {
        body.replace(resolved.body, reading, permit, original)?;
    }
    admission::note_facts(exchange, reading);
    Ok(())
}

/// A request that names answers of this gateway.
fn referring<'a>(
    exchange: &'a Exchange,
    snapshot: &'a Snapshot,
) -> Option<(&'a Remembering, Arc<Identity>, &'a RequestBody)> {
    let remembering = snapshot.memory.as_ref()?;
    let request = exchange.stage.request()?;
    if request.format() != Some(Format::Responses) || !names_answers(request.facts_if_read()?) {
        return None;
    }
    let identity = Arc::clone(request.identity.as_ref()?);
    Some((remembering, identity, exchange.stage.body()?))
}

fn names_answers(facts: &RequestFacts) -> bool {
    /// Reasoning can have contents but lack the state that its provider needs.
    const THOUGHT: &str = "rs_";
    let made_here = |id: &str| RequestId::in_answer_id(id).is_some();
    let mut items = facts.items.iter();
    facts.stored_ids.iter().any(|it| made_here(&it.id))
        || items.any(|it| (!it.has_contents || it.id.starts_with(THOUGHT)) && made_here(&it.id))
}

/// Allows references to items that a provider stores for the key: their ids can look like those of the
/// gateway.
async fn check_unknown(
    snapshot: &Snapshot,
    identity: &Identity,
    unknown: &[Reference],
) -> Result<(), PublicError> {
    for Reference { path, id } in unknown {
        match snapshot.owned.find(&identity.key, id).await {
            Ok(_) => {}
            Err(OwnerFailure::NotOwned) => return Err(not_remembered(path, id)),
            Err(OwnerFailure::Unavailable(_)) => return Err(try_again()),
        }
    }
    Ok(())
}

/// The error for a reference to an unknown answer.
fn not_remembered(path: &str, id: &str) -> PublicError {
    let message = format!(
        "'{path}' refers to '{id}', which does not exist or was not made with this API key: send \
         the whole history instead"
    );
    PublicError::new(ErrorCode::NotFound, message)
}

fn too_large(most: usize) -> PublicError {
    let message = format!(
        "the conversation that the request refers to is larger than {most} bytes, or has more \
         than 1000 answers: begin a new one"
    );
    PublicError::new(ErrorCode::RequestTooLarge, message)
}

fn unavailable(exchange: &Exchange, fault: &dyn std::error::Error) -> PublicError {
    // A client can cause this with many requests.
    log::warn!(
        "{}: remembered answers cannot be looked up: {fault}",
        exchange.id
    );
    try_again()
}

fn try_again() -> PublicError {
    let message = "earlier answers cannot be looked up now; retry in a few seconds";
    PublicError::new(ErrorCode::ServiceUnavailable, message)
}

/// Whether the answer of a request is remembered if it is translated.
pub fn of_answer(exchange: &Exchange, admitted: &Admitted) -> AnswerMemory {
    let Some(remembering) = &exchange.snapshot.memory else {
        return AnswerMemory::Off;
    };
    let is_wanted = admitted.facts().store != Some(false);
    let body = &admitted.body;
    let length = body.original().map_or(body.len(), |it| it.length);
    match is_wanted && length <= remembering.most {
        true => AnswerMemory::Keep,
        false => AnswerMemory::Skip,
    }
}

/// Keeps the client's input until the answer is remembered. `input`: its place in `sent`, the request
/// without remembered answers.
pub fn keep(body: &RequestBody, sent: &Bytes, input: Option<Range<usize>>) -> Option<Kept> {
    if let Some(original) = body.original() {
        return Some(Kept {
            input: original.input.clone(),
            previous: original.previous,
        });
    }
    let input = sent.get(input?)?;
    Some(Kept {
        // The permit of a large body lasts until its last copy is dropped.
        input: match body.len() > SMALL {
            true => sent.slice_ref(input),
            false => Bytes::copy_from_slice(input),
        },
        previous: None,
    })
}

/// Remembers a translated answer, once it is complete.
pub fn note(exchange: &mut Exchange) {
    let Some(response) = exchange.answer.take_remembered() else {
        return;
    };
    let (Some(remembering), Some(Kept { input, previous })) = (
        &exchange.snapshot.memory,
        exchange.attempts.outgoing.kept.take(),
    ) else {
        return;
    };
    let Some(identity) = exchange.stage.identity() else {
        return;
    };
    remembering.memory.remember(Remembered {
        id: exchange.id,
        key: identity.key.clone(),
        previous,
        input,
        response,
    });
}

/// Returns or deletes a remembered answer. `None`: no answer with this id is remembered.
///
/// # Errors
///
/// 503 if the look-up fails, 400 if the request cannot be applied to a remembered answer.
pub async fn answer(
    session: &Session,
    exchange: &Exchange,
    identity: &Identity,
    id: &str,
) -> Result<Option<Local>, PublicError> {
    let request = exchange.stage.request();
    let (Some(remembering), Some(answer), Some(request)) =
        (&exchange.snapshot.memory, RequestId::of_answer(id), request)
    else {
        return Ok(None);
    };
    let memory = &remembering.memory;
    let failed = |fault: Unavailable| unavailable(exchange, &fault);
    let head = session.req_header();
    if head.method == Method::DELETE {
        let is_gone = memory.forget(&identity.key, answer).await;
        let body = format!(r#"{{"id":"{id}","object":"response","deleted":true}}"#);
        return Ok(is_gone.map_err(failed)?.then(|| Local::json(body.into())));
    }
    let found = memory.look_up(&identity.key, move |lookup| lookup.response(answer));
    let found = found.await.map_err(failed)?;
    let found = found.map_err(|fault| unavailable(exchange, &fault))?;
    let Some(response) = found else {
        return Ok(None);
    };
    let refused = |message| Err(PublicError::invalid_request(message));
    match request.endpoint {
        Endpoint::CancelResponse => refused("the response has ended and cannot be cancelled"),
        Endpoint::ResponseInput => {
            refused("the input of this response cannot be listed: its provider does not store it")
        }
        _ => {
            let query = head.uri.query().unwrap_or_default();
            let shows_state = query.contains("reasoning.encrypted_content");
            let shown = references::shown(&response, shows_state);
            Ok(Some(Local::json(
                shown.ok_or_else(respond::internal_error)?,
            )))
        }
    }
}
