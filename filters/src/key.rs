//! `key`: looks up the API key of a request, or refuses the request.
//!
//! `model` decides which models the key may use; `limits` and `quota`, what it may spend.

use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tollgate_filter::{
    Built, Filter, FilterKind, Head, KeyDirectory, KeyLookup, Phases, RequestContext, Services,
    Verdict, no_settings,
};
use tollgate_types::{ErrorCode, Format, LimitHit, PublicError};

pub(crate) const KIND: FilterKind = FilterKind {
    name: "key",
    summary: "Turns the credential into an identity, or refuses the request.",
    phases: Phases::HEAD,
    after: &["headers"],
    required: true,
    build,
};

struct Key {
    keys: Arc<dyn KeyDirectory>,
}

fn build(settings: &Value, services: &Services) -> Built {
    no_settings(settings)?;
    Ok(Key {
        keys: Arc::clone(&services.keys),
    }
    .into())
}

impl Filter for Key {
    async fn on_request(
        &self,
        _: Head<'_>,
        request: &mut RequestContext,
    ) -> Result<Verdict, PublicError> {
        // Taken out, so that no later filter can leak it.
        let credential = request.credential.take();
        let credential = credential.ok_or_else(|| missing(request.format()))?;
        let lookup = self.keys.lookup(credential.expose(), request.client);
        let identity = match lookup.await {
            KeyLookup::Known(identity) => identity,
            KeyLookup::Refused(reason) => {
                log::debug!("{}: key refused: {reason}", request.id);
                return Err(PublicError::invalid_api_key());
            }
            KeyLookup::TooManyAttempts(wait) => return Err(too_many_attempts(wait)),
            KeyLookup::Unavailable => return Err(unavailable()),
        };
        let path = request.endpoint.path();
        let is_admitted = identity.endpoints.admits(path);
        request.identity = Some(identity);
        if !is_admitted {
            return Err(PublicError::new(
                ErrorCode::PermissionDenied,
                format!("the API key may not use the endpoint {path}"),
            ));
        }
        Ok(Verdict::Continue)
    }
}

fn missing(format: Option<Format>) -> PublicError {
    let header = match format {
        Some(Format::Gemini) => "x-goog-api-key",
        _ => "x-api-key",
    };
    PublicError::new(
        ErrorCode::MissingApiKey,
        format!("no API key: send 'Authorization: Bearer <API key>' or '{header}: <API key>'"),
    )
}

fn too_many_attempts(wait: Duration) -> PublicError {
    let message = "too many API keys from this address were not valid";
    PublicError::new(ErrorCode::RateLimitExceeded, message)
        .with_limit(Some(LimitHit::InvalidKeys))
        .with_retry_after(wait)
}

fn unavailable() -> PublicError {
    PublicError::new(
        ErrorCode::ServiceUnavailable,
        "API keys cannot be checked now; retry in a few seconds",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scene, identity, refusal};
    use tollgate_filter::{Endpoint, Secret};
    use tollgate_types::Allowance;

    fn scene(credential: Option<&str>) -> Scene {
        let mut scene = Scene::new(Endpoint::Models, &[]);
        scene.request.credential = credential.map(Secret::new);
        scene
    }

    #[test]
    fn a_known_key_is_admitted_and_its_text_is_gone() {
        let mut scene = scene(Some("sk-known"));
        assert!(matches!(scene.run(&KIND, "null"), Ok(Verdict::Continue)));
        assert_eq!(
            scene.request.identity.as_deref(),
            Some(&identity(Allowance::All))
        );
        assert!(scene.request.credential.is_none());
    }

    #[test]
    fn a_key_that_is_not_in_memory_is_waited_for() {
        let mut scene = scene(Some("sk-slow"));
        let verdict = scene.run(&KIND, "null");
        assert!(matches!(verdict, Ok(Verdict::Continue)));
        assert!(scene.has_waited);
        assert!(scene.request.identity.is_some());
    }

    #[test]
    fn the_error_for_a_missing_key_names_the_header_of_the_format() {
        for (endpoint, header) in [
            (Endpoint::Messages, "'x-api-key:"),
            (Endpoint::GenerateContent, "'x-goog-api-key:"),
        ] {
            let error = refusal(Scene::new(endpoint, &[]).run(&KIND, "null"));
            assert!(error.message.contains(header), "{error}");
        }
    }

    #[test]
    fn each_way_of_not_having_a_key_has_its_code() {
        for (credential, code, status) in [
            (None, ErrorCode::MissingApiKey, 401),
            (Some("sk-wrong"), ErrorCode::InvalidApiKey, 401),
            (Some("sk-store-down"), ErrorCode::ServiceUnavailable, 503),
            (Some("sk-guessed"), ErrorCode::RateLimitExceeded, 429),
        ] {
            let error = refusal(scene(credential).run(&KIND, "null"));
            assert_eq!((error.code, error.status), (code, status));
        }
    }

    #[test]
    fn a_key_limited_to_other_endpoints_is_denied() {
        let mut scene = scene(Some("sk-chat-only"));
        let error = refusal(scene.run(&KIND, "null"));
        assert_eq!(error.code, ErrorCode::PermissionDenied);
        assert!(error.message.contains("/v1/models"), "{error}");
    }
}
