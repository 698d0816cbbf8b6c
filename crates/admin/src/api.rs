//! The admin API over HTTP: which requests are served, what they may hold, and how answers leave.
//!
//! The operations are in the table of `routes`. Each runs on a blocking thread, in bounded
//! number, so that neither metrics nor health ever wait for the disk.

use super::call::{Call, MOST_BODY_BYTES};
use super::connections::Activity;
use super::dashboard::{self, Sampler};
use super::failure::{Failed, Reported};
use super::host;
use super::openapi;
use super::operations::Operations;
use super::routes::{Answered, Effort, ROUTES, Route};
use arc_swap::ArcSwap;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, on};
use serde::Deserialize;
use std::sync::Arc;
use subtle::ConstantTimeEq;
use tokio::sync::Semaphore;
use tollgate_config::Config;
use tollgate_settings::Secret;
use tollgate_telemetry::clock;
use tollgate_types::{ErrorCode, KeyId, PublicError, RequestId};
use tollgate_wire::render::error_body;

/// The most operations under way at once; they queue for the one file anyway.
const MOST_OPERATIONS: usize = 32;

/// The admin API.
pub struct Api {
    operations: Operations,
    access: ArcSwap<Access>,
    small: Arc<Semaphore>,
    whole_file: Arc<Semaphore>,
    /// For the view of keys. A verification of the ledger does not delay it.
    key_readers: Arc<Semaphore>,
    dashboard: Sampler,
}

/// Which requests are served; a reload replaces it.
struct Access {
    /// The token of the API. Without one the API refuses every request.
    token: Option<Secret>,
    /// Host names that requests may give.
    hosts: Vec<String>,
    /// Whether the dashboard's overview needs no token.
    open_overview: bool,
}

/// The part of the dashboard that a request may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rights {
    All,
    /// Counters, as on the page of metrics, and breakers.
    Overview,
}

impl Access {
    fn of(config: &Config) -> Self {
        Self {
            token: config.admin_token.clone(),
            hosts: config.admin.hosts.clone(),
            open_overview: config.admin.open_overview,
        }
    }
}

impl Api {
    /// The API on `operations`, with the token and the host names of `config`.
    pub fn new(operations: Operations, config: &Config) -> Self {
        Self {
            operations,
            access: ArcSwap::from_pointee(Access::of(config)),
            small: Arc::new(Semaphore::new(MOST_OPERATIONS)),
            whole_file: Arc::new(Semaphore::new(1)),
            key_readers: Arc::new(Semaphore::new(1)),
            dashboard: Sampler::default(),
        }
    }

    /// The operations behind it.
    pub fn operations(&self) -> &Operations {
        &self.operations
    }

    /// The source of the dashboard.
    pub(super) const fn dashboard(&self) -> &Sampler {
        &self.dashboard
    }

    /// Takes the token and the host names of another configuration.
    pub fn set_access(&self, config: &Config) {
        self.access.store(Arc::new(Access::of(config)));
    }

    /// Checks the token. The comparison takes the same time for every token of the right
    /// length.
    pub(super) fn check_token(&self, headers: &HeaderMap) -> Result<(), PublicError> {
        const REALM: &str = "the admin API takes the token as Authorization: Bearer <token>";
        let access = self.access.load();
        let Some(token) = &access.token else {
            return Err(PublicError::new(
                ErrorCode::PermissionDenied,
                "the admin API has no token: set admin.token in the configuration to env:NAME or \
                 file:PATH, and reload",
            ));
        };
        let mut given = headers.get_all(header::AUTHORIZATION).iter();
        let (given, None) = (given.next(), given.next()) else {
            return Err(PublicError::new(ErrorCode::InvalidApiKey, REALM));
        };
        let Some(given) = given else {
            return Err(PublicError::new(ErrorCode::MissingApiKey, REALM));
        };
        let bearer = given.as_bytes().split_at_checked("Bearer ".len());
        let is_right = bearer.is_some_and(|(scheme, given)| {
            scheme.eq_ignore_ascii_case(b"bearer ")
                && bool::from(given.ct_eq(token.expose().as_bytes()))
        });
        if is_right {
            Ok(())
        } else {
            let message = "the admin token is not valid";
            Err(PublicError::new(ErrorCode::InvalidApiKey, message))
        }
    }

    /// Whether the dashboard's overview needs no token.
    pub(super) fn has_open_overview(&self) -> bool {
        self.access.load().open_overview
    }

    /// The part of the dashboard that a request may see. A wrong token is an error in any case.
    pub(super) fn rights(&self, headers: &HeaderMap) -> Result<Rights, PublicError> {
        if self.has_open_overview() && !headers.contains_key(header::AUTHORIZATION) {
            return Ok(Rights::Overview);
        }
        self.check_token(headers).map(|()| Rights::All)
    }

    pub(super) const fn key_readers(&self) -> &Arc<Semaphore> {
        &self.key_readers
    }

    pub(super) fn permits(&self, effort: Effort) -> &Arc<Semaphore> {
        match effort {
            Effort::Small => &self.small,
            Effort::WholeFile => &self.whole_file,
        }
    }
}

