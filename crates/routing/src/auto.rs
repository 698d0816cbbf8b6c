//! `auto`: which model answers if the client leaves the choice to the gateway.
//!
//! A profile is a name such as `auto` with its candidates and rules. A candidate that cannot answer
//! is passed over: what the key may use, what the request needs, the price and the availability come
//! before every rule. A conversation stays with its model. The choice waits for nothing;
//! [`Conversations`] remembers the models of conversations.

mod memory;
mod reason;
mod rules;
pub(crate) mod settings;
#[cfg(test)]
mod tests;

pub use memory::Conversations;
pub use reason::{Decision, Obstacle, Why};
pub(crate) use rules::Rule;

use crate::{Catalog, Model, ModelFeature};
use std::{sync::Arc, time::SystemTime};
use tollgate_types::{Money, Prices, ReasoningMode, RequestFacts};

/// A name that leaves the choice to the gateway, with its rules.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The name.
    pub name: Arc<str>,
    /// The models to choose from, in the order that decides if no rule does.
    pub candidates: Vec<Arc<Model>>,
    pub(crate) rules: Vec<Rule>,
    pub(crate) max_price: (Option<Money>, Option<Money>),
}

/// A request for which a profile chooses.
#[derive(Clone, Copy)]
pub struct ChoiceRequest<'a> {
    /// The facts of the request.
    pub facts: &'a RequestFacts,
    /// Whether the key may use a model. Other models are never named.
    pub allowed: &'a dyn Fn(&Model) -> bool,
    /// Whether a model can answer now.
    pub available: &'a dyn Fn(&Model) -> bool,
    /// The model that has answered the conversation so far.
    pub before: Option<&'a str>,
}

impl Catalog {
    /// Returns the profile of that name, in any form of the name.
    pub fn profile(&self, name: &str) -> Option<&Profile> {
        let model = self.resolve(name).filter(|model| model.is_auto())?;
        self.profiles.iter().find(|it| it.name == model.id)
    }

    /// The profiles, in the order of the file.
    pub fn profiles(&self) -> &[Profile] {
        &self.profiles
    }

    /// Whether there is any profile.
    pub fn has_profiles(&self) -> bool {
        !self.profiles.is_empty()
    }
}

impl Profile {
    /// Chooses the model for a request. Returns `None` if no candidate that the key may use can
    /// answer.
    pub fn choose(&self, request: &ChoiceRequest<'_>) -> Option<Decision> {
        let mut moved_from = None;
        if let Some(model) = self.model_before(request) {
            match self.obstacle(model, request) {
                None => return Some(self.decide(model, Why::Stays)),
                Some(obstacle) => moved_from = Some((Arc::clone(model), obstacle)),
            }
        }
        let mut passed_over: Vec<(Arc<Model>, Obstacle)> = Vec::new();
        for (model, why) in self.in_order(request.facts) {
            let is_passed_over = passed_over.iter().any(|(it, _)| it.id == model.id);
            if is_passed_over || !(request.allowed)(model) {
                continue;
            }
            match self.obstacle(model, request) {
                None => {
                    return Some(Decision {
                        moved_from,
                        passed_over,
                        ..self.decide(model, why)
                    });
                }
                Some(obstacle) => passed_over.push((Arc::clone(model), obstacle)),
            }
        }
        None
    }

    /// Every value of [`Decision::label`] for this profile.
    pub fn labels(&self) -> impl Iterator<Item = &str> {
        let rules = self.rules.iter().map(|rule| &*rule.label);
        rules.chain(Decision::LABELS)
    }

    /// The candidates whose price is not above the cap.
    pub fn affordable(&self) -> impl Iterator<Item = &Arc<Model>> {
        self.candidates.iter().filter(|it| !self.is_above_cap(it))
    }

    /// The models of every rule whose conditions hold, then the candidates.
    fn in_order(&self, facts: &RequestFacts) -> impl Iterator<Item = (&Arc<Model>, Why)> {
        let rules = self.rules.iter().filter(|rule| rule.when.hold(facts));
        let chosen_by_rules = rules.flat_map(|rule| {
            let models = rule.models.iter();
            models.map(|model| (model, Why::Rule(Arc::clone(&rule.label))))
        });
        chosen_by_rules.chain(self.candidates.iter().map(|model| (model, Why::Default)))
    }

    /// The conversation's model, if it is still a candidate that the key may use.
    fn model_before(&self, request: &ChoiceRequest<'_>) -> Option<&Arc<Model>> {
        let before = request.before?;
        let model = self.candidates.iter().find(|it| *it.id == *before)?;
        (request.allowed)(model).then_some(model)
    }

    fn decide(&self, model: &Arc<Model>, why: Why) -> Decision {
        Decision {
            profile: Arc::clone(&self.name),
            model: Arc::clone(model),
            why,
            moved_from: None,
            passed_over: Vec::new(),
        }
    }

    fn obstacle(&self, model: &Model, request: &ChoiceRequest<'_>) -> Option<Obstacle> {
        if self.is_above_cap(model) {
            return Some(Obstacle::Price);
        }
        incapable(model, request.facts)
            .or_else(|| (!(request.available)(model)).then_some(Obstacle::Unavailable))
    }

    fn is_above_cap(&self, model: &Model) -> bool {
        let (input, output) = self.max_price;
        if input.is_none() && output.is_none() {
            return false;
        }
        let now = SystemTime::now();
        let prices = model.prices_at(now);
        let is_above = |cap: Option<Money>, price: fn(&Prices) -> Money| {
            // The configuration was checked for candidates without a price.
            cap.is_some_and(|cap| prices.as_ref().is_none_or(|it| price(it) > cap))
        };
        is_above(input, |it| it.input) || is_above(output, |it| it.output)
    }
}

/// The first need of a request that a model cannot meet.
fn incapable(model: &Model, facts: &RequestFacts) -> Option<Obstacle> {
    let missing = ModelFeature::ALL
        .into_iter()
        .find(|it| it.is_needed(&facts.needs) && model.unsupported.contains(it));
    if let Some(missing) = missing {
        return Some(Obstacle::Lacks(missing));
    }
    if facts.needs.reasoning && model.reasoning == ReasoningMode::None {
        return Some(Obstacle::Reasoning);
    }
    let output = facts.output_limit.unwrap_or(0);
    if model.max_output_tokens.is_some_and(|most| output > most) {
        return Some(Obstacle::OutputLimit);
    }
    let tokens = facts.cautious_input_tokens().saturating_add(output);
    if model.context_window.is_some_and(|most| tokens > most) {
        return Some(Obstacle::Context);
    }
    None
}
