//! `x-route-reason`: which deployment and credential have answered, and why.
//!
//! Deployments and credentials are numbers in the order of the configuration, because clients must not
//! see the names of providers.

use super::exchange::Exchange;
use http::HeaderMap;
use std::fmt::Write;

/// The request header that asks for the reason.
const EXPLAIN: &str = "x-explain";
/// The most candidates that the text lists as left out.
const MOST_LISTED: usize = 16;

/// Whether the client asks for the reason and the configuration allows it.
pub fn is_requested(exchange: &Exchange, headers: &HeaderMap) -> bool {
    headers.get(EXPLAIN).is_some_and(|it| it == "1")
        && exchange.snapshot.catalog.catalog().explains()
}

/// The reason. `None` if no candidate was asked.
pub fn text(exchange: &Exchange) -> Option<String> {
    let candidate = exchange.attempts.current()?;
    let served = exchange
        .snapshot
        .served(exchange.stage.admitted()?.handle)?;
    let mut handles = served.handles.iter();
    let number = handles.position(|it| std::sync::Arc::ptr_eq(it, &candidate.handle))?;
    let mut text = format!("{}: {}", label(number, candidate.credential), candidate.why);
    // A candidate that is asked as a last resort is not left out.
    let is_asked = |deployment: usize, credential: usize| {
        let handle = served.handles.get(deployment);
        handle.is_some_and(|handle| exchange.attempts.has_begun(handle, credential))
    };
    let left_out = exchange.left_out.0.iter();
    let left_out = left_out.filter(|out| !is_asked(out.deployment, out.credential));
    for (number, out) in left_out.take(MOST_LISTED).enumerate() {
        text.push_str(if number == 0 { "; left out: " } else { ", " });
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "{} ({})",
            label(out.deployment, out.credential),
            out.obstacle.as_str()
        );
    }
    Some(text)
}

/// Numbers from one, as in the configuration.
fn label(deployment: usize, credential: usize) -> String {
    format!(
        "deployment {} credential {}",
        deployment.saturating_add(1),
        credential.saturating_add(1)
    )
}
