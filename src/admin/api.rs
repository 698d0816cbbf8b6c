//! The admin API over HTTP: who may ask, what may come in, and how answers leave.
//!
//! The operations are in the table of `routes`. Each runs on a blocking thread, in bounded
//! number, so that neither metrics nor health ever wait for the disk.

use super::call::{Call, MOST_BODY_BYTES};
use super::failure::{Failed, Told};
use super::openapi;
use super::operations::Operations;
use super::routes::{Answered, Effort, ROUTES, Route};
use crate::clock;
use arc_swap::ArcSwapOption;
use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, on};
use std::sync::Arc;
use subtle::ConstantTimeEq;
use tokio::sync::Semaphore;
use tollgate_settings::Secret;
use tollgate_types::{ErrorCode, PublicError, RequestId};
use tollgate_wire::render::error_body;

/// The most operations under way at once; they queue for the one file anyway.
const MOST_OPERATIONS: usize = 32;

/// The admin API.
pub struct Api {
    operations: Operations,
    token: ArcSwapOption<Secret>,
    small: Arc<Semaphore>,
    whole_file: Arc<Semaphore>,
}

impl Api {
    /// On `operations`, for those who know `token`; without one it refuses everybody.
    pub fn new(operations: Operations, token: Option<Secret>) -> Self {
        Self {
            operations,
            token: ArcSwapOption::new(token.map(Arc::new)),
            small: Arc::new(Semaphore::new(MOST_OPERATIONS)),
            whole_file: Arc::new(Semaphore::new(1)),
        }
    }

    /// The operations behind it.
    pub fn operations(&self) -> &Operations {
        &self.operations
    }

    /// From now on for those who know another token.
    pub fn set_token(&self, token: Option<Secret>) {
        self.token.store(token.map(Arc::new));
    }

    /// Checks who asks. The comparison takes as long whatever is right about a token of the
    /// right length.
    fn admit(&self, headers: &HeaderMap) -> Result<(), PublicError> {
        const REALM: &str = "the admin API takes the token as Authorization: Bearer <token>";
        let token = self.token.load();
        let Some(token) = &*token else {
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

    fn permits(&self, effort: Effort) -> &Arc<Semaphore> {
        match effort {
            Effort::Small => &self.small,
            Effort::WholeFile => &self.whole_file,
        }
    }
}

/// The API's part of the admin listener: everything under `/api`.
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
        .fallback(async || Failed::from(unknown_path()))
        .method_not_allowed_fallback(async |method: Method| {
            let message = format!("the method {method} is not allowed here");
            Failed::from(PublicError::new(ErrorCode::MethodNotAllowed, message))
        })
        .layer(middleware::from_fn_with_state(Arc::clone(api), guard));
    Router::new()
        .nest(PREFIX, router)
        .layer(DefaultBodyLimit::max(MOST_BODY_BYTES))
}

const PREFIX: &str = "/api";

pub(super) fn unknown_path() -> PublicError {
    PublicError::new(
        ErrorCode::NotFound,
        "there is no such path: GET /api/v1/openapi.json describes those there are",
    )
}

/// Lets those in who may, and ends every answer alike.
async fn guard(State(api): State<Arc<Api>>, mut request: Request, next: Next) -> Response {
    let id = RequestId::from_parts(clock::unix_ms(), fastrand::u128(..));
    request.extensions_mut().insert(id);
    let mut response = match api.admit(request.headers()) {
        Ok(()) => next.run(request).await,
        Err(refused) => Failed::from(refused).into_response(),
    };
    if let Some(Told(error)) = response.extensions_mut().remove() {
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
    // A created key must not stay in anybody's cache, and nothing else is worth it.
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
    let call = Call::read(route, request).await?;
    let permit = Arc::clone(api.permits(route.effort))
        .try_acquire_owned()
        .map_err(|_| busy(route))?;
    let work = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        let answered = (route.run)(&api.operations, &call);
        report(route, id, &answered);
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
        Effort::Small => "too many operations are under way",
        Effort::WholeFile => "the ledger is being verified already",
    };
    PublicError::new(ErrorCode::ServiceUnavailable, message)
}

/// Changes are told to the log, with what the caller can refer to.
fn report(route: &Route, id: Option<RequestId>, answered: &Answered) {
    let id = id.as_ref().map_or("", RequestId::as_str);
    match answered {
        Err(Failed {
            private: Some(cause),
            ..
        }) => log::error!("{id}: admin API: {}: {cause}", route.id),
        Ok(_) if route.method != Method::GET => log::info!("{id}: admin API: {} done", route.id),
        _ => {}
    }
}
