//! How a messages provider is asked to think, and the output limit that goes with it.

use crate::{
    Refusal, Target,
    request::{
        conversation::{Choice, Conversation, Reasoning},
        reasoning::{DEFAULT_EFFORT, effort_field, fit, no_reasoning, wanted},
        scope::Scope,
    },
};
use tollgate_types::{Effort, ReasoningMode, ThinkingRoom};

/// The output limit where neither caller nor catalog gives one: every current model takes it.
const FALLBACK_LIMIT: u64 = 8192;

/// The thinking, effort and output limit for a messages provider.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MessagesPlan {
    pub(crate) thinking: Option<ThinkingSent>,
    pub(crate) effort: Option<Effort>,
    pub(crate) max_tokens: u64,
}

/// The value of `thinking`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ThinkingSent {
    Adaptive,
    /// With so many tokens.
    Enabled(u64),
    Disabled,
}

impl MessagesPlan {
    /// Whether the model thinks, so that it takes no other sampling than its own.
    pub(crate) const fn thinks(&self) -> bool {
        matches!(
            self.thinking,
            Some(ThinkingSent::Adaptive | ThinkingSent::Enabled(_))
        )
    }
}

/// Plans them for a model of Anthropic's.
pub(crate) fn plan(
    conversation: &Conversation<'_>,
    lost_thought: bool,
    scope: &mut Scope<'_>,
) -> Result<MessagesPlan, Refusal> {
    let mut plan = MessagesPlan {
        max_tokens: output_limit(conversation.limit, scope.target),
        ..MessagesPlan::default()
    };
    let asked = &conversation.reasoning;
    let mode = scope.target.reasoning;
    if mode == ReasoningMode::None {
        no_reasoning(asked, scope)?;
        return Ok(plan);
    }
    let is_extended = mode == ReasoningMode::Extended;
    match wanted(asked, scope) {
        Some(Effort::None) if scope.target.messages.thinking_can_be_disabled => {
            plan.thinking = Some(ThinkingSent::Disabled);
        }
        Some(Effort::None) => not_thought(asked, scope),
        None if !is_extended => {}
        // Messages refuses to think where a tool must be called.
        _ if conversation.choice.is_some_and(Choice::is_forced) => not_thought(asked, scope),
        effort if scope.target.messages.adaptive_thinking => {
            // Messages can ask for an effort without thinking.
            let is_of_messages = asked.effort_field == "output_config.effort";
            if !is_of_messages || asked.mode.is_some() || is_extended {
                plan.thinking = Some(ThinkingSent::Adaptive);
            }
            let at_least_low = effort.map(|effort| effort.max(Effort::Low));
            plan.effort = at_least_low.and_then(|effort| fit(effort, asked, scope));
        }
        // An answer that goes on after tools must repeat its thinking, which is lost here.
        _ if lost_thought => not_thought(asked, scope),
        effort => {
            let budget = asked
                .budget
                .or(effort.unwrap_or(DEFAULT_EFFORT).thinking_budget());
            match room(budget, plan.max_tokens, scope.target) {
                Some(room) => {
                    plan.thinking = Some(ThinkingSent::Enabled(room.budget));
                    plan.max_tokens = room.limit;
                }
                None => not_thought(asked, scope),
            }
        }
    }
    Ok(plan)
}

/// The output limit in tokens before the thinking: the client's, which is within that of the model.
fn output_limit(asked: Option<u64>, target: &Target<'_>) -> u64 {
    asked.unwrap_or_else(|| {
        let held = target.reserved_output.unwrap_or(u64::MAX);
        target.max_output_tokens.unwrap_or(FALLBACK_LIMIT).min(held)
    })
}

/// The thinking that fits into an output limit. The limit is raised only for a model that thinks unasked:
/// for other models, no more than the limit is reserved.
fn room(budget: Option<u64>, limit: u64, target: &Target<'_>) -> Option<ThinkingRoom> {
    let most = target.max_output_tokens.unwrap_or(u64::MAX);
    let ceiling = match target.reasoning {
        ReasoningMode::Extended => most.min(target.reserved_output.unwrap_or(u64::MAX)),
        _ => limit,
    };
    let budget = budget.unwrap_or(ThinkingRoom::LEAST_BUDGET);
    ThinkingRoom::within(budget, limit, Some(ceiling))
}

/// A model that would think does not: what asked it to is named, or else that it does not.
fn not_thought(asked: &Reasoning, scope: &mut Scope<'_>) {
    scope.note_dropped(effort_field(asked));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_limit_is_the_clients_or_made_up_within_the_reservation() {
        for (asked, most, held, expected) in [
            (Some(10), Some(20), Some(5), 10),
            (Some(30), None, None, 30),
            (None, Some(20), None, 20),
            (None, Some(20), Some(15), 15),
            (None, None, None, FALLBACK_LIMIT),
            (None, None, Some(100), 100),
        ] {
            let target = Target {
                max_output_tokens: most,
                reserved_output: held,
                ..Target::new("m", "b")
            };
            let case = format!("{asked:?} {most:?} {held:?}");
            assert_eq!(output_limit(asked, &target), expected, "{case}");
        }
    }

    #[test]
    fn the_limit_is_raised_only_for_a_model_that_thinks_unasked() {
        let limit = |reasoning, reserved_output| {
            let target = Target {
                reasoning,
                reserved_output,
                ..Target::new("m", "b")
            };
            room(Some(8192), 100, &target).map(|room| room.limit)
        };
        assert_eq!(limit(ReasoningMode::ProviderDefault, None), None);
        assert_eq!(limit(ReasoningMode::Extended, None), Some(1124));
        assert_eq!(limit(ReasoningMode::Extended, Some(1123)), None);
    }
}
