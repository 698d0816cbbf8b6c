//! How providers, deployments and credentials are doing, for an operator to look at: what
//! breakers stand on, since when and why, what is under way, and how quick they are.
//!
//! Names and numbers alone; a credential is told by its name. What it means for the next
//! request is decided in `tollgate_routing::health` and `tollgate_routing::plan`.

use schemars::JsonSchema;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Instant;
use tollgate_routing::health::{Breaker, Fleet, Place, Seat, Standing};
use tollgate_telemetry::clock;

/// Everybody who can be asked, as this process knows them.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Health")]
pub struct HealthView {
    /// When this was looked up, in RFC 3339.
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
    /// Where its name leads; empty while it is not known.
    addresses: Vec<String>,
    /// Opens when it cannot be reached.
    breaker: BreakerView,
    /// What it is logged in to with.
    credentials: Vec<CredentialView>,
}

/// A credential, at all deployments of its provider.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "CredentialHealth")]
struct CredentialView {
    /// Its name; null where the provider asks for none.
    name: Option<String>,
    /// Opens when it is refused, or its account is empty.
    breaker: BreakerView,
    /// Requests under way with it.
    in_flight: u32,
}

/// A deployment: an upstream model at a provider.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "DeploymentHealth")]
struct DeploymentView {
    /// Its name, as in metrics.
    name: String,
    /// Its provider's.
    provider: String,
    /// The models that it serves.
    models: BTreeSet<String>,
    /// Opens when its answers are errors, broken or late.
    breaker: BreakerView,
    /// Requests under way at it.
    in_flight: u32,
    /// The time to the first token of its streams in milliseconds, as balancing sees it: slow
    /// ones count at once and are forgotten slowly. Null where none was measured yet.
    first_token_ms: Option<f64>,
    /// The credentials here.
    seats: Vec<SeatView>,
}

/// A credential at a deployment.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "SeatHealth")]
struct SeatView {
    /// Its name; null where the provider asks for none.
    credential: Option<String>,
    /// Opens when it has asked too much here, or may not use this.
    breaker: BreakerView,
    /// Requests under way with it here.
    in_flight: u32,
}

/// A breaker.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Breaker")]
struct BreakerView {
    /// Whether it lets requests pass.
    state: State,
    /// When it last opened or closed, in RFC 3339; null where it never has.
    since: Option<String>,
    /// How long it stays open yet, in milliseconds; null where it is not open.
    cooldown_left_ms: Option<u64>,
    /// Whether it is open for a wait that the provider has asked for.
    asked_to_wait: bool,
    /// What failed last.
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
    /// One at a time, to see.
    HalfOpen,
    /// None.
    Open,
}

impl HealthView {
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
    for (model, places) in fleet.by_model() {
        for place in places.iter() {
            let view = views.entry(&place.deployment.name);
            let view = view.or_insert_with(|| DeploymentView::of(place, now));
            view.models.insert(model.to_string());
        }
    }
    views.into_values().collect()
}

impl DeploymentView {
    fn of(place: &Place, now: u64) -> Self {
        let first_token = place.health.latency.get(now);
        Self {
            name: place.deployment.name.to_string(),
            provider: place.provider.name.to_string(),
            models: BTreeSet::new(),
            breaker: BreakerView::of(&place.health.breaker, now),
            in_flight: place.health.load.in_flight(),
            first_token_ms: first_token.map(|it| it.as_secs_f64() * 1000.0),
            seats: place
                .seats
                .iter()
                .map(|seat| SeatView::of(seat, now))
                .collect(),
        }
    }
}

impl SeatView {
    fn of(seat: &Seat, now: u64) -> Self {
        Self {
            credential: named(seat.name()),
            breaker: BreakerView::of(&seat.health.breaker, now),
            in_flight: seat.health.in_flight(),
        }
    }
}

impl BreakerView {
    fn of(breaker: &Breaker, now: u64) -> Self {
        let moment = |at| clock::at_steady_ms(at).as_str().to_owned();
        let (state, until) = match breaker.standing(now) {
            Standing::Closed => (State::Closed, None),
            Standing::HalfOpen => (State::HalfOpen, None),
            // The cooldown is over, and the one request is under way.
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