/// The API's part of the operator port: everything under `/api`.
pub(super) fn router(api: &Arc<Api>) -> Router {
    let mut router = Router::new().route("/v1/openapi.json", on(MethodFilter::GET, describe));
    for route in ROUTES {
        let method = MethodFilter::try_from(route.method.clone()).unwrap_or(MethodFilter::GET);
        let path = route.path.strip_prefix(PREFIX).unwrap_or(route.path);
        let api = Arc::clone(api);
        let handler = move |request| serve(api, route, request);
        let bound = DefaultBodyLimit::max(route.most_body_bytes);
        router = router.route(path, on(method, handler).layer(bound));
    }
    let router = router
        .merge(dashboard::data(api))
        .fallback(unknown)
        .method_not_allowed_fallback(not_allowed)
        .layer(middleware::from_fn_with_state(Arc::clone(api), admit))
        .merge(dashboard::open_data(api));
    Router::new()
        .nest(PREFIX, router)
        .layer(DefaultBodyLimit::max(MOST_BODY_BYTES))
}

/// The whole operator port: `open` serves the paths that need no token.
pub(super) fn with_guard(api: &Arc<Api>, open: Router) -> Router {
    open.merge(dashboard::page())
        .merge(router(api))
        .fallback(unknown)
        .method_not_allowed_fallback(not_allowed)
        .layer(middleware::from_fn_with_state(Arc::clone(api), guard))
}

const PREFIX: &str = "/api";

pub(super) fn unknown_path() -> PublicError {
    PublicError::new(
        ErrorCode::NotFound,
        "unknown path: GET /api/v1/openapi.json lists the paths",
    )
}

async fn unknown() -> Failed {
    unknown_path().into()
}

async fn not_allowed(method: Method) -> Failed {
    let message = format!("the method {method} is not allowed here");
    PublicError::new(ErrorCode::MethodNotAllowed, message).into()
}

/// Lets requests with the token pass.
async fn admit(State(api): State<Arc<Api>>, request: Request, next: Next) -> Response {
    match api.check_token(request.headers()) {
        Ok(()) => next.run(request).await,
        Err(refused) => Failed::from(refused).into_response(),
    }
}

/// Checks the host of every request and completes every answer.
async fn guard(State(api): State<Arc<Api>>, mut request: Request, next: Next) -> Response {
    let id = RequestId::from_parts(clock::unix_ms(), fastrand::u128(..));
    request.extensions_mut().insert(id);
    let hosts = &api.access.load().hosts;
    let checked = host::check(request.version(), request.uri(), request.headers(), hosts);
    let mut response = match checked {
        Ok(()) => next.run(request).await,
        Err(refused) => Failed::from(refused).into_response(),
    };
    if let Some(Reported(error)) = response.extensions_mut().remove() {
        let body = error_body(None, &error, &id);
        let content_type = HeaderValue::from_static("application/json");
        response
            .headers_mut()
            .insert(header::CONTENT_TYPE, content_type);
        *response.body_mut() = body.into();
    }
    let headers = response.headers_mut();
    if let Ok(id) = HeaderValue::from_str(id.as_str()) {
        headers.insert("x-request-id", id);
    }
    // A created key must not stay in a cache, and no other answer needs one.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

async fn describe() -> Response {
    json(StatusCode::OK, openapi::description().to_string().into())
}

fn json(status: StatusCode, body: Bytes) -> Response {
    let content_type = (header::CONTENT_TYPE, "application/json");
    (status, [content_type], body).into_response()
}

/// Does what a route does, on a blocking thread.
async fn serve(api: Arc<Api>, route: &'static Route, request: Request) -> Result<Response, Failed> {
    let id: Option<RequestId> = request.extensions().get().copied();
    let activity: Option<Arc<Activity>> = request.extensions().get().cloned();
    let call = Call::read(route, request).await?;
    let permit = Arc::clone(api.permits(route.effort))
        .try_acquire_owned()
        .map_err(|_| busy(route))?;
    let _working = activity.map(Activity::work);
    let work = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let key = changed_key(&api.operations, route, &call);
        let answered = (route.run)(&api.operations, &call);
        report(route, key, id, &answered);
        answered
    });
    // Nothing in there panics; if it did, that would be the gateway's fault.
    let answered = work.await.map_err(|fault| {
        log::error!("{}: {fault}", route.id);
        PublicError::new(ErrorCode::InternalError, "the operation has failed")
    })?;
    Ok(json(route.status, answered?.into()))
}

fn busy(route: &Route) -> PublicError {
    let message = match route.effort {
        Effort::Small => "too many operations are running; retry in a few seconds",
        Effort::WholeFile => "the ledger is being verified already",
    };
    PublicError::new(ErrorCode::ServiceUnavailable, message)
}

/// The key that an operation is to change, by its id: paths may name it by the beginning of its text.
fn changed_key(operations: &Operations, route: &Route, call: &Call) -> Option<KeyId> {
    if route.method == Method::GET || !route.path.contains("{key}") {
        return None;
    }
    let record = operations.store().find_key(&call.key().ok()?).ok()?;
    Some(record.id().clone())
}

/// The facts about an answer for the log.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Logged {
    /// The key that was made.
    record: LoggedKey,
    dry_run: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct LoggedKey {
    id: Option<String>,
}

/// Logs each change, with the id of its request and of the key that it changes.
fn report(route: &Route, key: Option<KeyId>, id: Option<RequestId>, answered: &Answered) {
    let id = id.as_ref().map_or("", RequestId::as_str);
    match answered {
        Err(Failed {
            private: Some(cause),
            ..
        }) => log::error!("{id}: admin API: {}: {cause}", route.id),
        Ok(answer) if route.changes => {
            let logged: Logged = serde_json::from_slice(answer).unwrap_or_default();
            let key = key.map(|key| key.to_string());
            let key = key
                .or(logged.record.id)
                .map_or_else(String::new, |key| format!(" {key}"));
            let dry = if logged.dry_run { " (dry run)" } else { "" };
            log::info!("{id}: admin API: {}{key} done{dry}", route.id);
        }
        _ => {}
    }
}
