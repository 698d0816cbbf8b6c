//! The health of providers, deployments and credentials for operators: the state of each breaker, since when
//! and why, the requests in flight, and the latency.
//!
//! It holds names and numbers only, never a secret. `tollgate_routing::health` and `tollgate_routing::plan`
//! decide what the health means for the next request.

use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tollgate_providers::Token;
use tollgate_routing::health::{Breaker, CredentialHandle, DeploymentHandle, Fleet, Standing};
use tollgate_telemetry::clock;

/// The health of all providers and deployments in this process.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Health")]
pub struct HealthView {
    /// When this was read, in RFC 3339.
    at: String,
    /// By name.
    providers: Vec<ProviderView>,
    /// By name.
    deployments: Vec<DeploymentView>,
}

/// A provider.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "ProviderHealth")]
struct ProviderView {
    /// Its name in the configuration.
    name: String,
    /// The addresses of its host; empty while they are unknown.
    addresses: Vec<String>,
    /// Opens when it cannot be reached.
    breaker: BreakerView,
    /// Its credentials.
    credentials: Vec<CredentialView>,
}

/// A credential, at all deployments of its provider.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "CredentialHealth")]
struct CredentialView {
    /// Its name; null if the provider needs none.
    name: Option<String>,
    /// Opens when the provider refuses it, or its account is empty.
    breaker: BreakerView,
    /// Its token; null if it logs in with a secret.
    token: Option<TokenView>,
    /// Requests in flight with it.
    in_flight: u32,
}

/// The token of a credential.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "CredentialToken")]
struct TokenView {
    /// How long it is valid. Null: there is none, and no request is sent with the credential.
    valid_for_ms: Option<u64>,
    /// Why the last attempt to fetch one failed. Null: it has not.
    failure: Option<String>,
}

/// A deployment: an upstream model at a provider.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "DeploymentHealth")]
struct DeploymentView {
    /// Its name, as in metrics.
    name: String,
    /// The name of its provider.
    provider: String,
    /// The models that it serves.
    models: BTreeSet<String>,
    /// Opens when its answers are errors, broken or late.
    breaker: BreakerView,
    /// Requests in flight at it.
    in_flight: u32,
    /// The time to the first token of its streams in milliseconds, as balancing uses it: it
    /// rises at once and falls slowly. Null until one was measured.
    first_token_ms: Option<f64>,
    /// The credentials at this deployment.
    credentials: Vec<DeploymentCredentialView>,
}

/// A credential at a deployment.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "DeploymentCredentialHealth")]
struct DeploymentCredentialView {
    /// Its name; null if the provider needs none.
    credential: Option<String>,
    /// Opens when the provider limits its rate at this deployment, or does not allow the model.
    breaker: BreakerView,
    /// Requests in flight with it at this deployment.
    in_flight: u32,
}

/// A breaker.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Breaker")]
struct BreakerView {
    /// Whether it lets requests pass.
    state: State,
    /// When it last opened or closed, in RFC 3339; null if it never has.
    since: Option<String>,
    /// The rest of the cooldown in milliseconds; null if it is not open.
    cooldown_left_ms: Option<u64>,
    /// Whether it is open because the provider asked to wait.
    asked_to_wait: bool,
    /// The last failure.
    last_failure: Option<FailedView>,
}

/// A failure.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "LastFailure")]
struct FailedView {
    /// Its class, as in metrics; `check` for an active check.
    class: &'static str,
    /// When, in RFC 3339.
    at: String,
}

/// Whether a breaker lets requests pass.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "BreakerState")]
enum State {
    /// All of them.
    Closed,
    /// One request at a time, as a probe.
    HalfOpen,
    /// None.
    Open,
}

/// A breaker that is not closed, for the dashboard.
#[derive(Debug, Serialize)]
pub(super) struct OpenBreaker {
    /// Its kind: provider, credential or deployment.
    scope: &'static str,
    /// The provider or the deployment, and the credential.
    name: String,
    #[serde(flatten)]
    breaker: BreakerView,
}

impl HealthView {
    /// The breakers that are not closed; those of providers first.
    pub(super) fn open_breakers(self) -> Vec<OpenBreaker> {
        let named = |name: &str, credential: Option<String>| match credential {
            Some(credential) => format!("{name}, credential {credential}"),
            None => name.to_owned(),
        };
        let mut all = Vec::new();
        for it in self.providers {
            all.push(("provider", it.name.clone(), it.breaker));
            for credential in it.credentials {
                let name = named(&it.name, credential.name);
                all.push(("credential", name, credential.breaker));
            }
        }
        for it in self.deployments {
            all.push(("deployment", it.name.clone(), it.breaker));
            for credential in it.credentials {
                let name = named(&it.name, credential.credential);
                all.push(("deployment and credential", name, credential.breaker));
            }
        }
        let is_open = |breaker: &BreakerView| !matches!(breaker.state, State::Closed);
        all.into_iter()
            .filter(|(.., breaker)| is_open(breaker))
            .map(|(scope, name, breaker)| OpenBreaker {
                scope,
                name,
                breaker,
            })
            .collect()
    }

