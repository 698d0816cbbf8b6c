//! The candidates of a dry run: the plan that a real request gets, why the others are left out, and what each
//! candidate would be sent.

use super::{CandidateShown, Ground, Outcome};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tollgate_engine::candidate::{self, check_path, full_fault, no_token_fault, purpose};
use tollgate_engine::catalog::IndexedCatalog;
use tollgate_engine::conversation;
use tollgate_engine::model_request::ModelRequest;
use tollgate_engine::open_path::OpenPath;
use tollgate_filter::Endpoint;
use tollgate_providers::{Missing, Token};
use tollgate_routing::health::{BreakerScope, CredentialHandle, DeploymentHandle, Fleet};
use tollgate_routing::plan::{Choice, LeftOut, Obstacle, PlanRequest, plan};
use tollgate_routing::{Deployment, Model};
use tollgate_telemetry::clock;
use tollgate_translate::{AnswerMemory, Target};
use tollgate_types::{Format, PublicError};
use tollgate_wire::fault::UpstreamFault;

/// The format in which a candidate is asked, and the fields of the request that it does not get.
type Fitted = (Format, Vec<Cow<'static, str>>);

/// A request whose model is known.
pub(super) struct Question<'a> {
    pub(super) ground: &'a Ground<'a>,
    pub(super) request: ModelRequest<'a>,
    pub(super) catalog: &'a IndexedCatalog,
    pub(super) model: &'a Arc<Model>,
    /// The session id of the client.
    pub(super) session: Option<&'a str>,
}

