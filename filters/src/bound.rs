//! The most that a request can use, from what it asks for and what its model can do.

use tollgate_filter::{Bound, Catalog, RequestContext};
use tollgate_types::{LEAST_RESPONSES_OUTPUT, RequestFacts};

/// The output tokens over all answers that the request can be sent with: its own limit, raised
/// where its model thinks unasked or a provider takes none so small, or the model's. `None`
/// where neither says.
pub(crate) fn output(request: &RequestContext, catalog: &dyn Catalog) -> Option<u64> {
    let facts = request.facts.as_ref()?;
    let route = request.route.as_ref();
    let model = route.and_then(|route| catalog.model(route.model));
    let most = model.and_then(|model| model.max_output_tokens);
    let thinking = model.and_then(|model| facts.thinking_to_add(model.reasoning));
    let asked = facts.output_limit.map(|limit| {
        let limit = thinking.map_or(limit, |budget| {
            RequestFacts::limit_with_thinking(limit, budget)
        });
        limit.max(least_output(request, catalog))
    });
    // A limit beyond what the model can do is not reached.
    let of_each = match (asked, most) {
        (Some(asked), Some(most)) => asked.min(most),
        (asked, most) => asked.or(most)?,
    };
    Some(of_each.saturating_mul(facts.choices.max(1)))
}

/// The least output limit that the request can be sent with.
fn least_output(request: &RequestContext, catalog: &dyn Catalog) -> u64 {
    let route = request.route.as_ref();
    let model = route.and_then(|route| catalog.model(route.model));
    let is_translated = model
        .zip(request.format())
        .is_some_and(|(model, format)| model.responses_for.contains(&format));
    if is_translated {
        LEAST_RESPONSES_OUTPUT
    } else {
        1
    }
}

/// The input tokens that the request has most likely.
pub(crate) fn likely_input(request: &RequestContext) -> u64 {
    match (&request.input, &request.facts) {
        (Some(counted), _) => counted.tokens,
        (None, Some(facts)) => facts.likely_input_tokens(),
        (None, None) => 0,
    }
}

/// What providers may have stored, fetch or find: no conversation of theirs is longer, and
/// searches and documents are bounded by what models can read.
const MOST_UNSEEN: u64 = 2_000_000;

/// Input tokens that the body does not show. What a caller's own tools find is in a later body.
fn unseen_input(facts: &RequestFacts) -> u64 {
    let is_elsewhere = !facts.stored_ids.is_empty() || facts.hosted_tools > 0;
    let may_be_more = is_elsewhere || facts.media.unmeasured > 0;
    if may_be_more { MOST_UNSEEN } else { 0 }
}

/// The bound of a request whose balance must be enough for `minimum` output tokens of each
/// answer, unless it asks for less. `default_output` where nobody knows the limit. The input is
/// what was counted, or else what its length cannot exceed.
pub(crate) fn of(
    request: &RequestContext,
    catalog: &dyn Catalog,
    minimum: u64,
    default_output: u64,
) -> Bound {
    let Some(facts) = &request.facts else {
        return Bound {
            input: 0,
            unseen_input: 0,
            output: default_output,
            useful_output: minimum,
        };
    };
    let choices = facts.choices.max(1);
    let output = output(request, catalog).unwrap_or(default_output.saturating_mul(choices));
    // Providers refuse an output limit that leaves nothing beyond the thinking.
    let of_each = facts
        .thinking_budget
        .map_or(minimum, |budget| budget.saturating_add(minimum))
        .max(least_output(request, catalog));
    Bound {
        input: match request.input {
            Some(counted) => counted.at_most.min(facts.most_input()),
            None => facts.most_input(),
        },
        unseen_input: unseen_input(facts),
        output,
        useful_output: of_each.saturating_mul(choices).min(output),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Scene;
    use tollgate_filter::{Endpoint, Route};

    fn bound(facts: RequestFacts, model: Option<&str>) -> Bound {
        bound_at(Endpoint::ChatCompletions, facts, model)
    }

    fn bound_at(endpoint: Endpoint, facts: RequestFacts, model: Option<&str>) -> Bound {
        let mut scene = Scene::new(endpoint, &[]);
        let catalog = crate::testing::catalog();
        scene.request.route = model.and_then(|id| catalog.resolve(id)).map(|model| Route {
            model: model.handle,
            model_id: model.id.clone(),
            choice: None,
        });
        scene.request.facts = Some(facts);
        of(&scene.request, &catalog, 16, 4096)
    }

    #[test]
    fn the_output_is_the_limit_times_the_answers() {
        let facts = RequestFacts {
            output_limit: Some(100),
            choices: 7,
            readable_bytes: 21,
            ..RequestFacts::default()
        };
        let expected = Bound {
            input: 21 + 128,
            unseen_input: 0,
            output: 700,
            useful_output: 112,
        };
        assert_eq!(bound(facts, Some("opus-1")), expected);
    }

    #[test]
    fn without_a_limit_it_is_the_models_and_else_the_default() {
        let facts = RequestFacts::default();
        assert_eq!(bound(facts.clone(), Some("opus-1")).output, 32_000);
        assert_eq!(bound(facts.clone(), Some("codex-1")).output, 4096);
        assert_eq!(bound(facts, None).output, 4096);
    }

    #[test]
    fn no_limit_asked_for_goes_beyond_what_the_model_can_do() {
        let facts = RequestFacts {
            output_limit: Some(u64::MAX),
            choices: u64::MAX,
            ..RequestFacts::default()
        };
        assert_eq!(bound(facts.clone(), Some("codex-1")).output, u64::MAX);
        let facts = RequestFacts {
            choices: 1,
            ..facts
        };
        assert_eq!(bound(facts, Some("opus-1")).output, 32_000);
    }

    #[test]
    fn what_is_thought_comes_before_what_is_said() {
        let facts = RequestFacts {
            output_limit: Some(10_000),
            thinking_budget: Some(2_000),
            ..RequestFacts::default()
        };
        assert_eq!(bound(facts, Some("opus-1")).useful_output, 2_016);
    }

    #[test]
    fn what_is_stored_or_found_elsewhere_is_input_that_the_body_does_not_show() {
        let stored = RequestFacts {
            stored_ids: vec!["resp_1".to_owned()],
            ..RequestFacts::default()
        };
        let mut functions = RequestFacts::default();
        functions.needs.tools = true;
        let hosted = RequestFacts {
            hosted_tools: 1,
            ..functions.clone()
        };
        let mut image = RequestFacts::default();
        image.media.parts = 1;
        let mut document = image.clone();
        document.media.unmeasured = 1;
        for (facts, unseen) in [
            (stored, MOST_UNSEEN),
            (hosted, MOST_UNSEEN),
            (document, MOST_UNSEEN),
            (image, 0),
            (functions, 0),
        ] {
            assert_eq!(bound(facts, Some("opus-1")).unseen_input, unseen);
        }
    }

    #[test]
    fn a_limit_that_a_provider_takes_none_so_small_as_is_held_as_it_is_sent() {
        let facts = RequestFacts {
            output_limit: Some(1),
            ..RequestFacts::default()
        };
        let bound = bound_at(Endpoint::Messages, facts, Some("codex-1"));
        assert_eq!((bound.output, bound.useful_output), (16, 16));
    }

    #[test]
    fn a_request_for_little_needs_no_more_than_that() {
        let facts = RequestFacts {
            output_limit: Some(1),
            ..RequestFacts::default()
        };
        assert_eq!(bound(facts, Some("opus-1")).useful_output, 1);
    }
}
