//! The public endpoints: which endpoint a path belongs to, and the gateway's own answers.
//!
//! The table is [`Endpoint::TABLE`]. Matching is exact. The key check and the dispatch use the same
//! match, so that no spelling of a path means a different endpoint to each.

mod gemini;
mod models;
mod status;
mod usage;

pub use gemini::{
    address, list as list_gemini_models, model_in_path, retrieve as retrieve_gemini_model,
};
pub use models::{list as list_models, retrieve as retrieve_model};
pub use status::status;
pub use usage::{PlanLimits, Usage, UsageSource};

use http::Method;
use tollgate_filter::{Endpoint, EndpointInfo};
use tollgate_types::{ErrorCode, PublicError};

/// A path of the table, with what stands for `{id}` in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Matched<'a> {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// The part of the path for `{id}`, still percent-encoded; for an open path, everything after
    /// `/passthrough/`.
    pub id: Option<&'a str>,
}

impl Matched<'_> {
    /// The same for a client with a key of Gemini's kind: clients of several formats list the models
    /// at one path.
    #[must_use]
    pub const fn for_client(self, has_google_key: bool) -> Self {
        let endpoint = match self.endpoint {
            Endpoint::Models if has_google_key => Endpoint::GeminiModels,
            Endpoint::Model if has_google_key => Endpoint::GeminiModel,
            endpoint => endpoint,
        };
        Self { endpoint, ..self }
    }
}

/// Finds the endpoint of a path.
///
/// # Errors
///
/// 404 `not_found`.
pub fn match_path(path: &str) -> Result<Matched<'_>, PublicError> {
    let path = match path {
        "/v1/responses/compact" => return Err(no_compaction()),
        "/v2/rerank" => Endpoint::Rerank.path(),
        path => path,
    };
    let is_exact = |row: &&EndpointInfo| row.path == path && !path.contains('{');
    if let Some(row) = Endpoint::TABLE.iter().find(is_exact) {
        let endpoint = row.endpoint;
        return Ok(Matched { endpoint, id: None });
    }
    let with_id = gemini::match_path(path).or_else(|| with_id(path));
    with_id.ok_or_else(unknown_path)
}

/// A path with an identifier in it.
fn with_id(path: &str) -> Option<Matched<'_>> {
    if let Some(rest) = path.strip_prefix("/passthrough/") {
        let matched = Matched {
            endpoint: Endpoint::Passthrough,
            id: Some(rest),
        };
        return Some(matched);
    }
    let (endpoint, id) = if let Some(id) = path.strip_prefix("/v1/models/") {
        (Endpoint::Model, id)
    } else {
        let rest = path.strip_prefix("/v1/responses/")?;
        match rest.split_once('/') {
            None => (Endpoint::StoredResponse, rest),
            Some((id, "cancel")) => (Endpoint::CancelResponse, id),
            Some((id, "input_items")) => (Endpoint::ResponseInput, id),
            Some(_) => return None,
        }
    };
    // The name of a model may contain `/`.
    let has_empty_part = id.split('/').any(str::is_empty);
    (!has_empty_part).then_some(Matched {
        endpoint,
        id: Some(id),
    })
}

fn no_compaction() -> PublicError {
    PublicError::new(
        ErrorCode::NotFound,
        "compaction is not served: send the conversation to POST /v1/responses and ask for a \
         summary of it, or set 'truncation'",
    )
}

/// The error for a path that has no endpoint.
pub fn unknown_path() -> PublicError {
    PublicError::new(
        ErrorCode::NotFound,
        "unknown path: GET /v1 lists the endpoints",
    )
}

