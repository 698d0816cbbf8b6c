//! The dashboard: its page, and the stream that feeds it.
//!
//! The page and its files are open and hold no data. The data needs the admin token, which the page sends
//! as a bearer header: without a cookie there is no cross-site request to forge.

mod sample;
mod sampler;

pub(super) use sampler::Sampler;

use super::api::Api;
use super::connections::Activity;
use super::failure::Failed;
use super::operations::Operations;
use super::routes::Effort;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Request, State};
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures::stream;
use serde_json::Value;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;
use tollgate_telemetry::recent;
use tollgate_types::{ErrorCode, PublicError, RequestId};

/// Nothing but the files of this listener, and no frame around them.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const HEADERS: [(HeaderName, &str); 5] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
];

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// The files of the page: path, type, content.
const FILES: [(&str, &str, &str); 6] = [
    ("/", HTML, include_str!("dashboard/index.html")),
    ("/dashboard/app.css", CSS, include_str!("dashboard/app.css")),
    (
        "/dashboard/app.js",
        SCRIPT,
        include_str!("dashboard/app.js"),
    ),
    (
        "/dashboard/icon.svg",
        "image/svg+xml",
        include_str!("dashboard/icon.svg"),
    ),
    (
        "/dashboard/uplot.css",
        CSS,
        include_str!("dashboard/vendor/uPlot.min.css"),
    ),
    (
        "/dashboard/uplot.js",
        SCRIPT,
        include_str!("dashboard/vendor/uPlot.iife.min.js"),
    ),
];

/// The page; it needs no token.
pub(super) fn page() -> Router {
    FILES
        .into_iter()
        .fold(Router::new(), |router, (path, kind, text)| {
            let file = move || async move {
                let mut response = text.into_response();
                let headers = response.headers_mut();
                headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
                for (name, value) in HEADERS {
                    headers.insert(name, HeaderValue::from_static(value));
                }
                response
            };
            router.route(path, get(file))
        })
}

/// The data; its router checks the token.
pub(super) fn data(api: &Arc<Api>) -> Router {
    Router::new()
        .route("/v1/dashboard/keys", get(keys))
        .route("/v1/dashboard/requests/{id}", get(request))
        .with_state(Arc::clone(api))
}

/// Data that may need no token: each of these checks by itself.
pub(super) fn open_data(api: &Arc<Api>) -> Router {
    Router::new()
        .route("/v1/dashboard/access", get(access))
        .route("/v1/dashboard/stream", get(stream))
        .with_state(Arc::clone(api))
}

/// Whether the dashboard has an overview without the token.
async fn access(State(api): State<Arc<Api>>) -> Response {
    axum::Json(serde_json::json!({ "overview": api.has_open_overview() })).into_response()
}

/// Server-sent events: one sample after another, until the token is no longer valid or the listener ends.
async fn stream(State(api): State<Arc<Api>>, request: Request) -> Result<Response, Failed> {
    let rights = api.rights(request.headers())?;
    let viewer = api.dashboard().join(&api, rights).ok_or_else(|| {
        let most = Sampler::most_viewers(rights);
        PublicError::new(
            ErrorCode::ServiceUnavailable,
            format!("{most} dashboards are open: close one of them"),
        )
    })?;
    let (head, _) = request.into_parts();
    let activity: Option<Arc<Activity>> = head.extensions.get().cloned();
    let events = stream::unfold(viewer, move |mut viewer| {
        let (api, headers) = (Arc::clone(&api), head.headers.clone());
        let activity = activity.clone();
        async move {
            let event: Bytes = viewer.next().await?;
            // A viewer that stops reading takes no events, and its connection is closed as idle.
            if let Some(activity) = activity {
                activity.wait_anew();
            }
            api.rights(&headers).ok().filter(|now| *now == rights)?;
            Some((Ok::<_, Infallible>(event), viewer))
        }
    });
    let kind = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    Ok((kind, Body::from_stream(events)).into_response())
}

/// How long a reader of the keys waits for the one before.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// The keys nearest to exhaustion.
async fn keys(State(api): State<Arc<Api>>, request: Request) -> Result<Response, Failed> {
    const MOST_KEYS: u32 = 50;
    // Reading all grants of many keys takes long: one reader at a time, and the others wait.
    let reader = Arc::clone(api.key_readers()).acquire_owned();
    let permit = timeout(LONGEST_WAIT, reader).await.ok();
    let permit = permit.and_then(Result::ok).ok_or_else(busy)?;
    let read = move |operations: &Operations| {
        let data = operations.store().most_used(MOST_KEYS)?;
        Ok(serde_json::json!({ "data": data }))
    };
    blocking(api, request.extensions().get().cloned(), permit, read).await
}

/// The known facts about a request, from this process and from the ledger.
async fn request(
    State(api): State<Arc<Api>>,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Failed> {
    let id = id.starts_with("req_").then(|| RequestId::from_text(&id));
    let id = id.flatten().ok_or_else(|| {
        PublicError::invalid_request(
            "expected the x-request-id of an answer: req_ and 26 characters",
        )
    })?;
    let read = move |operations: &Operations| {
        let recent = recent::last().into_iter().find(|it| it.id == id);
        let record = operations.store().request(&id)?;
        if recent.is_none() && record.is_none() {
            let message =
                "the request is not among the last 100, and the ledger has no record of it";
            return Err(PublicError::new(ErrorCode::NotFound, message).into());
        }
        let recent = recent.as_ref().map(sample::RequestRow::of);
        Ok(serde_json::json!({ "recent": recent, "record": record }))
    };
    let permit = Arc::clone(api.permits(Effort::Small)).try_acquire_owned();
    let permit = permit.map_err(|_| busy())?;
    blocking(api, request.extensions().get().cloned(), permit, read).await
}

fn busy() -> PublicError {
    PublicError::new(
        ErrorCode::ServiceUnavailable,
        "too many operations are running; retry in a few seconds",
    )
}

/// Reads the ledger on a blocking thread.
async fn blocking(
    api: Arc<Api>,
    activity: Option<Arc<Activity>>,
    permit: OwnedSemaphorePermit,
    read: impl FnOnce(&Operations) -> Result<Value, Failed> + Send + 'static,
) -> Result<Response, Failed> {
    let _working = activity.map(Activity::work);
    let work = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        read(api.operations())
    });
    let answer = work.await.map_err(|fault| {
        log::error!("dashboard: {fault}");
        PublicError::new(ErrorCode::InternalError, "the operation has failed")
    })?;
    Ok(axum::Json(answer?).into_response())
}
