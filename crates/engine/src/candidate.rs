//! Fits a request to a candidate, and classifies candidates without room: from values alone. The gateway
//! edits the bytes and sends them.

use bytes::Bytes;
use std::borrow::Cow;
use std::time::Duration;
use tollgate_config::TranslationSettings;
use tollgate_filter::{Endpoint, RequestContext};
use tollgate_routing::health::Full;
use tollgate_routing::settings::EmbeddingsApi;
use tollgate_routing::{Deployment, MODEL, Model, Provider, Purpose};
use tollgate_translate::{
    AcceptedEfforts, EmbeddingsFormat, Lossy, Refusal, Strict, Target, ThinkingObstacles,
    sampling_settings,
};
use tollgate_types::{
    Capabilities, ErrorCode, Format, MessagesCapabilities, PublicError, RequestFacts, ThinkingStyle,
};
use tollgate_wire::address::with_model;
use tollgate_wire::body::BodyEdits;
use tollgate_wire::fault::{FaultClass, UpstreamFault};
use tollgate_wire::peek::Peeked;
use tollgate_wire::reasoning;

/// How many candidates of a request are asked at most.
pub const MOST: usize = 8;

/// Translates into the first format of a deployment that carries the request by itself, or else
/// the first in which the gateway emulates a field, as the second value of `translate` says.
///
/// # Errors
///
/// None does: the refusal of the one that carries most.
pub fn first_that_carries<T>(
    deployment: &Deployment,
    from: Format,
    translate: impl Fn(Format) -> Result<(T, bool), PublicError>,
) -> Result<(Format, T), PublicError> {
    let mut refusal = None;
    let mut emulating = None;
    for to in deployment.formats_for(from) {
        match translate(to) {
            Ok((translated, false)) => return Ok((to, translated)),
            // Made again if no other format is better: two bodies at once need more memory.
            Ok((_, true)) => emulating = emulating.or(Some(to)),
            Err(error) => drop(refusal.get_or_insert(error)),
        }
    }
    match emulating {
        Some(to) => translate(to).map(|(translated, _)| (to, translated)),
        None => Err(refusal.unwrap_or_else(internal_error)),
    }
}

/// The API of a provider's embeddings for a model. `None`: that of OpenAI.
///
/// # Errors
///
/// The name of the model does not say it: a client can choose any under a pattern.
pub fn embeddings_format(
    api: Option<EmbeddingsApi>,
    upstream_model: &str,
) -> Result<Option<EmbeddingsFormat>, PublicError> {
    let Some(api) = api else { return Ok(None) };
    Ok(Some(match api.of_model(upstream_model) {
        Some(EmbeddingsApi::BedrockTitan) => EmbeddingsFormat::Titan,
        Some(EmbeddingsApi::BedrockCohere) => EmbeddingsFormat::Cohere,
        Some(EmbeddingsApi::Gemini) => EmbeddingsFormat::Gemini,
        Some(EmbeddingsApi::VertexPredict) => EmbeddingsFormat::VertexPredict,
        Some(EmbeddingsApi::VertexEmbedContent) => EmbeddingsFormat::VertexEmbedContent,
        Some(EmbeddingsApi::Bedrock) | None => {
            let message = "the vendor of this model of embeddings is unknown";
            return Err(PublicError::new(ErrorCode::InvalidModel, message));
        }
    }))
}

/// The purpose of a request with a model.
pub fn purpose(request: &RequestContext) -> Purpose {
    let streams = || request.facts_if_read().is_some_and(|facts| facts.stream);
    match request.endpoint {
        Endpoint::CountTokens | Endpoint::GeminiCountTokens => Purpose::Count,
        _ if streams() => Purpose::Stream,
        _ => Purpose::Answer,
    }
}

/// Checks that the name of a model can stand in the path of a provider's endpoint.
///
/// # Errors
///
/// 400 `invalid_model`: it cannot.
pub fn check_path(
    provider: &Provider,
    format: Format,
    purpose: Purpose,
    upstream_model: &str,
) -> Result<(), PublicError> {
    let endpoint = provider.endpoint(format);
    let target = endpoint.and_then(|endpoint| endpoint.target(purpose));
    match target.filter(|target| target.path.contains(MODEL)) {
        Some(target) if with_model(&target.path, upstream_model).is_none() => Err(no_path_fault()),
        _ => Ok(()),
    }
}

/// The error for a model whose name cannot stand in the path of its provider.
pub fn no_path_fault() -> PublicError {
    let message = "the name of this model cannot be used in the provider's path";
    PublicError::new(ErrorCode::InvalidModel, message)
}

/// A request in its own format, changed for the reasoning mode of its model.
#[derive(Default)]
pub struct Fitted {
    /// The fields that the edits leave out.
    pub dropped: Vec<&'static str>,
    /// Settings to be left out besides.
    pub sampling: Vec<&'static str>,
}

