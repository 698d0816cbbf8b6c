//! `quota`: reserves the maximum cost of a request on its key's balance, or refuses the request. A key
//! that pays in money needs its cost covered too: a model without a price is refused.
//!
//! If the balance covers it, the filter reserves one input token for each byte and counts nothing.
//! Otherwise it counts the input and limits the output to the rest of the balance. For input that the
//! body does not show, the filter reserves as much as the balance has: a balance that one such request
//! can use up serves these requests one at a time. The gateway settles the actual cost when the request
//! ends. The `limits` filter bounds the rate of requests and tokens.

use crate::bound::Assumed;
use serde::Deserialize;
use serde_json::Value;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tollgate_filter::{
    Balances, Built, Catalog, Counting, Filter, FilterKind, FixedCharge, Head, Limiter, Phases,
    RequestContext, ReservationResult, Services, Verdict, settings,
};
use tollgate_types::{PublicError, ReservationGuard, Shortage, Unavailable, UpperBound};

pub(crate) const KIND: FilterKind = FilterKind {
    name: "quota",
    summary: "Reserves the maximum cost of a request on its key's balance, or refuses the request.",
    phases: Phases {
        passthrough: true,
        ..Phases::BODY
    },
    // `stored` looks up the size of stored input.
    after: &["key", "stored", "model"],
    required: false,
    build,
};

/// The settings of an entry in the configuration.
#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    /// The fewest output tokens of a useful answer: if the balance covers fewer, the request is
    /// refused.
    #[serde(deserialize_with = "crate::tokens")]
    useful_output_tokens: NonZeroU32,
    /// Output tokens to reserve if neither the request nor the model has a limit.
    #[serde(deserialize_with = "crate::tokens")]
    default_output_tokens: NonZeroU32,
    /// Input tokens to reserve, as far as the balance has them, for each tool that the provider runs.
    #[serde(deserialize_with = "crate::tokens")]
    hosted_tool_tokens: u32,
    /// The same for each document, sound or film.
    #[serde(deserialize_with = "crate::tokens")]
    unmeasured_media_tokens: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            useful_output_tokens: const { NonZeroU32::new(64).unwrap() },
            default_output_tokens: const { NonZeroU32::new(128_000).unwrap() },
            hosted_tool_tokens: 200_000,
            unmeasured_media_tokens: 100_000,
        }
    }
}

struct Quota {
    balances: Arc<dyn Balances>,
    catalog: Arc<dyn Catalog>,
    counting: Arc<dyn Counting>,
    limits: Arc<dyn Limiter>,
    settings: Settings,
}

fn build(value: &Value, services: &Services) -> Built {
    Ok(Quota {
        balances: Arc::clone(&services.balances),
        catalog: Arc::clone(&services.catalog),
        counting: Arc::clone(&services.counting),
        limits: Arc::clone(&services.limits),
        settings: settings(value)?,
    }
    .into())
}

impl Filter for Quota {
    async fn on_request(
        &self,
        _: Head<'_>,
        request: &mut RequestContext,
    ) -> Result<Verdict, PublicError> {
        if request.endpoint.is_count() {
            return Ok(Verdict::Continue);
        }
        match self.reserve(request).await {
            Ok(reservation) => {
                self.accept(request, reservation);
                Ok(Verdict::Continue)
            }
            Err(shortage) => {
                self.give_back_limits(request);
                Err(shortage.public())
            }
        }
    }
}

impl Quota {
    /// Reserves the maximum cost of a request. If the balance does not cover it, counts the input, and
    /// reserves what is left if that is enough for a useful answer.
    async fn reserve(&self, request: &mut RequestContext) -> ReservationResult {
        /// How long a request waits for tokens that other processes lease before its output is limited to
        /// those that this process leases.
        const BEFORE_LIMIT: Duration = Duration::from_millis(500);
        /// After this time no wait begins. The last one takes half a second at most.
        const BEFORE_REFUSAL: Duration = Duration::from_millis(1500);
        let mut busy_since = None;
        let mut has_waited = move || busy_since.get_or_insert_with(Instant::now).elapsed();
        // A fixed charge has nothing to count.
        let mut was_counted = request.fixed.is_some();
        loop {
            let mut bound = self.bound(request);
            let maximum = UpperBound {
                useful_output: bound.output,
                ..bound
            };
            match self.balances.reserve(request, maximum).await {
                Ok(reservation) => return Ok(reservation),
                // The tokens of this process can be enough for a useful answer, even if other processes
                // return none.
                Err(Shortage::Exhausted(_) | Shortage::Unavailable(Unavailable::Stalled(_))) => {}
                Err(Shortage::Busy) => {
                    // Other processes can lease the rest.
                    if has_waited() < BEFORE_LIMIT && self.wait_for_others(request).await {
                        continue;
                    }
                }
                Err(shortage) => return Err(shortage),
            }
            if request.input.is_none() && !was_counted {
                if let Some(likely) = self.beyond_balance(request, bound) {
                    bound.input = likely;
                } else {
                    was_counted = true;
                    request.input = self.counting.count(request).await;
                    if request.input.is_some() {
                        continue;
                    }
                }
            }
            match self.balances.reserve(request, bound).await {
                Ok(reservation) => return Ok(reservation),
                // Starts again, because the tokens that come may cover the maximum cost.
                Err(Shortage::Busy) if has_waited() < BEFORE_REFUSAL => {
                    if !self.wait_for_others(request).await {
                        return Err(Shortage::Busy);
                    }
                }
                Err(shortage) => return Err(shortage),
            }
        }
    }

