//! How providers, deployments and credentials are doing, on the page of metrics. It is read
//! when the page is, so that no request pays for it.

use super::families::gauges;
use crate::clock;
use prometheus::proto::MetricFamily;
use std::collections::BTreeMap;
use std::time::Instant;
use tollgate_routing::health::{Fleet, Place, Seat, Standing, Transition, Whose};

/// Provider, deployment and credential of what has changed; empty where it has none.
pub(super) fn labels<'a>(transition: &Transition<'a>) -> [&'a str; 3] {
    names(transition.whose, transition.place, transition.seat)
}

fn names<'a>(whose: Whose, place: &'a Place, seat: &'a Seat) -> [&'a str; 3] {
    let deployment = match whose {
        Whose::Deployment | Whose::Seat => &*place.deployment.name,
        Whose::Provider | Whose::Credential => "",
    };
    let credential = match whose {
        Whose::Credential | Whose::Seat => seat.name(),
        Whose::Provider | Whose::Deployment => "",
    };
    [&place.provider.name, deployment, credential]
}

/// The page's part about the fleet.
pub(super) fn families(fleet: &Fleet) -> [MetricFamily; 3] {
    let now = clock::steady_ms(Instant::now());
    let mut states = BTreeMap::new();
    let mut in_flight = BTreeMap::new();
    let mut latency = BTreeMap::new();
    for place in fleet.all() {
        for seat in &*place.seats {
            for whose in Whose::ALL {
                let state = match place.breaker(whose, seat).standing(now) {
                    Standing::Closed => 0.0,
                    Standing::HalfOpen => 1.0,
                    Standing::Open { until } if until <= now => 1.0,
                    Standing::Open { .. } => 2.0,
                };
                let [provider, deployment, credential] = names(whose, place, seat);
                let labels = [
                    ("whose", whose.as_str()),
                    ("provider", provider),
                    ("deployment", deployment),
                    ("credential", credential),
                ];
                states.insert(labels, state);
            }
        }
        let labels = [
            ("provider", &*place.provider.name),
            ("deployment", &*place.deployment.name),
        ];
        in_flight.insert(labels, f64::from(place.health.load.in_flight()));
        if let Some(average) = place.health.latency.get(now) {
            latency.insert(labels, average.as_secs_f64());
        }
    }
    [
        gauges(
            "tollgate_breaker_state",
            "Breakers: 0 closed, 1 half-open, 2 open (benched).",
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
