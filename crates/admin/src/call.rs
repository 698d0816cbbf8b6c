//! Reads a request to the admin API strictly: unknown parameters are refused by name.

use super::api::unknown_path;
use super::failure::Failed;
use super::openapi;
use super::operations::Refusal;
use super::routes::{Route, SchemaOf};
use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Query, RawPathParams, Request};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use serde::de::DeserializeOwned;
use std::time::Duration;
use tollgate_ledger::{KeySelector, OrderName};
use tollgate_settings::without_rust_types;
use tollgate_types::{ErrorCode, PublicError};

/// The longest body: a key with all that it can be limited to is a tenth of it.
pub(super) const MOST_BODY_BYTES: usize = 64 * 1024;
/// How long a body may take.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// A request as an operation sees it.
pub(super) struct Call {
    key: String,
    uri: Uri,
    body: Bytes,
    body_schema: Option<SchemaOf>,
    order: Option<String>,
}

/// By this name an order is carried out once.
pub(super) const ORDER_NAME: &str = "idempotency-key";

impl Call {
    /// Reads the request for `route`.
    pub(super) async fn read(route: &Route, request: Request) -> Result<Self, PublicError> {
        let (mut head, body) = request.into_parts();
        let params = RawPathParams::from_request_parts(&mut head, &()).await;
        let params = params.map_err(|_| unknown_path())?;
        let key = params.iter().find(|(name, _)| *name == "key");
        let key = key.map_or_else(String::new, |(_, value)| value.to_owned());
        if route.query.is_none() && head.uri.query().is_some_and(|query| !query.is_empty()) {
            let message = "this operation takes no query parameters";
            return Err(PublicError::invalid_request(message));
        }
        if route.body.is_some() {
            check_content_type(&head.headers)?;
        }
        let uri = head.uri.clone();
        let order = order_name(&head.headers)?;
        let body = Request::from_parts(head, body);
        let body = read_body(body, route.most_body_bytes).await?;
        if route.body.is_none() && !says_nothing(&body) {
            return Err(PublicError::invalid_request(match route.query {
                Some(_) => "this operation takes no body: send its parameters in the query",
                None => "this operation takes no body",
            }));
        }
        Ok(Self {
            key,
            uri,
            body,
            body_schema: route.body,
            order,
        })
    }

    /// The key that the path names. Not by its whole text: addresses are written down in too
    /// many places.
    pub(super) fn key(&self) -> Result<KeySelector, Failed> {
        match KeySelector::parse(&self.key).map_err(Refusal::Store)? {
            KeySelector::Key(_) => Err(PublicError::invalid_request(
                "a whole key must not be in an address: give its id or its beginning",
            )
            .into()),
            selector => Ok(selector),
        }
    }

    /// The name of the order, where the caller gave one.
    pub(super) fn order(&self) -> Result<Option<OrderName>, Failed> {
        let order = self.order.as_deref().map(OrderName::new).transpose();
        Ok(order.map_err(Refusal::Store)?)
    }

    /// The query, read strictly.
    pub(super) fn query<T: DeserializeOwned>(&self) -> Result<T, Failed> {
        let query = Query::try_from_uri(&self.uri);
        let query = query.map_err(|fault| {
            let text = fault.body_text();
            let cause = text.rsplit_once("query string: ").map(|(_, cause)| cause);
            PublicError::invalid_request(format!("the query: {}", cause.unwrap_or(&text)))
        })?;
        Ok(query.0)
    }

    /// The body, read strictly.
    pub(super) fn body<T: DeserializeOwned>(&self) -> Result<T, Failed> {
        let mut json = serde_json::Deserializer::from_slice(&self.body);
        let read = serde_path_to_error::deserialize(&mut json);
        let value = read.map_err(|fault| {
            let place = fault.path().to_string();
            let cause = fault.into_inner().to_string();
            let cause = without_rust_types(&cause);
            PublicError::invalid_request(match place.as_str() {
                "." => format!("the body: {cause}"),
                place => format!("'{place}': {cause}"),
            })
        })?;
        let in_body = |fault| PublicError::invalid_request(format!("the body: {fault}"));
        json.end().map_err(in_body)?;
        // Serde takes a list for a mapping without names; the description does not.
        let shape = serde_json::from_slice(&self.body).map_err(in_body)?;
        match self.body_schema.and_then(|it| openapi::fault(it, &shape)) {
            Some(fault) => Err(PublicError::invalid_request(fault).into()),
            None => Ok(value),
        }
    }
}

/// Whether a body is none, or an empty object: what programs send where they have nothing to say.
fn says_nothing(body: &[u8]) -> bool {
    type Object = serde_json::Map<String, serde_json::Value>;
    body.is_empty() || serde_json::from_slice(body).is_ok_and(|object: Object| object.is_empty())
}

fn order_name(headers: &HeaderMap) -> Result<Option<String>, PublicError> {
    let mut values = headers.get_all(ORDER_NAME).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => Ok(Some(String::from_utf8_lossy(value.as_bytes()).into_owned())),
        (Some(_), Some(_)) => Err(PublicError::invalid_request(
            "the header idempotency-key is sent twice",
        )),
    }
}

/// Reads the body within `most` bytes, which the router has set.
async fn read_body(request: Request, most: usize) -> Result<Bytes, PublicError> {
    const TIMED_OUT: u16 = 408;
    let read = Bytes::from_request(request, &());
    match tokio::time::timeout(BODY_TIMEOUT, read).await {
        Ok(Ok(body)) => Ok(body),
        Ok(Err(fault)) if fault.status() == StatusCode::PAYLOAD_TOO_LARGE => Err(PublicError::new(
            ErrorCode::RequestTooLarge,
            format!("the body is larger than {most} bytes"),
        )),
        Ok(Err(_)) => Err(PublicError::invalid_request("the body cannot be read")),
        Err(_) => Err(
            PublicError::invalid_request("the body took too long to arrive").with_status(TIMED_OUT),
        ),
    }
}

fn check_content_type(headers: &HeaderMap) -> Result<(), PublicError> {
    const UNSUPPORTED: u16 = 415;
    let value = headers.get(header::CONTENT_TYPE);
    let value = value.and_then(|value| value.to_str().ok()).unwrap_or("");
    let essence = value.split(';').next().unwrap_or("").trim();
    if essence.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    Err(
        PublicError::invalid_request("content-type must be application/json")
            .with_status(UNSUPPORTED),
    )
}
