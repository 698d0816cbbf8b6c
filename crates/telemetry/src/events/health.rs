//! The health of providers, deployments and credentials on the metrics page. It is read when the page is
//! read, so that requests do not pay for it.

use super::families::gauges;
use crate::clock;
use prometheus::proto::MetricFamily;
use std::collections::BTreeMap;
use std::time::Instant;
use tollgate_routing::health::{
    BreakerScope, CredentialHandle, DeploymentHandle, Fleet, Standing, Transition,
};

/// The labels of a transition: provider, deployment and credential; empty if the scope has none.
pub(super) fn labels<'a>(transition: &Transition<'a>) -> [&'a str; 3] {
    names(transition.scope, transition.handle, transition.credential)
}

pub(super) fn names<'a>(
    scope: BreakerScope,
    handle: &'a DeploymentHandle,
    credential: &'a CredentialHandle,
) -> [&'a str; 3] {
    let deployment = match scope {
        BreakerScope::Deployment | BreakerScope::DeploymentCredential => &*handle.deployment.name,
        BreakerScope::Provider | BreakerScope::Credential => "",
    };
    let credential = match scope {
        BreakerScope::Credential | BreakerScope::DeploymentCredential => credential.name(),
        BreakerScope::Provider | BreakerScope::Deployment => "",
    };
    [&handle.provider.name, deployment, credential]
}

/// The metric families of the fleet.
pub(super) fn families(fleet: &Fleet) -> [MetricFamily; 4] {
    let now = clock::steady_ms(Instant::now());
    let mut states = BTreeMap::new();
    let mut in_flight = BTreeMap::new();
    let mut latency = BTreeMap::new();
    for handle in fleet.all() {
        for credential in &*handle.credentials {
            for scope in BreakerScope::ALL {
                let state = match handle.breaker(scope, credential).standing(now) {
                    Standing::Closed => 0.0,
                    Standing::HalfOpen => 1.0,
                    Standing::Open { until } if until <= now => 1.0,
                    Standing::Open { .. } => 2.0,
                };
                let [provider, deployment, credential] = names(scope, handle, credential);
                let labels = [
                    ("scope", scope.as_str()),
                    ("provider", provider),
                    ("deployment", deployment),
                    ("credential", credential),
                ];
                states.insert(labels, state);
            }
        }
        let labels = [
            ("provider", &*handle.provider.name),
            ("deployment", &*handle.deployment.name),
        ];
        in_flight.insert(labels, f64::from(handle.health.load.in_flight()));
        if let Some(average) = handle.health.latency.get(now) {
            latency.insert(labels, average.as_secs_f64());
        }
    }
    let tokens = fleet.credentials().filter_map(|(_, credential)| {
        let token = credential.token.as_ref()?;
        let [provider, name] = token.names();
        let left = token.valid_for(now).unwrap_or_default();
        let labels = [("provider", provider), ("credential", name)];
        Some((labels, left.as_secs_f64()))
    });
    let tokens: BTreeMap<_, _> = tokens.collect();
    [
        gauges(
            "tollgate_credential_token_seconds",
            "Seconds for which the token of a credential is still valid; 0: no request is sent with it.",
            tokens.iter().map(|(labels, left)| (&labels[..], *left)),
        ),
        gauges(
            "tollgate_breaker_state",
            "Breakers: 0 closed, 1 half-open, 2 open.",
            states.iter().map(|(labels, state)| (&labels[..], *state)),
        ),
        gauges(
            "tollgate_deployment_in_flight",
            "Running requests at a deployment.",
            in_flight
                .iter()
                .map(|(labels, count)| (&labels[..], *count)),
        ),
        gauges(
            "tollgate_deployment_first_token_seconds",
            "Recent time to the first token of a deployment, as balancing uses it.",
            latency
                .iter()
                .map(|(labels, seconds)| (&labels[..], *seconds)),
        ),
    ]
}
