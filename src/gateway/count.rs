//! Counts of tokens that no provider gives: made here, off the threads that serve requests.

use super::body::RequestBody;
use super::exchange::Exchange;
use super::respond::{self, Local};
use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use once_cell::sync::Lazy;
use tokio::sync::Semaphore;
use tollgate_count::{Count, Family};
use tollgate_types::{ErrorCode, PublicError};
use tollgate_wire::splice::Splice;

/// Counts at one time: each keeps a thread busy for some milliseconds.
static AT_ONCE: Lazy<Semaphore> =
    Lazy::new(|| Semaphore::new(std::thread::available_parallelism().map_or(1, usize::from)));

const SOURCE: HeaderName = HeaderName::from_static("x-token-count-source");
const ERROR: HeaderName = HeaderName::from_static("x-token-count-error-p95");

/// Counts the input tokens of the request that was read.
///
/// # Errors
///
/// 503 when too many counts are asked for at once.
pub async fn answer(exchange: &Exchange) -> Result<Local, PublicError> {
    let fault = || {
        log::error!("{}: there is nothing to count", exchange.id);
        respond::internal_error()
    };
    let whole = |body: &RequestBody| body.assemble(Splice::default());
    let body = exchange.body.as_ref().and_then(whole).ok_or_else(fault)?;
    let format = exchange.format().ok_or_else(fault)?;
    let family = family(exchange).ok_or_else(fault)?;
    let busy = |_| {
        PublicError::new(
            ErrorCode::ServiceUnavailable,
            "too many counts at once: try again shortly",
        )
    };
    let _permit = AT_ONCE.acquire().await.map_err(|_| fault())?;
    let counting = move || tollgate_count::count(format, &body, &family.rules());
    let count = tokio::task::spawn_blocking(counting).await;
    Ok(told(&count.map_err(busy)?))
}

/// The family of the model that would answer, by the name that its provider gives it.
fn family(exchange: &Exchange) -> Option<Family> {
    let request = exchange.request.as_ref()?;
    let model = request.route.as_ref()?.model;
    let model = exchange.snapshot.catalog.model(model)?;
    let deployment = model.deployments.first()?;
    let asked = request.facts.as_ref()?.model.as_deref();
    Some(Family::of_model(
        deployment.upstream_model(asked.unwrap_or(&model.id)),
    ))
}

fn told(count: &Count) -> Local {
    let body = format!(r#"{{"input_tokens":{}}}"#, count.tokens);
    let mut answer = Local::new(200, "application/json", Bytes::from(body));
    answer.add(SOURCE, HeaderValue::from_static("local"));
    let error = format!("{:.2}", count.error_p95.min(1.0));
    if let Ok(error) = HeaderValue::from_maybe_shared(Bytes::from(error)) {
        answer.add(ERROR, error);
    }
    answer
}
