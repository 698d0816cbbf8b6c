//! A gateway with a filter of its own: requests must name a project that the configuration lists.

use serde::Deserialize;
use serde_json::Value;
use std::process::ExitCode;
use tollgate_filter::{
    Built, Filter, FilterKind, Head, RequestContext, Services, Verdict, Wants, settings,
};
use tollgate_types::{ErrorCode, PublicError};

const PROJECT: FilterKind = FilterKind {
    name: "project",
    summary: "Refuses a request that names no project of the list in x-project.",
    wants: Wants::HEAD,
    after: &["key"],
    required: false,
    build,
};

/// The settings of its entry under `filters`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Project {
    known: Vec<String>,
}

fn build(value: &Value, _: &Services) -> Built {
    Ok(settings::<Project>(value)?.into())
}

impl Filter for Project {
    async fn on_request(
        &self,
        head: Head<'_>,
        _: &mut RequestContext,
    ) -> Result<Verdict, PublicError> {
        let named = head.headers.get("x-project");
        let named = named.and_then(|value| value.to_str().ok());
        if named.is_some_and(|name| self.known.iter().any(|known| known == name)) {
            return Ok(Verdict::Continue);
        }
        let message = "x-project must name a project that this gateway serves";
        Err(PublicError::new(ErrorCode::PermissionDenied, message))
    }
}

fn main() -> ExitCode {
    tollgate::cli::run(&[PROJECT])
}
