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
use super::memory_permit::{Bounds, MemoryPermit, SMALL};
use super::open_path;
use super::reader::{Expectation, Translation};
use super::remembered::{self, Kept};
use super::respond;
use super::stage::Admitted;
use crate::candidate::{
    Fitted, accepted, default_effort, embeddings_format, first_that_carries, fit_reasoning,
    lacks_sampling, may_drop_sampling, no_path_fault, purpose, target,
};
use crate::clock;
use crate::events::Shed;
use bytes::Bytes;
use http::Version;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;
use tollgate_filter::{Endpoint, RequestContext};
use tollgate_routing::{BodyPatch, Deployment};
use tollgate_translate::{
    AnswerContext, EmbeddingsFormat, EmbeddingsNotes, ModelReasoning, Strict, Target,
    TranslationNotes, embeddings_request, lacks_any, most_embeddings_memory, needs_custom_tools,
    with_default_effort, within_capabilities, without_refused,
};
use tollgate_types::{ErrorCode, Format, PublicError};
use tollgate_wire::splice::Splice;
use tollgate_wire::{body::BodyEdits, patch, reasoning};

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
    /// The output limit in tokens, if it is higher than the client's.
    pub raised_limit: Option<u64>,
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
        let sent = open_path::outgoing(exchange).unwrap_or_default();
        return Ok((candidate.format, sent));
    };
    let fault = || {
        log::error!(
            "{}: the request body for the provider cannot be built",
            exchange.id
        );
        respond::internal_error()
    };
    let (format, body) = (admitted.format, &admitted.body);
    let mut permit = match waited_for {
        None => room(exchange, admitted, candidate)?,
        waited_for => waited_for,
    };
    let base = |to| candidate.pool.base(to, purpose(&admitted.request));
    let strict = Strict(&exchange.snapshot.translation.strict);
    let (to, mut sent) = if is_untranslated(admitted, candidate) {
        let patch = &base(format).ok_or_else(fault)?.patch;
        let same = same_format(admitted, candidate, patch, strict, permit)?;
        let mut sent = same.ok_or_else(fault)?;
        let upstream = upstream_model(admitted, &candidate.deployment);
        let api = base(format).and_then(|base| base.api);
        if let Some(to) = embeddings_format(api, upstream)? {
            // Settings that are repeated for each text make a large body of a small one.
            let permit = no_room(exchange, body);
            translate_embeddings(admitted, to, upstream, strict, permit, &mut sent)?;
        }
        (format, sent)
    } else {
        let asked = limited(admitted).ok_or_else(fault)?;
        // A copy can be kept until the answer is remembered, longer than the translation. Without a copy, the
        // whole permit is for the translation.
        let part = match body.is_uncopied(&asked) {
            true => None,
            false => permit.as_mut().map(|permit| permit.split(body.len())),
        };
        let asked = held(part, body, asked);
        let (to, mut sent) = first_that_carries(&candidate.deployment, format, |to| {
            translated(exchange, admitted, to, &asked, &candidate.deployment)
        })?;
        let patch = &base(to).ok_or_else(fault)?.patch;
        let made = sent.body.take().ok_or_else(fault)?;
        let refused = &candidate.deployment.capabilities.refused_fields;
        let is_remade = !patch.is_empty() || !refused.is_empty();
        if let Some(permit) = permit.as_mut().filter(|_| is_remade) {
            // The translation may have made more of the body than the client sent.
            let length = length(&made);
            let both = length.saturating_add(of_patch(patch, length).max(length));
            permit.grow(both.saturating_sub(permit.bytes()))?;
        }
        let rest = without_refused(made, refused, strict).map_err(PublicError::from);
        let (made, refused) = rest?;
        let refused = refused.into_iter().map(|name| name.to_owned().into());
        sent.dropped.extend(refused);
        let made = patched(made, patch);
        sent.body = Some(held(permit, body, made.ok_or_else(fault)?));
        (to, sent)
    };
    let model = upstream_model(admitted, &candidate.deployment);
    let uri = base(to).ok_or_else(fault)?.uri(model);
    sent.uri = Some(uri.ok_or_else(no_path_fault)?);
    if body.asked().is_some_and(|asked| asked.forgot_reasoning) {
        note_dropped(&mut sent.dropped, "input[].reasoning");
    }
    Ok((to, sent))
}

