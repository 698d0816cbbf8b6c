//! `auto`: which model answers when the caller leaves the choice.
//!
//! A profile is a name such as `auto` with its candidates. Hard rules come first: what the
//! key may use, what the request needs, what is available, what it may cost. Among what is
//! left the conversation's own model stays; else a score of the request ([`Score`]) says
//! which tier is wanted. Nothing here waits or keeps anything: who remembers what a
//! conversation was answered by is [`Conversations`], and who asks for it the caller.

mod memory;
mod reason;
mod score;
pub(crate) mod settings;
#[cfg(test)]
mod tests;

pub use memory::Conversations;
pub use reason::{Considered, Decision, Obstacle, Why};
pub use score::{Score, Signal};
pub use settings::Tier;

use crate::{Capability, Catalog, Model};
pub(crate) use score::Weights;
use std::sync::Arc;
use tollgate_types::{ReasoningMode, RequestFacts};

/// What a model costs, per million tokens, in the currency of the configuration's choice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Price {
    /// Input.
    pub input: f64,
    /// Output.
    pub output: f64,
}

/// A name that lets the service choose, with the rules by which it does.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The name.
    pub name: Arc<str>,
    /// What is chosen from, in order of preference.
    pub candidates: Vec<Arc<Model>>,
    /// The profile whose choice is recorded beside this one's.
    pub shadow: Option<Arc<str>>,
    /// How scores become tiers; `None`: the first that fits is taken.
    pub(crate) tiers: Option<Tiers>,
    pub(crate) max_price: (Option<f64>, Option<f64>),
}

/// How scores become tiers.
#[derive(Clone, Debug)]
pub(crate) struct Tiers {
    /// Where in `candidates` the best single model stands.
    pub(crate) best: usize,
    pub(crate) weights: Weights,
    /// Scores from which on the middle and the strong tier are wanted.
    pub(crate) middle: f64,
    pub(crate) strong: f64,
    /// How near to one of them a score is in doubt.
    pub(crate) doubt: f64,
    /// How far beyond one of them a conversation moves up.
    pub(crate) hysteresis: f64,
}

/// A request that asks for a choice.
#[derive(Clone, Copy)]
pub struct Ask<'a> {
    /// What it asks for.
    pub facts: &'a RequestFacts,
    /// Whether the caller may use a model. What it may not use is never spoken of.
    pub allowed: &'a dyn Fn(&Model) -> bool,
    /// Whether a model can answer at the moment.
    pub available: &'a dyn Fn(&Model) -> bool,
    /// The model that has answered the conversation so far.
    pub before: Option<&'a str>,
}

impl Catalog {
    /// The profile of that name, in any of its forms.
    pub fn profile(&self, name: &str) -> Option<&Profile> {
        let model = self.resolve(name).filter(|model| model.is_auto())?;
        self.profiles.iter().find(|it| it.name == model.id)
    }

    /// Whether there is any name that lets the service choose.
    pub fn has_profiles(&self) -> bool {
        !self.profiles.is_empty()
    }
}

impl Profile {
    /// The model for a request, and why. `None`: there is none that the caller may use and
    /// that can answer.
    pub fn choose(&self, ask: &Ask<'_>) -> Option<Decision> {
        let considered = self.consider(ask);
        let score = self
            .tiers
            .as_ref()
            .map(|tiers| Score::of(ask.facts, &tiers.weights));
        let choice = Choice {
            profile: self,
            considered: &considered,
        };
        let (model, why) = match (&self.tiers, &score) {
            (Some(tiers), Some(score)) => choice.by_score(tiers, score.value, ask.before)?,
            _ => choice.by_order(ask.before)?,
        };
        Some(Decision {
            profile: Arc::clone(&self.name),
            model,
            why,
            score,
            considered,
        })
    }

    /// The models that price alone does not exclude.
    pub fn affordable(&self) -> impl Iterator<Item = &Arc<Model>> {
        self.candidates.iter().filter(|it| !self.is_too_dear(it))
    }

    /// Every candidate that the caller may use, with what keeps it from answering.
    fn consider(&self, ask: &Ask<'_>) -> Vec<Considered> {
        let allowed = self.candidates.iter().filter(|it| (ask.allowed)(it));
        allowed
            .map(|model| Considered {
                model: Arc::clone(model),
                obstacle: self.obstacle(model, ask),
            })
            .collect()
    }

    fn obstacle(&self, model: &Model, ask: &Ask<'_>) -> Option<Obstacle> {
        if self.is_too_dear(model) {
            return Some(Obstacle::Price);
        }
        unfit(model, ask.facts)
            .or_else(|| (!(ask.available)(model)).then_some(Obstacle::Unavailable))
    }

