//! `quota`: holds what a request can cost of its key's balance, or refuses the request.
//!
//! What it did cost is settled by the gateway when the request is over. How fast a key may go
//! is decided by `limits`.

use serde::Deserialize;
use serde_json::Value;
use std::num::NonZeroU32;
use std::sync::Arc;
use tollgate_filter::{
    Balances, Built, Catalog, Endpoint, Filter, FilterKind, Head, RequestContext, Reserving,
    Services, Shortage, Verdict, Wants, settings,
};
use tollgate_types::{ErrorCode, PublicError};

pub(crate) const KIND: FilterKind = FilterKind {
    name: "quota",
    summary: "Holds what a request can cost of its key's balance, or refuses the request.",
    wants: Wants {
        body: true,
        answer: false,
        error: false,
    },
    after: &["key", "model"],
    required: false,
    build,
};

/// The settings of an entry in the configuration.
#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    /// Output tokens for which a request is still worth sending: with fewer left it is
    /// refused.
    useful_output_tokens: NonZeroU32,
    /// Output tokens to hold where neither request nor model says how many there can be.
    default_output_tokens: NonZeroU32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            useful_output_tokens: const { NonZeroU32::new(64).unwrap() },
            default_output_tokens: const { NonZeroU32::new(128_000).unwrap() },
        }
    }
}

#[derive(Clone)]
struct Quota {
    balances: Arc<dyn Balances>,
    catalog: Arc<dyn Catalog>,
    settings: Settings,
}

fn build(value: &Value, services: &Services) -> Built {
    Ok(Box::new(Quota {
        balances: Arc::clone(&services.balances),
        catalog: Arc::clone(&services.catalog),
        settings: settings(value)?,
    }))
}

/// How often a balance may turn out not to be in memory after all.
const MOST_WAITS: u8 = 3;

impl Filter for Quota {
    fn on_request(&self, _: Head<'_>, request: &mut RequestContext) -> Verdict {
        if request.endpoint == Endpoint::CountTokens {
            return Verdict::Continue;
        }
        self.reserve(request, MOST_WAITS)
    }
}

impl Quota {
    fn reserve(&self, request: &mut RequestContext, waits: u8) -> Verdict {
        let bound = crate::bound::of(
            request,
            &*self.catalog,
            self.settings.useful_output_tokens.get().into(),
            self.settings.default_output_tokens.get().into(),
        );
        match self.balances.reserve(request, bound) {
            Reserving::Held { hold, output_limit } => {
                request.holds.put_boxed(hold);
                if let Some(limit) = output_limit {
                    limit_output(request, limit);
                }
                Verdict::Continue
            }
            Reserving::Short(shortage) => error(shortage).into(),
            Reserving::Miss(pending) => {
                let Some(waits) = waits.checked_sub(1) else {
                    return error(Shortage::Unavailable).into();
                };
                let again = self.clone();
                Verdict::Wait(Box::pin(async move {
                    let known = pending.await;
                    Box::new(move |request: &mut RequestContext| match known {
                        Ok(()) => again.reserve(request, waits),
                        Err(shortage) => error(shortage).into(),
                    }) as _
                }))
            }
        }
    }
}

/// The balance is enough for so many output tokens over all answers: the caller is told, and
/// the provider gets no other limit.
fn limit_output(request: &mut RequestContext, all_answers: u64) {
    const OUTPUT_LIMIT: http::HeaderName = http::HeaderName::from_static("x-output-limit");
    let answers = request.facts.as_ref().map_or(1, |facts| facts.choices);
    let of_each = all_answers.checked_div(answers).unwrap_or(all_answers);
    request.output_limit = Some(of_each);
    request.answer_headers.push((OUTPUT_LIMIT, of_each.into()));
}