    fn bound(&self, request: &RequestContext) -> UpperBound {
        if request.fixed.is_some() {
            let output = FixedCharge::USAGE.output;
            return UpperBound {
                input: 0,
                hidden_input: 0,
                output,
                useful_output: output,
                plausible_input: 0,
                plausible_output: output,
            };
        }
        crate::bound::of(
            request,
            &*self.catalog,
            &Assumed {
                useful_output: self.settings.useful_output_tokens.get().into(),
                output: self.settings.default_output_tokens.get().into(),
                hosted_tool: self.settings.hosted_tool_tokens.into(),
                unmeasured_media: self.settings.unmeasured_media_tokens.into(),
            },
        )
    }

    /// The likely input of a request that the balance cannot cover even with a count. `None`: a
    /// count can help.
    fn beyond_balance(&self, request: &RequestContext, bound: UpperBound) -> Option<u64> {
        /// Ordinary text has at least one part in so many of the tokens that its length suggests.
        const AT_LEAST: u64 = 4;
        let likely = crate::bound::likely_input(request);
        let least = UpperBound {
            input: likely / AT_LEAST,
            ..bound
        };
        let is_affordable = self.balances.affords(request, least);
        (!is_affordable).then_some(likely)
    }

    /// Waits until other processes may have given tokens back. `false`: there is nothing to wait for.
    async fn wait_for_others(&self, request: &RequestContext) -> bool {
        match self.balances.wait_for_release(request) {
            Some(more) => {
                more.await;
                true
            }
            None => false,
        }
    }

    fn accept(&self, request: &mut RequestContext, reservation: Box<dyn ReservationGuard>) {
        let limit = reservation.output_limit();
        let output = limit.unwrap_or_else(|| self.bound(request).output);
        request.reservation = Some(reservation);
        limit_output(request, output, limit.is_some());
    }

    /// Gives back what a refused request took from the key's limits, so that the headers of the answer show
    /// the limits without it.
    fn give_back_limits(&self, request: &mut RequestContext) {
        request.admission = None;
        let Some(identity) = &request.identity else {
            return;
        };
        for (name, now) in self.limits.headers(identity) {
            let mut headers = request.answer_headers.iter_mut();
            if let Some((_, value)) = headers.find(|(known, _)| *known == name) {
                *value = now;
            }
        }
    }
}

