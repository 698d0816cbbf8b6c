//! How providers, deployments and credentials are doing, on the page of metrics. It is read
//! when the page is, so that no request pays for it.

use crate::clock;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
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
pub(super) fn exposition(fleet: &Fleet, page: &mut Vec<u8>) {
    let now = clock::steady_ms(Instant::now());
    let mut states = BTreeSet::new();
    let mut in_flight = BTreeMap::new();
    let mut latency = BTreeMap::new();
    for place in fleet.all() {
        for seat in &*place.seats {
            for whose in Whose::ALL {
                let state = match place.breaker(whose, seat).standing(now) {
                    Standing::Closed => 0,
                    Standing::HalfOpen => 1,
                    Standing::Open { until } => {
                        if until <= now {
                            1
                        } else {
                            2
                        }
                    }
                };
                states.insert((whose.as_str(), names(whose, place, seat), state));
            }
        }
        let names = [&*place.provider.name, &*place.deployment.name];
        in_flight.insert(names, place.health.load.in_flight());
        if let Some(average) = place.health.latency.get(now) {
            latency.insert(names, average.as_secs_f64());
        }
    }
    let mut text = String::with_capacity(4096);
    head(
        &mut text,
        "tollgate_breaker_state",
        "Whether it is asked: 0 yes, 1 one request at a time to see, 2 no.",
    );
    for (whose, [provider, deployment, credential], state) in states {
        let [provider, deployment, credential] = [provider, deployment, credential].map(quoted);
        let _ = writeln!(
            text,
            "tollgate_breaker_state{{whose=\"{whose}\",provider={provider},\
             deployment={deployment},credential={credential}}} {state}"
        );
    }
    let name = "tollgate_deployment_in_flight";
    head(&mut text, name, "Requests under way at a deployment.");
    for (labels, count) in in_flight {
        sample(&mut text, name, labels, count);
    }
    let name = "tollgate_deployment_first_token_seconds";
    let help = "Time to the first token of a deployment, as balancing sees it.";
    head(&mut text, name, help);
    for (labels, seconds) in latency {
        sample(&mut text, name, labels, seconds);
    }
    page.extend_from_slice(text.as_bytes());
}

fn head(page: &mut String, name: &str, help: &str) {
    let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} gauge");
}

fn sample(page: &mut String, name: &str, labels: [&str; 2], value: impl std::fmt::Display) {
    let [provider, deployment] = labels.map(quoted);
    let _ = writeln!(
        page,
        "{name}{{provider={provider},deployment={deployment}}} {value}"
    );
}

/// A label's value as the text format wants it.
fn quoted(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{}\"", escaped.replace('\n', "\\n"))
}
