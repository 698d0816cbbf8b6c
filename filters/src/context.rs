//! `context`: refuses a request whose input alone is more than its model can read.
//!
//! The filter refuses only if the lowest likely count is above the limit; near the limit the provider
//! decides. It lets a request through if the model has no `context_window`, or if the key has used up
//! its counts of this minute: a refusal costs the key nothing, so counting must be limited.

use serde::Deserialize;
use serde_json::Value;
use std::num::NonZeroU32;
use std::sync::Arc;
use tollgate_filter::{
    Built, Catalog, Counting, Filter, FilterKind, Head, Limiter, Phases, RequestContext, Services,
    Verdict, settings,
};
use tollgate_types::{ContextNumbers, PublicError};

pub(crate) const KIND: FilterKind = FilterKind {
    name: "context",
    summary: "Refuses a request whose input alone is more than its model can read.",
    phases: Phases::BODY,
    after: &["key", "model"],
    required: false,
    build,
};

/// The settings of an entry in the configuration.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    /// Requests of a key that this filter counts in a minute. `count_tokens` requests are not included.
    counts_per_minute: NonZeroU32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            counts_per_minute: const { NonZeroU32::new(600).unwrap() },
        }
    }
}

struct Context {
    catalog: Arc<dyn Catalog>,
    counting: Arc<dyn Counting>,
    limiter: Arc<dyn Limiter>,
    settings: Settings,
}

fn build(value: &Value, services: &Services) -> Built {
    Ok(Context {
        settings: settings(value)?,
        catalog: Arc::clone(&services.catalog),
        counting: Arc::clone(&services.counting),
        limiter: Arc::clone(&services.limits),
    }
    .into())
}

impl Filter for Context {
    async fn on_request(
        &self,
        _: Head<'_>,
        request: &mut RequestContext,
    ) -> Result<Verdict, PublicError> {
        let Some(limit) = self.limit_in_question(request) else {
            return Ok(Verdict::Continue);
        };
        if !self.may_be_counted(request) {
            return Ok(Verdict::Continue);
        }
        let Some(input) = self.counting.count(request).await else {
            return Ok(Verdict::Continue);
        };
        request.input = Some(input);
        if input.at_least > limit {
            let numbers = ContextNumbers {
                input: Some(input.tokens),
                output: None,
                limit: Some(limit),
            };
            return Err(PublicError::context_length(request.format(), numbers));
        }
        Ok(Verdict::Continue)
    }
}

impl Context {
    /// Takes one of the key's counts. `false`: none is left in this minute.
    fn may_be_counted(&self, request: &RequestContext) -> bool {
        let Some(identity) = &request.identity else {
            return false;
        };
        let most = self.settings.counts_per_minute;
        self.limiter.take_count(identity, most)
    }

    /// The model's limit, if the length of the text does not show that the input fits.
    fn limit_in_question(&self, request: &RequestContext) -> Option<u64> {
        // Each text of embeddings and rerank has the limit for itself.
        if request.endpoint.is_count() || !request.endpoint.has_output() {
            return None;
        }
        let facts = request.facts_if_read()?;
        let model = self.catalog.model(request.route.as_ref()?.model)?;
        let limit = model.context_window?;
        // A byte is one token at most.
        if facts.text_bytes <= limit {
            return None;
        }
        let in_question = facts
            .likely_input_tokens()
            .saturating_sub(facts.media_tokens());
        (in_question > limit).then_some(limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scene, faults, identity, refusal};
    use tollgate_filter::Endpoint;
    use tollgate_filter::{ModelHandle, Route};
    use tollgate_types::{Allowance, ErrorCode, Identity, RequestFacts};

    /// `opus-1` reads 200,000 tokens; the scripted count finds four bytes in a token and is
    /// off by a tenth at most. `codex-1` has no known limit.
    fn scene(model: u32, text_bytes: u64) -> Scene {
        let mut scene = Scene::new(Endpoint::Messages, &[]);
        scene.request.identity = Some(Arc::new(identity(Allowance::All)));
        scene.request.set_facts(RequestFacts {
            text_bytes,
            ..RequestFacts::default()
        });
        scene.request.route = Some(Route {
            model: ModelHandle(model),
            model_id: "model".into(),
            reason: None,
            default_name: None,
        });
        scene
    }

    #[test]
    fn an_input_too_long_by_any_count_is_refused_with_both_numbers() {
        let error = refusal(scene(0, 1_000_000).run(&KIND, "null"));
        assert_eq!(
            (error.code, error.status, &*error.message),
            (
                ErrorCode::ContextLengthExceeded,
                400,
                "prompt is too long: 250000 tokens > 200000 maximum"
            )
        );
        assert_eq!(error.should_retry, Some(false));
    }

    #[test]
    fn the_provider_decides_on_an_input_that_may_just_fit() {
        let mut scene = scene(0, 840_000);
        assert!(matches!(scene.run(&KIND, "null"), Ok(Verdict::Continue)));
        assert_eq!(scene.request.input.map(|it| it.tokens), Some(210_000));
    }

    #[test]
    fn an_input_that_surely_fits_is_not_counted() {
        let mut scene = scene(0, 700_000);
        assert!(matches!(scene.run(&KIND, "null"), Ok(Verdict::Continue)));
        assert_eq!(scene.request.input, None);
    }

    #[test]
    fn a_model_without_a_known_limit_takes_anything() {
        let mut scene = scene(1, 100_000_000);
        assert!(matches!(scene.run(&KIND, "null"), Ok(Verdict::Continue)));
        assert_eq!(scene.request.input, None);
    }

    /// The key has caused 600 counts in this minute.
    #[test]
    fn a_key_whose_counts_are_used_up_has_nothing_counted_for_free() {
        let counted = || {
            let mut scene = scene(0, 1_000_000);
            let name = "counted".to_owned();
            scene.request.identity = Some(Arc::new(Identity {
                name,
                ..identity(Allowance::All)
            }));
            scene
        };
        for settings in ["null", r#"{"counts_per_minute": 600}"#] {
            let mut scene = counted();
            assert!(matches!(scene.run(&KIND, settings), Ok(Verdict::Continue)));
            assert_eq!(scene.request.input, None);
        }
        refusal(counted().run(&KIND, r#"{"counts_per_minute": 601}"#));
    }

    #[test]
    fn a_limit_of_nothing_is_a_fault_in_the_settings() {
        let found = faults(&KIND, r#"{"counts_per_minute": 0}"#);
        assert_eq!(found[0].path, "counts_per_minute");
    }

    #[test]
    fn counting_tokens_has_no_limit() {
        let mut scene = scene(0, 1_000_000);
        scene.request.endpoint = Endpoint::CountTokens;
        assert!(matches!(scene.run(&KIND, "null"), Ok(Verdict::Continue)));
    }
}
