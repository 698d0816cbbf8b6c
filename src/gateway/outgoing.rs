//! The request of an attempt: the body in a format of its deployment. `head` builds the head.
//!
//! A body in the deployment's format is sent as the client wrote it, with edits spliced in. Any other body
//! is translated.

mod head;

pub use head::begin;

use super::attempt::Candidate;
use super::body::RequestBody;
use super::exchange::Exchange;
use super::load;
use super::memory_permit::{MemoryPermit, SMALL};
use super::passthrough;
use super::reader::{Expectation, ExpectedBody, Translation};
use super::remembered::{self, Kept};
use super::settlement;
use super::stage::Admitted;
use crate::upstreams::Base;
use bytes::Bytes;
use http::Version;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;
use tollgate_engine::candidate::{no_path_fault, purpose};
use tollgate_engine::model_request::{ModelRequest, asks_for_usage};
use tollgate_routing::{BodyPatch, Deployment};
use tollgate_telemetry::clock;
use tollgate_telemetry::events::Shed;
use tollgate_translate::{
    AnswerContext, EmbeddingsFormat, EmbeddingsNotes, Target, TranslationNotes,
    most_embeddings_memory,
};
use tollgate_types::{ErrorCode, Format, PublicError};
use tollgate_wire::patch;

/// The most bytes of an untranslated answer in one piece that are held until it is complete.
const MOST_HELD: usize = 1024 * 1024;

/// The request of one attempt.
#[derive(Default)]
pub struct Outgoing {
    /// The body. `None` for a request without one.
    pub body: Option<Bytes>,
    /// The path and query. `None` for a request without a model.
    pub uri: Option<http::Uri>,
    /// The fields of the client's request that are left out.
    pub dropped: Vec<Cow<'static, str>>,
    /// The output limit in tokens, if it is not the client's.
    pub changed_limit: Option<u64>,
    /// The facts of the request that the translation of the answer needs.
    pub notes: Option<Arc<TranslationNotes>>,
    /// The same for embeddings in another API.
    pub embeddings: Option<EmbeddingsNotes>,
    /// The part of the request that is kept until its answer is remembered.
    pub kept: Option<Kept>,
}

/// Why a request cannot be sent to a candidate.
pub enum NotReady {
    /// No format of the candidate can carry it.
    Refused(PublicError),
    /// There is no memory to prepare it.
    Shed(Shed),
}

impl From<PublicError> for NotReady {
    fn from(error: PublicError) -> Self {
        Self::Refused(error)
    }
}

impl From<Shed> for NotReady {
    fn from(shed: Shed) -> Self {
        Self::Shed(shed)
    }
}

/// Prepares the body for a candidate: in the client's format if the candidate supports it, else in the first
/// of its formats that can carry the request. `waited_for`: the memory from [`wait_for_room`].
///
/// # Errors
///
/// No format of the candidate can carry the request: the error of the one that carries most. Or there is no
/// memory now.
pub fn prepare(
    exchange: &Exchange,
    candidate: &Candidate,
    waited_for: Option<MemoryPermit>,
) -> Result<(Format, Outgoing), NotReady> {
    let Some(admitted) = exchange.stage.admitted() else {
        // A request for a stored item has no body.
        let sent = passthrough::outgoing(exchange).unwrap_or_default();
        return Ok((candidate.format, sent));
    };
    let (body, deployment) = (&admitted.body, &candidate.deployment);
    let request = model_request(exchange, admitted);
    let permit = match waited_for {
        None => room(exchange, admitted, candidate)?,
        waited_for => waited_for,
    };
    let (to, mut sent) = match request.is_untranslated(deployment, candidate.format) {
        true => prepare_untranslated(exchange, admitted, candidate, permit)?,
        false => prepare_translated(exchange, admitted, candidate, permit)?,
    };
    let uri = base(&request, candidate, to)?.uri(request.upstream_model(deployment));
    sent.uri = Some(uri.ok_or_else(no_path_fault)?);
    if body.original().is_some_and(|it| it.forgot_reasoning) {
        note_dropped(&mut sent.dropped, "input[].reasoning");
    }
    Ok((to, sent))
}

