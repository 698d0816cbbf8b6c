//! The candidates of a request: the endpoint that each is asked at, and the errors if none can be asked.
//! `model_request` decides on the body.

use std::time::Duration;
use tollgate_filter::{Endpoint, RequestContext};
use tollgate_routing::health::Full;
use tollgate_routing::{MODEL, Provider, Purpose};
use tollgate_types::{ErrorCode, Format, PublicError};
use tollgate_wire::address::with_model;
use tollgate_wire::fault::{FaultClass, UpstreamFault};

/// How many candidates of a request are asked at most.
pub const MOST: usize = 8;

/// Adds a candidate after the others. If there are [`MOST`] already, a candidate of a further deployment
/// replaces the last one whose deployment has another candidate. `is_same`: whether two candidates have the
/// same deployment. Returns the candidate for which there is no room.
pub fn add<T>(candidates: &mut Vec<T>, new: T, is_same: impl Fn(&T, &T) -> bool) -> Option<T> {
    if candidates.len() < MOST {
        candidates.push(new);
        return None;
    }
    let of = |one: &T| candidates.iter().filter(|it| is_same(it, one)).count();
    if of(&new) > 0 {
        return Some(new);
    }
    let Some(last) = candidates.iter().rposition(|it| of(it) > 1) else {
        return Some(new);
    };
    let replaced = candidates.remove(last);
    candidates.push(new);
    Some(replaced)
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

#[cfg(test)]
mod tests {
    use super::add;

    /// The candidates of deployments with so many credentials each.
    fn candidates(credentials: &[usize]) -> String {
        let mut candidates = Vec::new();
        for (deployment, count) in ('a'..).zip(credentials) {
            for _ in 0..*count {
                add(&mut candidates, deployment, |one, other| one == other);
            }
        }
        candidates.into_iter().collect()
    }

    #[test]
    fn as_many_deployments_as_possible_are_among_the_candidates() {
        for (credentials, expected) in [
            (&[3, 2][..], "aaabb"),
            (&[9], "aaaaaaaa"),
            (&[8, 8, 1], "aaaaaabc"),
            (&[1, 7, 2], "abbbbbbc"),
            (&[3; 5], "aaabbcde"),
            (&[1; 9], "abcdefgh"),
        ] {
            assert_eq!(candidates(credentials), expected, "{credentials:?}");
        }
    }
}
