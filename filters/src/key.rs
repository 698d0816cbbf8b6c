//! `key`: turns the credential into an identity, or refuses the request.
//!
//! Which models the identity may use belongs to `model`; what it may spend, to the
//! filters behind.

use serde_json::Value;
use std::sync::Arc;
use tollgate_filter::{
    Built, Filter, FilterKind, Head, KeyDirectory, KeyLookup, RequestContext, Services, Verdict,
    Wants, no_settings,
};
use tollgate_types::{ErrorCode, Identity, PublicError};

pub(crate) const KIND: FilterKind = FilterKind {
    name: "key",
    summary: "Turns the credential into an identity, or refuses the request.",
    wants: Wants {
        body: false,
        stored: false,
        answer: false,
        error: false,
    },
    after: &["headers"],
    required: true,
    build,
};

struct Key {
    keys: Arc<dyn KeyDirectory>,
}

fn build(settings: &Value, services: &Services) -> Built {
    no_settings(settings)?;
    Ok(Box::new(Key {
        keys: Arc::clone(&services.keys),
    }))
}

impl Filter for Key {
    fn on_request(&self, _: Head<'_>, request: &mut RequestContext) -> Verdict {
        // Taken out, so that nothing behind this filter can leak it.
        let Some(credential) = request.credential.take() else {
            return PublicError::new(
                ErrorCode::MissingApiKey,
                "no API key was sent: send it as 'Authorization: Bearer <API key>' or as \
                 'x-api-key: <API key>'",
            )
            .into();
        };
        decide(
            self.keys.lookup(credential.expose(), request.client),
            request,
        )
    }
}

fn decide(lookup: KeyLookup, request: &mut RequestContext) -> Verdict {
    match lookup {
        KeyLookup::Known(identity) => admit(identity, request),
        KeyLookup::Refused(reason) => {
            log::debug!("{}: key refused: {reason}", request.id);
            PublicError::new(ErrorCode::InvalidApiKey, "the API key is not valid").into()
        }
        KeyLookup::TooManyAttempts(wait) => PublicError::new(
            ErrorCode::RateLimitExceeded,
            "too many API keys from this address were not valid",
        )
        .with_retry_after(wait)
        .into(),
        KeyLookup::Unavailable => PublicError::new(
            ErrorCode::ServiceUnavailable,
            "API keys cannot be checked at the moment: try again shortly",
        )
        .into(),
        KeyLookup::Miss(answer) => Verdict::Wait(Box::pin(async move {
            let lookup = answer.await;
            Box::new(move |request: &mut RequestContext| decide(lookup, request)) as _
        })),
    }
}

fn admit(identity: Arc<Identity>, request: &mut RequestContext) -> Verdict {
    let path = request.endpoint.path();
    let admitted = identity.endpoints.admits(path);
    request.identity = Some(identity);
    if admitted {
        Verdict::Continue
    } else {
        PublicError::new(
            ErrorCode::PermissionDenied,
            format!("the API key may not use the endpoint {path}"),
        )
        .into()
    }
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
        assert!(matches!(scene.run(&KIND, "null"), Verdict::Continue));
        assert_eq!(
            scene.request.identity.as_deref(),
            Some(&identity(Allowance::All))
        );
        assert!(scene.request.credential.is_none());
    }

    #[test]
    fn a_key_that_is_not_in_memory_is_waited_for() {
        let mut scene = scene(Some("sk-slow"));
        let verdict = scene.run_to_end(&KIND);
        assert!(matches!(verdict, Verdict::Continue));
        assert!(scene.request.identity.is_some());
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