    /// The health of all providers, now; `addresses` returns the addresses of a provider.
    pub fn new(fleet: &Fleet, addresses: &dyn Fn(&str) -> Vec<SocketAddr>) -> Self {
        let now = clock::steady_ms(Instant::now());
        Self {
            at: clock::now().as_str().to_owned(),
            providers: providers(fleet, addresses, now),
            deployments: deployments(fleet, now),
        }
    }
}

fn providers(
    fleet: &Fleet,
    addresses: &dyn Fn(&str) -> Vec<SocketAddr>,
    now: u64,
) -> Vec<ProviderView> {
    let mut credentials: BTreeMap<&str, BTreeMap<&str, CredentialView>> = BTreeMap::new();
    for ([provider, name], health) in fleet.credentials() {
        let view = CredentialView {
            name: named(name),
            breaker: BreakerView::of(&health.breaker, now),
            token: health.token.as_ref().map(|it| TokenView::of(it, now)),
            in_flight: health.load.in_flight(),
        };
        credentials.entry(provider).or_default().insert(name, view);
    }
    let mut views: Vec<_> = fleet
        .providers()
        .map(|health| {
            let addresses = addresses(&health.name);
            let credentials = credentials.remove(&*health.name).unwrap_or_default();
            ProviderView {
                name: health.name.to_string(),
                addresses: addresses.iter().map(ToString::to_string).collect(),
                breaker: BreakerView::of(&health.breaker, now),
                credentials: credentials.into_values().collect(),
            }
        })
        .collect();
    views.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    views
}

fn deployments(fleet: &Fleet, now: u64) -> Vec<DeploymentView> {
    let mut views: BTreeMap<&str, DeploymentView> = BTreeMap::new();
    for (model, handles) in fleet.by_model() {
        for handle in handles.iter() {
            let view = views.entry(&handle.deployment.name);
            let view = view.or_insert_with(|| DeploymentView::of(handle, now));
            view.models.insert(model.to_string());
        }
    }
    views.into_values().collect()
}

impl DeploymentView {
    fn of(handle: &DeploymentHandle, now: u64) -> Self {
        let first_token = handle.health.latency.get(now);
        Self {
            name: handle.deployment.name.to_string(),
            provider: handle.provider.name.to_string(),
            models: BTreeSet::new(),
            breaker: BreakerView::of(&handle.health.breaker, now),
            in_flight: handle.health.load.in_flight(),
            first_token_ms: first_token.map(|it| it.as_secs_f64() * 1000.0),
            credentials: handle
                .credentials
                .iter()
                .map(|credential| DeploymentCredentialView::of(credential, now))
                .collect(),
        }
    }
}

impl DeploymentCredentialView {
    fn of(credential: &CredentialHandle, now: u64) -> Self {
        Self {
            credential: named(credential.name()),
            breaker: BreakerView::of(&credential.health.breaker, now),
            in_flight: credential.health.in_flight(),
        }
    }
}

impl TokenView {
    fn of(token: &Token, now: u64) -> Self {
        let valid_for = token.valid_for(now);
        let millis = |span: Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
        Self {
            valid_for_ms: valid_for.map(millis),
            failure: token.failure().map(|failure| failure.to_string()),
        }
    }
}

impl BreakerView {
    fn of(breaker: &Breaker, now: u64) -> Self {
        let moment = |at| clock::at_steady_ms(at).as_str().to_owned();
        let (state, until) = match breaker.standing(now) {
            Standing::Closed => (State::Closed, None),
            Standing::HalfOpen => (State::HalfOpen, None),
            // The cooldown is over, and the probe is in flight.
            Standing::Open { until } if until <= now => (State::HalfOpen, None),
            Standing::Open { until } => (State::Open, Some(until)),
        };
        let last_failure = breaker.last_failure().map(|failure| FailedView {
            class: failure.class,
            at: moment(failure.at),
        });
        Self {
            state,
            since: breaker.changed_at().map(moment),
            cooldown_left_ms: until.map(|until| until.saturating_sub(now)),
            asked_to_wait: breaker.rests_until(now).is_some(),
            last_failure,
        }
    }
}

fn named(name: &str) -> Option<String> {
    (!name.is_empty()).then(|| name.to_owned())
}
