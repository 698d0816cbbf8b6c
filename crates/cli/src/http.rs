//! A request of the command line to the operator port of a gateway.

use super::Failure;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use std::error::Error;
use std::time::Duration;

/// The text that the standard library puts before the reason of the system's resolver.
const LOOKUP_FAILED: &str = "failed to lookup address information: ";

/// How long the whole answer may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest answer: more than any configuration has.
const MOST_BYTES: usize = 32 << 20;

/// Waits for what such requests give.
///
/// # Errors
///
/// As the work.
pub(super) fn wait<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(work)
}

/// Gets a page of the admin API in cleartext.
///
/// # Errors
///
/// The gateway cannot be reached, or its answer is not a success: the message of its answer.
pub(super) async fn get(authority: &str, target: &str, token: &str) -> Result<Bytes, Failure> {
    let (status, body) = fetch(authority, target, Some(token)).await?;
    if status.is_success() {
        return Ok(body);
    }
    let reported: Option<serde_json::Value> = serde_json::from_slice(&body).ok();
    let message = reported
        .as_ref()
        .and_then(|it| it.pointer("/error/message")?.as_str());
    let message = message.unwrap_or("no reason given");
    let status = status.as_u16();
    Err(format!("{authority} answers {status}: {message}").into())
}

/// Gets a page of the operator port in cleartext, whatever its status is.
///
/// # Errors
///
/// The gateway cannot be reached.
pub(super) async fn fetch(
    authority: &str,
    target: &str,
    token: Option<&str>,
) -> Result<(StatusCode, Bytes), Failure> {
    let mut request = Request::get(format!("http://{authority}{target}"));
    if let Some(token) = token {
        request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    let request = request
        .body(Empty::<Bytes>::new())
        .map_err(|fault| format!("'{authority}' or the admin token cannot be sent: {fault}"))?;
    tokio::time::timeout(PATIENCE, exchange(request))
        .await
        .map_err(|_| format!("{authority} has not answered within {PATIENCE:?}").into())
        .and_then(|answer| answer.map_err(|fault| described(authority, &*fault).into()))
}

async fn exchange(
    request: Request<Empty<Bytes>>,
) -> Result<(StatusCode, Bytes), Box<dyn Error + Send + Sync>> {
    let client = Client::builder(TokioExecutor::new()).build_http();
    let answer = client.request(request).await?;
    let status = answer.status();
    let body = Limited::new(answer.into_body(), MOST_BYTES);
    Ok((status, body.collect().await?.to_bytes()))
}

/// The innermost cause of a failed request; the outer ones only repeat that it failed.
fn described(authority: &str, fault: &(dyn Error + 'static)) -> String {
    let mut first = fault;
    while let Some(cause) = first.source() {
        first = cause;
    }
    let first = first.to_string();
    match resolver_cause(&first) {
        cause if cause == first => format!("{authority} cannot be reached: {cause}"),
        cause => format!("the host of '{authority}' cannot be resolved ({cause})"),
    }
}

/// The reason of the system's resolver; another message as it is.
pub(super) fn resolver_cause(message: &str) -> &str {
    message.strip_prefix(LOOKUP_FAILED).unwrap_or(message)
}
