//! `auto`: which model answers when the caller leaves the choice.

use crate::{Capability, Catalog, Model};
use std::sync::Arc;
use tollgate_types::{ReasoningMode, RequestFacts};

/// What `auto` chose.
#[derive(Clone, Debug)]
pub struct AutoChoice {
    /// The model that answers.
    pub model: Arc<Model>,
    /// Why, for `x-route-reason`: ASCII, no caller's text in it.
    pub reason: String,
}

impl Catalog {
    /// The first candidate that `allowed` admits and whose known limits fit the request. `None`: there is none.
    pub fn choose_auto(
        &self,
        facts: &RequestFacts,
        allowed: impl Fn(&Model) -> bool,
    ) -> Option<AutoChoice> {
        let mut passed_over = Vec::new();
        for model in &self.auto {
            let obstacle = if allowed(model) {
                obstacle(model, facts)
            } else {
                // What a key may not use is none of its caller's business.
                continue;
            };
            let Some(obstacle) = obstacle else {
                return Some(AutoChoice {
                    model: Arc::clone(model),
                    reason: reason(&passed_over),
                });
            };
            passed_over.push(format!("{} ({obstacle})", model.id));
        }
        None
    }
}

fn reason(passed_over: &[String]) -> String {
    if passed_over.is_empty() {
        return "auto: first choice".to_owned();
    }
    format!("auto: passed over {}", passed_over.join(", "))
}

/// What keeps `model` from answering, in a word.
fn obstacle(model: &Model, facts: &RequestFacts) -> Option<&'static str> {
    if let Some(missing) = Capability::ALL
        .into_iter()
        .find(|it| it.is_needed(&facts.needs) && model.unsupported.contains(it))
    {
        return Some(missing.as_str());
    }
    if facts.needs.reasoning && model.reasoning == ReasoningMode::None {
        return Some("reasoning");
    }
    let output = facts.output_limit.unwrap_or(0);
    if model.max_output_tokens.is_some_and(|most| output > most) {
        return Some("output limit");
    }
    let wanted = facts.cautious_input_tokens().saturating_add(output);
    if model.context_window.is_some_and(|most| wanted > most) {
        return Some("context");
    }
    None
}