/// Checks the method, and distinguishes a WebSocket from a wrong method.
///
/// # Errors
///
/// 405 `method_not_allowed`, 404 `not_found` for a method of Google's API that is not served, or 426
/// `invalid_request` for a WebSocket, which makes clients that try one first fall back at once.
pub fn check_method(
    matched: Matched<'_>,
    allowed: &[Method],
    method: &Method,
    wants_upgrade: bool,
) -> Result<(), PublicError> {
    const UPGRADE_REQUIRED: u16 = 426;
    if allowed.contains(method) && !wants_upgrade {
        return Ok(());
    }
    if wants_upgrade {
        return Err(PublicError::invalid_request(
            "this endpoint is served over plain HTTP, with server-sent events for streams",
        )
        .with_status(UPGRADE_REQUIRED));
    }
    if *method == Method::POST
        && let Some(error) = gemini::unknown_method(matched)
    {
        return Err(error);
    }
    Err(PublicError::new(
        ErrorCode::MethodNotAllowed,
        format!(
            "the method {method} is not allowed here; allowed: {}",
            allow(allowed)
        ),
    ))
}

/// The value of `Allow`.
pub fn allow(methods: &[Method]) -> String {
    methods
        .iter()
        .map(Method::as_str)
        .collect::<Vec<_>>()
        .join(", ")
}

/// The methods of an endpoint. Those of an open path stand in the configuration.
pub const fn methods(endpoint: Endpoint) -> &'static [Method] {
    endpoint.info().methods
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_table_is_matched_by_its_own_path() {
        for row in Endpoint::TABLE {
            let path = row.path.replace("{id}", "some-model");
            let matched = match_path(&path).expect("a row");
            assert_eq!(matched.endpoint, row.endpoint);
            let id = match row.endpoint {
                Endpoint::Passthrough => Some("{provider}/{path}"),
                _ => row.path.contains("{id}").then_some("some-model"),
            };
            assert_eq!(matched.id, id);
        }
    }

    #[test]
    fn no_other_spelling_of_a_path_matches() {
        for path in [
            "/",
            "/v1/",
            "//v1",
            "/v1//models",
            "/v1/models/",
            "/v1/models/a//b",
            "/v1/models/a/",
            "/v1/responses/",
            "/v1/responses//cancel",
            "/v1/responses/a/b",
            "/v1/responses/a/cancel/b",
            "/V1",
            "/v1/..;/admin",
            "/v1/%6dodels",
            "/v1/messages/",
            "/api/hello",
            "/v1/chat/completions/x",
            "",
            "/v1/responses/{id}/cancel/b",
        ] {
            assert_eq!(match_path(path), Err(unknown_path()), "{path}");
        }
    }

    #[test]
    fn compaction_is_refused_with_what_to_do_instead() {
        let error = match_path("/v1/responses/compact").expect_err("refused");
        assert_eq!((error.status, error.code), (404, ErrorCode::NotFound));
        assert!(error.message.contains("POST /v1/responses"), "{error}");
    }

    #[test]
    fn a_websocket_is_refused_with_the_advice_to_use_http() {
        let matched = match_path("/v1/responses").expect("a row");
        let responses = methods(matched.endpoint);
        let error = check_method(matched, responses, &Method::GET, true).expect_err("refused");
        assert_eq!((error.status, error.code), (426, ErrorCode::InvalidRequest));
        let error = check_method(matched, responses, &Method::GET, false).expect_err("refused");
        assert_eq!(
            (error.status, error.code),
            (405, ErrorCode::MethodNotAllowed)
        );
        assert!(error.message.contains("POST"), "{error}");
    }
    #[test]
    fn methods_of_gemini_that_are_not_served_are_not_found() {
        let of = |path, method| {
            let matched = match_path(path).expect("a row");
            check_method(matched, methods(matched.endpoint), &method, false)
        };
        for (path, advice) in [
            ("/v1beta/models/a/b:embedContent", "POST /v1/embeddings"),
            ("/v1beta/models/a:batchEmbedContents", "POST /v1/embeddings"),
            ("/v1/models/a:batchEmbedContents", "POST /v1/embeddings"),
            ("/v1beta/models/a:predict", "GET /v1"),
        ] {
            let error = of(path, Method::POST).expect_err("refused");
            assert_eq!(error.code, ErrorCode::NotFound, "{path}");
            assert!(error.message.contains(advice), "{error}");
        }
        assert_eq!(of("/v1beta/models/a:8b", Method::GET), Ok(()));
        let error = of("/v1beta/models/a", Method::POST).expect_err("refused");
        assert_eq!(error.code, ErrorCode::MethodNotAllowed);
    }
}