/// Replaces the body by a request for embeddings in another API.
fn translate_embeddings(
    admitted: &Admitted,
    to: EmbeddingsFormat,
    upstream_model: &str,
    strict: Strict<'_>,
    mut permit: MemoryPermit,
    sent: &mut Outgoing,
) -> Result<(), NotReady> {
    let asked = sent.body.take().unwrap_or_default();
    let peeked = admitted.body.peeked();
    let (values, texts) = (peeked.values, peeked.facts.documents);
    permit.grow(most_embeddings_memory(
        length(&asked),
        values,
        texts,
        upstream_model,
    ))?;
    let model = admitted.model_asked();
    let made = embeddings_request(to, &asked, model, upstream_model, strict);
    let made = made.map_err(PublicError::from)?;
    permit.shrink_to(length(&made.body));
    sent.dropped
        .extend(made.dropped.into_iter().map(Cow::Borrowed));
    sent.body = Some(permit.keep(made.body));
    sent.embeddings = Some(made.notes);
    Ok(())
}

/// Whether the body is sent in its own format, as the client wrote it.
fn is_untranslated(admitted: &Admitted, candidate: &Candidate) -> bool {
    let capabilities = &candidate.deployment.capabilities;
    let format = admitted.format;
    if format != candidate.format {
        return false;
    }
    if format != Format::Chat || capabilities.chat.custom_tools {
        return true;
    }
    let body = admitted.body.assemble(Splice::default());
    !body.is_some_and(|body| needs_custom_tools(format, &body, capabilities))
}