/// The body as the client wrote it, with edits spliced in.
fn prepare_untranslated(
    exchange: &Exchange,
    admitted: &Admitted,
    candidate: &Candidate,
    permit: Option<MemoryPermit>,
) -> Result<(Format, Outgoing), NotReady> {
    let (body, deployment) = (&admitted.body, &candidate.deployment);
    let request = model_request(exchange, admitted);
    let to = admitted.format;
    let made = request.untranslated(deployment)?;
    let patch = &base(&request, candidate, to)?.patch;
    let patched = patched(made.body, patch).ok_or_else(|| request.fault())?;
    let mut sent = Outgoing {
        body: Some(held(permit, body, patched)),
        dropped: made.dropped,
        changed_limit: made.changed_limit,
        ..Outgoing::default()
    };
    if let Some(api) = request.embeddings_format(deployment)? {
        // Settings that are repeated for each text can turn a small body into a large one.
        let permit = no_room(exchange, body);
        translate_embeddings(&request, deployment, api, permit, &mut sent)?;
    }
    Ok((to, sent))
}

/// The body in the first format of the candidate that can carry the request.
fn prepare_translated(
    exchange: &Exchange,
    admitted: &Admitted,
    candidate: &Candidate,
    mut permit: Option<MemoryPermit>,
) -> Result<(Format, Outgoing), NotReady> {
    let (body, deployment) = (&admitted.body, &candidate.deployment);
    let request = model_request(exchange, admitted);
    let asked = request.limited()?;
    // A copy can be kept until the answer is remembered, longer than the translation. Without a copy, the
    // whole permit is for the translation.
    let part = match body.is_uncopied(&asked) {
        true => None,
        false => permit.as_mut().map(|permit| permit.split(body.len())),
    };
    let asked = held(part, body, asked);
    let previous = body.original().and_then(|it| it.previous);
    let previous = previous.map(|id| id.as_answer_id());
    let target = Target {
        memory: remembered::of_answer(exchange, admitted),
        previous_response: previous.as_deref(),
        ..request.target(deployment)
    };
    // The body was checked to be JSON, and so are the edits.
    let (to, made) = request.translated(deployment, &target, &asked)?;
    let kept = made.notes.memory.is_some();
    let kept = kept.then(|| remembered::keep(body, &asked, made.input));
    let mut dropped = made.dropped.into_iter().map(Cow::Owned).collect();
    let patch = &base(&request, candidate, to)?.patch;
    let is_remade = !patch.is_empty() || !deployment.capabilities.refused_fields.is_empty();
    if let Some(permit) = permit.as_mut().filter(|_| is_remade) {
        // The translation may have made more of the body than the client sent.
        let length = length(&made.body);
        let both = length.saturating_add(of_patch(patch, length).max(length));
        permit.grow(both.saturating_sub(permit.bytes()))?;
    }
    let rest = request.without_refused(deployment, made.body, &mut dropped)?;
    let patched = patched(rest, patch).ok_or_else(|| request.fault())?;
    let sent = Outgoing {
        kept: kept.flatten(),
        body: Some(held(permit, body, patched)),
        dropped,
        changed_limit: request.changed_limit(made.output_limit),
        notes: Some(Arc::new(made.notes)),
        ..Outgoing::default()
    };
    Ok((to, sent))
}

/// The shared parts of requests to the candidate in this format.
fn base<'a>(
    request: &ModelRequest<'_>,
    candidate: &'a Candidate,
    to: Format,
) -> Result<&'a Base, PublicError> {
    let base = candidate.pool.base(to, purpose(request.context));
    base.ok_or_else(|| request.fault())
}

fn model_request<'a>(exchange: &'a Exchange, admitted: &'a Admitted) -> ModelRequest<'a> {
    ModelRequest {
        context: &admitted.request,
        model: &admitted.model,
        format: admitted.format,
        pieces: admitted.body.pieces(),
        peeked: admitted.body.peeked(),
        settings: &exchange.snapshot.translation,
    }
}

/// Replaces the body by a request for embeddings in another API.
fn translate_embeddings(
    request: &ModelRequest<'_>,
    deployment: &Deployment,
    api: EmbeddingsFormat,
    mut permit: MemoryPermit,
    sent: &mut Outgoing,
) -> Result<(), NotReady> {
    let asked = sent.body.take().unwrap_or_default();
    let (values, texts) = (request.peeked.values, request.peeked.facts.documents);
    permit.grow(most_embeddings_memory(
        length(&asked),
        values,
        texts,
        request.upstream_model(deployment),
    ))?;
    let made = request.embeddings(deployment, api, &asked)?;
    permit.shrink_to(length(&made.body));
    sent.dropped
        .extend(made.dropped.into_iter().map(Cow::Borrowed));
    sent.body = Some(permit.keep(made.body));
    sent.embeddings = Some(made.notes);
    Ok(())
}

