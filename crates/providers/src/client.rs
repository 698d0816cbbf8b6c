//! HTTP to the services that issue tokens: HTTP/1.1 over TLS with the system's authorities, no redirects.

use crate::aws::element;
use crate::error::{FetchError, FetchFault};
use bytes::Bytes;
use http::{HeaderMap, Request, Uri, header, uri::Authority};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::{Client as Legacy, Error as LegacyError};
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use std::error::Error;
use std::net::IpAddr;
use std::time::Duration;
use tokio::sync::OnceCell;
use tollgate_settings::Secret;
use tollgate_wire::fault::redacted;

/// How long one exchange may take.
const EXCHANGE_LIMIT: Duration = Duration::from_secs(10);
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// Tokens have some kilobytes.
const MOST_BYTES: usize = 256 * 1024;

const AGENT: &str = concat!("tollgate/", env!("CARGO_PKG_VERSION"));

type Inner = Legacy<HttpsConnector<HttpConnector>, Full<Bytes>>;

/// Made with the first request: it loads the system's authorities.
#[derive(Default)]
pub(crate) struct Client(OnceCell<Inner>);

/// A success.
pub(crate) struct Answer {
    /// The host that answers, for errors.
    pub(crate) from: String,
    pub(crate) headers: HeaderMap,
    body: Bytes,
}

impl Answer {
    /// The object of the answer. Errors hold nothing of it.
    pub(crate) fn json(&self) -> Result<Value, FetchError> {
        let value = serde_json::from_slice(&self.body).ok();
        let value = value.filter(Value::is_object);
        value.ok_or_else(|| FetchError::answer(&self.from, "a JSON object"))
    }

    pub(crate) fn text(&self) -> Result<Secret, FetchError> {
        let text = std::str::from_utf8(&self.body);
        let text = text.map_err(|_| FetchError::answer(&self.from, "text"))?;
        Ok(Secret::new(text.trim()))
    }
}

/// Reads an address to which secrets are sent: `https`, or `http` on this machine.
pub(crate) fn endpoint(text: &str) -> Result<Uri, String> {
    let uri = any_endpoint(text)?;
    let is_https = uri.scheme_str() == Some("https");
    match is_https || uri.host().is_some_and(is_loopback) {
        true => Ok(uri),
        false => Err(format!(
            "'{text}' would send a secret in cleartext: expected https://"
        )),
    }
}

/// Reads an address to which no secret is sent.
pub(crate) fn any_endpoint(text: &str) -> Result<Uri, String> {
    let uri: Option<Uri> = text.parse().ok();
    let uri = uri.filter(|uri| {
        let is_known = matches!(uri.scheme_str(), Some("http" | "https"));
        let has_user = uri.authority().is_some_and(|it| it.as_str().contains('@'));
        is_known && !has_user
    });
    uri.ok_or_else(|| "expected a URL such as https://host/path".to_owned())
}

/// Fields as `application/x-www-form-urlencoded`, which queries are, too.
pub(crate) fn form(fields: &[(&str, &str)]) -> String {
    let mut text = form_urlencoded::Serializer::new(String::new());
    text.extend_pairs(fields).finish()
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|it| it.is_loopback())
}

impl Client {
    /// Sends a form. `secrets` are parts of it that no error repeats.
    pub(crate) async fn post_form(
        &self,
        uri: &Uri,
        fields: &[(&str, &str)],
        secrets: &[&str],
    ) -> Result<Answer, FetchError> {
        let request = Request::post(uri.clone())
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(Full::from(form(fields)));
        self.send(request, secrets).await
    }

    /// Sends a request. `secrets` are parts of it that no error repeats.
    pub(crate) async fn send(
        &self,
        request: http::Result<Request<Full<Bytes>>>,
        secrets: &[&str],
    ) -> Result<Answer, FetchError> {
        let mut request = request.map_err(|_| {
            FetchError::new(FetchFault::Local, "the request for a token cannot be sent")
        })?;
        let headers = request.headers_mut();
        headers.insert(header::USER_AGENT, http::HeaderValue::from_static(AGENT));
        let json = http::HeaderValue::from_static("application/json");
        headers.entry(header::ACCEPT).or_insert(json);
        let from = request.uri().authority().map_or("", Authority::as_str);
        let from = from.to_owned();
        let inner = self.0.get_or_try_init(|| async { inner() }).await?;
        let exchange = async {
            let answer = inner.request(request).await;
            let answer = answer.map_err(|fault| unreachable(&from, &fault))?;
            let (head, body) = answer.into_parts();
            let body = Limited::new(body, MOST_BYTES).collect().await;
            let body = body.map_err(|_| FetchError::answer(&from, "a complete body"))?;
            Ok((head, body.to_bytes()))
        };
        let exchanged = tokio::time::timeout(EXCHANGE_LIMIT, exchange).await;
        let (head, body) = exchanged.map_err(|_| {
            let message = format_args!("{from} has not answered within {EXCHANGE_LIMIT:?}");
            FetchError::new(FetchFault::Timeout, message)
        })??;
        if head.status.is_success() {
            return Ok(Answer {
                from,
                headers: head.headers,
                body,
            });
        }
        let status = head.status.as_u16();
        let said = said(&body, secrets);
        let message = format_args!("{from} answers {status}{said}");
        Err(FetchError::new(FetchFault::Refused, message))
    }
}

fn inner() -> Result<Inner, FetchError> {
    let provider = rustls::crypto::ring::default_provider();
    let tls = HttpsConnectorBuilder::new().with_provider_and_native_roots(provider);
    let tls = tls.map_err(|cause| {
        let message = format_args!("the system's certificate authorities cannot be read: {cause}");
        FetchError::new(FetchFault::Local, message)
    })?;
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_connect_timeout(Some(CONNECT_LIMIT));
    let connector = tls.https_or_http().enable_http1().wrap_connector(tcp);
    // Tokens are fetched once an hour: no connection is kept.
    let mut client = Legacy::builder(TokioExecutor::new());
    Ok(client.pool_max_idle_per_host(0).build(connector))
}

/// The first cause says it; those over it repeat that the request failed.
fn unreachable(from: &str, fault: &LegacyError) -> FetchError {
    let mut first: &dyn Error = fault;
    while let Some(cause) = first.source() {
        first = cause;
    }
    let message = format_args!("{from} cannot be reached: {first}");
    FetchError::new(FetchFault::Unreachable, message)
}

/// The message of an error of OAuth (RFC 6749, section 5.2), of Google's APIs, of STS or of a metadata
/// server, without possible secrets.
fn said(body: &[u8], secrets: &[&str]) -> String {
    let told: Value = serde_json::from_slice(body).unwrap_or_default();
    let text = |pointer: &str| told.pointer(pointer).and_then(Value::as_str);
    let code = text("/error").or_else(|| text("/error/status"));
    let description = text("/error_description").or_else(|| text("/error/message"));
    let xml = std::str::from_utf8(body).unwrap_or_default();
    let code = code.or_else(|| element(xml, "Code"));
    let description = description.or_else(|| element(xml, "Message"));
    let mut said = String::new();
    for part in [code, description].into_iter().flatten() {
        let mut part = part.to_owned();
        for secret in secrets.iter().filter(|secret| !secret.is_empty()) {
            part = part.replace(secret, "[…]");
        }
        said.push_str(": ");
        said.push_str(&redacted(&part));
    }
    said
}
