//! `x-route-reason`: which deployment and credential have answered, and why. The same for the dashboard.
//!
//! In the header, deployments and credentials are numbers in the order of the configuration, because
//! clients must not see the names of providers. Operators see the names.

use super::exchange::Exchange;
use http::HeaderMap;
use std::fmt::Write;
use std::slice;
use std::sync::Arc;
use tollgate_routing::health::DeploymentHandle;

/// The request header that asks for the reason.
const EXPLAIN: &str = "x-explain";
/// The most candidates that the text lists as left out.
const MOST_LISTED: usize = 16;

/// Whether the client asks for the reason and the configuration allows it.
pub fn is_requested(exchange: &Exchange, headers: &HeaderMap) -> bool {
    headers.get(EXPLAIN).is_some_and(|it| it == "1")
        && exchange.snapshot.catalog.catalog().explains()
}

/// The reason for the client. `None` if no candidate was asked.
pub fn text(exchange: &Exchange) -> Option<String> {
    exchange.attempts.current()?;
    reason(exchange, |_, deployment, credential| {
        let (deployment, credential) = (deployment.saturating_add(1), credential.saturating_add(1));
        format!("deployment {deployment} credential {credential}")
    })
}

/// The reason for operators, also if every candidate was left out. `None` if there was none.
pub fn named(exchange: &Exchange) -> Option<String> {
    reason(exchange, |handle, _, credential| {
        let deployment = &handle.deployment.name;
        let credential = handle.credentials.get(credential);
        match credential.map_or("", |it| it.name()) {
            "" => deployment.to_string(),
            name => format!("{deployment} credential {name}"),
        }
    })
}

/// `label` names a deployment and one of its credentials; it gets their indices.
fn reason(
    exchange: &Exchange,
    label: impl Fn(&DeploymentHandle, usize, usize) -> String,
) -> Option<String> {
    let handles = handles(exchange)?;
    let mut text = String::new();
    if let Some(candidate) = exchange.attempts.current() {
        let mut places = handles.iter();
        let number = places.position(|it| Arc::ptr_eq(it, &candidate.handle))?;
        let label = label(&candidate.handle, number, candidate.credential);
        text = format!("{label}: {}", candidate.why);
    }
    let left_out = exchange.attempts.left_out.0.iter().filter_map(|out| {
        let handle = handles.get(out.deployment)?;
        // A candidate that is asked as a last resort is not left out.
        let is_asked = exchange.attempts.has_asked(handle, out.credential);
        (!is_asked).then_some((handle, out))
    });
    for (number, (handle, out)) in left_out.take(MOST_LISTED).enumerate() {
        text.push_str(match (number, text.is_empty()) {
            (0, true) => "left out: ",
            (0, false) => "; left out: ",
            _ => ", ",
        });
        let label = label(handle, out.deployment, out.credential);
        // Writing to a string cannot fail.
        let _ = write!(text, "{label} ({})", out.obstacle.as_str());
    }
    (!text.is_empty()).then_some(text)
}

/// The deployments that the candidates were chosen from.
fn handles(exchange: &Exchange) -> Option<&[Arc<DeploymentHandle>]> {
    if let Some(opened) = &exchange.opened {
        let handle = exchange.snapshot.fleet.open_path(opened.rule.as_ref()?);
        return handle.map(slice::from_ref);
    }
    let admitted = exchange.stage.admitted()?;
    Some(&exchange.snapshot.served(admitted.handle)?.handles)
}