/// The body with the fields that the provider's configuration sets, and without those that it removes.
/// `None` if the body is not a JSON object.
fn patched(body: Bytes, patch: &BodyPatch) -> Option<Bytes> {
    match patch.is_empty() {
        true => Some(body),
        false => patch::apply(&body, &patch.set, &patch.remove, &patch.rename),
    }
}

fn note_dropped(dropped: &mut Vec<Cow<'static, str>>, path: &'static str) {
    if !dropped.iter().any(|known| known == path) {
        dropped.push(Cow::Borrowed(path));
    }
}

/// Takes the memory to prepare a large body for a candidate. `None` for a small body, and for one that is
/// sent unchanged.
///
/// # Errors
///
/// There is not enough memory now, or it can never be enough.
fn room(
    exchange: &Exchange,
    admitted: &Admitted,
    candidate: &Candidate,
) -> Result<Option<MemoryPermit>, NotReady> {
    let body = &admitted.body;
    if body.len() <= SMALL {
        return Ok(None);
    }
    let bytes = needed(exchange, admitted, candidate).ok_or_else(|| {
        let message =
            "the request is too large for this model: send a shorter request, or fewer small parts";
        PublicError::new(ErrorCode::RequestTooLarge, message)
    })?;
    if bytes == 0 {
        return Ok(None);
    }
    let mut permit = no_room(exchange, body);
    permit.grow(bytes)?;
    Ok(Some(permit))
}

/// No memory yet, beside that of a body.
fn no_room(exchange: &Exchange, body: &RequestBody) -> MemoryPermit {
    MemoryPermit::new(load::bounds(exchange), load::shares(exchange)).beside(body.len())
}

/// Bytes of memory to take before a large body is prepared. `None` if it can never be enough. The estimate
/// is high: a body that needs nearly all of the memory may have all of it.
fn needed(exchange: &Exchange, admitted: &Admitted, candidate: &Candidate) -> Option<u64> {
    let body = &admitted.body;
    let most = most_memory(&model_request(exchange, admitted), body.len(), candidate);
    // The estimate includes unescaped copies of all text, of which most bodies need little.
    let least = most.saturating_sub(body.len().saturating_mul(3).div_euclid(4));
    let alone = load::bounds(exchange).alone_beside(body.len());
    (least <= alone).then_some(most.min(alone))
}

/// Attaches the permit to what was made from a body.
fn held(permit: Option<MemoryPermit>, body: &RequestBody, made: Bytes) -> Bytes {
    match permit {
        Some(permit) if !body.is_uncopied(&made) => permit.keep(made),
        _ => made,
    }
}

fn length(bytes: &Bytes) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

/// The most bytes of memory that patching a body of `length` bytes takes: the patched copy, and a second copy
/// of the values that are set.
fn of_patch(patch: &BodyPatch, length: u64) -> u64 {
    if patch.is_empty() {
        return 0;
    }
    let names = patch.set.iter().chain(&patch.rename);
    let bytes = names.map(|(name, value)| name.len().saturating_add(value.len()));
    let put_in = bytes.fold(0, usize::saturating_add);
    let put_in = u64::try_from(put_in).unwrap_or(u64::MAX);
    length.saturating_add(put_in.saturating_mul(2))
}

/// The most bytes of memory that preparing a large body takes. Most of it is given back afterwards.
fn most_memory(request: &ModelRequest<'_>, length: u64, candidate: &Candidate) -> u64 {
    let deployment = &candidate.deployment;
    let values = request.peeked.values;
    let of_patch = |to| {
        let base = candidate.pool.base(to, purpose(request.context));
        base.map_or(0, |base| of_patch(&base.patch, length))
    };
    if !request.is_untranslated(deployment, candidate.format) {
        let copy = request.context.output_limit.map_or(0, |_| length);
        // Which of the formats carries the request is not known before.
        let formats = deployment.formats_for(request.format);
        let copies = copy.saturating_add(formats.map(of_patch).max().unwrap_or(0));
        return tollgate_translate::most_memory(length, values).saturating_add(copies);
    }
    let is_edited = request.is_edited(deployment);
    let is_parsed = request.is_parsed(deployment);
    of_same_format(length, values, is_edited, is_parsed).saturating_add(of_patch(candidate.format))
}