fn error(shortage: Shortage) -> PublicError {
    match shortage {
        Shortage::Exhausted => PublicError::new(
            ErrorCode::QuotaExhausted,
            "the API key has too few tokens left for this request: \
             GET /v1/usage shows its balance",
        ),
        // Whose grants are all over is expired, and no expired key is told from an unknown one.
        Shortage::Expired => PublicError::new(ErrorCode::InvalidApiKey, "the API key is not valid"),
        Shortage::Busy => PublicError::new(
            ErrorCode::RateLimitExceeded,
            "the API key's remaining tokens are held by its other requests: \
             try again when they have ended",
        ),
        Shortage::Unavailable => PublicError::new(
            ErrorCode::ServiceUnavailable,
            "balances cannot be checked at the moment: try again shortly",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Held, Scene, faults, identity, refusal};
    use tollgate_types::{Allowance, RequestFacts};

    /// The scripted balances hold 10,000 tokens and know other keys by their names.
    fn scene(key: &str, endpoint: Endpoint, output_limit: u64, choices: u64) -> Scene {
        let mut scene = Scene::new(endpoint, &[]);
        let mut holder = identity(Allowance::All);
        holder.name = key.to_owned();
        scene.request.identity = Some(Arc::new(holder));
        scene.request.facts = Some(RequestFacts {
            text_bytes: 2_000,
            output_limit: Some(output_limit),
            choices,
            ..RequestFacts::default()
        });
        scene
    }

    #[test]
    fn what_a_request_can_cost_is_held_with_it() {
        let mut scene = scene("rich", Endpoint::Messages, 500, 1);
        assert!(matches!(scene.run(&KIND, "{}"), Verdict::Continue));
        let held = scene.request.holds.take::<Held>().map(|held| held.0);
        assert_eq!(held, Some(1_500));
        assert_eq!(scene.request.output_limit, None);
        assert!(scene.request.answer_headers.is_empty());
    }

    #[test]
    fn a_balance_that_is_too_small_limits_the_output_and_says_so() {
        let mut scene = scene("rich", Endpoint::ChatCompletions, 9_000, 2);
        assert!(matches!(scene.run(&KIND, "{}"), Verdict::Continue));
        assert_eq!(scene.request.output_limit, Some(4_500));
        let (name, value) = scene.request.answer_headers.first().expect("a header");
        assert_eq!(
            (name.as_str(), value.to_str().unwrap()),
            ("x-output-limit", "4500")
        );
    }

    #[test]
    fn counting_tokens_costs_nothing() {
        let mut scene = scene("exhausted", Endpoint::CountTokens, 500, 1);
        assert!(matches!(scene.run(&KIND, "{}"), Verdict::Continue));
        assert!(scene.request.holds.take::<Held>().is_none());
    }

    #[test]
    fn a_balance_that_is_not_in_memory_is_waited_for() {
        let mut scene = scene("slow", Endpoint::Messages, 500, 1);
        assert!(matches!(scene.run_to_end(&KIND), Verdict::Continue));
        assert!(scene.request.holds.take::<Held>().is_some());
    }

    #[test]
    fn a_balance_that_never_comes_is_not_waited_for_for_ever() {
        let mut scene = scene("never", Endpoint::Messages, 500, 1);
        let error = refusal(scene.run_all_waits(&KIND));
        assert_eq!(error.code, ErrorCode::ServiceUnavailable);
    }

    #[test]
    fn each_shortage_has_its_code() {
        for (key, code, status) in [
            ("exhausted", ErrorCode::QuotaExhausted, 402),
            ("expired", ErrorCode::InvalidApiKey, 401),
            ("busy", ErrorCode::RateLimitExceeded, 429),
            ("unavailable", ErrorCode::ServiceUnavailable, 503),
        ] {
            let error = refusal(scene(key, Endpoint::Messages, 500, 1).run(&KIND, "{}"));
            assert_eq!((error.code, error.status), (code, status));
        }
    }

    #[test]
    fn a_setting_of_nothing_is_a_fault() {
        let found = faults(&KIND, r#"{"useful_output_tokens": 0}"#);
        assert_eq!(found[0].path, "useful_output_tokens");
    }
}