/// Makes a request that is sent in its own format fit its model's mode of reasoning, within
/// what is held for it. `whole`: its body.
pub fn fit_reasoning(
    request: &RequestContext,
    model: &Model,
    peeked: &Peeked,
    edits: &mut BodyEdits<'_>,
    whole: impl FnOnce() -> Option<Bytes>,
) -> Fitted {
    let (mode, facts) = (model.reasoning, &peeked.facts);
    let Some(format) = request.format() else {
        return Fitted::default();
    };
    let adds = reasoning::adds_thinking(mode, format, facts);
    let body = (adds || lacks_sampling(model, peeked))
        .then(whole)
        .flatten();
    let obstacles = match body.as_ref().filter(|_| adds) {
        Some(body) => ThinkingObstacles::of(body),
        None => ThinkingObstacles::default(),
    };
    let bounds = reasoning::Bounds {
        output_limit: request.output_limit,
        most_output: request.reserved_output.or(model.max_output_tokens),
        excluded: obstacles.excluded,
        adaptive: model.thinking == Some(ThinkingStyle::Adaptive),
        efforts: &model.efforts,
    };
    let dropped = reasoning::fit(mode, format, facts, &bounds, edits);
    let thinks = adds && edits.says_how_to_think();
    let sampling = match body.filter(|_| lacks_sampling(model, peeked)) {
        Some(body) => sampling_settings(&body),
        None if thinks => obstacles.sampling,
        None => Vec::new(),
    };
    Fitted { dropped, sampling }
}

/// What the model accepts as an effort, if a request of its own format may have to be given one. Counters take no
/// settings.
pub fn default_effort<'a>(
    request: &RequestContext,
    deployment: &Deployment,
    model: &'a Model,
    facts: &RequestFacts,
) -> Option<AcceptedEfforts<'a>> {
    let format = request.format()?;
    let adds =
        !request.endpoint.is_count() && reasoning::adds_effort(model.reasoning, format, facts);
    adds.then(|| AcceptedEfforts {
        efforts: &model.efforts,
        thinking_levels: model.thinking_levels(),
        beside_tools: deployment.capabilities.chat.effort_with_tools,
    })
}

/// Checks that these sampling settings can be dropped for a model that does not accept them.
///
/// # Errors
///
/// The operator forbids it.
pub fn may_drop_sampling(sampling: &[&'static str], strict: Strict<'_>) -> Result<(), Refusal> {
    let why = "is not accepted by this model, and it must not be dropped (`translation.strict`)";
    match sampling.iter().find(|path| strict.forbids(path)) {
        Some(path) => Err(Refusal::new(*path, why)),
        None => Ok(()),
    }
}

/// Whether a request has sampling settings, and its model does not accept any.
pub const fn lacks_sampling(model: &Model, peeked: &Peeked) -> bool {
    !model.sampling && peeked.has_sampling
}

/// The capabilities of a deployment for a model, for requests of its own format.
pub fn accepted<'a>(deployment: &'a Deployment, model: &Model) -> Cow<'a, Capabilities> {
    let known = &deployment.capabilities;
    let is_adaptive = model.thinking == Some(ThinkingStyle::Adaptive);
    if known.messages.adaptive_thinking || !is_adaptive {
        return Cow::Borrowed(known);
    }
    let mut of_model = known.clone();
    of_model.messages.adaptive_thinking = true;
    Cow::Owned(of_model)
}

/// The target of a translation.
pub fn target<'a>(
    deployment: &'a Deployment,
    model: &'a Model,
    upstream_model: &'a str,
    request: &'a RequestContext,
    settings: &'a TranslationSettings,
) -> Target<'a> {
    let Deployment {
        provider,
        capabilities,
        ..
    } = deployment;
    let facts = request.facts_if_read();
    Target {
        asked_model: facts.and_then(|facts| facts.model.as_deref()),
        asked_stream: facts.is_some_and(|facts| facts.stream),
        max_output_tokens: request.output_limit.or(model.max_output_tokens),
        reserved_output: request.reserved_output,
        reasoning: model.reasoning,
        efforts: &model.efforts,
        sampling: model.sampling,
        cache_breakpoints: capabilities.cache_breakpoints,
        max_stop_sequences: capabilities.max_stop_sequences.map(usize::from),
        chat: capabilities.chat,
        responses: capabilities.responses,
        messages: MessagesCapabilities {
            adaptive_thinking: model.adaptive_thinking(&capabilities.messages),
            ..capabilities.messages
        },
        thinking_levels: model.thinking_levels(),
        lossy: Lossy(&settings.lossy),
        strict: Strict(&settings.strict),
        ..Target::new(upstream_model, &provider.name)
    }
}

/// The error if every candidate is full or has asked for a wait.
pub fn full_fault(full: Full) -> UpstreamFault {
    let class = match full.wait {
        Some(_) => FaultClass::RateLimit,
        None => FaultClass::Busy,
    };
    UpstreamFault {
        retry_after: full.wait,
        ..UpstreamFault::without_answer(class)
    }
}

/// The failure if no candidate has a token to log in with.
pub fn no_token_fault(wait: Duration) -> UpstreamFault {
    UpstreamFault {
        retry_after: Some(wait),
        ..UpstreamFault::unreachable()
    }
}

/// The error for a fault of the gateway itself.
pub const fn internal_error() -> PublicError {
    PublicError {
        code: ErrorCode::InternalError,
        status: 500,
        message: std::borrow::Cow::Borrowed("the gateway failed on this request"),
        retry_after: None,
        should_retry: None,
        limit: None,
        unsupported: None,
        param: None,
    }
}
