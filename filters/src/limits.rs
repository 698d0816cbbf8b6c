//! `limits`: enforces the requests and tokens per minute and the concurrent requests of each key.
//!
//! `quota` decides whether the key can pay.

use serde::Deserialize;
use serde_json::Value;
use std::num::NonZeroU32;
use std::sync::Arc;
use tollgate_filter::{
    Admission, Built, Catalog, Filter, FilterKind, Head, Limiter, Load, NotAdmitted, Phases,
    RequestContext, Services, Verdict, settings,
};
use tollgate_types::{Denied, ErrorCode, LimitHit, Limited, PublicError};

pub(crate) const KIND: FilterKind = FilterKind {
    name: "limits",
    summary: "Keeps each key within its requests and tokens per minute and its concurrent requests.",
    phases: Phases {
        stored: true,
        passthrough: true,
        ..Phases::BODY
    },
    after: &["key", "model"],
    required: false,
    build,
};

/// The settings of an entry in the configuration.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    /// Output tokens that a request takes from the limits in advance. The end of the request corrects
    /// them: agents allow tens of thousands of tokens and use hundreds.
    #[serde(deserialize_with = "crate::tokens")]
    expected_output_tokens: NonZeroU32,
    /// `count_tokens` requests that a key may send in a minute. They are free otherwise.
    count_tokens_per_minute: NonZeroU32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            expected_output_tokens: const { NonZeroU32::new(1024).unwrap() },
            count_tokens_per_minute: const { NonZeroU32::new(600).unwrap() },
        }
    }
}

struct Limits {
    limiter: Arc<dyn Limiter>,
    catalog: Arc<dyn Catalog>,
    settings: Settings,
}

fn build(value: &Value, services: &Services) -> Built {
    Ok(Limits {
        limiter: Arc::clone(&services.limits),
        catalog: Arc::clone(&services.catalog),
        settings: settings(value)?,
    }
    .into())
}

impl Filter for Limits {
    async fn on_request(
        &self,
        _: Head<'_>,
        request: &mut RequestContext,
    ) -> Result<Verdict, PublicError> {
        let identity = Arc::clone(request.identity()?);
        let load = self.load(request);
        match self.limiter.admit(load, &identity).await {
            Ok(Admission { guard, headers }) => {
                request.admission = guard;
                request.answer_headers.extend(headers);
                Ok(Verdict::Continue)
            }
            Err(NotAdmitted::Limited { limited, headers }) => {
                request.answer_headers.extend(headers);
                Err(over_limit(limited))
            }
            // Without limits, the key could take the capacity of all others.
            Err(NotAdmitted::UnknownPlan) => Err(PublicError::new(
                ErrorCode::ServiceUnavailable,
                "the plan of this API key is not loaded yet; retry in a few seconds",
            )),
        }
    }
}

impl Limits {
    fn load(&self, request: &RequestContext) -> Load {
        if request.endpoint.is_count() {
            return Load::Count {
                limit: self.settings.count_tokens_per_minute,
            };
        }
        if request.endpoint.is_stored() {
            // It counts as a request and uses no model.
            return Load::Generation {
                input: 0,
                output: 0,
                is_limited: true,
            };
        }
        if let Some(fixed) = &request.fixed {
            return Load::Generation {
                input: 0,
                output: fixed.tokens(),
                is_limited: true,
            };
        }
        let expected = u64::from(self.settings.expected_output_tokens.get());
        let output = crate::bound::output(request, &*self.catalog);
        let facts = request.facts_if_read();
        Load::Generation {
            input: crate::bound::likely_input(request),
            output: output.map_or(expected, |output| output.min(expected)),
            is_limited: facts.is_some_and(|facts| facts.output_limit.is_some()),
        }
    }
}