/// The name of the model at a deployment.
fn upstream_model<'a>(admitted: &'a Admitted, deployment: &'a Deployment) -> &'a str {
    let asked = admitted.facts().model.as_deref();
    deployment.upstream_model(asked.unwrap_or(&admitted.model.id))
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
    let bounds = load::bounds(exchange);
    let bytes = needed(admitted, candidate, bounds).ok_or_else(|| {
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
fn needed(admitted: &Admitted, candidate: &Candidate, bounds: Bounds) -> Option<u64> {
    let body = &admitted.body;
    let most = most_memory(admitted, candidate);
    // The estimate includes unescaped copies of all text, of which most bodies need little.
    let least = most.saturating_sub(body.len().saturating_mul(3).div_euclid(4));
    let alone = bounds.alone_beside(body.len());
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
fn most_memory(admitted: &Admitted, candidate: &Candidate) -> u64 {
    let (length, peeked) = (admitted.body.len(), admitted.body.peeked());
    let of_patch = |to| {
        let base = candidate.pool.base(to, purpose(&admitted.request));
        base.map_or(0, |base| of_patch(&base.patch, length))
    };
    if !is_untranslated(admitted, candidate) {
        let copy = admitted.request.output_limit.map_or(0, |_| length);
        // Which of the formats carries the request is not known before.
        let formats = candidate.deployment.formats_for(admitted.format);
        let copies = copy.saturating_add(formats.map(of_patch).max().unwrap_or(0));
        return tollgate_translate::most_memory(length, peeked.values).saturating_add(copies);
    }
    let adds_thinking =
        reasoning::adds_thinking(admitted.model.reasoning, candidate.format, &peeked.facts);
    let capabilities = &candidate.deployment.capabilities;
    let lacks_any = lacks_any(admitted.format, capabilities, peeked.has_top_k);
    let lacks_any = lacks_any || lacks_sampling(&admitted.model, peeked);
    let (request, deployment) = (&admitted.request, &candidate.deployment);
    let adds_effort = default_effort(request, deployment, &admitted.model, &peeked.facts).is_some();
    let is_read = peeked.has_seals || adds_thinking || adds_effort || lacks_any;
    // Obstacles to thinking are looked for later, with the memory that is taken here.
    let is_edited = adds_thinking || {
        let (edits, _) = edits(admitted, candidate, || None);
        !edits.into_splice().is_empty()
    };
    of_same_format(length, peeked.values, is_edited, is_read)
        .saturating_add(of_patch(candidate.format))
}

/// Bytes of memory to prepare a body in its own format: a copy with its edits, and the parsed document if
/// the body must be parsed.
fn of_same_format(length: u64, values: u64, is_edited: bool, is_read: bool) -> u64 {
    /// A node of the document, while its list grows.
    const OF_A_VALUE: u64 = 32;
    let copies = u64::from(is_edited).saturating_add(if is_read { 2 } else { 0 });
    let nodes = if is_read { values } else { 0 };
    let of_nodes = nodes.saturating_mul(OF_A_VALUE);
    length.saturating_mul(copies).saturating_add(of_nodes)
}

/// Waits up to a second, or longer with a slot, for the memory to prepare a large body for the first
/// candidate. `None` if there was no memory in time, or none is needed. Waits are jittered, so that requests
/// that wait for one another do not all give up together.
pub async fn wait_for_room(exchange: &Exchange) -> Option<MemoryPermit> {
    const PATIENCE: Duration = Duration::from_secs(1);
    let (admitted, candidate) = exchange.stage.admitted().zip(exchange.attempts.coming())?;
    let body = &admitted.body;
    if body.len() <= SMALL {
        return None;
    }
    let needed = needed(admitted, candidate, load::bounds(exchange))?;
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

/// The edits of a body that is sent in its own format. `whole`: the body.
fn edits<'a>(
    admitted: &'a Admitted,
    candidate: &Candidate,
    whole: impl FnOnce() -> Option<Bytes>,
) -> (BodyEdits<'a>, Fitted) {
    let Admitted { request, model, .. } = admitted;
    let peeked = admitted.body.peeked();
    let mut edits = BodyEdits::new(candidate.format, peeked);
    let asked_for = admitted.model_asked();
    let upstream_model = candidate.deployment.upstream_model(asked_for);
    if upstream_model != asked_for {
        edits.set_model(upstream_model);
    }
    if asks_for_usage(request) {
        edits.ask_for_usage();
    }
    if let Some(tokens) = request.output_limit {
        edits.set_output_limit(tokens);
    }
    let fitted = match (candidate.format, request.endpoint.is_count()) {
        // Its counter takes no settings.
        (Format::Gemini, true) => Fitted::default(),
        _ => fit_reasoning(request, model, peeked, &mut edits, whole),
    };
    (edits, fitted)
}

/// The client's bytes with the edits spliced in, within the capabilities of the provider. `None`: a fault of
/// the gateway.
///
/// # Errors
///
/// The provider cannot do what the request depends on.
fn same_format(
    admitted: &Admitted,
    candidate: &Candidate,
    patch: &BodyPatch,
    strict: Strict<'_>,
    permit: Option<MemoryPermit>,
) -> Result<Option<Outgoing>, PublicError> {
    let body = &admitted.body;
    let peeked = body.peeked();
    let whole = || body.assemble(Splice::default());
    let (edits, fitted) = edits(admitted, candidate, whole);
    let Fitted {
        mut dropped,
        sampling,
    } = fitted;
    let raised_limit = raised(peeked.facts.output_limit, edits.output_limit());
    let Some(mut sent) = body.assemble(edits.into_splice()) else {
        return Ok(None);
    };
    if !sampling.is_empty() {
        may_drop_sampling(&sampling, strict)?;
        let Some(rest) = tollgate_translate::without_members(&sent, &sampling) else {
            return Ok(None);
        };
        sent = rest;
        dropped.extend(sampling);
    }
    if peeked.has_seals
        && let Some(unsealed) = tollgate_translate::without_seals(
            candidate.format,
            &sent,
            admitted.model.thinking_levels(),
        )
    {
        sent = unsealed.body;
        dropped.extend(unsealed.dropped);
    }
    let deployment = &candidate.deployment;
    let effort = default_effort(
        &admitted.request,
        deployment,
        &admitted.model,
        &peeked.facts,
    );
    if let Some(effort) = effort
        && let Some(with_effort) = with_default_effort(candidate.format, &sent, effort)
    {
        sent = with_effort;
    }
    let capabilities = accepted(deployment, &admitted.model);
    let has_top_k = peeked.has_top_k;
    let reasoning = ModelReasoning {
        mode: admitted.model.reasoning,
        efforts: &admitted.model.efforts,
    };
    let fitted = within_capabilities(
        candidate.format,
        sent,
        &capabilities,
        reasoning,
        has_top_k,
        strict,
    )?;
    dropped.extend(fitted.dropped);
    let (sent, refused) = without_refused(fitted.body, &capabilities.refused_fields, strict)?;
    let refused = refused.into_iter().map(|name| Cow::Owned(name.to_owned()));
    let dropped = dropped.into_iter().map(Cow::Borrowed).chain(refused);
    Ok(patched(sent, patch).map(|sent| Outgoing {
        body: Some(held(permit, body, sent)),
        dropped: dropped.collect(),
        raised_limit,
        ..Outgoing::default()
    }))
}

/// The output limit that is sent, if it is higher than the client's.
fn raised(asked: Option<u64>, sent: Option<u64>) -> Option<u64> {
    sent.filter(|sent| asked.is_some_and(|asked| asked < *sent))
}

/// The client's body with the output limit that its balance covers.
fn limited(admitted: &Admitted) -> Option<Bytes> {
    let mut edits = BodyEdits::new(admitted.format, admitted.body.peeked());
    if let Some(tokens) = admitted.request.output_limit {
        edits.set_output_limit(tokens);
    }
    admitted.body.assemble(edits.into_splice())
}

fn translated(
    exchange: &Exchange,
    admitted: &Admitted,
    to: Format,
    asked: &Bytes,
    deployment: &Deployment,
) -> Result<(Outgoing, bool), PublicError> {
    let Admitted {
        request,
        body,
        model,
        ..
    } = admitted;
    let facts = admitted.facts();
    let upstream_model = upstream_model(admitted, deployment);
    let settings = &exchange.snapshot.translation;
    let previous = body.asked().and_then(|asked| asked.previous);
    let previous = previous.map(|id| id.as_answer_id());
    let target = Target {
        memory: remembered::of_answer(exchange, admitted),
        previous_response: previous.as_deref(),
        ..target(deployment, model, upstream_model, request, settings)
    };
    // The body was checked to be JSON, and so are the edits.
    let translated = tollgate_translate::valid_request(admitted.format, to, asked, &target)?;
    let is_remembered = translated.notes.memory.is_some();
    let kept = is_remembered.then(|| remembered::keep(body, asked, translated.input));
    let emulates = translated.notes.emulates();
    let outgoing = Outgoing {
        kept: kept.flatten(),
        body: Some(translated.body),
        uri: None,
        embeddings: None,
        dropped: translated.dropped.into_iter().map(Cow::Owned).collect(),
        raised_limit: raised(facts.output_limit, translated.output_limit),
        notes: Some(Arc::new(translated.notes)),
    };
    Ok((outgoing, emulates))
}

/// Whether the gateway asks for the usage of a chat stream, and so must remove the chunk with the usage.
pub fn asks_for_usage(request: &RequestContext) -> bool {
    request.endpoint == Endpoint::ChatCompletions
        && request
            .facts_if_read()
            .is_some_and(|facts| facts.stream && facts.include_usage != Some(true))
}

/// The form of the answer that the request asks for.
pub fn expectation(exchange: &Exchange) -> Option<Expectation> {
    let request = exchange.stage.request()?;
    let translation = exchange.attempts.notes().map(|notes| Translation {
        notes: Arc::clone(notes),
        permit: answer_permit(exchange),
        context: AnswerContext {
            request: exchange.id,
            created: clock::unix_ms() / 1000,
        },
    });
    let passes = translation.is_none();
    let candidate = exchange.attempts.current()?;
    Some(Expectation {
        format: candidate.format,
        stream_events: Arc::clone(&candidate.deployment.provider.stream_events),
        translation,
        embeddings: exchange
            .attempts
            .embeddings()
            .map(|notes| (notes.clone(), answer_permit(exchange))),
        counts_tokens: request.endpoint.is_count(),
        is_stored: request.endpoint.is_stored(),
        is_unread: exchange.opened.is_some(),
        whole: passes.then(|| answer_permit(exchange)),
        most_held: match exchange.version {
            // For this client, the end of the connection is the end of the answer.
            Version::HTTP_10 => usize::MAX,
            _ => MOST_HELD,
        },
        unpaid: exchange
            .settlement
            .is_of_stored()
            .then(|| answer_permit(exchange)),
        strip_usage: asks_for_usage(request),
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