/// Bytes of memory to prepare a body in its own format: a copy with its edits, and the parsed document if
/// the body must be parsed.
fn of_same_format(length: u64, values: u64, is_edited: bool, is_parsed: bool) -> u64 {
    /// A node of the document, while its list grows.
    const OF_A_VALUE: u64 = 32;
    let copies = u64::from(is_edited).saturating_add(if is_parsed { 2 } else { 0 });
    let nodes = if is_parsed { values } else { 0 };
    let of_nodes = nodes.saturating_mul(OF_A_VALUE);
    length.saturating_mul(copies).saturating_add(of_nodes)
}

/// Waits up to a second, or longer with a slot, for the memory to prepare a large body for the first
/// candidate. `None` if there was no memory in time, or none is needed. Waits are jittered, so that requests
/// that wait for one another do not all give up together.
pub async fn wait_for_room(exchange: &Exchange) -> Option<MemoryPermit> {
    const PATIENCE: Duration = Duration::from_secs(1);
    let (admitted, candidate) = exchange
        .stage
        .admitted()
        .zip(exchange.attempts.next_candidate())?;
    let body = &admitted.body;
    if body.len() <= SMALL {
        return None;
    }
    let needed = needed(exchange, admitted, candidate)?;
    if needed == 0 {
        return None;
    }
    let mut permit = no_room(exchange, body);
    let patience = PATIENCE.mul_f64(0.1 + 0.9 * fastrand::f64());
    let mut waited = body.waited();
    let room = permit.grow_or_wait(needed, patience, &mut waited);
    room.await.ok()?;
    Some(permit)
}

/// The form of the answer that the request asks for.
pub fn expectation(exchange: &Exchange) -> Option<Expectation> {
    let request = exchange.stage.request()?;
    let candidate = exchange.attempts.current()?;
    let body = if exchange.opened.is_some() {
        ExpectedBody::Unread
    } else if request.endpoint.is_count() {
        ExpectedBody::Count
    } else if exchange.settlement.is_of_stored() {
        ExpectedBody::Unpaid {
            permit: answer_permit(exchange),
            is_seen: exchange.settlement.is_seen(),
        }
    } else if request.endpoint.is_stored() {
        ExpectedBody::Stored
    } else if let Some(notes) = &exchange.attempts.outgoing.notes {
        ExpectedBody::Translated(Translation {
            notes: Arc::clone(notes),
            permit: answer_permit(exchange),
            context: AnswerContext {
                request: exchange.id,
                created: clock::unix_ms() / 1000,
                input_tokens: settlement::shown_input(exchange),
            },
        })
    } else if let Some(notes) = &exchange.attempts.outgoing.embeddings {
        ExpectedBody::Embeddings {
            notes: notes.clone(),
            counted: settlement::input_sent(exchange),
            permit: answer_permit(exchange),
        }
    } else {
        ExpectedBody::Untranslated {
            permit: answer_permit(exchange),
            most_held: match exchange.arrival.version {
                // For this client, the end of the connection is the end of the answer.
                Version::HTTP_10 => usize::MAX,
                _ => MOST_HELD,
            },
        }
    };
    Some(Expectation {
        format: candidate.format,
        stream_events: Arc::clone(&candidate.deployment.provider.stream_events),
        strip_usage: asks_for_usage(request),
        streams: request.facts_if_read().is_some_and(|facts| facts.stream),
        body,
    })
}

/// The permit for an answer that is kept until it is complete.
fn answer_permit(exchange: &Exchange) -> MemoryPermit {
    MemoryPermit::new(load::answer_bounds(exchange), load::shares(exchange)).beyond_the_keys_share()
}

#[cfg(test)]
mod tests {
    use super::{of_patch, of_same_format};
    use tollgate_routing::BodyPatch;

    #[test]
    fn an_edited_copy_is_counted_beside_what_is_read_of_it_and_an_unchanged_body_not_at_all() {
        assert_eq!(of_same_format(1000, 10, false, false), 0);
        assert_eq!(of_same_format(1000, 10, true, false), 1000);
        assert_eq!(of_same_format(1000, 10, false, true), 2320);
        assert_eq!(of_same_format(1000, 10, true, true), 3320);
    }

    #[test]
    fn a_patched_copy_is_counted_with_the_values_that_are_set() {
        let patch = BodyPatch {
            set: vec![("a".into(), "1".repeat(500).into())],
            ..BodyPatch::default()
        };
        assert!(of_patch(&patch, 1000) >= 1000 + 500);
        let removes = BodyPatch {
            remove: vec!["a".into()],
            ..BodyPatch::default()
        };
        assert_eq!(of_patch(&removes, 1000), 1000);
        assert_eq!(of_patch(&BodyPatch::default(), 1000), 0);
    }
}
