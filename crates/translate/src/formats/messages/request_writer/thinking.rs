//! How a messages provider is asked to think, and the output limit that goes with it.

use crate::{
    Refusal,
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
    let most = scope.target.max_output_tokens;
    let asked_limit = conversation.limit;
    let held = scope.target.reserved_output.unwrap_or(u64::MAX);
    let max_tokens = match (asked_limit, most) {
        (Some(asked), Some(most)) => asked.min(most),
        (Some(asked), None) => asked,
        (None, most) => most.unwrap_or(FALLBACK_LIMIT).min(held),
    };
    let mut plan = MessagesPlan {
        max_tokens,
        ..MessagesPlan::default()
    };
    let asked = &conversation.reasoning;
    let mode = scope.target.reasoning;
    if mode == ReasoningMode::None {
        no_reasoning(asked, scope)?;
        return Ok(plan);
    }
    let effort = wanted(asked, scope);
    if effort == Some(Effort::None) {
        if scope.target.messages.thinking_can_be_disabled {
            plan.thinking = Some(ThinkingSent::Disabled);
        } else {
            scope.note_dropped(effort_field(asked));
        }
        return Ok(plan);
    }
    let is_extended = mode == ReasoningMode::Extended;
    if effort.is_none() && !is_extended {
        return Ok(plan);
    }
    if conversation.choice.is_some_and(Choice::is_forced) {
        // Messages refuses to think where a tool must be called.
        not_thought(asked, scope);
        return Ok(plan);
    }
    if scope.target.messages.adaptive_thinking {
        // Messages can ask for an effort without thinking.
        let is_of_messages = asked.effort_field == "output_config.effort";
        if !is_of_messages || asked.mode.is_some() || is_extended {
            plan.thinking = Some(ThinkingSent::Adaptive);
        }
        let at_least_low = effort.map(|effort| effort.max(Effort::Low));
        plan.effort = at_least_low.and_then(|effort| fit(effort, asked, scope));
        return Ok(plan);
    }
    let budget = asked
        .budget
        .or(effort.unwrap_or(DEFAULT_EFFORT).thinking_budget())
        .unwrap_or(ThinkingRoom::LEAST_BUDGET);
    // More than the caller's limit is reserved for a model alone that thinks unasked.
    let ceiling = if is_extended {
        most.unwrap_or(u64::MAX).min(held)
    } else {
        max_tokens
    };
    // An answer that goes on after tools must repeat its thinking, which is lost here.
    let room = ThinkingRoom::within(budget, max_tokens, Some(ceiling)).filter(|_| !lost_thought);
    match room {
        Some(room) => {
            plan.thinking = Some(ThinkingSent::Enabled(room.budget));
            plan.max_tokens = room.limit;
        }
        None => not_thought(asked, scope),
    }
    Ok(plan)
}

/// A model that would think does not: what asked it to is named, or else that it does not.
fn not_thought(asked: &Reasoning, scope: &mut Scope<'_>) {
    scope.note_dropped(effort_field(asked));
}