fn over_limit(Limited { dimension, denied }: Limited) -> PublicError {
    let limit = dimension.in_words();
    let error = |message| {
        PublicError::new(ErrorCode::RateLimitExceeded, message)
            .with_limit(Some(LimitHit::Key(dimension)))
    };
    match denied {
        Denied::Wait(wait) => {
            error(format!("the API key has reached its limit of {limit}")).with_retry_after(wait)
        }
        Denied::NeverFits => PublicError {
            retry_after: None,
            should_retry: Some(false),
            ..error(format!(
                "the request alone is more than the API key's limit of {limit}"
            ))
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scene, faults, identity, refusal};
    use std::time::Duration;
    use tollgate_filter::{Endpoint, FixedCharge};
    use tollgate_types::{Allowance, RequestFacts, Tariff};

    fn scene(endpoint: Endpoint, text_bytes: u64, output_limit: Option<u64>) -> Scene {
        let mut scene = Scene::new(endpoint, &[]);
        scene.request.identity = Some(Arc::new(identity(Allowance::All)));
        scene.request.set_facts(RequestFacts {
            text_bytes,
            output_limit,
            choices: 1,
            ..RequestFacts::default()
        });
        scene
    }

    #[test]
    fn a_request_within_its_limits_passes_and_shows_the_limits() {
        let mut scene = scene(Endpoint::Messages, 400, Some(50));
        assert!(matches!(scene.run(&KIND, "{}"), Ok(Verdict::Continue)));
        let reported: Vec<_> = scene
            .request
            .answer_headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        assert_eq!(reported, ["x-load: generation of 100 and 50 tokens"]);
    }

    #[test]
    fn no_more_output_is_taken_than_a_request_is_expected_to_need() {
        for (asked, taken) in [(Some(64_000), 1024), (None, 1024), (Some(9), 9)] {
            let mut scene = scene(Endpoint::Messages, 0, asked);
            assert!(matches!(scene.run(&KIND, "{}"), Ok(Verdict::Continue)));
            let (_, value) = scene.request.answer_headers.first().expect("a header");
            let reported = format!("generation of 0 and {taken} tokens");
            assert_eq!(value.to_str().unwrap(), reported);
        }
    }

    #[test]
    fn a_fixed_charge_is_taken_as_output() {
        let mut scene = Scene::new(Endpoint::Passthrough, &[]);
        scene.request.identity = Some(Arc::new(identity(Allowance::All)));
        scene.request.fixed = Some(FixedCharge {
            name: "p/v1/images".into(),
            tariff: Tariff::fixed(4000, None).expect("a tariff"),
        });
        assert!(matches!(scene.run(&KIND, "{}"), Ok(Verdict::Continue)));
        let (_, value) = scene.request.answer_headers.first().expect("a header");
        assert_eq!(value.to_str().unwrap(), "generation of 0 and 4000 tokens");
    }

    #[test]
    fn counting_has_a_limit_of_its_own() {
        let mut scene = scene(Endpoint::CountTokens, 400, None);
        let settings = r#"{"count_tokens_per_minute": 7}"#;
        assert!(matches!(scene.run(&KIND, settings), Ok(Verdict::Continue)));
        let (_, value) = scene.request.answer_headers.first().expect("a header");
        assert_eq!(value.to_str().unwrap(), "count, 7 a minute");
    }

    #[test]
    fn a_caller_over_a_limit_learns_which_and_when_to_retry() {
        // The scripted limiter refuses requests of 1,000 and 2,000 input tokens.
        let error = refusal(scene(Endpoint::Messages, 4000, None).run(&KIND, "{}"));
        assert_eq!(
            (error.code, error.status),
            (ErrorCode::RateLimitExceeded, 429)
        );
        assert_eq!(error.retry_after, Some(Duration::from_secs(3)));
        assert!(error.message.contains("requests a minute"), "{error}");

        let error = refusal(scene(Endpoint::Messages, 8000, None).run(&KIND, "{}"));
        assert_eq!(error.retry_after, None);
        assert_eq!(error.should_retry, Some(false));
        assert!(error.message.contains("input tokens a minute"), "{error}");
    }

    #[test]
    fn a_key_with_an_unknown_plan_has_to_wait() {
        let mut scene = scene(Endpoint::Messages, 400, None);
        let mut holder = identity(Allowance::All);
        holder.plan = Some("unknown".to_owned());
        scene.request.identity = Some(Arc::new(holder));
        let error = refusal(scene.run(&KIND, "{}"));
        assert_eq!(
            (error.code, error.status),
            (ErrorCode::ServiceUnavailable, 503)
        );
    }

    #[test]
    fn a_limit_of_nothing_is_a_fault_in_the_settings() {
        let found = faults(&KIND, r#"{"count_tokens_per_minute": 0}"#);
        assert_eq!(found[0].path, "count_tokens_per_minute");
    }
}
