//! The most tokens that a request can use, from its limits and those of its model.

use tollgate_filter::{Catalog, RequestContext};
use tollgate_types::{
    LARGEST_WINDOW, LEAST_RESPONSES_OUTPUT, MOST_ROUNDS, RequestFacts, UpperBound,
};

/// The most output tokens of all answers: the request's limit, else the model's. The gateway raises the
/// request's limit if the model thinks by default, or if the provider does not accept so small
/// a limit. `None` if neither has a limit.
pub(crate) fn output(request: &RequestContext, catalog: &dyn Catalog) -> Option<u64> {
    let facts = request.facts_if_read()?;
    if !request.endpoint.has_output() {
        return Some(0);
    }
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
    // A higher limit than the model's has no effect.
    let of_each = match (asked, most) {
        (Some(asked), Some(most)) => asked.min(most),
        (asked, most) => asked.or(most)?,
    };
    Some(of_each.saturating_mul(facts.choices.max(1)))
}

/// The lowest output limit that the provider accepts.
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

/// The likely number of input tokens.
pub(crate) fn likely_input(request: &RequestContext) -> u64 {
    match (&request.input, request.facts_if_read()) {
        (Some(counted), _) => counted.tokens,
        (None, Some(facts)) => facts.likely_input_tokens(),
        (None, None) => 0,
    }
}

/// Assumptions about a request without its own values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Assumed {
    /// The fewest output tokens of a useful answer.
    pub(crate) useful_output: u64,
    /// The most output tokens of an answer.
    pub(crate) output: u64,
    /// Input tokens that each tool of the provider adds.
    pub(crate) hosted_tool: u64,
    /// Input tokens of each document, sound or film.
    pub(crate) unmeasured_media: u64,
}

/// Input tokens that the body does not show: stored items, results of the provider's tools, media that the
/// gateway cannot measure, a chat template, and the shown `input` once more for a summary. Results of the
/// client's tools come in a later body.
fn hidden_input(request: &RequestContext, input: u64, window: u64, assumed: &Assumed) -> u64 {
    let Some(facts) = request.facts_if_read() else {
        return 0;
    };
    let stored = request.stored_tokens.unwrap_or(window).min(window);
    let tools = facts.hosted_tools.saturating_mul(assumed.hosted_tool);
    let media = facts.media.unmeasured;
    let media = media.saturating_mul(assumed.unmeasured_media);
    let template = if facts.template { window } else { 0 };
    let again = if facts.compacts { input.min(window) } else { 0 };
    stored
        .saturating_add(tools)
        .saturating_add(media)
        .saturating_add(template)
        .saturating_add(again)
}