impl Question<'_> {
    /// All candidates in order, and the outcome of the request.
    pub(super) fn answer(&self) -> (Vec<CandidateShown>, Result<Outcome, PublicError>) {
        let handles = self.handles();
        let ModelRequest {
            context, format, ..
        } = self.request;
        let at = context.stored_at.as_ref();
        let asked = PlanRequest {
            format,
            counts_tokens: self.counts(),
            stored_at: at.map(|at| (&*at.provider, &*at.credential)),
            conversation: self.conversation(),
            tokens: self.request.peeked.facts.likely_input_tokens(),
            now: clock::steady_ms(Instant::now()),
            random: fastrand::u64(..),
        };
        let (mut choices, mut surplus) = (Vec::new(), Vec::new());
        let left_out = plan(&handles, &self.model.balancing, &asked, |choice| {
            let is_same = |one: &Choice, other: &Choice| one.deployment == other.deployment;
            surplus.extend(candidate::add(&mut choices, choice, is_same));
        });
        let (mut candidates, mut unable) = (Vec::new(), Vec::new());
        let mut refusal = None;
        let most = choices.len();
        for (number, choice) in choices.into_iter().chain(surplus).enumerate() {
            let Some((handle, credential)) = find(&handles, choice.deployment, choice.credential)
            else {
                continue;
            };
            let mut shown = self.shown(handle, credential);
            let judged = match number < most {
                true => self.judge(handle, choice, &mut shown),
                false => Err((format!("{most} others are asked, and no more"), None)),
            };
            match judged {
                Ok(()) => candidates.push(shown),
                Err((reason, error)) => {
                    shown.reason = reason;
                    refusal = refusal.take().or(error);
                    unable.push(shown);
                }
            }
        }
        let outcome = match (candidates.first(), refusal) {
            (Some(first), _) => Ok(Outcome::Sent {
                provider: first.provider.clone(),
            }),
            (None, Some(error)) => Err(error),
            (None, None) if self.counts() => Ok(Outcome::AnsweredHere),
            (None, None) => Err(match left_out.wait(asked.now) {
                Some(full) => full_fault(full).public(),
                None => match left_out.token_wait() {
                    Some(wait) => no_token_fault(wait).public(),
                    None => UpstreamFault::unreachable().public(),
                },
            }),
        };
        candidates.append(&mut unable);
        for LeftOut {
            deployment,
            credential,
            obstacle,
        } in left_out.0
        {
            // A last resort is among the candidates already.
            if let Some((handle, credential)) = find(&handles, deployment, credential) {
                let token = credential.account.token.as_deref();
                let mut shown = self.shown(handle, credential);
                if !candidates.iter().any(|it| it.is_same(&shown)) {
                    shown.reason = in_words(obstacle, token, asked.now);
                    candidates.push(shown);
                }
            }
        }
        (candidates, outcome)
    }

    /// The deployments of the model: with the health in the running gateway, or all healthy without one.
    fn handles(&self) -> Arc<[Arc<DeploymentHandle>]> {
        if matches!(
            self.request.context.endpoint,
            Endpoint::InputTokens | Endpoint::GeminiCountTokens
        ) {
            // No provider is asked to count.
            return Arc::default();
        }
        match self.ground.running {
            Some(running) => running.fleet().handles(self.model),
            None => Fleet::new(self.catalog.catalog(), None).handles(self.model),
        }
    }

    /// The conversation that the request names. A dry run cannot identify it by the beginning of the body: that
    /// is compared byte for byte, and the body of a dry run is serialized anew.
    fn conversation(&self) -> Option<u64> {
        if !self.catalog.catalog().affinity().enabled {
            return None;
        }
        let key = &self.request.context.identity.as_ref()?.key;
        let key = key.as_str().as_bytes();
        if let Some(name) = self.session.filter(|name| !name.is_empty()) {
            return Some(conversation::named(key, name.as_bytes()));
        }
        let span = conversation::cache_key(&self.request.peeked.spans)?;
        let range = usize::try_from(span.start).ok()?..usize::try_from(span.end).ok()?;
        let name = self.request.pieces.first()?.get(range)?;
        Some(conversation::cached(key, std::iter::once(name)))
    }

    fn counts(&self) -> bool {
        self.request.context.endpoint.is_count()
    }

    fn shown(&self, handle: &DeploymentHandle, credential: &CredentialHandle) -> CandidateShown {
        let deployment = &handle.deployment;
        CandidateShown {
            asked: false,
            reason: String::new(),
            provider: deployment.provider.name.to_string(),
            credential: credential.configured.as_ref().map(|it| it.name.to_string()),
            model: self.request.upstream_model(deployment).to_owned(),
            priority: deployment.priority.into(),
            weight: deployment.weight.into(),
            format: None,
            translated: false,
            dropped: Vec::new(),
        }
    }

    /// Whether a candidate can take the request.
    ///
    /// # Errors
    ///
    /// The reason, and the error for the client if no other candidate can take it either.
    fn judge(
        &self,
        handle: &DeploymentHandle,
        choice: Choice,
        shown: &mut CandidateShown,
    ) -> Result<(), (String, Option<PublicError>)> {
        let deployment = &handle.deployment;
        shown.format = Some(choice.format.as_str().to_owned());
        let request = &self.request;
        shown.translated = !request.is_untranslated(deployment, choice.format);
        let reservation = request.context.reservation.as_ref();
        let is_priced = deployment.is_priced(&request.peeked.facts.tiers);
        if !is_priced && reservation.is_some_and(|it| it.pays_money()) {
            let reason = "it has no price, and the key pays in money";
            return Err((reason.to_owned(), None));
        }
        if !handle.provider.has_address() {
            return Err(("its name has no address".to_owned(), None));
        }
        let fitted = self.fitted(deployment, choice.format);
        let fitted = fitted.and_then(|(format, dropped)| {
            let (provider, purpose) = (&deployment.provider, purpose(request.context));
            let upstream_model = request.upstream_model(deployment);
            check_path(provider, format, purpose, upstream_model)?;
            Ok((format, dropped))
        });
        let (format, dropped) = fitted.map_err(|error| (error.message.to_string(), Some(error)))?;
        let format = format.as_str();
        shown.format = Some(format.to_owned());
        shown.dropped = dropped.into_iter().map(Cow::into_owned).collect();
        shown.asked = true;
        let (priority, why) = (shown.priority, choice.why);
        shown.reason = match shown.translated {
            false => format!("priority {priority}, {why}; speaks {format}"),
            true => format!("priority {priority}, {why}; the request is translated to {format}"),
        };
        Ok(())
    }

    /// The request as the gateway fits it to a candidate that is planned in the format `to`.
    fn fitted(&self, deployment: &Deployment, to: Format) -> Result<Fitted, PublicError> {
        let request = &self.request;
        if request.is_untranslated(deployment, to) {
            let made = request.untranslated(deployment)?;
            let mut dropped = made.dropped;
            if let Some(api) = request.embeddings_format(deployment)? {
                let made = request.embeddings(deployment, api, &made.body)?;
                dropped.extend(made.dropped.into_iter().map(Cow::Borrowed));
            }
            return Ok((to, dropped));
        }
        let target = Target {
            memory: match self.ground.config.memory {
                Some(_) => AnswerMemory::Keep,
                None => AnswerMemory::Off,
            },
            ..request.target(deployment)
        };
        let (to, made) = request.translated(deployment, &target, &request.limited()?)?;
        let mut dropped = made.dropped.into_iter().map(Cow::Owned).collect();
        request.without_refused(deployment, made.body, &mut dropped)?;
        Ok((to, dropped))
    }
}