    fn is_too_dear(&self, model: &Model) -> bool {
        let (input, output) = self.max_price;
        let is_over = |most: Option<f64>, price: fn(&Price) -> f64| {
            // That a price is known was checked with the configuration.
            most.is_some_and(|most| model.price.as_ref().is_none_or(|it| price(it) > most))
        };
        is_over(input, |it| it.input) || is_over(output, |it| it.output)
    }
}

/// What about a request a model cannot do.
fn unfit(model: &Model, facts: &RequestFacts) -> Option<Obstacle> {
    let missing = Capability::ALL
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
    let wanted = facts.cautious_input_tokens().saturating_add(output);
    if model.context_window.is_some_and(|most| wanted > most) {
        return Some(Obstacle::Context);
    }
    None
}

/// One choice among candidates that were looked at.
struct Choice<'a> {
    profile: &'a Profile,
    considered: &'a [Considered],
}

type Chosen = (Arc<Model>, Why);

impl Choice<'_> {
    fn eligible(&self) -> impl Iterator<Item = &Arc<Model>> {
        let considered = self.considered.iter();
        considered
            .filter(|it| it.obstacle.is_none())
            .map(|it| &it.model)
    }

    /// The first that fits.
    fn by_order(&self, before: Option<&str>) -> Option<Chosen> {
        let (stays, moved) = self.recall(before);
        if let Some(model) = stays {
            // The first choice is no news.
            let is_first = self
                .considered
                .first()
                .is_some_and(|it| it.model.id == model.id);
            let why = if is_first {
                Why::FirstChoice
            } else {
                Why::Stays
            };
            return Some((model, why));
        }
        let model = self.eligible().next()?;
        Some((Arc::clone(model), moved.unwrap_or(Why::FirstChoice)))
    }

    /// Of the tier that the score asks for.
    fn by_score(&self, tiers: &Tiers, score: f64, before: Option<&str>) -> Option<Chosen> {
        let wanted = tiers.tier(score);
        let (stays, moved) = self.recall(before);
        if let Some(model) = stays {
            return Some(self.stay_or_rise(tiers, score, model));
        }
        if let Some(moved) = moved {
            // What a conversation had reached it does not lose by moving.
            let reached = moved
                .from()
                .map_or(wanted, |from| from.tier.unwrap_or(wanted));
            return Some((self.of_tier(wanted.max(reached))?, moved));
        }
        if tiers.is_doubtful(score)
            && let Some(best) = self.profile.candidates.get(tiers.best)
            && self.eligible().any(|it| it.id == best.id)
        {
            return Some((Arc::clone(best), Why::Doubt));
        }
        Some((self.of_tier(wanted)?, Why::Tier(wanted)))
    }

    fn stay_or_rise(&self, tiers: &Tiers, score: f64, model: Arc<Model>) -> Chosen {
        let wanted = tiers.tier(score - tiers.hysteresis);
        let risen = self
            .of_tier(wanted)
            .filter(|risen| wanted > model_tier(&model) && model_tier(risen) > model_tier(&model));
        match risen {
            Some(risen) => (risen, Why::Rises { from: model }),
            None => (model, Why::Stays),
        }
    }

    /// The conversation's model where it can stay, or why it cannot.
    fn recall(&self, before: Option<&str>) -> (Option<Arc<Model>>, Option<Why>) {
        let Some(before) = before else {
            return (None, None);
        };
        match self.considered.iter().find(|it| *it.model.id == *before) {
            Some(known) => match known.obstacle {
                None => (Some(Arc::clone(&known.model)), None),
                Some(obstacle) => {
                    let from = Arc::clone(&known.model);
                    (None, Some(Why::Moves { from, obstacle }))
                }
            },
            // The configuration or the key has changed since.
            None => (None, Some(Why::Gone)),
        }
    }

    /// The first of a tier; where there is none, of the next stronger one, and last of the
    /// next weaker.
    fn of_tier(&self, wanted: Tier) -> Option<Arc<Model>> {
        let distance = |model: &Model| {
            let tier = model_tier(model);
            (tier < wanted, (tier as u8).abs_diff(wanted as u8))
        };
        self.eligible()
            .min_by_key(|it| distance(it))
            .map(Arc::clone)
    }
}

/// A candidate's tier; that all have one was checked with the configuration.
fn model_tier(model: &Model) -> Tier {
    model.tier.unwrap_or(Tier::Middle)
}

impl Tiers {
    fn tier(&self, score: f64) -> Tier {
        if score >= self.strong {
            Tier::Strong
        } else if score >= self.middle {
            Tier::Middle
        } else {
            Tier::Light
        }
    }

    fn is_doubtful(&self, score: f64) -> bool {
        [self.middle, self.strong]
            .iter()
            .any(|threshold| (score - threshold).abs() < self.doubt)
    }
}