/// The most tokens that a request can use. The input is the count, else the most that its length
/// allows.
pub(crate) fn of(request: &RequestContext, catalog: &dyn Catalog, assumed: &Assumed) -> UpperBound {
    let facts = request.facts_if_read();
    let choices = facts.map_or(1, |facts| facts.choices.max(1));
    let default_output = assumed.output.saturating_mul(choices);
    let output = output(request, catalog).unwrap_or(default_output);
    // Providers refuse an output limit that only covers the thinking budget.
    let useful = facts
        .and_then(|facts| facts.thinking_budget)
        .unwrap_or_default()
        .saturating_add(assumed.useful_output)
        .max(least_output(request, catalog));
    let most = facts.map_or(0, RequestFacts::most_input);
    let input = request
        .input
        .map_or(most, |counted| counted.at_most.min(most));
    let model = request
        .route
        .as_ref()
        .and_then(|it| catalog.model(it.model));
    let window = model.and_then(|model| model.context_window);
    let window = window.unwrap_or(LARGEST_WINDOW);
    let most_output = model.and_then(|model| model.max_output_tokens);
    let most_output = most_output.map_or(default_output, |most| most.saturating_mul(choices));
    let rounds = match facts {
        Some(facts) if facts.reads_again() => MOST_ROUNDS,
        _ => 1,
    };
    let hidden_input = hidden_input(request, input, window, assumed);
    let reserved = input.saturating_add(hidden_input);
    UpperBound {
        input,
        hidden_input,
        output,
        useful_output: useful.saturating_mul(choices).min(output),
        plausible_input: window.max(reserved).saturating_mul(rounds),
        plausible_output: most_output.max(output).saturating_mul(rounds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Scene;
    use tollgate_filter::{Endpoint, Route};

    fn bound(facts: RequestFacts, model: Option<&str>) -> UpperBound {
        bound_at(Endpoint::ChatCompletions, facts, model)
    }

    fn bound_at(endpoint: Endpoint, facts: RequestFacts, model: Option<&str>) -> UpperBound {
        bound_of_stored(endpoint, facts, model, Some(0))
    }

    const ASSUMED: Assumed = Assumed {
        useful_output: 16,
        output: 4096,
        hosted_tool: 50_000,
        unmeasured_media: 7_000,
    };

    fn bound_of_stored(
        endpoint: Endpoint,
        facts: RequestFacts,
        model: Option<&str>,
        stored: Option<u64>,
    ) -> UpperBound {
        let mut scene = Scene::new(endpoint, &[]);
        let catalog = crate::testing::catalog();
        scene.request.route = model.and_then(|id| catalog.resolve(id)).map(|model| Route {
            model: model.handle,
            model_id: model.id.clone(),
            reason: None,
            default_name: None,
        });
        scene.request.set_facts(facts);
        scene.request.stored_tokens = stored;
        of(&scene.request, &catalog, &ASSUMED)
    }

    #[test]
    fn the_output_is_the_limit_times_the_answers() {
        let facts = RequestFacts {
            output_limit: Some(100),
            choices: 7,
            readable_bytes: 21,
            ..RequestFacts::default()
        };
        let expected = UpperBound {
            input: 21 + 128,
            hidden_input: 0,
            output: 700,
            useful_output: 112,
            plausible_input: 200_000,
            plausible_output: 7 * 32_000,
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
    fn no_requested_limit_exceeds_the_models() {
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
    fn thinking_is_reserved_before_the_answer() {
        let facts = RequestFacts {
            output_limit: Some(10_000),
            thinking_budget: Some(2_000),
            ..RequestFacts::default()
        };
        assert_eq!(bound(facts, Some("opus-1")).useful_output, 2_016);
    }

    #[test]
    fn input_that_the_body_does_not_show_is_reserved() {
        let hidden = |facts: RequestFacts, stored, model| {
            let endpoint = Endpoint::ChatCompletions;
            bound_of_stored(endpoint, facts, Some(model), stored).hidden_input
        };
        let mut facts = RequestFacts::default();
        assert_eq!(hidden(facts.clone(), Some(0), "opus-1"), 0);
        assert_eq!(hidden(facts.clone(), Some(165_000), "opus-1"), 165_000);
        // No model reads more than its window.
        assert_eq!(hidden(facts.clone(), Some(900_000), "opus-1"), 200_000);
        assert_eq!(hidden(facts.clone(), None, "opus-1"), 200_000);
        assert_eq!(hidden(facts.clone(), None, "codex-1"), LARGEST_WINDOW);
        facts.template = true;
        assert_eq!(hidden(facts.clone(), Some(0), "opus-1"), 200_000);
        facts.template = false;
        facts.hosted_tools = 3;
        assert_eq!(hidden(facts.clone(), Some(0), "opus-1"), 150_000);
        assert_eq!(hidden(facts.clone(), Some(10), "opus-1"), 150_010);
        facts.media.parts = 5;
        facts.media.unmeasured = 2;
        assert_eq!(hidden(facts.clone(), Some(10), "opus-1"), 164_010);
        facts.needs.tools = true;
        facts.hosted_tools = 0;
        facts.media.unmeasured = 0;
        assert_eq!(hidden(facts.clone(), Some(0), "opus-1"), 0);
        // A summary is made from what the body shows.
        facts.compacts = true;
        facts.readable_bytes = 10_000;
        let shown = bound(facts.clone(), Some("opus-1")).input;
        assert!(shown >= 10_000);
        assert_eq!(hidden(facts.clone(), Some(0), "opus-1"), shown);
        facts.readable_bytes = 3_000_000;
        assert_eq!(hidden(facts, Some(0), "opus-1"), 200_000);
    }

    #[test]
    fn reports_are_plausible_up_to_what_the_model_can_process() {
        let plausible = |facts: RequestFacts, model| {
            let bound = bound(facts, Some(model));
            (bound.plausible_input, bound.plausible_output)
        };
        let plain = RequestFacts::default();
        assert_eq!(plausible(plain.clone(), "opus-1"), (200_000, 32_000));
        assert_eq!(plausible(plain, "codex-1"), (LARGEST_WINDOW, 4096));
        let larger = RequestFacts {
            readable_bytes: 3_000_000,
            output_limit: Some(5_000),
            choices: 2,
            ..RequestFacts::default()
        };
        assert_eq!(plausible(larger.clone(), "opus-1"), (3_000_128, 64_000));
        assert_eq!(plausible(larger, "codex-1"), (3_000_128, 10_000));
        let hosted = RequestFacts {
            hosted_tools: 1,
            ..RequestFacts::default()
        };
        let compacting = RequestFacts {
            compacts: true,
            ..RequestFacts::default()
        };
        let rounds = (32 * 200_000, 32 * 32_000);
        assert_eq!(plausible(hosted, "opus-1"), rounds);
        assert_eq!(plausible(compacting, "opus-1"), rounds);
    }

    #[test]
    fn a_limit_below_the_providers_minimum_is_reserved_as_it_is_sent() {
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