/// Notes how many output tokens are reserved, over all answers of the request. If the balance covers
/// no more and the caller asks for more, the provider gets this limit, and `x-output-limit` reports it.
fn limit_output(request: &mut RequestContext, all_answers: u64, is_whole_balance: bool) {
    const OUTPUT_LIMIT: http::HeaderName = http::HeaderName::from_static("x-output-limit");
    let facts = request.facts_if_read();
    let answers = facts.map_or(1, |facts| facts.choices);
    // An earlier filter can have set a lower limit.
    let asked = facts.and_then(|facts| facts.output_limit);
    let asked = asked.into_iter().chain(request.output_limit).min();
    let of_each = all_answers.checked_div(answers).unwrap_or(all_answers);
    request.reserved_output = Some(of_each);
    if is_whole_balance && asked.is_none_or(|asked| of_each < asked) {
        request.output_limit = Some(of_each);
        request.answer_headers.push((OUTPUT_LIMIT, of_each.into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{COUNTS, CountedAdmission, Scene, faults, identity, refusal};
    use tollgate_filter::Endpoint;
    use tollgate_types::{Allowance, ErrorCode, RequestFacts, Tariff};

    /// A scripted balance has 10,000 tokens, unless the name of its key selects a shortage.
    fn scene(key: &str, endpoint: Endpoint, output_limit: u64, choices: u64) -> Scene {
        let mut scene = Scene::new(endpoint, &[]);
        let mut holder = identity(Allowance::All);
        holder.name = key.to_owned();
        scene.request.identity = Some(Arc::new(holder));
        scene.request.set_facts(RequestFacts {
            text_bytes: 2_000,
            readable_bytes: 2_000,
            output_limit: Some(output_limit),
            choices,
            ..RequestFacts::default()
        });
        scene
    }

    /// The reservation for an input of 2,000 bytes that is not counted yet.
    const UNCOUNTED: u64 = 2_000 + 128;
    /// The scripted count of them: four bytes per token, and at most a tenth more.
    const COUNTED: u64 = 550;

    fn reserved(scene: &Scene) -> Option<u64> {
        let reservation = scene.request.reservation.as_ref();
        reservation.map(|it| it.most_tokens())
    }

    #[test]
    fn an_ample_balance_holds_what_no_text_exceeds_and_nothing_is_counted() {
        let mut scene = scene("rich", Endpoint::Messages, 500, 1);
        assert!(matches!(scene.run(&KIND, "{}"), Ok(Verdict::Continue)));
        let held = reserved(&scene);
        assert_eq!(held, Some(UNCOUNTED + 500));
        assert_eq!(scene.request.input, None);
        assert_eq!(scene.request.output_limit, None);
        assert!(scene.request.answer_headers.is_empty());
    }

    #[test]
    fn hidden_input_is_reserved_as_far_as_the_balance_has_it() {
        let held = |settings| {
            let mut scene = scene("rich", Endpoint::Messages, 500, 1);
            scene.change_facts(|facts| facts.hosted_tools = 1);
            assert!(matches!(scene.run(&KIND, settings), Ok(Verdict::Continue)));
            assert_eq!(scene.request.output_limit, None);
            reserved(&scene)
        };
        assert_eq!(held("{}"), Some(10_000));
        let small = r#"{"hosted_tool_tokens": 40}"#;
        assert_eq!(held(small), Some(UNCOUNTED + 500 + 40));
        let unit = r#"{"hosted_tool_tokens": "1k"}"#;
        assert_eq!(held(unit), Some(UNCOUNTED + 500 + 1000));
    }

    #[test]
    fn a_request_that_just_fits_once_it_is_counted_keeps_its_output_limit() {
        let mut scene = scene("rich", Endpoint::Messages, 10_000 - COUNTED, 1);
        assert!(matches!(scene.run(&KIND, "{}"), Ok(Verdict::Continue)));
        assert_eq!(scene.request.input.map(|it| it.tokens), Some(500));
        assert_eq!(scene.request.output_limit, None);
    }

    #[test]
    fn a_balance_that_is_too_small_limits_the_output_and_says_so() {
        let mut scene = scene("rich", Endpoint::ChatCompletions, 9_000, 2);
        assert!(matches!(scene.run(&KIND, "{}"), Ok(Verdict::Continue)));
        let each = (10_000 - COUNTED) / 2;
        assert_eq!(scene.request.output_limit, Some(each));
        let (name, value) = scene.request.answer_headers.first().expect("a header");
        assert_eq!(
            (name.as_str(), value.to_str().unwrap()),
            ("x-output-limit", each.to_string().as_str())
        );
    }

    #[test]
    fn a_lower_limit_of_an_earlier_filter_stays() {
        let mut scene = scene("rich", Endpoint::ChatCompletions, 9_000, 2);
        scene.request.output_limit = Some(50);
        assert!(matches!(scene.run(&KIND, "{}"), Ok(Verdict::Continue)));
        assert_eq!(scene.request.output_limit, Some(50));
        assert!(scene.request.answer_headers.is_empty());
    }

    #[test]
    fn without_a_count_the_upper_bound_of_the_text_is_reserved() {
        let mut scene = scene("uncountable", Endpoint::ChatCompletions, 9_000, 1);
        assert!(matches!(scene.run(&KIND, "{}"), Ok(Verdict::Continue)));
        assert_eq!(scene.request.output_limit, Some(10_000 - UNCOUNTED));
    }

    #[test]
    fn a_count_that_takes_its_time_is_waited_for() {
        let mut scene = scene("slowly counted", Endpoint::Messages, 9_900, 1);
        assert!(matches!(scene.run(&KIND, "null"), Ok(Verdict::Continue)));
        assert!(scene.has_waited);
        assert_eq!(scene.request.output_limit, Some(10_000 - COUNTED));
    }

    #[test]
    fn nothing_is_counted_for_a_key_without_tokens() {
        let mut scene = scene("exhausted", Endpoint::Messages, 500, 1);
        let error = refusal(scene.run(&KIND, "{}"));
        assert_eq!(error.code, ErrorCode::QuotaExhausted);
        assert_eq!(scene.request.input, None);
    }

    #[test]
    fn counting_tokens_costs_nothing() {
        let mut scene = scene("exhausted", Endpoint::CountTokens, 500, 1);
        assert!(matches!(scene.run(&KIND, "{}"), Ok(Verdict::Continue)));
        assert_eq!(reserved(&scene), None);
    }

    #[test]
    fn a_fixed_charge_is_one_token_of_output_and_nothing_is_counted() {
        let scene = |key: &str| {
            let mut scene = scene(key, Endpoint::Passthrough, 500, 1);
            scene.request.fixed = Some(FixedCharge {
                name: "p/v1/images".into(),
                tariff: Tariff::fixed(4000, None).expect("a tariff"),
            });
            scene
        };
        let mut rich = scene("rich");
        assert!(matches!(rich.run(&KIND, "{}"), Ok(Verdict::Continue)));
        assert_eq!(reserved(&rich), Some(1));
        let mut exhausted = scene("exhausted");
        let refused = refusal(exhausted.run(&KIND, "{}"));
        assert_eq!(refused.code, ErrorCode::QuotaExhausted);
        assert_eq!(COUNTS.get(), 0);
    }

    #[test]
    fn a_balance_that_is_not_in_memory_is_waited_for() {
        let mut scene = scene("slow", Endpoint::Messages, 500, 1);
        assert!(matches!(scene.run(&KIND, "null"), Ok(Verdict::Continue)));
        assert!(scene.has_waited);
        assert!(reserved(&scene).is_some());
    }

    #[test]
    fn tokens_that_never_come_back_are_not_waited_for_for_ever() {
        let mut scene = scene("always busy", Endpoint::Messages, 500, 1);
        let error = refusal(scene.run(&KIND, "null"));
        assert!(scene.has_waited);
        assert_eq!(error.code, ErrorCode::RateLimitExceeded);
    }

    #[test]
    fn tokens_that_come_in_many_pieces_are_waited_for() {
        let mut scene = scene("given in pieces", Endpoint::Messages, 500, 1);
        assert!(matches!(scene.run(&KIND, "null"), Ok(Verdict::Continue)));
        assert_eq!(scene.request.output_limit, None);
        assert!(reserved(&scene).is_some());
    }

    #[test]
    fn while_no_more_can_be_leased_the_output_is_limited_to_what_is_here() {
        let mut scene = scene("stalled", Endpoint::Messages, 50_000, 1);
        assert!(matches!(scene.run(&KIND, "{}"), Ok(Verdict::Continue)));
        assert_eq!(scene.request.output_limit, Some(10_000 - COUNTED));
    }

    #[test]
    fn a_body_that_cannot_be_counted_is_tried_once_however_often_the_request_waits() {
        let mut scene = scene("busy and uncountable", Endpoint::Messages, 500, 1);
        let error = refusal(scene.run(&KIND, "null"));
        assert_eq!(error.code, ErrorCode::RateLimitExceeded);
        assert_eq!(COUNTS.get(), 1);
    }

    #[test]
    fn each_shortage_has_its_code() {
        for (key, code, status) in [
            ("exhausted", ErrorCode::QuotaExhausted, 402),
            ("expired", ErrorCode::InvalidApiKey, 401),
            ("unpriced", ErrorCode::PermissionDenied, 403),
            ("busy", ErrorCode::RateLimitExceeded, 429),
            ("unavailable", ErrorCode::ServiceUnavailable, 503),
        ] {
            let error = refusal(scene(key, Endpoint::Messages, 500, 1).run(&KIND, "{}"));
            assert_eq!((error.code, error.status), (code, status));
        }
    }

    #[test]
    fn a_refused_request_reserves_nothing_and_shows_the_limits_without_it() {
        let mut scene = scene("exhausted", Endpoint::Messages, 500, 1);
        let load = http::HeaderName::from_static("x-load");
        let reported = http::HeaderValue::from_static("this request");
        scene.request.answer_headers.push((load, reported));
        let admission = CountedAdmission::default();
        let taken = admission.clone();
        scene.request.admission = Some(Box::new(admission));
        assert_eq!(taken.count(), 1);
        refusal(scene.run(&KIND, "{}"));
        assert_eq!(scene.request.answer_headers[0].1, "nothing");
        assert_eq!(taken.count(), 0);
    }

    #[test]
    fn a_setting_of_nothing_is_a_fault() {
        let found = faults(&KIND, r#"{"useful_output_tokens": 0}"#);
        assert_eq!(found[0].path, "useful_output_tokens");
    }
}