/// The candidate of a request for something stored, and the outcome.
pub(super) fn of_holder(
    handle: &DeploymentHandle,
    credential: usize,
) -> (Vec<CandidateShown>, Result<Outcome, PublicError>) {
    let format = Some(Format::Responses);
    let reason = "it stores the requested item".to_owned();
    let shown = of_handle(handle, credential, format, reason);
    let outcome = sent_to(shown.asked.then_some(&shown));
    (vec![shown], outcome)
}

/// The credentials of a provider for a request to one of its open paths, and the outcome.
pub(super) fn of_open_path(
    handle: &Arc<DeploymentHandle>,
    path: &OpenPath,
) -> (Vec<CandidateShown>, Result<Outcome, PublicError>) {
    let now = clock::steady_ms(Instant::now());
    let asked = path.asked(now, fastrand::u64(..));
    let mut candidates = Vec::new();
    let Some(open) = path.open() else {
        return (candidates, Ok(Outcome::AnsweredHere));
    };
    let handles = std::slice::from_ref(handle);
    let left_out = plan(handles, &open.balancing, &asked, |choice| {
        let reason = format!("{}; the request passes as it is", choice.why);
        let shown = of_handle(handle, choice.credential, None, reason);
        candidates.push(shown);
    });
    let outcome = sent_to(candidates.first().filter(|first| first.asked));
    for out in left_out.0 {
        let Some(credential) = handle.credentials.get(out.credential) else {
            continue;
        };
        let reason = in_words(out.obstacle, credential.account.token.as_deref(), now);
        let shown = of_handle(handle, out.credential, None, reason);
        // A last resort is among the candidates already.
        if !candidates.iter().any(|it| it.is_same(&shown)) {
            candidates.push(CandidateShown {
                asked: false,
                ..shown
            });
        }
    }
    (candidates, outcome)
}

fn of_handle(
    handle: &DeploymentHandle,
    credential: usize,
    format: Option<Format>,
    reason: String,
) -> CandidateShown {
    let deployment = &handle.deployment;
    let has_address = handle.provider.has_address();
    let credential = handle.credentials.get(credential);
    let credential = credential.and_then(|it| it.configured.as_ref());
    CandidateShown {
        asked: has_address,
        reason: match has_address {
            true => reason,
            false => "its name has no address".to_owned(),
        },
        provider: deployment.provider.name.to_string(),
        credential: credential.map(|it| it.name.to_string()),
        model: deployment.upstream_model("*").to_owned(),
        priority: deployment.priority.into(),
        weight: deployment.weight.into(),
        format: format.map(|format| format.as_str().to_owned()),
        translated: false,
        dropped: Vec::new(),
    }
}

fn sent_to(first: Option<&CandidateShown>) -> Result<Outcome, PublicError> {
    let first = first.ok_or_else(|| UpstreamFault::unreachable().public())?;
    Ok(Outcome::Sent {
        provider: first.provider.clone(),
    })
}

impl CandidateShown {
    fn is_same(&self, other: &Self) -> bool {
        (&self.provider, &self.model, &self.credential)
            == (&other.provider, &other.model, &other.credential)
    }
}

fn find(
    handles: &[Arc<DeploymentHandle>],
    deployment: usize,
    credential: usize,
) -> Option<(&Arc<DeploymentHandle>, &CredentialHandle)> {
    let handle = handles.get(deployment)?;
    Some((handle, handle.credentials.get(credential)?))
}

fn in_words(obstacle: Obstacle, token: Option<&Token>, now: u64) -> String {
    let seconds = |until: u64| Duration::from_millis(until.saturating_sub(now)).as_secs();
    match obstacle {
        Obstacle::CannotCount => "it does not count tokens".to_owned(),
        Obstacle::OtherFormat => "it has no format for the request".to_owned(),
        Obstacle::StoredElsewhere => "what the request names is stored elsewhere".to_owned(),
        Obstacle::NoToken(lack) => {
            let retry = lack.retry_in.as_secs();
            match (lack.missing, token.and_then(Token::failure)) {
                (Missing::Refresh, Some(failure)) => {
                    format!("it has no valid token: {failure}; the next attempt is in {retry} s")
                }
                _ => "its first token is being fetched".to_owned(),
            }
        }
        Obstacle::Open { scope, until } => {
            let scope = match scope {
                BreakerScope::Provider => "the provider",
                BreakerScope::Deployment => "the deployment",
                BreakerScope::Credential => "the credential",
                BreakerScope::DeploymentCredential => "the credential at this deployment",
            };
            format!("{scope} is in cooldown for another {} s", seconds(until))
        }
        Obstacle::Resting { until } => {
            format!(
                "the provider has asked to wait another {} s",
                seconds(until)
            )
        }
        Obstacle::Full(_) => "a limit of it is reached".to_owned(),
    }
}
